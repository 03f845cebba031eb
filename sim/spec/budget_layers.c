/* SPDX-License-Identifier: Apache-2.0
 *
 * A budget for each layer, typed (64/32/16) or read from a file (layers:FILE):
 * contract in sim/spec/budget.h. A file that begins with a bracket is JSON; any
 * other has one budget a line, and `#` begins a comment.
 */
#include "ref/ground/sha256.h"
#include "sim/spec/budget.h"

#include "traces/text/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_LAYERS = 4096, MOST_BYTES = 1 << 20 };

/* --- one more layer ----------------------------------------------------- */

/* Appends one budget. `at` names its place for an error sentence; `bad` is the
 * error code for a wrong text. */
static kv_rc add(const char *text, kv_rc bad, const char *at, kv_budget *out,
                 kv_err *e) {
  kv_budget one;
  kv_err why = {0};
  char show[KV_SHOW];
  size_t bytes = (size_t)(out->layers + 1) * sizeof one;
  if (kv_budget_of_layers(text))
    return kv_fail(e, bad, "%s: %s is a list in a list", at,
                   kv_show(text, show));
  kv_rc rc = kv_budget_parse(text, &one, &why);
  if (rc) return kv_fail(e, rc == KV_USAGE ? bad : rc, "%s: %s", at, why.text);
  if (kv_budget_in_bytes(&one))
    return kv_fail(e, bad,
                   "%s: %s is of bytes; a layer takes entries (512), a share "
                   "of the prompt (20%%) or a compression ratio (ratio:0.8)",
                   at, text);
  if (out->layers == MOST_LAYERS)
    return kv_fail(e, bad, "%s: more than %d layers", at, MOST_LAYERS);
  kv_budget *grown = realloc(out->layer, bytes);
  if (!grown) return kv_no_memory(e, "budgets of layers", bytes);
  out->layer = grown;
  grown[out->layers++] = one;
  return KV_OK;
}

/* --- typed -------------------------------------------------------------- */

static kv_rc add_typed(const char *list, kv_budget *out, kv_err *e) {
  kv_rc rc = KV_OK;
  for (bool more = true; more && !rc;) {
    char at[48];
    size_t n = strcspn(list, "/");
    char *text = kv_text_copy(n, list);
    if (!text) return kv_no_memory(e, "a budget", n);
    snprintf(at, sizeof at, "the budget of layer %d", out->layers);
    rc = add(text, KV_USAGE, at, out, e);
    free(text);
    more = list[n] == '/';
    list += n + more;
  }
  return rc;
}

/* --- from a file -------------------------------------------------------- */

/* Reads a whole file. Only regular files are opened: reading a terminal or a
 * pipe might never end. */
static kv_rc slurp(const char *path, size_t *n, char **out, kv_err *e) {
  struct stat is;
  char show[KV_SHOW];
  bool there = stat(path, &is) == 0;
  kv_rc rc = KV_OK;
  *out = NULL;
  if (there && (!S_ISREG(is.st_mode) || is.st_size > MOST_BYTES))
    return kv_fail(e, KV_INPUT,
                   "%s: is no file of at most %d bytes with a budget a layer",
                   kv_show(path, show), MOST_BYTES);
  FILE *f = there ? fopen(path, "re") : NULL;
  if (!f)
    return kv_fail(e, errno == ENOMEM ? KV_RESOURCE : KV_INPUT,
                   "%s: cannot read it: %s", kv_show(path, show),
                   strerror(errno));
  if (!(*out = kv_zalloc(1, (size_t)is.st_size + 1)))
    rc = kv_no_memory(e, "budgets of layers", (size_t)is.st_size);
  else if ((*n = fread(*out, 1, (size_t)is.st_size, f)) < (size_t)is.st_size)
    rc = kv_fail(e, KV_INPUT, "%s: cannot read all of it", kv_show(path, show));
  fclose(f);
  return rc;
}

static const char blanks[] = " \t\r\n";

static kv_rc not_json(const char *path, const char *text, const char *at,
                      kv_err *e) {
  int line = 1;
  for (; text < at; text++) line += *text == '\n';
  return kv_fail(e, KV_INPUT,
                 "%s: line %d is not JSON: a list is [64, \"20%%\"]", path,
                 line);
}

/* One element: a number of entries, or a text as it would be typed. */
static kv_rc add_element(const char *word, bool quoted, const char *at,
                         kv_budget *out, kv_err *e) {
  if (quoted || !word[strspn(word, "-0123456789")])
    return add(word, KV_INPUT, at, out, e);
  return kv_fail(e, KV_INPUT,
                 "%s: is neither a whole number of entries nor a text like "
                 "\"20%%\"",
                 at);
}

/* A list of whole numbers and texts without escapes, which is all of JSON that
 * a budget needs. Writes into `text`, which begins with a bracket. */
static kv_rc add_array(const char *path, char *text, kv_budget *out,
                       kv_err *e) {
  char label[KV_SHOW + 32], *at = text + strspn(text, blanks), stop = ',';
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && stop == ','; i++) {
    at += 1 + strspn(at + 1, blanks);
    bool quoted = *at == '"', empty = i == 0 && *at == ']';
    char *word = at + quoted;
    char *end = word + strcspn(word, quoted ? "\"\\\n" : ",]\" \t\r\n");
    at = end + (quoted && *end == '"');
    at += strspn(at, blanks);
    stop = *at;
    if ((stop != ',' && stop != ']') || (quoted && *end != '"') ||
        (!quoted && end == word && !empty))
      return not_json(path, text, at, e);
    *end = 0;
    snprintf(label, sizeof label, "%s, layer %d", path, i);
    if (!empty) rc = add_element(word, quoted, label, out, e);
  }
  if (!rc && at[1 + strspn(at + 1, blanks)]) return not_json(path, text, at, e);
  return rc;
}

/* One budget a line. Writes into `text`. */
static kv_rc add_lines(const char *path, char *text, kv_budget *out,
                       kv_err *e) {
  char at[KV_SHOW + 32];
  kv_rc rc = KV_OK;
  for (int line = 1; !rc && text; line++) {
    char *next = strchr(text, '\n');
    if (next) *next++ = 0;
    text[strcspn(text, "#")] = 0;
    text += strspn(text, " \t\r");
    for (size_t n = strlen(text); n && strchr(" \t\r", text[n - 1]);)
      text[--n] = 0;
    snprintf(at, sizeof at, "%s, line %d", path, line);
    if (*text) rc = add(text, KV_INPUT, at, out, e);
    text = next;
  }
  return rc;
}

static kv_rc add_file(const char *path, kv_budget *out, kv_err *e) {
  char *text, show[KV_SHOW];
  size_t n = 0;
  kv_rc rc = slurp(path, &n, &text, e);
  const char *name = kv_show(path, show);
  if (!rc && strlen(text) < n)
    rc = kv_fail(e, KV_INPUT, "%s: byte %zu is zero: it is no text", name,
                 strlen(text) + 1);
  if (!rc)
    rc = text[strspn(text, blanks)] == '[' ? add_array(name, text, out, e)
                                           : add_lines(name, text, out, e);
  free(text);
  if (!rc && out->layers == 0)
    rc = kv_fail(e, KV_INPUT, "%s: holds no budget; write one a layer", name);
  return rc;
}

/* --- the list ----------------------------------------------------------- */

bool kv_budget_of_layers(const char *text) {
  return strncmp(text, KV_LAYERS, strlen(KV_LAYERS)) == 0 ||
         strchr(text, '/') != NULL;
}

void kv_budget_name_layers(int n, const char *const *text, char out[64]) {
  kv_sha256 h;
  char hex[65];
  kv_sha256_init(&h);
  for (int i = 0; i < n; i++) {
    if (i) kv_sha256_add(&h, "/", 1);
    kv_sha256_add(&h, text[i], strlen(text[i]));
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  snprintf(out, 64, KV_LAYERS "%.8s", hex);
}

/* The budget as typed, without its basis where its form says it. */
static const char *bare(const kv_budget *b) {
  const char *colon = strchr(b->target, ':');
  return colon && b->basis != KV_BASIS_RATIO ? colon + 1 : b->target;
}

static kv_rc name(kv_budget *b, kv_err *e) {
  size_t n = (size_t)b->layers;
  const char **text = kv_zalloc(n, sizeof *text);
  if (!text) return kv_no_memory(e, "budgets of layers", n * sizeof *text);
  b->basis = KV_BASIS_PROMPT;
  for (int i = 0; i < b->layers; i++) {
    text[i] = bare(&b->layer[i]);
    if (b->layer[i].basis == KV_BASIS_ENTRIES) b->basis = KV_BASIS_ENTRIES;
  }
  kv_budget_name_layers(b->layers, text, b->target);
  free(text);
  return KV_OK;
}

kv_rc kv_budget_parse_layers(const char *text, kv_budget *out, kv_err *e) {
  size_t prefix = strlen(KV_LAYERS);
  bool file = strncmp(text, KV_LAYERS, prefix) == 0;
  memset(out, 0, sizeof *out);
  kv_rc rc = file ? add_file(text + prefix, out, e) : add_typed(text, out, e);
  if (!rc) rc = name(out, e);
  if (rc) kv_budget_free(out);
  return rc;
}

void kv_budget_free(kv_budget *b) {
  free(b->layer);
  b->layer = NULL;
  b->layers = 0;
}

kv_rc kv_budget_layers(const kv_budget *b, int layers, const int *of, int *out,
                       kv_err *e) {
  kv_err why = {0};
  for (int i = 0; i < layers; i++) {
    const kv_budget *one = b->layers ? &b->layer[i] : b;
    kv_rc rc = kv_budget_entries(one, of[i], &out[i], &why);
    if (rc) return kv_fail(e, rc, "layer %d: %s", i, why.text);
  }
  return KV_OK;
}
