/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/support/rig_cases.h. A case is read while it runs, line by
 * line: a table says which word begins a line and who carries it out.
 */
#include "tests/support/rig_cases.h"
#include "ref/lane/lane.h"
#include "sim/ask/spec.h"
#include "sim/replay/measure/cost.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096, LINES = 800, CASES = 64, OWNED = 64, MOST = 512 };

typedef struct cases { /* a file */
  char path[64];
  char text[1 << 18], *line[LINES + 1]; /* line[0] is line number 1 */
  int lines, before; /* how many; those before the first case begin each */
} cases;

enum { TENSORS = 12, LAYERS = 8 };

typedef struct table { /* a file that a method reads */
  char name[TENSORS][32];
  kv_tensor one[TENSORS]; /* of a layer; all layers have the same */
  int tensors, layers;
  kv_tensor tensor[TENSORS * LAYERS];
  kv_asset_text text;
  char key[32], value[32];
  uint32_t drawn; /* the last random number */
  kv_asset asset;
} table;

typedef struct run { /* a case */
  const cases *file;
  char name[96];
  int first, end, at; /* lines [first, end); the one in hand */
  bool done;
  char line[1 << 15], *word[WORDS]; /* of the line in hand */
  int words, checks;
  rig_case c;
  float *own[OWNED];
  int owned;
  table file_of, scores;
  rig *rig, *above;
  char prefix[160], spec[2][320];
} run;

/* --- words and numbers --------------------------------------------------- */

/* Splits the line in hand at spaces, but not within "quotes"; # begins a
 * comment. A line that begins with spaces continues the line before it. */
static void split(run *x) {
  char *p = x->line;
  size_t n = 0, last;
  x->words = 0;
  do {
    const char *more = x->file->line[x->at];
    last = n;
    more += strspn(more, " ");
    n += (size_t)snprintf(x->line + n, sizeof x->line - n, "%s%s", n ? " " : "",
                          more);
    if (n >= sizeof x->line) fail_msg("the line is too long");
  } while (x->at + 1 < x->end && *x->file->line[x->at + 1] == ' ' && ++x->at);
  while (*(p += strspn(p, " ")) && *p != '#') {
    bool quoted = *p == '"';
    if (x->words == WORDS) fail_msg("a line of more than %d words", WORDS);
    x->word[x->words++] = p += quoted;
    p += strcspn(p, quoted ? "\"" : " ");
    if (*p) *p++ = 0;
  }
  if (*p && p < x->line + last) fail_msg("the line goes on after a comment");
}

static double number(const char *text) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end) fail_msg("'%s' is no number", text);
  return v;
}

static int whole(const run *x, int word) {
  if (word >= x->words) fail_msg("a number is missing");
  double v = number(x->word[word]);
  if (v != (int)v) fail_msg("'%s' is not a whole number", x->word[word]);
  return (int)v;
}

/* Ids from word `from` on: 3, or 3-7 for all of them; -1 ends them. */
static const int *ids(const run *x, int from) {
  static int out[WORDS];
  int n = 0;
  for (int i = from; i < x->words; i++) {
    char *end;
    int first = (int)strtol(x->word[i], &end, 10);
    int last = *end == '-' ? (int)strtol(end + 1, &end, 10) : first;
    if (*end) fail_msg("'%s' is neither an id nor a range", x->word[i]);
    for (int t = first; t <= last && n + 1 < WORDS; t++) out[n++] = t;
  }
  out[n] = -1;
  return out;
}

/* Two units of the line's last digit; short numbers are exact to six. */
static double near(const run *x, int from) {
  size_t digits = 0;
  for (int i = from; i < x->words; i++) {
    const char *dot = strchr(x->word[i], '.');
    size_t n = dot ? strspn(dot + 1, "0123456789") : 0;
    digits = n > digits ? n : digits;
  }
  return 2 * pow(10, digits < 4 ? -6 : -(double)digits);
}

/* Words from `from` on are the first of n numbers got(ctx, 0), .. */
static void close_to(const run *x, int from, const char *what, int n,
                     double got(const void *, int), const void *ctx) {
  if (x->words <= from || x->words - from > n)
    fail_msg("%s: %d numbers, expected %d", what, n, x->words - from);
  for (int i = 0; i < x->words - from; i++) {
    double is = got(ctx, i), want = number(x->word[from + i]);
    if (!(fabs(is - want) <= near(x, from)))
      fail_msg("%s %d: %.7f, expected %s", what, i, is, x->word[from + i]);
  }
}

static double of_floats(const void *p, int i) {
  return (double)((const float *)p)[i];
}
static double of_fixed(const void *p, int i) {
  return (double)((const int64_t *)p)[i] * 0x1p-40;
}

static void equal(const char *what, int64_t got, int64_t want) {
  if (got != want)
    fail_msg("%s: %lld, expected %lld", what, (long long)got, (long long)want);
}

typedef struct named_number {
  const char *name;
  int64_t is;
} named_number;

/* Words from `from` on are names, each with the number that it should be. */
static void are(const run *x, int from, const named_number *of) {
  if (from >= x->words) fail_msg("a name is missing");
  for (; from < x->words; from += 2) {
    int i = 0;
    while (of[i].name && strcmp(of[i].name, x->word[from])) i++;
    if (!of[i].name) fail_msg("nothing is called '%s'", x->word[from]);
    equal(of[i].name, of[i].is, whole(x, from + 1));
  }
}

/* --- the request --------------------------------------------------------- */

static float *keep(run *x, float *p) {
  assert_true(x->owned < OWNED);
  return x->own[x->owned++] = p;
}

/* Numbers from word `from` on: 1.5, 0*14 for fourteen times 0, `eight` for the
 * eight tokens' own. Fails unless there are n (0: as many as there are). */
static const float *numbers(run *x, int from, size_t n, const float *eight,
                            size_t of_eight) {
  size_t have = 0;
  float *out = keep(x, calloc(n ? n : WORDS, sizeof *out));
  for (int i = from; i < x->words; i++) {
    char *times = strchr(x->word[i], '*');
    bool own = eight && !strcmp(x->word[i], "eight");
    size_t more = own ? of_eight : times ? (size_t)atoi(times + 1) : 1;
    if (times) *times = 0;
    if (have + more > (n ? n : WORDS)) fail_msg("more than %zu numbers", n);
    for (size_t j = 0; j < more; j++, have++)
      out[have] = own ? eight[j] : (float)number(x->word[i]);
  }
  if (n && have != n) fail_msg("%zu numbers, not %zu", have, n);
  return out;
}

static void draw(run *x, uint32_t seed) {
  rig_data(&x->c, seed);
  keep(x, (float *)(uintptr_t)x->c.q);
  keep(x, (float *)(uintptr_t)x->c.k);
  keep(x, (float *)(uintptr_t)x->c.v);
}

/* request eight PROMPT, or the sizes in the order of RIG_SHAPE [bare]. */
static void request(run *x) {
  rig_case *c = &x->c;
  int *size[] = {&c->heads, &c->kv_heads, &c->d,
                 &c->d_v,   &c->n_tokens, &c->prompt_len};
  if (x->words == 3 && !strcmp(x->word[1], "eight")) {
    *c = rig_eight(whole(x, 2));
    return;
  }
  *c = (rig_case){0};
  for (int i = 0; i < 6; i++) *size[i] = whole(x, 1 + i);
  if (x->words == 7) draw(x, 6);
}

static void seed(run *x) { draw(x, (uint32_t)whole(x, 1)); }
static void prompt(run *x) { x->c.prompt_len = whole(x, 1); }
static void layers(run *x) { x->c.n_layers = whole(x, 1); }
static void prefix(run *x) {
  snprintf(x->prefix, sizeof x->prefix, "%s", x->word[1]);
}
static void layer(run *x) { x->c.layer = whole(x, 1); }
static void scale(run *x) { x->c.scale = (float)number(x->word[1]); }
static void half(run *x) { x->c.half = true; }
static void turns(run *x) { x->c.inv_freq = numbers(x, 1, 0, NULL, 0); }
static void biases(run *x) { x->c.k_bias = numbers(x, 1, 0, NULL, 0); }

static size_t rows(const run *x, int heads, int width) {
  return (size_t)heads * (size_t)x->c.n_tokens * (size_t)width;
}
static void queries(run *x) {
  x->c.q = numbers(x, 1, rows(x, x->c.heads, x->c.d), rig_query8, 16);
}

static void keys(run *x) {
  x->c.k = numbers(x, 1, rows(x, x->c.kv_heads, x->c.d), rig_key8, 16);
}

static void values(run *x) {
  x->c.v = numbers(x, 1, rows(x, x->c.kv_heads, x->c.d_v), rig_unit8, 64);
}

static void meta(table *t, const char *key, const char *value) {
  snprintf(t->key, sizeof t->key, "%s", key);
  snprintf(t->value, sizeof t->value, "%s", value);
  t->text = (kv_asset_text){t->key, t->value};
}

static int named(table *t, const char *name) {
  int i = 0;
  while (i < t->tensors && strcmp(t->name[i], name)) i++;
  if (i == TENSORS) fail_msg("more than %d tensors", TENSORS);
  return i;
}

/* Three words from `from` on are the tensor's sizes, 0 where it has fewer; then
 * come its numbers, or `drawn`: random ones in [-1, 1). */
static void add(run *x, table *t, const char *name, int from) {
  int i = named(t, name);
  kv_tensor *one = &t->one[i];
  float *data;
  *one = (kv_tensor){.count = 1};
  for (int j = 0; j < 3; j++) {
    one->dim[j] = whole(x, from + j);
    if (one->dim[j]) one->count *= one->dim[j];
  }
  size_t n = (size_t)one->count;
  if (!one->dim[0]) { /* the file has none */
    data = NULL;
  } else if (from + 3 < x->words && !strcmp(x->word[from + 3], "drawn")) {
    data = keep(x, calloc(n, sizeof *data));
    for (size_t j = 0; j < n; j++) {
      t->drawn = t->drawn * 1664525u + 1013904223u;
      data[j] = (float)(int32_t)t->drawn * 0x1p-31f;
    }
  } else {
    data = (float *)(uintptr_t)numbers(x, from + 3, n, NULL, 0);
  }
  one->data = data;
  snprintf(t->name[i], sizeof t->name[i], "%s", name);
  if (i == t->tensors) t->tensors++;
}

static void begin_file(run *x, table *t, const kv_asset **of,
                       const char *path) {
  *t = (table){.layers = x->c.n_layers ? x->c.n_layers : 1};
  meta(t, "version", "1");
  t->asset = (kv_asset){.path = path, .texts = 1, .of_trace = true};
  *of = &t->asset;
}

/* tensor NAME SIZES NUMBERS: adds it to the file, or replaces it. */
static void tensor(run *x) {
  if (!x->c.asset) begin_file(x, &x->file_of, &x->c.asset, "file.safetensors");
  add(x, &x->file_of, x->word[1], 2);
}

/* file SIZES NUMBERS: a file of one tensor. */
static void file(run *x) {
  begin_file(x, &x->file_of, &x->c.asset, "file.safetensors");
  add(x, &x->file_of, "", 1);
}

static void scores(run *x) {
  begin_file(x, &x->scores, &x->c.scores, "scores.safetensors");
  x->scores.layers = 1;
  add(x, &x->scores, "", 1);
}

static void scores_version(run *x) { meta(&x->scores, "version", x->word[1]); }
static void scores_of_another(run *x) { x->scores.asset.of_trace = false; }
static void meta_of_file(run *x) { meta(&x->file_of, x->word[1], x->word[2]); }

/* dim NAME WHICH N, element NAME PLACE X: of a tensor that it has. */
static void dim(run *x) {
  x->file_of.one[named(&x->file_of, x->word[1])].dim[whole(x, 2)] = whole(x, 3);
}
static void element(run *x) {
  kv_tensor *t = &x->file_of.one[named(&x->file_of, x->word[1])];
  ((float *)(uintptr_t)t->data)[whole(x, 2)] = (float)number(x->word[3]);
}

/* value-of HEAD TOKEN X..: other numbers in the place of drawn values. */
static void value_of(run *x) {
  float *v = (float *)(uintptr_t)x->c.v;
  v += (whole(x, 1) * x->c.n_tokens + whole(x, 2)) * x->c.d_v;
  for (int i = 3; i < x->words; i++) v[i - 3] = (float)number(x->word[i]);
}

static void no_file(run *x) { x->c.asset = x->c.scores = NULL; }

/* Specification number i of the line in hand: one that begins with a colon goes
 * on from the one of `method`. */
static const char *spec_of(run *x, int i) {
  const char *word = x->word[1 + i];
  snprintf(x->spec[i], sizeof x->spec[i], "%s%s", *word == ':' ? x->prefix : "",
           word);
  return x->spec[i];
}

static void finish(table *t, const kv_asset_kind *kind) {
  static const int number_of[LAYERS] = {0, 1, 2, 3, 4, 5, 6, 7};
  if (t->layers > LAYERS) fail_msg("a file of more than %d layers", LAYERS);
  for (int l = 0; l < t->layers; l++)
    memcpy(t->tensor + l * t->tensors, t->one,
           (size_t)t->tensors * sizeof *t->one);
  t->asset.ask = kind->tensors;
  t->asset.asked = t->tensors;
  t->asset.layers = t->layers;
  t->asset.layer = number_of;
  t->asset.tensor = t->tensor;
  t->asset.text = &t->text;
}

/* The case, its files in the format that the specification's method reads. */
static const rig_case *as_read(run *x, const char *spec) {
  kv_spec s = {0};
  kv_err e = {0};
  const kv_param *p;
  if (kv_spec_parse(kv_method_at, spec, &s, &e) == KV_OK)
    for (int i = 0; (p = kv_method_file(s.method, i)); i++) {
      const char *format_of = p->reads->format;
      bool by_token = format_of && !strcmp(format_of, "kvscores");
      finish(by_token ? &x->scores : &x->file_of, p->reads);
    }
  kv_spec_free(&s);
  return &x->c;
}

/* --- a replay ------------------------------------------------------------ */

static void shut(run *x) {
  rig_close(x->rig);
  rig_close(x->above);
  x->rig = x->above = NULL;
}

static void begin(run *x) { /* run SPEC */
  shut(x);
  const char *spec = spec_of(x, 0);
  x->rig = rig_open(as_read(x, spec), spec);
}

static void below(run *x) { /* below LAYER: looks at it from here on */
  int was = x->c.layer;
  x->above = x->rig;
  x->c.layer = whole(x, 1);
  x->rig = rig_below(&x->c, x->spec[0], x->above);
  x->c.layer = was;
}

/* keeps SPEC IDS: of lane 0, after the prompt. */
static void keeps(run *x) {
  begin(x);
  rig_holds(x->rig, 0, ids(x, 2));
}

/* counts SPEC N ..: how many of them layer 0, 1, .. keeps. */
static void counts(run *x) {
  int was = x->c.layer;
  for (x->c.layer = 0; x->c.layer < x->words - 2; x->c.layer++) {
    begin(x);
    equal("entries", rig_lane(x->rig, 0)->n, whole(x, 2 + x->c.layer));
  }
  x->c.layer = was;
}

static const kv_lane *lane_of(const run *x, int which) {
  if (which >= rig_lanes(x->rig)) fail_msg("there is no lane %d", which);
  return rig_lane(x->rig, which);
}

static void holds(run *x, int which, int from) {
  lane_of(x, which);
  rig_holds(x->rig, which, ids(x, from));
}

static void sees(run *x, int which, int from) {
  rig_saw(x->rig, which, ids(x, from));
}

static void count(run *x, int which, int from) {
  equal("entries", lane_of(x, which)->n, whole(x, from));
}

static void lanes(run *x, int which, int from) {
  (void)which;
  equal("lanes", rig_lanes(x->rig), whole(x, from));
}

static void attends(run *x, int which, int from) {
  equal("entries attended", rig_view(x->rig, which)->entries, whole(x, from));
}

static void out(run *x, int which, int from) {
  close_to(x, from, "output", x->c.d_v, of_floats, rig_out(x->rig, which));
}

static void column(run *x, int which, int from) {
  const kv_lane *l = lane_of(x, which);
  bool fixed = l->needs->column[0] == KV_INT64;
  close_to(x, from, "number of entry", l->n, fixed ? of_fixed : of_floats,
           l->column[0].i);
}

static void key(run *x, int which, int from) { /* key ENTRY X.. */
  float is[MOST];
  kv_lane_key(lane_of(x, which), whole(x, from), is);
  close_to(x, from + 1, "key element", x->c.d, of_floats, is);
}

static void value(run *x, int which, int from) { /* value ENTRY X.. */
  float is[MOST];
  kv_lane_value(lane_of(x, which), whole(x, from), is);
  close_to(x, from + 1, "value element", x->c.d_v, of_floats, is);
}

static void weights(run *x, int which, int from) {
  const kv_lane *l = lane_of(x, which);
  equal("entries", l->n, x->words - from);
  for (int i = 0; i < l->n; i++)
    equal("weight", l->weight[i], whole(x, from + i));
}

/* Fails unless is(lane, entry) holds of exactly the tokens that follow. */
static void exactly(run *x, const kv_lane *l, int from, int of,
                    bool is(const kv_lane *, int, int)) {
  const int *want = ids(x, from);
  char got[4096] = "";
  bool same = true;
  for (int i = 0; i < l->n; i++) {
    size_t end = strlen(got);
    if (!is(l, i, of)) continue;
    same = same && *want >= 0 && (uint32_t)*want == l->id[i];
    want += *want >= 0;
    snprintf(got + end, sizeof got - end, " %u", l->id[i]);
  }
  if (!same || *want >= 0) fail_msg("they are%s", got);
}

/* raw, merged, or the number of a coding. */
static int format(const char *word) {
  if (!strcmp(word, "raw")) return KV_RAW;
  return strcmp(word, "merged") ? KV_CODED + (int)number(word) : KV_MERGED;
}

static bool k_is(const kv_lane *l, int i, int of) {
  return (l->k ? (int)l->k[i].format : KV_RAW) == of;
}
static bool v_is(const kv_lane *l, int i, int of) {
  return (l->v ? (int)l->v[i].format : KV_RAW) == of;
}
static bool class_is(const kv_lane *l, int i, int of) {
  return kv_class_of(l, i) == of;
}

static void keys_in(run *x, int which, int from) {
  exactly(x, lane_of(x, which), from + 1, format(x->word[from]), k_is);
}
static void values_in(run *x, int which, int from) {
  exactly(x, lane_of(x, which), from + 1, format(x->word[from]), v_is);
}
static void class_has(run *x, int which, int from) {
  exactly(x, lane_of(x, which), from + 1, whole(x, from), class_is);
}

/* bytes NAME N ..: of the lane's ledger, as kv_bytes names them. */
static void bytes(run *x, int which, int from) {
  kv_bytes b = {0};
  kv_lane_bytes(lane_of(x, which), &b);
  const named_number of[] = {{"total", kv_bytes_total(&b)},
                             {"payload", b.payload},
                             {"metadata", b.metadata},
                             {"columns", b.columns},
                             {"side", b.side},
                             {"slack", b.slack},
                             {"class_0", b.tier_0},
                             {"class_1", b.tier_1},
                             {"scanned", kv_lane_scanned(lane_of(x, which))},
                             {NULL, 0}};
  are(x, from, of);
}

/* reads BYTES MADE FETCHED: what the step reads, all lanes together, of this
 * the rows made of latent vectors, and what comes from the host. */
static void reads(run *x, int which, int from) {
  uint8_t *mark = calloc(1, kv_cost_mark_size(rig_lane(x->rig, 0)->shape));
  kv_cost_row sum = {0};
  (void)which;
  for (int g = 0; g < rig_lanes(x->rig); g++) {
    kv_seen seen = {
        .lane = rig_lane(x->rig, g), .queries = 1, .view = rig_view(x->rig, g)};
    kv_cost_row row = kv_cost_view(&seen, mark);
    sum.bytes += row.bytes;
    sum.materialised += row.materialised;
    sum.fetched += row.fetched;
  }
  free(mark);
  equal("bytes read", sum.bytes, whole(x, from));
  equal("bytes made", sum.materialised, whole(x, from + 1));
  equal("bytes fetched", sum.fetched, whole(x, from + 2));
}

static void shares(run *x, int which, int from) {
  double p[8];
  equal("shares", x->words - from, 8);
  for (int t = 0; t < 8; t++) p[t] = number(x->word[from + t]);
  rig_shares(x->rig, which, p);
}

static const struct {
  const char *word;
  int most; /* words behind it, 0: any */
  void (*look)(run *, int which, int from);
} look[] = {
    {"holds", 0, holds},         {"sees", 0, sees},       {"count", 1, count},
    {"attends", 1, attends},     {"shares", 0, shares},   {"out", 0, out},
    {"column", 0, column},       {"key", 0, key},         {"value", 0, value},
    {"weights", 0, weights},     {"keys-in", 0, keys_in}, {"bytes", 0, bytes},
    {"class", 0, class_has},     {"lanes", 1, lanes},     {"reads", 3, reads},
    {"values-in", 0, values_in}, {NULL, 0, NULL}};

/* STEP [lane N | head N] WORD .. */
static void at_step(run *x) {
  int step = whole(x, 0), from = 1, which = 0, i = 0;
  if (!x->rig) fail_msg("no `run` before it");
  if (x->words > 3 &&
      (!strcmp(x->word[1], "lane") || !strcmp(x->word[1], "head"))) {
    which = whole(x, 2);
    from = 3;
  }
  if (x->above) rig_to(x->above, step);
  rig_to(x->rig, step);
  if (from == x->words) fail_msg("a word is missing");
  while (look[i].word && strcmp(look[i].word, x->word[from])) i++;
  if (!look[i].word || (look[i].most && x->words > from + 1 + look[i].most))
    fail_msg("no such line, or a word too many");
  look[i].look(x, which, from + 1);
}

/* --- laws ---------------------------------------------------------------- */

/* sound SPEC [at-most N [every M] | grown N] */
static void sound(run *x) {
  const char *spec = spec_of(x, 0);
  const rig_case *c = as_read(x, spec);
  bool grown = x->words > 2 && !strcmp(x->word[2], "grown");
  int of[2] = {x->words > 2 ? whole(x, 3) : 0, x->words > 4 ? whole(x, 5) : 0};
  if (x->words > 2 && !grown && strcmp(x->word[2], "at-most"))
    fail_msg("neither at-most nor grown");
  rig_law(c, spec,
          x->words > 4   ? rig_each
          : grown        ? rig_grown
          : x->words > 2 ? rig_at_most
                         : NULL,
          of);
}

static void dense(run *x) {
  const char *spec = spec_of(x, 0);
  rig_law_dense(as_read(x, spec), spec);
}

/* same A B: journal, output and state; as A B: journal and output; decides-as A
 * B: the journal alone; unlike A B: another journal. */
static void alike(run *x) {
  const char *one = spec_of(x, 0), *other = spec_of(x, 1);
  kv_layer_digests a = rig_replay(as_read(x, one), one);
  kv_layer_digests b = rig_replay(as_read(x, other), other);
  bool journal = rig_same(&a.journal, &b.journal);
  bool output = rig_same(&a.output, &b.output);
  bool state = rig_same(&a.state, &b.state);
  bool good = !strcmp(x->word[0], "same")     ? journal && output && state
              : !strcmp(x->word[0], "as")     ? journal && output
              : !strcmp(x->word[0], "unlike") ? !journal
                                              : journal && !output;
  if (!good)
    fail_msg("journals are %s, outputs %s, what is stored %s",
             journal ? "equal" : "unequal", output ? "equal" : "unequal",
             state ? "equal" : "unequal");
}

/* What the case's layer decides below layer 0, step by step. */
static kv_layer_digests digests_below(run *x, const char *spec) {
  rig_case top = *as_read(x, spec);
  top.layer = 0;
  rig *above = rig_open(&top, spec), *r = rig_below(&x->c, spec, above);
  for (int step = top.prompt_len; step <= top.n_tokens; step++) {
    rig_to(above, step);
    rig_to(r, step);
  }
  kv_layer_digests d = rig_digests(r);
  rig_close(r);
  rig_close(above);
  return d;
}

static void below_as(run *x) { /* below-as A B: outputs */
  kv_layer_digests a = digests_below(x, spec_of(x, 0));
  kv_layer_digests b = digests_below(x, spec_of(x, 1));
  bool same = rig_same(&a.output, &b.output);
  if (same != !strcmp(x->word[0], "below-as"))
    fail_msg("the outputs are %s", same ? "equal" : "unequal");
}

static void refused(run *x) { /* refused SPEC "word" "other" */
  const char *spec = spec_of(x, 0);
  rig_law_refused(as_read(x, spec), spec,
                  strcmp(x->word[0], "usage") ? KV_REFUSED : KV_USAGE,
                  x->word[2], x->word[3]);
}

static void fails(run *x) { /* fails SPEC "sentence" */
  const char *spec = spec_of(x, 0);
  rig_fails(as_read(x, spec), spec, x->word[2]);
}

/* needs SPEC NAME N ..: fields of kv_needs. */
static void needs(run *x) {
  const char *spec = spec_of(x, 0);
  kv_needs n = rig_needs(as_read(x, spec), spec);
  const named_number of[] = {{"prompt_rows", n.prompt_rows},
                             {"every", n.every},
                             {"phase", n.phase},
                             {"want", n.want},
                             {"meta_0", (int64_t)n.meta[0].bytes},
                             {"meta_1", (int64_t)n.meta[1].bytes},
                             {"meta_2", (int64_t)n.meta[2].bytes},
                             {"merges", n.merges},
                             {"message", (int64_t)n.message},
                             {"reindex", n.reindex},
                             {"rope", n.rope},
                             {"ahead", n.ahead},
                             {"lengths", n.lengths},
                             {NULL, 0}};
  are(x, 2, of);
}

/* --- cases --------------------------------------------------------------- */

typedef struct line {
  const char *word;
  int least, most; /* words of the line; most 0: any */
  void (*run)(run *);
} line;

static const line given[] = {{"request", 3, 8, request},
                             {"seed", 2, 2, seed},
                             {"prompt", 2, 2, prompt},
                             {"method", 2, 2, prefix},
                             {"layers", 2, 2, layers},
                             {"layer", 2, 2, layer},
                             {"scale", 2, 2, scale},
                             {"half", 1, 1, half},
                             {"queries", 2, 0, queries},
                             {"turns", 2, 0, turns},
                             {"biases", 2, 0, biases},
                             {"keys", 2, 0, keys},
                             {"values", 2, 0, values},
                             {"tensor", 5, 0, tensor},
                             {"file", 5, 0, file},
                             {"element", 4, 4, element},
                             {"dim", 4, 4, dim},
                             {"scores", 5, 0, scores},
                             {"meta", 3, 3, meta_of_file},
                             {"no-file", 1, 1, no_file},
                             {"value-of", 4, 0, value_of},
                             {"run", 2, 2, begin},
                             {"below", 2, 2, below},
                             {"scores-version", 2, 2, scores_version},
                             {"scores-of-another", 1, 1, scores_of_another},
                             {NULL, 0, 0, NULL}};
static const line checks[] = {{"keeps", 2, 0, keeps},
                              {"counts", 3, 0, counts},
                              {"sound", 2, 6, sound},
                              {"dense", 2, 2, dense},
                              {"same", 3, 3, alike},
                              {"unlike", 3, 3, alike},
                              {"as", 3, 3, alike},
                              {"decides-as", 3, 3, alike},
                              {"below-as", 3, 3, below_as},
                              {"below-unlike", 3, 3, below_as},
                              {"refused", 4, 4, refused},
                              {"usage", 4, 4, refused},
                              {"fails", 3, 3, fails},
                              {"needs", 4, 0, needs},
                              {NULL, 0, 0, NULL}};

/* Carries out the line in hand, if the table has it. */
static bool found(const line *in, run *x) {
  while (in->word && strcmp(in->word, x->word[0])) in++;
  if (!in->word) return false;
  if (x->words < in->least || (in->most && x->words > in->most))
    fail_msg("a word is missing, or one too many");
  in->run(x);
  return true;
}

static void carry_out(run *x) {
  split(x);
  if (!x->words || found(given, x)) return;
  x->checks++;
  if (*x->word[0] >= '0' && *x->word[0] <= '9')
    at_step(x);
  else if (!found(checks, x))
    fail_msg("no line begins with '%s'", x->word[0]);
}

static void one_case(void **state) {
  run *x = *state;
  int first = x->first, end = x->end;
  x->end = x->file->before;
  for (x->at = 0; x->at < x->end; x->at++) carry_out(x);
  x->end = end;
  x->checks = 0;
  for (x->at = first; x->at < end; x->at++) carry_out(x);
  x->at = first - 1;
  if (!x->checks) fail_msg("the case checks nothing");
  x->done = true;
}

/* cmocka calls it after a failure, too, which has said what was got. */
static int after(void **state) {
  run *x = *state;
  if (!x->done)
    print_error("%s:%d: %s\n", x->file->path, x->at + 1, x->file->line[x->at]);
  else
    shut(x);
  for (int i = 0; i < x->owned; i++) free(x->own[i]);
  return 0;
}

static bool read_file(const char *name, cases *f) {
  const char *top = getenv("top_srcdir");
  char path[1024];
  snprintf(f->path, sizeof f->path, "tests/methods/%s.txt", name);
  snprintf(path, sizeof path, "%s/%s", top ? top : ".", f->path);
  FILE *in = fopen(path, "r");
  if (in) f->text[fread(f->text, 1, sizeof f->text - 1, in)] = 0, fclose(in);
  for (char *p = f->text; *p && f->lines <= LINES;) {
    f->line[f->lines++] = p;
    p += strcspn(p, "\n");
    if (*p) *p++ = 0;
  }
  if (!f->lines || f->lines > LINES)
    print_error("%s: missing, empty or too long\n", f->path);
  return f->lines && f->lines <= LINES;
}

int rig_cases(const char *name) {
  static cases f;
  static run all[CASES];
  struct CMUnitTest test[CASES];
  int n = 0;
  memset(&f, 0, sizeof f);
  memset(all, 0, sizeof all);
  if (!read_file(name, &f)) return 1;
  for (int i = 0; i < f.lines; i++) {
    if (strncmp(f.line[i], "case ", 5) != 0) continue;
    assert_true(n < CASES);
    run *x = &all[n];
    *(n ? &all[n - 1].end : &f.before) = i;
    snprintf(x->name, sizeof x->name, "%s: %s", name, f.line[i] + 5);
    x->file = &f;
    x->first = i + 1;
    x->end = f.lines;
    test[n++] = (struct CMUnitTest){x->name, one_case, NULL, after, x};
  }
  return n ? _cmocka_run_group_tests(name, test, (size_t)n, NULL, NULL) : 1;
}
