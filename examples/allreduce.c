/* Softmax regression on MNIST by all-reduce: one process a rank.
 *
 *   mpirun -n 3 ./allreduce */
#include <shoal/shoal.h>
#include <stdio.h>

static shoal_status train(shoal_strategy *strategy, shoal_dataset *data, shoal_dataset *test) {
  shoal_model *m = NULL;
  shoal_evaluation e;
  shoal_status s = shoal_model_create(SHOAL_SHAPE(28, 28, 1), &m);
  if (!s) {
    shoal_model_flatten(m);
    shoal_model_dense(m, 10, "softmax");
    s = shoal_model_compile(m, &(shoal_compile_options){.schedule = {.rate = 0.5}, .threads = 1});
  }
  if (!s)
    s = shoal_model_fit(m, data, &(shoal_fit_options){.epochs = 2, .batch_size = 100, .strategy = strategy}, NULL);
  if (!s) s = shoal_model_evaluate(m, test, &e);
  if (!s && shoal_strategy_worker(strategy) == 0)
    printf("%d ranks: test accuracy %.2f %%\n", shoal_strategy_workers(strategy), 100 * e.accuracy);
  shoal_model_destroy(m);
  return s;
}

int main(void) {
  shoal_dataset *data = NULL, *test = NULL;
  shoal_strategy *strategy = NULL;
  shoal_status s = shoal_strategy_create_allreduce(&(shoal_replica_options){.deterministic = true}, &strategy);
  if (!s) s = shoal_dataset_load("mnist", "train", &data);
  if (!s) s = shoal_dataset_load("mnist", "test", &test);
  if (!s) s = train(strategy, data, test);
  if (s) fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_strategy_destroy(strategy);
  shoal_dataset_destroy(data);
  shoal_dataset_destroy(test);
  return s != NULL;
}
