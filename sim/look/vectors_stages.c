/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of `kvreplay vectors`, each with the text of its rule in
 * manifest.json. With ref/ground/arith.h, which the numbered rules refer to,
 * the text must suffice to recompute the stage without this code.
 */
#include "sim/look/vectors_part.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

/* True if an earlier coding says the same. */
static bool repeats(const kv_needs *n, int i, int stage) {
  const char *text = said(&n->coding[i], stage);
  for (int j = 0; j < i; j++) {
    const char *other = said(&n->coding[j], stage);
    if (other && strcmp(text, other) == 0) return true;
  }
  return false;
}

/* Joins the texts of all codings, each with its format's name if they differ.
 */
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

static bool before_rope(const kv_needs *n) {
  for (int i = 0; i < n->codings; i++)
    if (n->coding[i].pre_rope) return true;
  return false;
}

#define TURNED                                                                 \
  "; keys are coded as before their rotation: turned back first, by the "      \
  "position p of their token, x1 = fma(y2, sin, y1 * cos), x2 = fma(-y1, "     \
  "sin, y2 * cos), and decoded ones turned again, y1 = fma(-x2, sin, x1 * "    \
  "cos), y2 = fma(x2, cos, x1 * sin); neither where p is 0"

void kv_vectors_rule(const kv_vectors *v, int i, char out[KV_VECTORS_RULE]) {
  const char *rule = kv_vectors_stage_at(v, i).rule, *gap = strstr(rule, "%s");
  const kv_needs *needs = &v->cell->plan.needs;
  char text[KV_VECTORS_RULE];
  all_said(needs, i, text, sizeof text);
  bool read = i == KV_V_K_READ && *text;
  if (i >= KV_V_STAGES || !gap) gap = rule + strlen(rule), *text = 0;
  int n = snprintf(out, KV_VECTORS_RULE, "%.*s%s%s%s%s%s%s", (int)(gap - rule),
                   rule, read ? "decoded (" : "", text, read ? "), " : "",
                   *gap ? gap + 2 : "",
                   strstr(text, "h(") ? "; h rounds to fp16" : "",
                   *text && before_rope(needs) ? TURNED : "");
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
