/* LeNet on MNIST with one parameter server and two workers, all started by this program. */
#include <shoal/shoal.h>
#include <stdio.h>

static void add_layers(shoal_model *m) {
  shoal_model_conv2d(m, 6, 5, 1, SHOAL_SAME, "relu");
  shoal_model_max_pool(m, 2, 2, SHOAL_VALID);
  shoal_model_conv2d(m, 16, 5, 1, SHOAL_VALID, "relu");
  shoal_model_max_pool(m, 2, 2, SHOAL_VALID);
  shoal_model_flatten(m);
  shoal_model_dense(m, 120, "relu");
  shoal_model_dense(m, 84, "relu");
  shoal_model_dense(m, 10, "softmax");
}

static bool on_epoch(void *context, const shoal_progress *p) {
  printf("epoch %lld: loss %.4f, accuracy %.2f %%\n", (long long)p->epoch + 1, p->loss, 100 * p->accuracy);
  return false;
}

int main(void) {
  shoal_dataset *train = NULL, *test = NULL;
  shoal_model *m = NULL;
  shoal_strategy *strategy = NULL;
  shoal_evaluation e;
  shoal_status s = shoal_dataset_load("mnist", "train", &train);
  if (!s) s = shoal_dataset_load("mnist", "test", &test);
  if (!s) s = shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.mode = "sync"}, &strategy);
  if (!s) s = shoal_model_create(SHOAL_SHAPE(28, 28, 1), &m);
  if (!s) {
    add_layers(m);
    s = shoal_model_compile(
        m,
        &(shoal_compile_options){.optimizer = {.name = "momentum"}, .schedule = {.rate = 0.02}, .strategy = strategy});
  }
  if (!s)
    s = shoal_model_fit(
        m, train,
        &(shoal_fit_options){.epochs = 1, .batch_size = 64, .strategy = strategy, .callbacks = {.on_epoch = on_epoch}},
        NULL);
  if (!s) s = shoal_model_evaluate(m, test, &e);
  if (s)
    fprintf(stderr, "%s\n", shoal_status_message(s));
  else
    printf("test accuracy %.2f %%\n", 100 * e.accuracy);
  shoal_model_destroy(m);
  shoal_strategy_destroy(strategy);
  shoal_dataset_destroy(train);
  shoal_dataset_destroy(test);
  return s != NULL;
}
