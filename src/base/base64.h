/* Bytes as text (RFC 4648, with "=" at the end), for JSON. */
#ifndef SHOAL_BASE_BASE64_H
#define SHOAL_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller frees it; NULL: no memory. */
char *base64_encode(const uint8_t *bytes, size_t n);
/* *out [*n] is the caller's to free. false: the text is not base64, or there is no memory. */
bool base64_decode(const char *text, uint8_t **out, size_t *n);

#endif
