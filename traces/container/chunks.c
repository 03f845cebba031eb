/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of chunks: traces/container/chunks.h. Opening steps from head to head
 * by the sizes in them and reads no row.
 */
#define _GNU_SOURCE 1
#include "traces/container/chunks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/chunks_line.h"
#include "traces/container/header.h"

enum {
  LINE_MOST = 1 << 20, /* bytes of the first line */
  PIECE = 1 << 18,     /* bytes read at once: they stay in the cache */
  HEAD = 16,           /* bytes of a chunk's head */
  TOKENS_MOST = 1 << 30
};

static const char parts[] = "qkvo";

int64_t kv_chunks_row(const kv_chunks *c, char part) {
  int64_t n = part == 'q'           ? (int64_t)c->heads * c->d
              : part == 'k'         ? (int64_t)c->kv_heads * c->d
              : part == 'v'         ? (int64_t)c->kv_heads * c->d_v
              : part == 'o' && c->o ? (int64_t)c->heads * c->d_v
                                    : 0;
  return n * (int64_t)(kv_st_dtype_bits(c->dtype) / 8);
}

int64_t kv_chunks_token(const kv_chunks *c) {
  int64_t n = 0;
  for (const char *x = parts; *x; x++) n += kv_chunks_row(c, *x);
  return n;
}

static kv_rc unreadable(const char *path, kv_err *e) {
  return kv_cannot(e, KV_INPUT, "read", path);
}

/* Reads up to `bytes` bytes from `at` on; returns how many, -1: see errno. */
static ssize_t take_bytes(int fd, int64_t at, size_t bytes, void *out) {
  size_t got = 0;
  while (got < bytes) {
    ssize_t n = pread(fd, (char *)out + got, bytes - got, at + (int64_t)got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

/* Steps over whole chunks as long as each continues at the next token. */
static kv_rc walk(int fd, kv_chunks *c, kv_err *e) {
  int64_t at = c->data, left, head[2], row = kv_chunks_token(c);
  while (c->end == KV_CHUNKS_WHOLE && (left = c->seen.st_size - at) > 0) {
    head[0] = head[1] = 0;
    c->end = KV_CHUNKS_CUT;
    if (left < HEAD) break;
    ssize_t n = take_bytes(fd, at, HEAD, head);
    if (n < 0) return unreadable(c->path, e);
    if (n < HEAD) break;
    if (head[0] < 0 || head[1] < 1 || head[0] > TOKENS_MOST ||
        head[1] > TOKENS_MOST - head[0])
      c->end = KV_CHUNKS_NO_MORE;
    else if (head[0] != c->tokens)
      c->end = head[0] > c->tokens ? KV_CHUNKS_HOLE : KV_CHUNKS_TWICE;
    else if (head[1] <= (left - HEAD) / row) {
      c->end = KV_CHUNKS_WHOLE;
      c->tokens += (int)head[1];
      at += HEAD + head[1] * row;
    }
  }
  c->next = c->end == KV_CHUNKS_WHOLE ? 0 : head[0];
  c->next_tokens = c->end == KV_CHUNKS_WHOLE ? 0 : head[1];
  return KV_OK;
}

static kv_rc read_line(int fd, kv_chunks *c, kv_err *e) {
  char a[KV_SHOW], *text = malloc(LINE_MOST), *end = NULL;
  json_t *line = NULL;
  if (!text) return kv_no_memory(e, "the first line of a file", LINE_MOST);
  ssize_t n = take_bytes(fd, 0, LINE_MOST, text);
  kv_rc rc = n < 0 ? unreadable(c->path, e) : KV_OK;
  if (n > 0) end = memchr(text, '\n', (size_t)n);
  if (!rc && !end)
    rc = kv_fail(e, KV_INPUT,
                 "%s: has no first line with layer and heads; if its writer "
                 "was killed before writing it, remove the file",
                 kv_show(c->path, a));
  if (!rc)
    rc = kv_st_json(c->path, "first line", (size_t)(end - text),
                    (const unsigned char *)text, &line, e);
  if (!rc) rc = kv_chunks_line(c->path, line, c, e);
  if (!rc) c->data = end + 1 - text;
  json_decref(line);
  free(text);
  return rc;
}

kv_rc kv_chunks_open(const char *path, kv_chunks *out, kv_err *e) {
  *out = (kv_chunks){.path = kv_text_copy(strlen(path), path)};
  if (!out->path) return kv_no_memory(e, "a file name", strlen(path));
  char a[KV_SHOW];
  int fd =
      open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block */
  kv_rc rc = fd < 0 || fstat(fd, &out->seen) ? unreadable(path, e) : KV_OK;
  if (!rc && !S_ISREG(out->seen.st_mode))
    rc = kv_fail(e, KV_INPUT, "%s: is not a regular file", kv_show(path, a));
  if (!rc) rc = read_line(fd, out, e);
  if (!rc) rc = walk(fd, out, e);
  if (fd >= 0) close(fd);
  if (rc) kv_chunks_close(out);
  return rc;
}

void kv_chunks_close(kv_chunks *c) {
  free(c->path);
  free(c->sinks);
  *c = (kv_chunks){0};
}

/* --- what is wrong -------------------------------------------------------- */

kv_rc kv_chunks_tell(const kv_chunks *c, int whole, kv_err *e) {
  char a[KV_SHOW], how[200], then[80] = "";
  int64_t at = c->next;
  assert(c->end != KV_CHUNKS_WHOLE && "a file that is whole has no fault");
  if (whole > 0)
    snprintf(then, sizeof then, "; --tokens %d packs what every file has",
             whole);
  if (c->end == KV_CHUNKS_CUT && c->next_tokens > 0)
    snprintf(how, sizeof how,
             "ends within its chunk of tokens %" PRId64 " to %" PRId64, at,
             at + c->next_tokens - 1);
  else if (c->end == KV_CHUNKS_CUT)
    snprintf(how, sizeof how, "ends within the head of the chunk of token %d",
             c->tokens);
  else if (c->end == KV_CHUNKS_HOLE)
    snprintf(how, sizeof how, "lacks tokens %d to %" PRId64, c->tokens, at - 1);
  else if (c->end == KV_CHUNKS_TWICE)
    snprintf(how, sizeof how,
             "has token %" PRId64
             " twice; was a second request written to this folder?",
             at);
  else
    snprintf(how, sizeof how,
             "should continue with token %d, but its next chunk has %" PRId64
             " tokens from %" PRId64 " on",
             c->tokens, c->next_tokens, at);
  return kv_fail(e, KV_INPUT, "%s: layer %d, heads %d to %d, %s%s",
                 kv_show(c->path, a), c->layer, c->head, c->head + c->heads - 1,
                 how, then);
}

/* --- reading -------------------------------------------------------------- */

/* A file and the part of it, bytes from..to, that is in memory. */
typedef struct source {
  const kv_chunks *c;
  int fd;
  char *piece; /* [room] */
  size_t room;
  int64_t at, to; /* next byte to use; end of what is in memory */
} source;

static kv_rc changed(const source *s, kv_err *e) {
  char a[KV_SHOW];
  return kv_fail(
      e, KV_INPUT,
      "%s: was changed while it was read; pack after all writers have finished",
      kv_show(s->c->path, a));
}

/* Makes at least `bytes` bytes from s->at on available, at *out. */
static kv_rc need(source *s, size_t bytes, const char **out, kv_err *e) {
  size_t have = s->to > s->at ? (size_t)(s->to - s->at) : 0;
  if (have < bytes) {
    /* What is left is at the end of the last read, at piece + room. */
    memmove(s->piece, s->piece + s->room - have, have);
    ssize_t n = take_bytes(s->fd, s->at + (int64_t)have, s->room - have,
                           s->piece + have);
    if (n < 0) return unreadable(s->c->path, e);
    have += (size_t)n;
    if (have < bytes) return changed(s, e);
    memmove(s->piece + s->room - have, s->piece, have == s->room ? 0 : have);
    s->to = s->at + (int64_t)have;
  }
  *out = s->piece + s->room - have;
  return KV_OK;
}

/* Passes the first m of a part's n tokens to take, and steps over the rest. */
static kv_rc read_part(source *s, char part, int first, int n, int m,
                       kv_chunks_take *take, void *self, kv_err *e) {
  const int64_t row = kv_chunks_row(s->c, part);
  const char *rows = NULL;
  kv_rc rc = KV_OK;
  if (row == 0) return KV_OK;
  for (int done = 0; !rc && done < m;) {
    rc = need(s, (size_t)row, &rows, e);
    if (rc) break;
    int64_t some = (s->to - s->at) / row;
    int now = some < m - done ? (int)some : m - done;
    rc = take(self, part, first + done, now, rows, e);
    s->at += now * row;
    done += now;
  }
  s->at += (n - m) * row;
  return rc;
}

static kv_rc read_all(source *s, int tokens, kv_chunks_take *take, void *self,
                      kv_err *e) {
  kv_rc rc = KV_OK;
  const char *text = NULL;
  for (int first = 0; !rc && first < tokens;) {
    int64_t head[2];
    rc = need(s, HEAD, &text, e);
    if (rc) break;
    memcpy(head, text, HEAD);
    if (head[0] != first || head[1] < 1 || head[1] > TOKENS_MOST - first)
      return changed(s, e);
    s->at += HEAD;
    int n = (int)head[1], m = n < tokens - first ? n : tokens - first;
    for (const char *x = parts; !rc && *x; x++)
      rc = read_part(s, *x, first, n, m, take, self, e);
    first += n;
  }
  return rc;
}

kv_rc kv_chunks_read(const kv_chunks *c, int tokens, kv_chunks_take *take,
                     void *self, kv_err *e) {
  struct stat now;
  size_t room = PIECE;
  assert(tokens <= c->tokens && "only what is whole is read");
  for (const char *x = parts; *x; x++) {
    size_t row = (size_t)kv_chunks_row(c, *x);
    room = row > room ? row : room;
  }
  source s = {.c = c, .piece = malloc(room), .room = room, .at = c->data};
  if (!s.piece) return kv_no_memory(e, "rows", room);
  s.fd = open(c->path, O_RDONLY | O_CLOEXEC);
  kv_rc rc = s.fd < 0 || fstat(s.fd, &now) ? unreadable(c->path, e) : KV_OK;
  if (!rc && (now.st_size != c->seen.st_size ||
              now.st_mtim.tv_sec != c->seen.st_mtim.tv_sec ||
              now.st_mtim.tv_nsec != c->seen.st_mtim.tv_nsec))
    rc = changed(&s, e);
  if (!rc) rc = read_all(&s, tokens, take, self, e);
  if (s.fd >= 0) close(s.fd);
  free(s.piece);
  return rc;
}
