/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of capacity: sim/capacity/rows.h.
 */
#include "sim/capacity/rows.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "sim/text/json.h"
#include "traces/text/text.h"

/* --- numbers -------------------------------------------------------------- */

/* Products of logits and of values in a decode step of one user. */
static double macs_of(const kv_lengths *ask, const kv_stored *x) {
  const kv_shape *s = &ask->model->shape;
  return x->attended * s->n_heads * (s->d + s->d_v) * ask->model->n_layers;
}

/* Users that decode together. */
static int64_t decoding(const kv_node *n, const kv_capacity_at *a) {
  return n->decode ? n->decode : a->users;
}

void kv_capacity_take(const kv_node *node, const kv_lengths *ask,
                      const kv_stored *x, kv_capacity_at *out) {
  double share = (double)x->fullest / (double)x->of;
  *out = (kv_capacity_at){.stored = *x};
  out->users = kv_node_users(node, &x->all, x->fullest, x->of);
  out->codes_users = kv_node_users(node, &x->codes, x->fullest, x->of);
  out->speed = kv_node_speed(node, decoding(node, out), x->read,
                             macs_of(ask, x), share, &out->binds);
}

void kv_capacity_spread(const kv_node *node, const kv_lengths *ask, int n,
                        const kv_stored *stored, kv_capacity_row *out) {
  assert(n >= 1 && "something was measured");
  out->traces = n;
  kv_capacity_take(node, ask, &stored[(n - 1) / 2], &out->at);
  kv_capacity_take(node, ask, &stored[(n + 9) / 10 - 1], &out->low);
  kv_capacity_take(node, ask, &stored[(9 * n + 9) / 10 - 1], &out->high);
}

/* --- for people ----------------------------------------------------------- */

enum { COLUMNS = 10, CELL = 64 };

static const char *const titles[COLUMNS] = {
    "method", "budget",    "GB a user", "in prefill", "users",
    "codes",  "GB a step", "tokens/s",  "binds",      "from"};

static void count(int64_t a, int64_t low, int64_t high, char out[CELL]) {
  int n = snprintf(out, CELL, "%" PRId64, a);
  if (low != high)
    snprintf(out + n, (size_t)(CELL - n), " [%" PRId64 ", %" PRId64 "]", low,
             high);
}

static void number(double x, const char *form, char out[CELL]) {
  if (isnan(x))
    snprintf(out, CELL, "-");
  else
    snprintf(out, CELL, form, x); /* NOLINT: the caller's */
}

static void cells(const kv_capacity_row *r, char cell[COLUMNS][CELL]) {
  const kv_capacity_at *a = &r->at, *low = r->traces ? &r->high : a;
  const kv_capacity_at *high = r->traces ? &r->low : a;
  snprintf(cell[0], CELL, "%s", r->method);
  snprintf(cell[1], CELL, "%s", *r->budget ? r->budget : "-");
  for (int i = 2; i < COLUMNS; i++) snprintf(cell[i], CELL, "-");
  if (*r->why) return;
  number(1e-9 * (double)a->stored.all.steady, "%.3f", cell[2]);
  number(1e-9 * (double)a->stored.all.peak, "%.3f", cell[3]);
  count(a->users, low->users, high->users, cell[4]);
  count(a->codes_users, low->codes_users, high->codes_users, cell[5]);
  number(1e-9 * a->stored.read, "%.3f", cell[6]);
  number(a->speed, "%.0f", cell[7]);
  snprintf(cell[8], CELL, "%s", kv_binds_names[a->binds]);
  if (r->traces)
    snprintf(cell[9], CELL, "%d traces", r->traces);
  else if (r->reads)
    snprintf(cell[9], CELL, "lengths, reads of %d traces", r->reads);
  else
    snprintf(cell[9], CELL, "lengths");
}

static void print_head(const kv_node *n, const kv_lengths *ask) {
  char a[KV_SHOW];
  printf("%s, %d + %d tokens, on %d x %s (%.1f GB each), tp %d\n"
         "weights %.1f GB; %d %% of a device's memory leaves %.2f GB for "
         "caches\n\n",
         kv_show(ask->model->name, a), ask->context, ask->output, n->gpus,
         n->gpu->name, 1e-9 * (double)n->gpu->bytes, n->tp,
         1e-9 * (double)n->weights, n->percent, 1e-9 * (double)kv_node_room(n));
}

static void widen(int width[COLUMNS], char cell[COLUMNS][CELL]) {
  for (int i = 0; i < COLUMNS; i++) {
    int n = (int)strlen(cell[i]);
    if (n > width[i]) width[i] = n;
  }
}

static void print_line(const int width[COLUMNS], char cell[COLUMNS][CELL],
                       const char *why) {
  for (int i = 0; i < COLUMNS && !(*why && i == 2); i++) {
    bool left = i < 2 || i > 7;
    if (i) fputs("  ", stdout);
    if (i == COLUMNS - 1)
      fputs(cell[i], stdout);
    else
      printf(left ? "%-*s" : "%*s", width[i], cell[i]);
  }
  if (*why) printf("  %s", why);
  putchar('\n');
}

static void print_table(const kv_node *node, const kv_lengths *ask, int n,
                        const kv_capacity_row *row) {
  char cell[COLUMNS][CELL];
  int width[COLUMNS] = {0};
  print_head(node, ask);
  for (int i = 0; i < COLUMNS; i++) snprintf(cell[i], CELL, "%s", titles[i]);
  widen(width, cell);
  for (int i = 0; i < n; i++) {
    cells(&row[i], cell);
    widen(width, cell);
  }
  for (int i = 0; i < COLUMNS; i++) snprintf(cell[i], CELL, "%s", titles[i]);
  print_line(width, cell, "");
  for (int i = 0; i < n; i++) {
    cells(&row[i], cell);
    print_line(width, cell, row[i].why);
  }
}

/* --- for programs --------------------------------------------------------- */

/* Bytes of the tables that name one user's pages in LeanKV's unified pages: an
 * entry of 32 bits for each page that all tokens of a lane need in its high
 * tier, K8V4, as a lane's low pages are entered from the table's other end. 0:
 * vectors of this length have no page. */
static int64_t page_tables(const kv_lengths *ask) {
  const kv_shape *s = &ask->model->shape;
  const kv_page_config high = {{8, 4}, {1, 1}};
  kv_page_token token = kv_page_token_of(s->d, s->d_v, &high);
  int64_t page = kv_page_bytes(s->d, s->d_v);
  if (page == 0) return 0;
  int32_t tokens[KV_TIERS] = {kv_page_map_of(page, &token).tokens, 0};
  int64_t entries = kv_pages_table(KV_PAGES_PAPER, ask->context + ask->output,
                                   tokens, tokens[KV_HIGH]);
  return 4 * entries * ask->model->n_layers * s->n_kv_heads;
}

/* The numbers of one of low, at and high, with a word before each name. */
static void put_at(kv_json *j, const kv_node *n, const char *key,
                   const kv_capacity_at *a) {
  kv_json_open(j, key, '{');
  kv_json_integer(j, "bytes", a->stored.all.steady);
  kv_json_integer(j, "bytes_prefill", a->stored.all.peak);
  kv_json_integer(j, "codes", a->stored.codes.steady);
  kv_json_real(j, "fullest_rank",
               (double)a->stored.fullest / (double)a->stored.of);
  kv_json_integer(j, "users", a->users);
  kv_json_integer(j, "codes_users", a->codes_users);
  kv_json_real(j, "read", a->stored.read);
  kv_json_integer(j, "decoding", decoding(n, a));
  kv_json_real(j, "tokens_per_s", a->speed);
  kv_json_text(j, "binds", kv_binds_names[a->binds]);
  kv_json_close(j, '}');
}

static void put_node(kv_json *j, const kv_node *n, const kv_lengths *ask) {
  kv_json_text(j, "model", ask->model->name);
  kv_json_integer(j, "context", ask->context);
  kv_json_integer(j, "output", ask->output);
  kv_json_text(j, "gpu", n->gpu->name);
  kv_json_integer(j, "gpus", n->gpus);
  kv_json_integer(j, "tp", n->tp);
  kv_json_integer(j, "weights", n->weights);
  kv_json_integer(j, "room", kv_node_room(n));
  kv_json_integer(j, "page_tables", page_tables(ask));
}

static void print_json(const kv_node *node, const kv_lengths *ask, int n,
                       const kv_capacity_row *row) {
  kv_json j = {stdout, false};
  kv_json_open(&j, NULL, '[');
  for (int i = 0; i < n; i++) {
    const kv_capacity_row *r = &row[i];
    fputs(i ? ",\n" : "\n", stdout);
    j.comma = false;
    kv_json_open(&j, NULL, '{');
    put_node(&j, node, ask);
    kv_json_text(&j, "method", r->method);
    kv_json_text_or_null(&j, "budget", r->budget);
    kv_json_text_or_null(&j, "why", r->why);
    kv_json_integer(&j, "traces", r->traces);
    kv_json_integer(&j, "reads", r->reads);
    if (!*r->why) put_at(&j, node, "at", &r->at);
    if (!*r->why && r->traces) put_at(&j, node, "p10", &r->low);
    if (!*r->why && r->traces) put_at(&j, node, "p90", &r->high);
    kv_json_close(&j, '}');
  }
  fputs("\n]\n", stdout);
}

/* A text of which no character needs more than quotes. */
static void quote(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  putchar('"');
}

static void real(double x) {
  putchar(',');
  if (!isnan(x)) printf("%.17g", x);
}

static void print_csv(const kv_node *node, const kv_lengths *ask, int n,
                      const kv_capacity_row *row) {
  puts("model,context,output,gpu,gpus,tp,weights,method,budget,traces,bytes,"
       "bytes_prefill,codes,users,users_p10,users_p90,codes_users,read,"
       "decoding,tokens_per_s,binds,page_tables,why");
  const int64_t tables = page_tables(ask);
  for (int i = 0; i < n; i++) {
    const kv_capacity_row *r = &row[i];
    const kv_capacity_at *a = &r->at;
    quote(ask->model->name);
    printf(",%d,%d,%s,%d,%d,%" PRId64 ",", ask->context, ask->output,
           node->gpu->name, node->gpus, node->tp, node->weights);
    quote(r->method);
    putchar(',');
    quote(r->budget);
    if (*r->why) {
      printf(",,,,,,,,,,,,,%" PRId64 ",", tables);
      quote(r->why);
      putchar('\n');
      continue;
    }
    const kv_capacity_at *low = r->traces ? &r->high : a;
    const kv_capacity_at *high = r->traces ? &r->low : a;
    printf(",%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
           ",%" PRId64 ",%" PRId64,
           r->traces, a->stored.all.steady, a->stored.all.peak,
           a->stored.codes.steady, a->users, low->users, high->users,
           a->codes_users);
    real(a->stored.read);
    printf(",%" PRId64, decoding(node, a));
    real(a->speed);
    printf(",%s,%" PRId64 ",\n", kv_binds_names[a->binds], tables);
  }
}

void kv_capacity_print(kv_capacity_format format, const kv_node *node,
                       const kv_lengths *ask, int n,
                       const kv_capacity_row *row) {
  if (format == KV_CAPACITY_JSON)
    print_json(node, ask, n, row);
  else if (format == KV_CAPACITY_CSV)
    print_csv(node, ask, n, row);
  else
    print_table(node, ask, n, row);
}
