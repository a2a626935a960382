/* Labelled images that are made, for tests and measurements where no real ones are at hand.
 *
 * Each class has its own shape, colour and direction of shading; place, size and noise differ from image to image. So
 * the classes can be learnt, and not from a single pixel. Row i is of class i modulo the number of classes, and depends
 * on the seed and i alone. */
#ifndef SHOAL_DATA_GENERATE_IMAGES_H
#define SHOAL_DATA_GENERATE_IMAGES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
  IMAGES_FOLDER,   /* OUT/class-000/00000000.png ... */
  IMAGES_TFRECORD, /* OUT/images-00000-of-00001.tfrecord ..., PNG in image/encoded, image/class/label from 0 */
  IMAGES_NPY       /* OUT/images.npy, u1 [rows, height, width, channels], and OUT/images-labels.npy, i4 [rows] */
} images_form;

typedef struct {
  const char *out; /* a folder; made when it is not there, its parent must be */
  images_form form;
  int64_t rows;
  int classes;       /* 1 to 1000 */
  int height, width; /* 1 to 4096 */
  int channels;      /* 1 or 3 */
  int files;         /* IMAGES_TFRECORD: how many; row i goes to file i modulo files. 0: one */
  double noise;      /* standard deviation, of 0 to 255; 0: none */
  uint64_t seed;
  /* Called now and then with the rows done; false stops with SHOAL_ERR_CANCELLED. NULL: not called. */
  bool (*progress)(void *context, int64_t done, int64_t total);
  void *context;
} images_settings;

SHOAL_CHECKED shoal_status generate_images(const images_settings *settings);

/* pixels [height, width, channels] of row i. */
void generate_image(const images_settings *settings, int64_t i, uint8_t *pixels);

#endif
