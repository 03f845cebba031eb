/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: sim/commands/options_run.h.
 */
#include "sim/commands/options_run.h"

#include "sim/commands/commands.h"
#include "sim/commands/refusals.h"
#include <stdlib.h>
#include <string.h>

#define AT(member) .offset = offsetof(kv_run_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELLS("What to run"),
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|jsonl|csv",
     AT(format), .group = "What to print",
     .help = "rows on standard output as table (the default), json, jsonl or "
             "csv"},
    {KV_SLOT_FLAG, "wide", 0, AT(wide),
     .help = "every column of the table, not only six (the other formats "
             "always have them all)"},
    KV_OPTION_DB("keep rows in an SQLite database, and until a row is there "
                 "its layers; what this backend has there is not run again"),
    {KV_SLOT_TEXT, "selections", 0, "FILE", AT(selections),
     .use = KV_USE_CREATED,
     .help = "JSON lines of what each lane keeps (one cell only)"},
    {KV_SLOT_TEXT, "views", 0, "FILE", AT(views), .use = KV_USE_CREATED,
     .help = "JSON lines of what each query head attends (one cell only)"},
    {KV_SLOT_TEXT, "stored", 0, "FILE", AT(stored), .use = KV_USE_CREATED,
     .help = "safetensors of K and V after the last step (one cell only)"},
    {KV_SLOT_TEXT, "outputs", 0, "FILE", AT(outputs), .use = KV_USE_CREATED,
     .help = "safetensors of the attention output (one cell only)"},
    {KV_SLOT_TEXT, "decisions", 0, "DIR", AT(decisions), .use = KV_USE_FOLDER,
     .help = "a file for each cell of what it keeps and attends, called by "
             "trace, method, parameters and budget, for replay:file=FILE and "
             "for tools of your own"},
    {KV_SLOT_LIST, "layout", 'l', "LAYOUT,...",
     .choices = "slots|pages:16|pages:16:layer|pages:16:model|unified|"
                "unified:code|base|ls:sparse|ls:max|la:sparse|la:max|hs:sparse|"
                "hs:max|ha:sparse|ha:max",
     AT(layout_text),
     .help =
         "also account for memory layouts: slots (one a row), "
         "pages:N[:lane|layer|model] (pages of N tokens, with a table for "
         "each lane, layer, or the model), unified[:paper|code] (pages of "
         "two precisions, as LeanKV has them), or indices that one graph "
         "of kernels can use: base (one set of tokens for all lanes), ls, "
         "la (one a layer), hs, ha (one a lane), with :sparse (masks; of ls "
         "and la :masks=layer, one a layer) or :max (rewritten; with "
         ":masks=lane only where entries go), and :tp=N "
         "(the fullest of N ranks that share the KV heads)"},
    {KV_SLOT_FLAG, "together", 0, AT(together),
     .help = "the traces are requests that share one pool of unified pages, "
             "each method and budget by itself: who finds no page is refused"},
    {KV_SLOT_TEXT, "pool", 0, "BYTES", AT(pool_text),
     .help = "the pool of --together: 64MiB, 512KiB, 2GiB, or bytes"},
    {KV_SLOT_TEXT, "arrive", 0, "WHEN", AT(arrive_text),
     .help = "when requests of --together arrive (default: all at once): 100, "
             "one every 100 steps; poisson:100[:SEED], that on average; or a "
             "FILE with a JSON object a line, a request each: timestamp, and "
             "perhaps input_length and output_length"},
    {KV_SLOT_COUNT, "pace", 0, "N", .min = 1, .max = 1 << 30, AT(pace),
     .help = "a step takes N units of the file's timestamps (default: 1; of "
             "milliseconds perhaps 25)"},
    {KV_SLOT_FLAG, "wait", 0, AT(wait),
     .help = "requests of --together that find no page wait, first come first "
             "served, in place of leaving"},
    {KV_SLOT_CHOICE, "admit", 0, "WHAT", .choices = "room|peak",
     .min = KV_POOL_WAIT, AT(admit),
     .help = "as --wait, and who waits is let in where there is room for its "
             "next step (the default of --wait), or for the peak of all until "
             "their ends, so that nobody is put back"},
    {KV_SLOT_COUNT, "tp", 0, "N", .min = 2, .max = 1024, AT(beside.ranks),
     .help = "also deal the KV heads to N ranks that decide alone, as tensor "
             "parallelism does: how many lanes then decide otherwise, and how "
             "much more than the mean the fullest rank holds"},
    {KV_SLOT_COUNT, "chunk", 0, "N", .min = 1, .max = 1 << 24, AT(beside.chunk),
     .help = "also give the prompt in pieces of N tokens, as servers do, and "
             "compress after each: how many lanes then decide otherwise, and "
             "the most bytes held"},
    {KV_SLOT_LIST, "cache", 0, "CACHE,...", AT(cache_text),
     .help = "also account for caches on the device of what lies in the host's "
             "memory (tier=host): lru:N or lfu:N, N entries a lane; how many "
             "are found there, and the bytes a step of the others"},
    {KV_SLOT_FLAG, "tokens", 0, AT(tokens),
     .help = "also keep in the database when each token leaves each lane and "
             "how often it is shown, 8 bytes a token, layer, lane and cell: "
             "what kvreport draws which tokens survive from"},
    KV_OPTION_QUIET,
    KV_OPTION_THREADS,
    KV_OPTION_BACKEND(kv_run_options),
    {KV_SLOT_FLAG, "twice", 't', AT(twice),
     .help = "run again with the reference, portable kernels on one thread, "
             "and compare every digest"},
    {KV_SLOT_CHOICE, "walk", 'w', "ORDER", .choices = "layers|steps", AT(walk),
     .help = "layers (the default: one layer of the trace in memory at a "
             "time) or steps, which keeps nothing of a trace before its end; "
             "never changes a number"},
    {KV_SLOT_TEXT, "shard", 0, "I/N", AT(shard_text),
     .help = "run only shard I of N, 1/N to N/N: some of the cells, so chosen "
             "that all shards take about equally much processor time"},
    {KV_SLOT_COUNT, "shards", 0, "N", .min = 1, .max = KV_SHARDS_MOST,
     AT(shards),
     .help = "the same, for the process of a job: which shard it is stands in "
             "the environment, as Slurm and PBS arrays, MPI and Indexed jobs "
             "of Kubernetes set it"},
    {KV_SLOT_TEXT, "found", 0, "FILE", AT(found_path), .use = KV_USE_CREATED,
     .help = "also write the values that budgets in bytes came to, each "
             "searched for anew: as budgets.csv in the folder of the traces, "
             "or above it, later runs take them from there"},
    KV_OPTION_STRICT,
    {KV_SLOT_FLAG, "dry-run", 'n', AT(dry_run),
     .help = "open every cell, print what would run, with --shard at which "
             "predicted cost, run nothing"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay run chat.safetensors -m all -b 20%",
     "every method, at a fifth of the prompt"},
    {"kvreplay run *.safetensors -m h2o,snapkv -b 10%,20%,512 --db r.db",
     "a sweep, kept in a database; repeat it to resume"},
    {"kvreplay run chat.safetensors -m quest:page=8,kivi -b mean:25% --twice",
     "a quarter of dense's bytes, every digest confirmed"},
    {"kvreplay run chat.safetensors -m all -b 10% --backend cuda --db r.db",
     "on a GPU: what the database has by another backend is confirmed"},
    {"kvreplay run chat.safetensors -m h2o -b 64 --selections kept.jsonl",
     "what one cell keeps, line by line"},
    {"kvreplay run chat.safetensors -m h2o -b 10% --decisions kept",
     "what it decides, as a file that replay:file=... follows"},
    {"kvreplay run chat.safetensors -m h2o,random -b 20% --layout "
     "slots,pages:16",
     "what would come free in pages of sixteen tokens"},
    {"kvreplay run a.safetensors b.safetensors -m leankv,snapkv+k8v4 -b 20% "
     "--together --pool 64MiB --arrive 100",
     "two requests over one pool of pages, the second 100 steps later"},
    {"kvreplay run *.safetensors -m leankv --together --pool 64MiB --wait "
     "--arrive poisson:20",
     "requests that wait for room: how long, and how full the pool is"},
    {"kvreplay run chat.safetensors -m snapkv,adakv -b 20% --tp 2",
     "do two ranks that know their own heads decide the same?"},
    {"kvreplay run chat.safetensors -m snapkv,h2o -b 20% --chunk 512",
     "do they decide the same where the prompt comes in pieces?"},
    {"kvreplay run chat.safetensors -m omnikv --cache lru:64,lfu:64",
     "how often what a step attends is on the device still"},
    {"kvreplay run *.safetensors -m all -b 10%,20% --shard 2/4 --db r.%.db",
     "the second quarter of a sweep, in r.2-of-4.db"},
    {"kvreplay run *.safetensors -m all -b mean:20% -n --found budgets.csv",
     "only searches, so that later runs need not"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays recorded attention (queries, keys and values of every layer) "
    "through KV-cache compression methods and measures, per method and "
    "budget, what the attention lost and what the cache held. Traces, "
    "methods and budgets multiply: one cell each.",
    "The table: `tokens kept` by a lane (one KV head of one layer) after the "
    "last step, on average over lanes; `bytes held` on average over decode "
    "steps, counted by walking what is stored, metadata, scales and page "
    "bounds included, as a share of dense's; `on the answer`, the attention "
    "left on the tokens that answer the trace's question, as a share of "
    "dense's (no column where no trace has answers); `LSE error`, the "
    "log-sum-exp of the logits of what is stored less that of all, in nats; "
    "`output error`, the distance of the attention's output from dense's "
    "over the length of dense's. Of these measures what is left on the answer "
    "ranks a model's right answers best, and output error hardly does.",
    "With --wide also what was asked (`asked`) and the entries that it came "
    "to (`budget`), bytes at the end, on average and read a step (`end`, "
    "`mean`, `read`), bytes looked at a step in order to choose what is read "
    "(`scan`), KL divergence (`kl`), the 95th percentile of the output error "
    "(`p95`) and the digest of all decisions (`journal`); `kept`, `dense`, "
    "`needle`, `lse` and `error` are the five columns above.",
    "Where a method was given prefill=N there are columns of the prompt's rows "
    "behind the first chunk: `prompt error`, the distance of their output from "
    "dense's, and `prompt mass`, the exact attention on what they attend to; "
    "with --wide they are `prompt` and `p mass`. A prompt that is read whole "
    "has none.",
    "Open loop: recorded queries do not feel the approximation.",
    "With --db a run that was interrupted or killed goes on when it is "
    "repeated. A trace is kept layer by layer of its cells, and layers are "
    "replayed in groups of cells so that a kill loses at most two minutes of "
    "work; where one layer of one cell alone takes longer, the run says how "
    "much. Files of --selections and its like need the whole trace again.",
    "With --shard or --shards each process runs some of the cells and writes a "
    "database of its own: % in the name that --db gives becomes 2-of-4, %% a "
    "%. `kvreport merge` joins them. Each process computes the same cut if it "
    "sees the same command line and the same files; --dry-run prints a shard "
    "and the name of the cut, by which two machines can be compared. A shard "
    "without cells is no error. The command without --shard, repeated on the "
    "merged database, runs what is missing.",
    "A cell that cannot run as asked is refused, with the reason in its row, "
    "and the others run; the last line on standard error says how many, and "
    "why. Of several traces one that cannot be read fails only its own cells. "
    "An output file must not be an input of the command, "
    "another output, a trace or a database. The first interrupt ends a run "
    "within two seconds; everything finished is kept.",
    "With --together every cell is replayed by itself, as pages decide "
    "nothing; then all requests of a method and budget go step by step over "
    "one pool: a block of the prompt, or a token, of each at every step. A "
    "request that finds no page is refused and leaves, and nothing of the "
    "others changes; or, with --wait, waits until there is one. The layout is "
    "unified, or what --layout says: unified:code, slots or pages. Of a file "
    "of --arrive each line is a request, of the trace whose prompt and answer "
    "are nearest to its lengths, and it is over after output_length tokens, if "
    "not before; without lengths traces take turns. Rows that are in the "
    "database are replayed again.",
    "With --tp a rank is opened and replayed as if its KV heads, with their "
    "query heads, were all there are: no scores, messages or rows of other "
    "ranks. `decide other`: lanes whose verbs or views differ then from those "
    "of the whole model. What a method takes from the number of a head counts "
    "from 0 on each rank, so the draws of random differ; a method with a file "
    "of all heads is not asked. Such a run replays all its cells anew, and its "
    "database does not have what ranks said.",
    "With --chunk every cell is replayed once more. After each piece the "
    "method is shown the last queries against what it had kept, as if the "
    "prompt ended there: those read so far, as with prefill=N, but of a method "
    "that cannot read a prompt in chunks the piece's alone. Queries are the "
    "recorded ones, which saw "
    "everything. Compressed after the last piece alone, every method decides "
    "as after the whole prompt, which is then held until its end. Such a run, "
    "too, replays all its cells anew, and its database has none of it.",
    "The exit code is 1 if digests or a row of the database differ, 3 if a "
    "cell failed, or a method that is named, not by `all`, was refused on "
    "every trace at every budget, or with --strict any cell was, 4 if a "
    "backend cannot be used, 2 if no cell could run, or no request of "
    "--together found room.",
    NULL};

const kv_command kv_command_run =
    KV_COMMAND_OF_TRACES("run", "replay traces through methods and measure",
                         kv_cells_options, traces, &kv_task_run);

void kv_run_options_free(kv_run_options *o) {
  free(o->db_path);
  kv_cells_options_free(&o->cells);
  kv_layout_list_free(&o->layouts);
  kv_arrivals_free(&o->arrive);
}

/* What has a place for every step, and none for a question that enters whole.
 */
static kv_rc check_turns(const kv_run_options *o, kv_err *e) {
  const char *name = o->outputs     ? "outputs"
                     : o->decisions ? "decisions"
                     : o->together  ? "together"
                     : o->layouts.n ? "layout"
                                    : NULL;
  if (!o->cells.turns || !name) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--%s has a place for every token after the prompt, and with "
                 "--turns questions enter whole: leave out one of the two",
                 name);
}

/* Files that describe one cell require that exactly one cell is asked for. */
static kv_rc check_files(const kv_run_options *o, kv_err *e) {
  const struct {
    const char *name, *path;
  } file[] = {{"selections", o->selections},
              {"views", o->views},
              {"stored", o->stored},
              {"outputs", o->outputs}};
  bool one = o->cells.traces.n == 1 && o->cells.specs.n == 1 &&
             o->cells.budgets.n <= 1;
  for (int i = 0; i < 4 && !one; i++) {
    if (file[i].path == NULL) continue;
    return kv_fail(e, KV_USAGE,
                   "--%s describes one cell: give one trace, one method and "
                   "one budget",
                   file[i].name);
  }
  return KV_OK;
}

bool kv_run_options_files(const kv_run_options *o) {
  return o->selections || o->views || o->stored || o->outputs || o->decisions;
}

/* Files whose names or contents hang on all cells. */
static kv_rc check_shard_files(const kv_run_options *o, kv_err *e) {
  const char *name = o->selections  ? "selections"
                     : o->views     ? "views"
                     : o->stored    ? "stored"
                     : o->outputs   ? "outputs"
                     : o->decisions ? "decisions"
                                    : NULL;
  if (!name) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--%s is of a run that has all its cells: leave out %s", name,
                 o->shard_text ? "--shard" : "--shards");
}

/* Which shard, and its database. Tasks of a job share a command line, and one
 * file that all of them write would be a queue. */
static kv_rc check_shard(kv_run_options *o, kv_err *e) {
  if (!o->shard_text && !o->shards) return KV_OK;
  if (o->shard_text && o->shards)
    return kv_fail(e, KV_USAGE,
                   "--shard and --shards exclude each other: the first names "
                   "the shard, the second looks for it in the environment");
  kv_rc rc = o->shard_text ? kv_shard_parse(o->shard_text, &o->shard, e)
                           : kv_shard_find(o->shards, getenv, &o->shard, e);
  if (!rc) rc = check_shard_files(o, e);
  if (rc || !o->cells.db) return rc;
  if (o->shards && !kv_shard_distinct(o->cells.db))
    return kv_fail(e, KV_USAGE,
                   "--shards: each shard needs a database of its own; write %% "
                   "where its number is to stand, as in --db results.%%.db");
  o->db_path = kv_shard_path(o->cells.db, o->shard);
  if (!o->db_path) return kv_no_memory(e, "a file name", strlen(o->cells.db));
  o->cells.db = o->db_path;
  return KV_OK;
}

/* "64MiB", "512KiB", "1GiB" or a number of bytes; 0: none of these. */
static int64_t bytes_of(const char *text) {
  static const char *const unit[] = {"", "KiB", "MiB", "GiB"};
  size_t digits = strspn(text, "0123456789");
  int64_t n = digits && digits < 10 ? strtoll(text, NULL, 10) : 0;
  for (int i = 0; i < 4; i++)
    if (!strcmp(text + digits, unit[i])) return n << 10 * i;
  return 0;
}

/* The layout whose memory the requests share: unified, where that is asked for
 * or nothing is, else slots or pages. */
static kv_rc pick_layout(kv_run_options *o, kv_err *e) {
  kv_layout_asked *own = NULL;
  for (int i = 0; i < o->layouts.n; i++) {
    kv_layout_asked *a = &o->layouts.item[i];
    bool unified = a->layout == &kv_layout_unified;
    if (a->layout->task) continue;
    if (own && unified == (own->layout == &kv_layout_unified))
      return kv_fail(e, KV_USAGE,
                     "--together has one pool: give --layout %s or %s",
                     own->name, a->name);
    if (!own || unified) own = a;
  }
  kv_rc rc = own ? KV_OK : kv_layouts_parse("unified", &o->layouts, e);
  if (rc) return rc;
  if (!own) own = &o->layouts.item[o->layouts.n - 1];
  own->record = true;
  o->pool_of_bytes = own->layout != &kv_layout_unified;
  rc = kv_arrivals_read(o->arrive_text, o->pace ? o->pace : 1, &o->arrive, e);
  if (rc || !o->pace || o->arrive.n) return rc;
  return kv_fail(e, KV_USAGE,
                 "--pace is of the timestamps in a file that --arrive names");
}

static kv_rc check_together(kv_run_options *o, kv_err *e) {
  const char *one = o->pool_text     ? "pool"
                    : o->arrive_text ? "arrive"
                    : o->wait        ? "wait"
                    : o->admit       ? "admit"
                    : o->pace        ? "pace"
                                     : NULL;
  if (!o->together && one)
    return kv_fail(e, KV_USAGE,
                   "--%s is of requests that share: add --together", one);
  if (!o->together) return KV_OK;
  if (o->shard_text || o->shards)
    return kv_fail(e, KV_USAGE,
                   "--together wants all requests in one process: leave out %s",
                   o->shard_text ? "--shard" : "--shards");
  o->pool = o->pool_text ? bytes_of(o->pool_text) : 0;
  if (o->pool) return pick_layout(o, e);
  return kv_fail(
      e, KV_USAGE,
      "--together wants the size of the pool, as --pool 64MiB%s%.60s",
      o->pool_text ? "; not " : "", o->pool_text ? o->pool_text : "");
}

kv_rc kv_run_options_check(kv_registry *registry, kv_run_options *o,
                           kv_err *e) {
  const char *name = o->backend_text ? o->backend_text : kv_backend_ref.name;
  kv_rc rc = kv_cells_options_read(registry, &o->cells, e);
  for (int i = 0; !rc && i < o->layout_text.n; i++)
    rc = kv_layouts_parse(o->layout_text.item[i], &o->layouts, e);
  for (int i = 0; !rc && i < o->cache_text.n; i++)
    rc = kv_cache_parse(o->cache_text.item[i], &o->beside.caches, e);
  if (!rc && o->tokens && !o->cells.db)
    rc = kv_fail(e, KV_USAGE, "--tokens is kept in a database: add --db FILE");
  o->people = o->format == KV_ROWS_TABLE;
  if (o->wide && o->people) o->format = KV_ROWS_WIDE;
  if (!rc) rc = check_together(o, e);
  if (!rc) rc = check_turns(o, e);
  if (!rc) rc = check_files(o, e);
  if (!rc) rc = check_shard(o, e);
  if (!rc) rc = kv_cells_options_apart(&kv_command_run, &o->cells, e);
  if (!rc) rc = kv_cells_options_backend(strlen(name), name, &o->backend, e);
  return rc;
}

kv_together kv_run_together(const kv_run_options *o, int threads) {
  return (kv_together){.pool = o->pool,
                       .threads = threads,
                       .wait = o->admit  ? (kv_pool_wait)o->admit
                               : o->wait ? KV_POOL_WAIT
                                         : KV_POOL_LEAVE,
                       .bytes = o->pool_of_bytes,
                       .arrive = o->arrive};
}
