/* SPDX-License-Identifier: Apache-2.0
 *
 * Two databases side by side: a row per method and budget, over the traces on
 * which both have a result, so that no difference comes from the traces; and
 * what only one of them has.
 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#define TABLE                                                                  \
  "CREATE TEMP TABLE both(side INTEGER, method TEXT, identity TEXT,"           \
  " request TEXT, prompt TEXT, observe TEXT, basis TEXT, asked TEXT, kr REAL," \
  " needle REAL, lse REAL, kl REAL, error REAL)"
#define PUT "INSERT INTO both VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
/* The largest difference first, by needle or, without it, KL. */
#define PAIRS                                                                  \
  "SELECT method, asked, count(*) AS traces, avg(kr_a) AS kr_a, avg(kr_b) AS"  \
  " kr_b, avg(needle_a) AS needle_a, avg(needle_b) AS needle_b, avg(needle_b"  \
  " - needle_a) AS needle_d, avg(lse_a) AS lse_a, avg(lse_b) AS lse_b,"        \
  " avg(kl_a) AS kl_a, avg(kl_b) AS kl_b, avg(kl_b - kl_a) AS kl_d,"           \
  " avg(error_a) AS error_a, avg(error_b) AS error_b FROM (SELECT method,"     \
  " basis, asked, avg(a.kr) AS kr_a, avg(b.kr) AS kr_b, avg(a.needle) AS"      \
  " needle_a, avg(b.needle) AS needle_b, avg(a.lse) AS lse_a, avg(b.lse) AS"   \
  " lse_b, avg(a.kl) AS kl_a, avg(b.kl) AS kl_b, avg(a.error) AS error_a,"     \
  " avg(b.error) AS error_b FROM both a JOIN both b USING (method, identity,"  \
  " prompt, observe, basis, asked) WHERE a.side = 0 AND b.side = 1 AND"        \
  " a.error IS NOT NULL AND b.error IS NOT NULL GROUP BY method, basis,"       \
  " asked, a.request, prompt, observe) GROUP BY method, basis, asked"          \
  " ORDER BY abs(coalesce(needle_d, kl_d)) DESC, method, basis, asked"
#define ALONE                                                                  \
  "SELECT min(side) AS side, group_concat(method || iif(asked = '', '',"       \
  " ' at ' || asked), ', ') AS what FROM (SELECT method, basis, asked,"        \
  " min(side) AS side FROM both GROUP BY method, basis, asked HAVING"          \
  " min(side) = max(side) ORDER BY method, basis, asked) GROUP BY side"

static int put_row(const kv_page *p, int r, int side, sqlite3_stmt *s) {
  static const char *const text[] = {"identity", "request", "prompt_len",
                                     "observe",  "basis",   "asked"};
  static const char *const number[] = {"kr", "needle_share", "lse_error", "kl",
                                       "output_error"};
  sqlite3_bind_int(s, 1, side);
  sqlite3_bind_text(s, 2, p->variants.label[p->variants.of[r]], -1,
                    SQLITE_STATIC);
  for (int i = 0; i < 6; i++)
    sqlite3_bind_text(s, 3 + i, kv_grid_text(&p->cell, r, text[i]), -1,
                      SQLITE_STATIC);
  for (int i = 0; i < 5; i++)
    sqlite3_bind_double(s, 9 + i, kv_grid_number(&p->cell, r, number[i]));
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  return step == SQLITE_DONE ? end : step;
}

static int put_all(const kv_page *p, const kv_page *other) {
  sqlite3_stmt *s = NULL;
  int bad = sqlite3_exec(p->db, TABLE, NULL, NULL, NULL);
  if (!bad) bad = sqlite3_prepare_v2(p->db, PUT, -1, &s, NULL);
  for (int side = 0; side < 2; side++) {
    const kv_page *q = side ? other : p;
    for (int r = 0; r < q->cell.rows && !bad; r++) bad = put_row(q, r, side, s);
  }
  sqlite3_finalize(s);
  return bad ? kv_results_fail(p->db, p->path) : 0;
}

static int write_pairs(const kv_page *p) {
  static const char columns[] =
      "method=method:line; asked; traces; kr_a=stored, A:percent; "
      "kr_b=B:percent; needle_a=needle, A; needle_b=B; needle_d=B less A; "
      "kl_a=KL, A; kl_b=B; kl_d=B less A; lse_a=LSE error, A; lse_b=B; "
      "error_a=output error, A; error_b=B";
  kv_grid g;
  int rc = kv_grid_ask(p->db, PAIRS, 0, NULL, &g);
  if (rc) return rc;
  fputs("<figure>", p->f);
  if (g.rows)
    kv_page_table(p, &g, "A and B by method and budget", columns);
  else
    fputs("<p>The two have no method at one budget on one trace in common.</p>",
          p->f);
  kv_page_caption(
      p,
      "A and B: the databases above. Means over the traces on which both have "
      "a result, largest difference in needle first, or else in KL.",
      "beside", &g);
  fputs("</figure>\n", p->f);
  kv_grid_free(&g);
  return rc;
}

static int write_alone(const kv_page *p) {
  kv_grid g;
  int rc = kv_grid_ask(p->db, ALONE, 0, NULL, &g);
  for (int r = 0; !rc && r < g.rows; r++) {
    fprintf(p->f, "<details><summary>Only in %s</summary><p>",
            kv_grid_number(&g, r, "side") > 0 ? "B" : "A");
    kv_text_html(kv_grid_text(&g, r, "what"), p->f);
    fputs("</p></details>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

static int write_beside(const kv_page *p, const kv_figure *f) {
  (void)f;
  if (!p->cell.rows && !p->beside->cell.rows) return KV_EXIT_OK;
  int rc = put_all(p, p->beside);
  if (!rc) rc = write_pairs(p);
  return rc ? rc : write_alone(p);
}

const kv_figure kv_figures_beside[] = {
    {"beside", "A and B side by side", .write = write_beside}, {.id = NULL}};
