/* SPDX-License-Identifier: Apache-2.0
 *
 * Test vectors: contract in sim/run/look/vectors.h. One worker replays the cell
 * on the chosen layers while vectors_seen.c and vectors_collect.c collect. Then
 * a temporary folder next to the target is filled and renamed.
 */
#include "sim/run/look/vectors.h"

#include "ref/ground/text.h"
#include "sim/run/look/vectors_part.h"
#include "traces/container/leftover.h"
#include "traces/container/newfile.h"
#include "traces/container/writer.h"
#include "traces/trace/trace.h"
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank_of(const kv_vector *x) { return x->width == 1 ? 1 : 2; }

static kv_rc declare(const kv_vectors *v, int stage, kv_st_writer *out,
                     kv_err *e) {
  char name[KV_VECTOR_NAME];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++) {
    const kv_vector *x = &v->vector[i];
    uint64_t shape[2] = {x->rows, x->width};
    if (x->stage == stage)
      rc = kv_st_writer_declare(out, kv_vector_name(x, name), x->type,
                                rank_of(x), shape, e);
  }
  return rc;
}

static kv_rc append(const kv_vectors *v, int stage, kv_st_writer *out,
                    kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++)
    if (v->vector[i].stage == stage)
      rc = kv_st_writer_append(out, kv_vector_bytes(&v->vector[i]),
                               v->vector[i].data, e);
  return rc;
}

/* Writes one stage's file, never split by size, because the manifest gives
 * offsets into it. */
static kv_rc write_stage(const kv_vectors *v, int stage, const char *path,
                         kv_err *e) {
  kv_st_writer *out = NULL;
  kv_vectors_stage is = kv_vectors_stage_at(v, stage);
  char rule[KV_VECTORS_RULE];
  kv_vectors_rule(v, stage, rule);
  kv_rc rc = kv_st_writer_open(path, UINT64_MAX / 2, &out, e);
  if (!rc) rc = declare(v, stage, out, e);
  if (!rc) rc = kv_st_writer_meta(out, "format", "kvvectors", e);
  if (!rc) rc = kv_st_writer_meta(out, "version", "1", e);
  if (!rc) rc = kv_st_writer_meta(out, "stage", is.name, e);
  if (!rc) rc = kv_st_writer_meta(out, "rule", rule, e);
  if (!rc) rc = kv_st_writer_meta(out, "trace", v->cell->trace->name, e);
  if (!rc) rc = kv_st_writer_meta(out, "method", v->cell->result.spec, e);
  if (!rc) rc = append(v, stage, out, e);
  if (!rc) rc = kv_st_writer_finish(out, NULL, e);
  kv_st_writer_close(out);
  return rc;
}

static bool has(const kv_vectors *v, int stage) {
  for (int i = 0; i < v->n; i++)
    if (v->vector[i].stage == stage) return true;
  return false;
}

static kv_rc write_stages(const kv_vectors *v, const char *dir, char *path,
                          size_t room, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int s = 0; !rc && s < kv_vectors_stage_count(v); s++) {
    if (!has(v, s)) continue;
    snprintf(path, room, "%s/%s.safetensors", dir,
             kv_vectors_stage_at(v, s).name);
    rc = write_stage(v, s, path, e);
  }
  return rc;
}

static kv_rc write_raw(const kv_vectors *v, const char *dir, char *path,
                       size_t room, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++) {
    const kv_vector *x = &v->vector[i];
    char name[KV_VECTOR_FILE];
    kv_newfile file = {0};
    snprintf(path, room, "%s/%s", dir, kv_vector_file(v, x, name));
    rc = kv_newfile_open(path, &file, e);
    if (!rc) rc = kv_newfile_write(&file, kv_vector_bytes(x), x->data, e);
    if (!rc) rc = kv_newfile_flush(&file, e);
    if (!rc) rc = kv_newfile_publish(1, &file, e);
    kv_newfile_discard(&file);
  }
  return rc;
}

/* Writes every matrix into its file under dir, which exists.
 * KV_RESOURCE: memory, or a file cannot be written. */
static kv_rc vectors_files(const kv_vectors *v, const char *dir, kv_err *e) {
  size_t room = strlen(dir) + KV_VECTOR_FILE + 1;
  char *path = malloc(room);
  if (!path) return kv_no_memory(e, "a file name", room);
  kv_rc rc = v->ask->raw ? write_raw(v, dir, path, room, e)
                         : write_stages(v, dir, path, room, e);
  free(path);
  return rc;
}

/* --- lists --------------------------------------------------------------- */

enum { PIECE = 32 };

/* Copies the next piece of a comma-separated list and moves *text past it (NULL
 * after the last). False if the piece is too long or empty. */
static bool next_piece(const char **text, char piece[PIECE]) {
  size_t n = strcspn(*text, ",");
  if (n == 0 || n >= PIECE) return false;
  memcpy(piece, *text, n);
  piece[n] = 0;
  *text = (*text)[n] ? *text + n + 1 : NULL;
  return true;
}

static int ascending(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

/* Sorts and removes repeats; returns how many are left. */
static int sort(int n, int *list) {
  int m = 0;
  qsort(list, (size_t)n, sizeof *list, ascending);
  for (int i = 0; i < n; i++)
    if (m == 0 || list[m - 1] != list[i]) list[m++] = list[i];
  return m;
}

static int *take(const char *text, kv_err *e) {
  size_t n = strlen(text) + 1;
  int *list = kv_zalloc(n, sizeof *list);
  if (!list) kv_no_memory(e, "a list", n);
  return list;
}

/* The step that a piece means; +N counts from `before`. -1: none. */
static int64_t step_of(const char *piece, const kv_shape *s, int before) {
  uint64_t n;
  if (strcmp(piece, "first") == 0) return s->prompt_len + 1;
  if (strcmp(piece, "last") == 0) return s->n_tokens;
  bool later = *piece == '+';
  if (!kv_text_count(piece + later, INT32_MAX, &n)) return -1;
  return (int64_t)n + (later ? before : 0);
}

static kv_rc bad_step(const char *piece, const kv_shape *s, int64_t step,
                      kv_err *e) {
  char show[KV_SHOW];
  if (step < 0)
    return kv_fail(e, KV_USAGE,
                   "--steps: %s is not a step; write first, last, a number of "
                   "tokens seen, or +N for N steps later",
                   kv_show(piece, show));
  if (s->n_tokens == s->prompt_len)
    return kv_fail(e, KV_USAGE,
                   "--steps: %s: all %d tokens are prompt, so there is no "
                   "decode step; lower --prompt-len",
                   kv_show(piece, show), s->n_tokens);
  return kv_fail(e, KV_USAGE,
                 "--steps: %s is step %lld; it must be from %d (after the "
                 "prompt) to %d tokens seen",
                 kv_show(piece, show), (long long)step, s->prompt_len,
                 s->n_tokens);
}

kv_rc kv_vectors_steps(const char *text, const kv_shape *s, int *n, int **out,
                       kv_err *e) {
  const char *whole = text;
  char piece[PIECE], show[KV_SHOW];
  int before = s->prompt_len + 1;
  *n = 0;
  *out = take(text, e);
  if (!*out) return KV_RESOURCE;
  while (text) {
    if (!next_piece(&text, piece))
      return kv_fail(e, KV_USAGE, "--steps %s: write a list as first,+17,last",
                     kv_show(whole, show));
    int64_t step = step_of(piece, s, before);
    if (step < s->prompt_len || step > s->n_tokens)
      return bad_step(piece, s, step, e);
    (*out)[(*n)++] = before = (int)step;
  }
  *n = sort(*n, *out);
  return KV_OK;
}

static int index_of(const kv_trace *t, uint64_t layer) {
  for (int i = 0; i < t->n_layers; i++)
    if ((uint64_t)t->layer[i].data.layer == layer) return i;
  return -1;
}

kv_rc kv_vectors_layers(const char *text, const kv_trace *t, int *n, int **out,
                        kv_err *e) {
  const char *whole = text ? text : "";
  char piece[PIECE], show[KV_SHOW];
  uint64_t number;
  *n = 0;
  *out = kv_zalloc(strlen(whole) + (size_t)t->n_layers + 1, sizeof **out);
  if (!*out) return kv_no_memory(e, "a list", strlen(whole));
  for (int i = 0; !text && i < t->n_layers; i++) (*out)[(*n)++] = i;
  while (text) {
    if (!next_piece(&text, piece) || !kv_text_count(piece, INT32_MAX, &number))
      return kv_fail(e, KV_USAGE,
                     "--layers %s: write numbers of layers, as 0,2",
                     kv_show(whole, show));
    int i = index_of(t, number);
    if (i < 0)
      return kv_fail(
          e, KV_USAGE,
          "--layers: %s has no layer %s; `kvtrace info` lists its layers",
          kv_show(t->path, show), piece);
    (*out)[(*n)++] = i;
  }
  *n = sort(*n, *out);
  return KV_OK;
}

/* --- the replay --------------------------------------------------------- */

/* Replays one layer up to the last requested step. */
static kv_rc walk_layer(const kv_vectors *v, kv_layer *l, int index,
                        kv_worker *w, bool *stopped, kv_err *e) {
  const kv_vectors_ask *ask = v->ask;
  const kv_cell *c = ask->cell;
  kv_team team = {w, 1, NULL};
  int last = ask->step[ask->steps - 1];
  kv_layer_begin(l, index);
  kv_layer_prompt(l, &team);
  for (int t = c->shape.prompt_len; t < last && !v->fault.rc; t++) {
    if (ask->stop && ask->stop()) *stopped = true;
    if (*stopped) return KV_OK;
    kv_layer_step(l, t, &team);
  }
  return kv_layer_end(l, e);
}

static kv_rc walk(kv_vectors *v, kv_layer *l, int index, kv_worker *w,
                  bool *stopped, kv_err *e) {
  kv_cell *c = v->ask->cell;
  kv_rc rc = kv_trace_scan_layer(c->trace, index, e);
  if (rc) return rc;
  kv_vectors_inputs(v, &c->trace->layer[index].data);
  rc = walk_layer(v, l, index, w, stopped, e);
  if (rc || *stopped) return rc;
  if (c->result.status == KV_CELL_FAILED)
    return kv_fail(e, KV_INPUT, "%s: %s", c->result.spec, c->result.reason);
  return v->fault.rc ? kv_fail(e, v->fault.rc, "%s", v->fault.text) : KV_OK;
}

/* Replays layers from..to-1 unwatched, for their messages. */
static kv_rc walk_above(kv_vectors *v, int from, int to, kv_worker *w,
                        bool *stopped, kv_err *e) {
  kv_cell *c = v->ask->cell;
  kv_layer *l = NULL;
  c->plan.method = v->method;
  kv_cell_tell_layers(c);
  kv_rc rc = kv_layer_open(&kv_backend_ref, &c, 1, NULL, &l, e);
  for (int i = from; !rc && !*stopped && i < to; i++) {
    rc = kv_trace_scan_layer(c->trace, i, e);
    if (!rc) rc = walk_layer(v, l, i, w, stopped, e);
  }
  kv_layer_close(l);
  c->plan.method = &v->shown;
  kv_cell_tell_layers(c);
  return rc;
}

static kv_rc replay(kv_vectors *v, bool *stopped, kv_err *e) {
  int next = 0; /* next layer */
  kv_cell *c = v->ask->cell;
  kv_layer *l = NULL;
  kv_worker w = {0};
  const kv_plan *plan = &c->plan;
  kv_rc rc = kv_trace_expect_plain(c->trace, "kvreplay vectors", e);
  if (!rc) rc = kv_cell_prepare(c, false, false, e);
  c->plan.method = &v->shown;
  kv_cell_tell_layers(c);
  kv_float_ground();
  if (!rc) rc = kv_worker_open(&kv_backend_ref, &c->shape, &plan, 1, &w, e);
  if (!rc) rc = kv_layer_open(&kv_backend_ref, &c, 1, &v->watch, &l, e);
  for (int i = 0; !rc && !*stopped && i < v->ask->layers; i++) {
    int index = v->ask->layer[i];
    if (c->messages) rc = walk_above(v, next, index, &w, stopped, e);
    if (!rc && !*stopped) rc = walk(v, l, index, &w, stopped, e);
    next = index + 1;
  }
  kv_layer_close(l);
  kv_worker_close(&kv_backend_ref, &w);
  c->plan.method = v->method;
  kv_cell_tell_layers(c);
  return rc;
}

/* --- the folder --------------------------------------------------------- */

static kv_rc check_folder(const char *dir, kv_err *e) {
  struct stat there;
  if (stat(dir, &there)) return KV_OK;
  DIR *d = S_ISDIR(there.st_mode) ? opendir(dir) : NULL;
  int names = 0;
  while (d && readdir(d)) names++;
  if (d) closedir(d);
  if (d && names <= 2) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "-o %s exists and is not an empty folder; name a new one",
                 dir);
}

/* The temporary folder's path, to be freed, with memory for a file's name. */
static char *part_of(const char *dir, kv_err *e) {
  size_t n = strlen(dir), room = n + 32 + KV_VECTOR_FILE;
  char *part = malloc(room);
  if (!part) {
    kv_no_memory(e, "a file name", room);
    return NULL;
  }
  while (n > 1 && dir[n - 1] == '/') n--;
  snprintf(part, room, "%.*s.%ld.part", (int)n, dir, (long)getpid());
  return part;
}

static kv_rc make_folder(const kv_vectors *v, const char *part, kv_err *e) {
  if (mkdir(part, 0777) == 0) return KV_OK;
  return kv_cannot(e, KV_RESOURCE, "make the folder", v->ask->dir);
}

/* Allocates nothing: memory may have run out. */
static void remove_folder(const kv_vectors *v, char *part) {
  static const char *const manifest[] = {"manifest.json", "manifest.tsv"};
  char name[KV_VECTOR_FILE], *end = part + strlen(part);
  *end = '/';
  for (int i = 0; i < v->n; i++) {
    strcpy(end + 1, kv_vector_file(v, &v->vector[i], name));
    unlink(part);
  }
  for (int i = 0; i < 2; i++) {
    strcpy(end + 1, manifest[i]);
    unlink(part);
  }
  *end = 0;
  rmdir(part);
}

static kv_rc publish(const kv_vectors *v, const char *part, kv_err *e) {
  kv_rc rc = vectors_files(v, part, e);
  if (!rc) rc = kv_vectors_manifest(v, part, e);
  if (!rc) rc = kv_trace_damaged(v->cell->trace, e);
  if (!rc && rename(part, v->ask->dir))
    rc = kv_cannot(e, KV_RESOURCE, "make the folder", v->ask->dir);
  return rc;
}

/* Makes the folder before the replay, which may take long, so that a bad path
 * is reported at once. */
static kv_rc write_folder(kv_vectors *v, bool *stopped, kv_err *e) {
  char *part = part_of(v->ask->dir, e);
  if (!part) return KV_RESOURCE;
  kv_rc rc = make_folder(v, part, e);
  if (!rc) {
    kv_leftover_add(part);
    rc = replay(v, stopped, e);
    kv_leftover_drop(part);
    if (!rc && !*stopped) rc = publish(v, part, e);
    if (rc || *stopped) remove_folder(v, part);
  }
  free(part);
  return rc;
}

kv_rc kv_vectors_write(const kv_vectors_ask *ask, bool *stopped, kv_err *e) {
  kv_vectors v = {0};
  *stopped = false;
  kv_rc rc = check_folder(ask->dir, e);
  if (rc) return rc;
  rc = kv_vectors_open(&v, ask, e);
  if (!rc) rc = write_folder(&v, stopped, e);
  kv_vectors_close(&v);
  return rc;
}

/* --- stages -------------------------------------------------------------- */

/* The stages of `kvreplay vectors`, each with the text of its rule in
 * manifest.json. With ref/ground/arith.h, which the numbered rules refer to,
 * the text must suffice to recompute the stage without this code. */

#define LANE "lane"
#define QUERY "query head"
#define SELECTS                                                                \
  "query head where a view is chosen; lane, or none, where a step compresses"

/* Texts with a %s that the format's own rule fills in. */
#define CODES                                                                  \
  "codes of the coded rows, one a byte: code = %s; the method's section says " \
  "when a row is coded"
#define READ                                                                   \
  "keys as attention reads them: %smerged, rotated; where this stage is "      \
  "missing they are the rows `entries` of k, widened"

const kv_vectors_stage kv_vectors_stages[KV_V_STAGES] = {
    [KV_V_Q] = {"q", QUERY, "0",
                "recorded queries after RoPE, a row a token (stage rows, where "
                "it is there, has the token of each row)"},
    [KV_V_K] = {"k", "KV head", "0",
                "recorded keys after RoPE, row t is token t; query head h "
                "reads KV head h / (n_heads / n_kv_heads)"},
    [KV_V_V] = {"v", "KV head", "0", "recorded values, row t is token t"},
    [KV_V_ROWS] = {"rows", "layer", "-",
                   "token of each row of q, where not all are recorded"},
    [KV_V_ENTRIES] = {"entries", LANE, "-",
                      "the page table: token of each stored entry when the "
                      "step attends, in lane order, the step's own last; of "
                      "a merged entry the oldest; query head h reads lane h / "
                      "(n_heads / lanes)"},
    [KV_V_WEIGHTS] = {"weights", LANE, "8",
                      "tokens that each entry stands for; where merge_bias is "
                      "not 0 a logit gets RN(merge_bias * log(weight))"},
    [KV_V_POSITIONS] = {"positions", LANE, "6",
                        "RoPE position at which each entry is read; the query "
                        "stands at the last"},
    [KV_V_K_PAGES] = {"k_page_table", LANE, "7",
                      "two numbers an entry: the row of k_codes and the row "
                      "of k_scales and k_minima that hold its key; -1 where "
                      "it is not coded"},
    [KV_V_K_CODES] = {"k_codes", LANE, "7", CODES},
    [KV_V_K_SCALES] = {"k_scales", LANE, "2 7", "%s"},
    [KV_V_K_MINIMA] = {"k_minima", LANE, "2 7", "%s"},
    [KV_V_V_PAGES] = {"v_page_table", LANE, "7", "as k_page_table, of values"},
    [KV_V_V_CODES] = {"v_codes", LANE, "7", "as k_codes, of values"},
    [KV_V_V_SCALES] = {"v_scales", LANE, "7", "as k_scales, of values"},
    [KV_V_V_MINIMA] = {"v_minima", LANE, "7", "as k_minima, of values"},
    [KV_V_Q_READ] = {"q_read", QUERY, "6",
                     "the step's query, rotated from its own position to the "
                     "last of positions: y1 = fma(-x2, sin, x1 * cos), y2 = "
                     "fma(x2, cos, x1 * sin)"},
    [KV_V_K_READ] = {"k_read", LANE, "6 7 8", READ},
    [KV_V_V_READ] = {"v_read", LANE, "7 8", "as k_read, of values"},
    [KV_V_VIEW] = {"view", QUERY, "-",
                   "places in `entries` that the step attends, ascending"},
    [KV_V_LOGITS] = {"logits", QUERY, "1",
                     "for each place of the view: acc = fma(q[i], k[i], acc) "
                     "for i = 0 .. d-1 from +0; s = acc * scale; + the bias of "
                     "its weight; + 0"},
    [KV_V_CHUNK_MAX] = {"chunk_max", QUERY, "3",
                        "a chunk is 128 places of the view, the last may be "
                        "shorter; the largest logit of each, m"},
    [KV_V_CHUNK_SUM] = {"chunk_sum", QUERY, "3 6",
                        "p = exp(s - m) by the polynomial of rule 6, +0 below "
                        "-87; the int64 sum of RN(p * 2^40), rounded once to "
                        "binary32, times 2^-40"},
    [KV_V_CHUNK_ACC] = {"chunk_acc", QUERY, "3",
                        "a row a chunk: a[i] = fma(p, v[i], a[i]) in view "
                        "order from +0"},
    [KV_V_OUT] = {"out", QUERY, "3",
                  "M the largest chunk_max, w = exp(m - M); over chunks in "
                  "order from +0: L = fma(w, sum, L), O[i] = fma(w, acc[i], "
                  "O[i]); out[i] = O[i] / L"},
    [KV_V_LSE] = {"lse", QUERY, "3 6", "M + log(L), log by rule 6"},
    [KV_V_COLUMN] =
        {"column", LANE, "4",
         "the number that each entry carries for the method, when "
         "the step compresses, its own observation added: int64 are "
         "sums of RN(P * 2^40), where P = exp(s - M) * r, M the "
         "largest logit of the row, r = 1 / (RN32(sum of "
         "RN(exp(s - M) * 2^40)) * 2^-40)"},
    [KV_V_COLUMN_2] = {"column_2", LANE, "4", "its second such number"},
    [KV_V_SCORES] = {"scores", SELECTS, "2 4 5",
                     "what the method ranks at this step, of entries (by "
                     "place) or of pages; what it always keeps is not ranked "
                     "and not here; of an int64 column: RN32(sum) * 2^-40"},
    [KV_V_ORDER] = {"order", SELECTS, "2",
                    "the ranked by rank: larger key first, key(s) = bits(s) "
                    "xor (sign ? 0xffffffff : 0x80000000); of equal keys the "
                    "lower index"},
    [KV_V_CHOSEN] = {"chosen", SELECTS, "2",
                     "the first so many of the order, ascending: they are "
                     "attended or kept"},
    [KV_V_EVICTED] =
        {"evicted", SELECTS, "2",
         "where a step looks for one entry it has no chosen: of the "
         "ranked the one that goes if one does, the least key, of "
         "equal ones the lower index"},
    [KV_V_KEPT] = {"kept", LANE, "-",
                   "as `entries`, after the step is compressed"},
};

/* The index-th of the methods' own stages; NULL past the last. */
static const kv_stage *own_stage(const kv_vectors *v, int index) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  int parts = kv_parts_of(v->method, part, offset);
  for (int i = 0; i < parts; i++)
    for (const kv_stage *s = part[i]->stages; s && s->name; s++)
      if (index-- == 0) return s;
  return NULL;
}

int kv_vectors_stage_count(const kv_vectors *v) {
  int n = KV_V_STAGES;
  while (own_stage(v, n - KV_V_STAGES)) n++;
  return n;
}

kv_vectors_stage kv_vectors_stage_at(const kv_vectors *v, int i) {
  if (i < KV_V_STAGES) return kv_vectors_stages[i];
  const kv_stage *s = own_stage(v, i - KV_V_STAGES);
  return (kv_vectors_stage){s->name, LANE, "-", s->rule};
}

/* --- rules of formats --------------------------------------------------- */

/* What a coding's format says about a stage; NULL for most stages. */
static const char *said(const kv_coding *c, int stage) {
  if (!c->format->rules) return NULL;
  kv_format_rules r = c->format->rules(c->settings);
  switch (stage) {
  case KV_V_K_CODES:
    return r.code;
  case KV_V_K_SCALES:
    return r.scale;
  case KV_V_K_MINIMA:
    return r.min;
  case KV_V_K_READ:
    return r.decoded;
  default:
    return NULL;
  }
}

/* Does an earlier coding say the same? */
static bool repeats(const kv_needs *n, int i, int stage) {
  const char *text = said(&n->coding[i], stage);
  for (int j = 0; j < i; j++) {
    const char *other = said(&n->coding[j], stage);
    if (other && strcmp(text, other) == 0) return true;
  }
  return false;
}

/* Joins the texts of all codings, with the formats' names if they differ. */
static void all_said(const kv_needs *n, int stage, char *out, size_t room) {
  int differ = 0;
  size_t at = 0;
  out[0] = 0;
  for (int i = 0; i < n->codings; i++)
    differ += said(&n->coding[i], stage) && !repeats(n, i, stage);
  for (int i = 0; i < n->codings && at < room; i++) {
    const char *text = said(&n->coding[i], stage);
    if (!text || repeats(n, i, stage)) continue;
    const char *name = differ > 1 ? n->coding[i].format->name : "";
    at += (size_t)snprintf(out + at, room - at, "%s%s%s%s", at ? "; " : "",
                           name, *name ? ": " : "", text);
  }
}

#define TURNED                                                                 \
  "; keys are coded as before their rotation: turned back first, by the "      \
  "position p of their token, x1 = fma(y2, sin, y1 * cos), x2 = fma(-y1, "     \
  "sin, y2 * cos), and decoded ones turned again, y1 = fma(-x2, sin, x1 * "    \
  "cos), y2 = fma(x2, cos, x1 * sin); neither where p is 0"
#define SHIFTED                                                                \
  "; of keys the shift is subtracted before coding and added after decoding"
#define ROTATED                                                                \
  "; rows are multiplied by a normalised Hadamard matrix before coding and "   \
  "after decoding"

/* How any coding prepares rows (ref/FORMATS.md, Prepared rows). */
static void prepared(const kv_needs *n, char out[KV_VECTORS_RULE]) {
  bool turned = false, shifted = false, rotated = false;
  for (int i = 0; i < n->codings; i++) {
    turned |= n->coding[i].pre_rope;
    shifted |= n->coding[i].shifted;
    rotated |= n->coding[i].rotate;
  }
  snprintf(out, KV_VECTORS_RULE, "%s%s%s", turned ? TURNED : "",
           shifted ? SHIFTED : "", rotated ? ROTATED : "");
}

void kv_vectors_rule(const kv_vectors *v, int i, char out[KV_VECTORS_RULE]) {
  const char *rule = kv_vectors_stage_at(v, i).rule, *gap = strstr(rule, "%s");
  const kv_needs *needs = &v->cell->plan.needs;
  char text[KV_VECTORS_RULE], before[KV_VECTORS_RULE];
  prepared(needs, before);
  all_said(needs, i, text, sizeof text);
  bool read = i == KV_V_K_READ && *text;
  if (i >= KV_V_STAGES || !gap) gap = rule + strlen(rule), *text = 0;
  int n = snprintf(
      out, KV_VECTORS_RULE, "%.*s%s%s%s%s%s%s", (int)(gap - rule), rule,
      read ? "decoded (" : "", text, read ? "), " : "", *gap ? gap + 2 : "",
      strstr(text, "h(") ? "; h rounds to fp16" : "", *text ? before : "");
  assert(n < KV_VECTORS_RULE);
  (void)n;
}

/* --- names --------------------------------------------------------------- */

const char *kv_vector_name(const kv_vector *x, char out[KV_VECTOR_NAME]) {
  int n = snprintf(out, KV_VECTOR_NAME, "layers.%d", x->layer);
  char *at = out + n;
  size_t room = KV_VECTOR_NAME - (size_t)n;
  const char *heads = x->head < 0 ? "" : ".heads.";
  char step[24] = "", head[16] = "", again[24] = "";
  if (x->step) snprintf(step, sizeof step, ".steps.%d", x->step);
  if (x->head >= 0) snprintf(head, sizeof head, "%d", x->head);
  if (x->again) snprintf(again, sizeof again, ".again.%d", x->again);
  snprintf(at, room, "%s%s%s%s", step, heads, head, again);
  return out;
}

const char *kv_vector_file(const kv_vectors *v, const kv_vector *x,
                           char out[KV_VECTOR_FILE]) {
  const char *stage = kv_vectors_stage_at(v, x->stage).name;
  char name[KV_VECTOR_NAME];
  if (v->ask->raw)
    snprintf(out, KV_VECTOR_FILE, "%s.%s.bin", stage, kv_vector_name(x, name));
  else
    snprintf(out, KV_VECTOR_FILE, "%s.safetensors", stage);
  return out;
}

size_t kv_vector_bytes(const kv_vector *x) {
  return x->rows * x->width * (kv_st_dtype_bits(x->type) / 8);
}
