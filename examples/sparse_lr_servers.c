/* Logistic regression on sparse rows, its table of weights on two parameter servers that this program starts: workers
 * hold only the weights that their batches touch.
 *
 *   shoal data generate criteo --rows 20000 --out clicks
 *   ./sparse_lr_servers 'clicks/tfrecords[01]*' clicks/tfrecords22 33762578 */
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: %s TRAIN_FILES TEST_FILES FEATURES\n", argv[0]), 2;
  const shoal_pipeline_options train = {.files = argv[1], .shuffle_rows = 1000}, test = {.files = argv[2]};
  shoal_strategy *strategy = NULL;
  shoal_model *m = NULL;
  shoal_fit_result result;
  shoal_evaluation e;
  shoal_status s = shoal_strategy_create_local_ps(3, 2, &(shoal_ps_options){.mode = "async"}, &strategy);
  if (!s) s = shoal_model_create_sparse(strtoll(argv[3], NULL, 10), &m);
  if (!s) {
    shoal_model_sparse_dense(m, 1, false, "sigmoid");
    s = shoal_model_compile(
        m, &(shoal_compile_options){
               .optimizer = {.name = "adagrad"}, .schedule = {.rate = 0.05}, .threads = 1, .strategy = strategy});
  }
  if (!s)
    s = shoal_model_fit(
        m, NULL,
        &(shoal_fit_options){
            .epochs = 1, .batch_size = 100, .stream = &train, .test_stream = &test, .strategy = strategy},
        &result);
  if (!s) s = shoal_model_evaluate_stream(m, &test, NULL, NULL, &e);
  if (s)
    fprintf(stderr, "%s\n", shoal_status_message(s));
  else
    printf("%lld rows, test log loss %.4f, AUC %.4f\n", (long long)result.examples, e.loss, e.auc);
  shoal_model_destroy(m);
  shoal_strategy_destroy(strategy);
  return s != NULL;
}
