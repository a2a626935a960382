/* One task of a cluster that TF_CONFIG describes: started once for each of its workers and parameter servers.
 *
 *   TF_CONFIG='{"cluster": {"worker": ["localhost:2222", "localhost:2223"], "ps": ["localhost:2224"]},
 *               "task": {"type": "ps", "index": 0}}' ./tf_config */
#include <shoal/shoal.h>
#include <stdio.h>

static shoal_status make_model(shoal_model **out) {
  shoal_status s = shoal_model_create(SHOAL_SHAPE(28, 28, 1), out);
  if (s) return s;
  shoal_model_flatten(*out);
  shoal_model_dense(*out, 10, "softmax");
  return shoal_model_compile(*out, &(shoal_compile_options){.schedule = {.rate = 0.5}, .threads = 1});
}

static shoal_status work(const shoal_cluster *c, const shoal_ps_options *options) {
  shoal_model *m = NULL;
  shoal_dataset *train = NULL, *test = NULL;
  shoal_strategy *strategy = NULL;
  shoal_evaluation e;
  shoal_status s = make_model(&m);
  if (!s) s = shoal_dataset_load("mnist", "train", &train);
  if (!s) s = shoal_dataset_load("mnist", "test", &test);
  if (!s) s = shoal_strategy_create_ps(c, options, &strategy);
  if (!s)
    s = shoal_model_fit(m, train, &(shoal_fit_options){.epochs = 2, .batch_size = 100, .strategy = strategy}, NULL);
  if (!s) s = shoal_model_evaluate(m, test, &e);
  if (!s) printf("worker %d: test accuracy %.2f %%\n", shoal_strategy_worker(strategy), 100 * e.accuracy);
  shoal_strategy_destroy(strategy);
  shoal_dataset_destroy(train);
  shoal_dataset_destroy(test);
  shoal_model_destroy(m);
  return s;
}

int main(void) {
  const shoal_ps_options options = {.mode = "sync"};
  shoal_cluster *c = NULL;
  shoal_status s = shoal_cluster_from_environment(0, &c);
  if (!s && !c) return fprintf(stderr, "TF_CONFIG is not set\n"), 2;
  if (!s) s = shoal_cluster_role(c) == SHOAL_PS ? shoal_serve_parameters(c, &options, NULL) : work(c, &options);
  if (s) fprintf(stderr, "%s\n", shoal_status_message(s));
  shoal_cluster_destroy(c);
  return s != NULL;
}
