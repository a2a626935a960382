#include "observe/http.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <string.h>

#define TOKEN_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

static bool is_loopback(const struct sockaddr_storage *a) {
  if (a->ss_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

shoal_status http_read_address(const char *address, int port, const char *token, struct sockaddr_storage *out) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
    memcpy(out, &v4, sizeof v4);
  else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
    memcpy(out, &v6, sizeof v6);
  else
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' is not an address; expected one like 127.0.0.1, 0.0.0.0 or ::1",
                       address);
  if (!token && !is_loopback(out))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is open to other machines, which needs a token: set `token`", address);
  if (token && strspn(token, TOKEN_LETTERS) != strlen(token))
    return status_make(SHOAL_ERR_ARGUMENT, "`token`: expected letters, digits and -._~ only");
  return NULL;
}

/* Takes as long for every wrong word of the same length. */
static bool same_secret(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  unsigned char differs = n != m;
  for (size_t i = 0; i < n; i++) differs |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
  return !differs;
}

static bool has_token(struct MHD_Connection *c, const char *token) {
  const char *header = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
  const char *word = http_argument(c, "token");
  if (header && !strncasecmp(header, "Bearer ", 7)) word = header + 7;
  return word && same_secret(word, token);
}

/* "localhost:8000", "127.0.0.1", "[::1]:8000" */
static bool names_loopback(const char *host) {
  static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
  for (size_t i = 0; host && i < COUNT_OF(names); i++) {
    size_t n = strlen(names[i]);
    if (!strncasecmp(host, names[i], n) && (!host[n] || host[n] == ':')) return true;
  }
  return false;
}

const char *http_refusal(struct MHD_Connection *c, const char *token, unsigned *refusal) {
  if (!token && !names_loopback(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host"))) {
    *refusal = MHD_HTTP_FORBIDDEN;
    return "only requests to localhost are answered\n";
  }
  if (token && !has_token(c, token)) {
    *refusal = MHD_HTTP_UNAUTHORIZED;
    return "the token is missing or wrong: add ?token=TOKEN to the address\n";
  }
  return NULL;
}

const char *http_argument(struct MHD_Connection *c, const char *name) {
  return MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

void http_add_headers(struct MHD_Response *r, const char *type) {
  MHD_add_response_header(r, "Content-Type", type);
  MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(r, "Cache-Control", "no-store");
}

enum MHD_Result http_answer_words(struct MHD_Connection *c, unsigned code, const char *words) {
  struct MHD_Response *r = MHD_create_response_from_buffer(strlen(words), (void *)words, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  http_add_headers(r, "text/plain; charset=utf-8");
  if (code == MHD_HTTP_UNAUTHORIZED) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
  enum MHD_Result result = MHD_queue_response(c, code, r);
  MHD_destroy_response(r);
  return result;
}

enum MHD_Result http_answer_text(struct MHD_Connection *c, unsigned code, text *body, const char *type) {
  if (body->failed) {
    text_fini(body);
    return http_answer_words(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
  }
  struct MHD_Response *r = MHD_create_response_from_buffer(body->length, body->data, MHD_RESPMEM_MUST_FREE);
  if (!r) {
    text_fini(body);
    return MHD_NO;
  }
  *body = (text){0};
  http_add_headers(r, type);
  enum MHD_Result result = MHD_queue_response(c, code, r);
  MHD_destroy_response(r);
  return result;
}

int http_port(struct MHD_Daemon *server, int asked) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT);
  return info ? info->port : asked;
}
