/* SPDX-License-Identifier: Apache-2.0
 *
 * The page's tables: the cross-check, every cell, who computed.
 */
#include "analysis/page/panels.h"

static void conflicts(const kv_page *p, const kv_grid *g) {
  static const kv_column column[] = {{"spec", "cell", KV_LONG},
                                     {"trace", "trace", KV_PLAIN},
                                     {"what", "difference", KV_LONG},
                                     {"layer", "layer", KV_PLAIN},
                                     {"backend", "backend", KV_PLAIN},
                                     {"isa", "kernels", KV_PLAIN},
                                     {"threads", "threads", KV_PLAIN},
                                     {"cpu", "processor", KV_PLAIN},
                                     {NULL, NULL, KV_PLAIN}};
  if (!g->rows) {
    fputs("<p><span class=\"yes\">No contradiction:</span> whatever was "
          "computed more than once gave the same digests and the same "
          "numbers.</p>\n",
          p->f);
    return;
  }
  fputs("<p><span class=\"no\">", p->f);
  kv_page_count(p->f, g->rows, "contradiction");
  fputs(".</span> One of two results is wrong; until it is known which, "
        "believe neither.</p>\n",
        p->f);
  kv_page_table(p, g, "Contradictions", column);
}

/* Nothing where no kernel of others was found wrong. */
static int graded(const kv_page *p) {
  static const kv_column column[] = {{"theirs", "kernel", KV_PLAIN},
                                     {"trace", "trace", KV_PLAIN},
                                     {"spec", "against", KV_LONG},
                                     {"layer", "layer", KV_PLAIN},
                                     {"what", "first wrong", KV_LONG},
                                     {"started", "graded", KV_PLAIN},
                                     {NULL, NULL, KV_PLAIN}};
  kv_grid g;
  int rc = kv_grid_ask(p->db, "SELECT * FROM graded", 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) kv_page_table(p, &g, "Kernels graded and found wrong", column);
  kv_grid_free(&g);
  return rc;
}

static int write_check(const kv_page *p, const kv_figure *f) {
  (void)f;
  static const kv_column column[] = {
      {"trace", "trace", KV_PLAIN},
      {"observe", "observe", KV_PLAIN},
      {"spec", "cell", KV_LONG},
      {"journal", "journal", KV_SHORT},
      {"state", "state", KV_SHORT},
      {"output", "output", KV_SHORT},
      {"confirmations", "runs", KV_PLAIN},
      {"by_whom", "backend, kernels, threads", KV_PLAIN},
      {"status", "checked", KV_MARK},
      {NULL, NULL, KV_PLAIN}};
  kv_grid g;
  int rc = kv_grid_ask(p->db, "SELECT * FROM conflict", 0, NULL, &g);
  if (rc) return rc;
  conflicts(p, &g);
  kv_grid_free(&g);
  rc = graded(p);
  if (rc) return rc;
  rc = kv_grid_ask(p->db, "SELECT * FROM crosscheck", 0, NULL, &g);
  if (rc) return rc;
  fputs("<figure>", p->f);
  if (g.rows <= KV_PAGE_MOST) kv_page_table(p, &g, "Cross-check", column);
  kv_page_caption(p,
                  "Digests of every decision (journal), of what is stored "
                  "(state) and of every output bit (output), first ten "
                  "digits. Confirmed: found equal by two runs that differ in "
                  "backend, kernel set or processor.",
                  "crosscheck", &g);
  fputs("</figure>\n", p->f);
  kv_grid_free(&g);
  return rc;
}

static int older(const kv_page *p) {
  kv_grid g;
  int rc = kv_grid_ask(p->db,
                       "SELECT count(*) AS n FROM aged JOIN ask USING (run_id) "
                       "WHERE age > 1",
                       0, NULL, &g);
  double n = rc ? 0 : kv_grid_number(&g, 0, "n");
  if (rc) return rc;
  if (n > 0)
    fprintf(p->f,
            "<p class=\"soft\">Not on this page: %.0f cells by superseded "
            "code. <code>kvreport table --history</code> lists them.</p>\n",
            n);
  kv_grid_free(&g);
  return rc;
}

static int write_cells(const kv_page *p, const kv_figure *f) {
  (void)f;
  static const kv_column column[] = {
      {"trace", "trace", KV_PLAIN},
      {"observe", "observe", KV_PLAIN},
      {"method", "method", KV_NAME},
      {"asked", "asked", KV_PLAIN},
      {"budget", "budget", KV_PLAIN},
      {"kept", "kept", KV_PLAIN},
      {"bytes_end", "stored at end", KV_BYTES},
      {"share_end", "of dense", KV_PERCENT},
      {"kr", "mean", KV_PERCENT},
      {"share_read", "read", KV_PERCENT},
      {"share_scanned", "scanned", KV_PERCENT},
      {"needle_share", "needle", KV_PLAIN},
      {"needle_share_se", "\u00b1", KV_TWICE},
      {"lse_error", "LSE error", KV_PLAIN},
      {"lse_error_se", "\u00b1", KV_TWICE},
      {"kl", "KL", KV_PLAIN},
      {"kl_se", "\u00b1", KV_TWICE},
      {"output_error", "error", KV_PLAIN},
      {"output_error_se", "\u00b1", KV_TWICE},
      {"output_error_p95", "error p95", KV_PLAIN},
      {"mass", "mass", KV_PLAIN},
      {"recall_16", "top-16", KV_PLAIN},
      {"prompt_error", "prompt error", KV_SOME},
      {"prompt_mass", "prompt mass", KV_SOME},
      {"asset_bytes", "file", KV_BYTES},
      {"status", "checked", KV_MARK},
      {"reason", "reason", KV_LONG},
      {NULL, NULL, KV_PLAIN}};
  fputs("<figure>", p->f);
  kv_page_table(p, &p->cell, "All cells", column);
  kv_page_caption(
      p,
      "Asked, stored at the end, mean over decode and read stand "
      "side by side because they differ: a share of the prompt "
      "is not a share of the cache at the end. Scanned: what a "
      "method looks at in order to choose what is read, as a share "
      "of what dense reads. Needle: mass on the needles as a share of what "
      "dense attention puts on them. LSE error: of the log-sum-exp of what is "
      "stored, KL: of the attention, error: of its output, in the order in "
      "which they were seen to rank right answers (the last does not). "
      "\u00b1: two standard errors of the mean, from the means of 16 bins of "
      "steps, of at least 5. Prompt error, prompt mass: of the rows of a "
      "prompt that was read "
      "in chunks. File: what a method was lent of a file of its own, once for "
      "all requests and no part of what is stored.",
      "cells", &p->cell);
  fputs("</figure>\n", p->f);
  return older(p);
}

/* The table of the view of the figure's name; nothing where it has no row. */
static int optional(const kv_page *p, const kv_figure *f,
                    const kv_column *column, const char *caption) {
  char sql[64];
  kv_grid g;
  snprintf(sql, sizeof sql, "SELECT * FROM %s", f->id);
  int rc = kv_grid_ask(p->db, sql, 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fputs("<figure>", p->f);
    kv_page_table(p, &g, f->title, column);
    kv_page_caption(p, caption, f->id, &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

static int write_layouts(const kv_page *p, const kv_figure *f) {
  static const kv_column column[] = {
      {"trace", "trace", KV_PLAIN},
      {"spec", "cell", KV_LONG},
      {"asked", "asked", KV_PLAIN},
      {"layout", "layout", KV_PLAIN},
      {"pages_end", "pages at end", KV_PLAIN},
      {"bytes_end", "held at end", KV_BYTES},
      {"share_end", "of dense's K and V", KV_PERCENT},
      {"bytes_mean", "mean", KV_BYTES},
      {"bytes_peak", "peak", KV_BYTES},
      {"slack_end", "slack", KV_BYTES},
      {"share_freed", "came free", KV_PERCENT},
      {"unused_end", "unused", KV_BYTES},
      {"moved", "moved", KV_PLAIN},
      {"table_entries", "table entries", KV_PLAIN},
      {"list_operations", "list operations", KV_PLAIN},
      {"loads", "loads", KV_PLAIN},
      {"rewrites", "rewrites", KV_PLAIN},
      {"moved_bytes", "bytes moved", KV_BYTES},
      {"mask_end", "masks", KV_BYTES},
      {"utilisation", "utilisation", KV_PERCENT},
      {"break_even", "paid after steps", KV_PLAIN},
      {"ranks", "ranks", KV_SOME},
      {"rank_bytes_mean", "fullest, mean", KV_SOME_BYTES},
      {"rank_even", "of an even share", KV_SOME_PERCENT},
      {"rank_loads", "fullest, loads", KV_SOME},
      {NULL, NULL, KV_PLAIN}};
  static const char caption[] =
      "Bytes of K and V in the memory that each layout holds. Slack: held, and "
      "no entry lies there. Came free: of the bytes that the method gave up, "
      "those in memory that is free again. Of unified pages: their bytes in "
      "which nothing lies, entries that changed their precision, entries of "
      "page tables, and page ids read from and written into the free list. Of "
      "base, ls, la, hs and ha: tokens that decode steps load, over all lanes; "
      "blocks after which some layer had other indices; what rewriting them "
      "moved, or the masks in its place; entries held as a share of as many in "
      "every lane as in the longest; and decode steps until a rewrite's "
      "memory-time integral was no more than that of masks. Ranks: of tensor "
      "parallelism, each with its share of the KV heads and a store of its own "
      "(tp=N); what the fullest of them holds on average, that over an Nth of "
      "all, and what it loads.";
  return optional(p, f, column, caption);
}

static int write_caches(const kv_page *p, const kv_figure *f) {
  static const kv_column column[] = {{"trace", "trace", KV_PLAIN},
                                     {"spec", "cell", KV_LONG},
                                     {"asked", "asked", KV_PLAIN},
                                     {"cache", "cache", KV_PLAIN},
                                     {"found", "found", KV_PERCENT},
                                     {"fetched", "fetched a step", KV_BYTES},
                                     {"share_fetched", "of all", KV_PERCENT},
                                     {"fetched_peak", "at most", KV_BYTES},
                                     {"held_peak", "held at most", KV_BYTES},
                                     {NULL, NULL, KV_PLAIN}};
  static const char caption[] =
      "What a cache on the device, of so many entries a lane, would save of "
      "the transfers from the host's memory (kvreplay run --cache). lru: those "
      "stay that were looked up last; lfu: at the most steps. Found: of the "
      "entries that decode steps look up; fetched: bytes of the others, of all "
      "layers, and as a share of what is fetched without a cache. Caches are "
      "empty when decoding begins.";
  return optional(p, f, column, caption);
}

static int write_prompts(const kv_page *p, const kv_figure *f) {
  static const kv_column column[] = {
      {"trace", "trace", KV_PLAIN},
      {"spec", "cell", KV_LONG},
      {"asked", "asked", KV_PLAIN},
      {"chunk", "chunk", KV_PLAIN},
      {"prompt_attended", "attended", KV_PERCENT},
      {"prompt_mass", "prompt mass", KV_PLAIN},
      {"prompt_error", "prompt error", KV_PLAIN},
      {"needle_share", "needle", KV_SOME},
      {"whole_needle_share", "needle, whole", KV_SOME},
      {"mass", "mass", KV_PLAIN},
      {"whole_mass", "mass, whole", KV_PLAIN},
      {"lse_error", "LSE error", KV_PLAIN},
      {"whole_lse_error", "LSE error, whole", KV_PLAIN},
      {"output_error", "error", KV_PLAIN},
      {"whole_output_error", "error, whole", KV_PLAIN},
      {"status", "checked", KV_MARK},
      {NULL, NULL, KV_PLAIN}};
  static const char caption[] =
      "What it costs to read a prompt in chunks (prefill=N), whose rows behind "
      "the first chunk attend by the method, as decode steps do. Attended: of "
      "the tokens before such a row, those it attends to; prompt mass: the "
      "attention that dense puts on them; prompt error: of the row's output. "
      "Then decoding after it and, whole, after the same prompt read whole, "
      "where no row of it loses any, by the same method asked alike; \u2013: "
      "that was not run.";
  return optional(p, f, column, caption);
}

static int write_classes(const kv_page *p, const kv_figure *f) {
  static const kv_column column[] = {{"trace", "trace", KV_PLAIN},
                                     {"spec", "cell", KV_LONG},
                                     {"asked", "asked", KV_PLAIN},
                                     {"class", "class", KV_PLAIN},
                                     {"bytes", "held at end", KV_BYTES},
                                     {"share", "of the cell", KV_PERCENT},
                                     {NULL, NULL, KV_PLAIN}};
  static const char caption[] =
      "What the entries of each class hold, where a method gives its entries "
      "classes (a residual, a tier): K and V, their metadata and columns.";
  return optional(p, f, column, caption);
}

static int write_machines(const kv_page *p, const kv_figure *f) {
  (void)f;
  static const kv_column column[] = {{"cpu", "processor", KV_PLAIN},
                                     {"cores", "cores", KV_PLAIN},
                                     {"os", "system", KV_PLAIN},
                                     {"version", "version", KV_PLAIN},
                                     {"commit_name", "commit", KV_PLAIN},
                                     {"compiler", "compiler", KV_LONG},
                                     {"flags", "flags", KV_LONG},
                                     {"rows", "results", KV_PLAIN},
                                     {NULL, NULL, KV_PLAIN}};
  kv_grid g;
  int rc = kv_grid_ask(
      p->db,
      "SELECT cpu, cores, os, version, commit_name, compiler, flags,"
      " count(*) AS rows FROM confirmations GROUP BY 1, 2, 3, 4, 5, 6, 7"
      " ORDER BY 1, 2, 3, 4, 5, 6, 7",
      0, NULL, &g);
  if (rc) return rc;
  kv_page_table(p, &g, "Who computed", column);
  kv_grid_free(&g);
  return rc;
}

const kv_figure kv_figures_tables[] = {
    {"check", "Cross-check", .write = write_check},
    {"cells", "All cells", .write = write_cells},
    {"prompts", "Prompts read in chunks", .write = write_prompts},
    {"layouts", "Memory layouts", .write = write_layouts},
    {"device_caches", "Caches on the device", .write = write_caches},
    {"classes", "Bytes by class", .write = write_classes},
    {"who", "Who computed", .write = write_machines},
    {.id = NULL}};
