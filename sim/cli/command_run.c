/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: opens every cell of every trace, then replays trace by trace,
 * stores and prints. Later failures take back nothing that was printed or
 * reported as stored.
 */
#include "sim/cli/commands.h"

#include "ref/ground/text.h"
#include "sim/cli/beside_cells.h"
#include "sim/cli/decide_files.h"
#include "sim/cli/job.h"
#include "sim/cli/options_run.h"
#include "sim/cli/refusals.h"
#include "sim/cli/signal.h"
#include "sim/cli/together_cells.h"
#include "sim/run/look/survive.h"
#include "sim/run/look/watch.h"
#include "traces/trace/trace.h"
#include <stdlib.h>
#include <string.h>

#define AT(member) .offset = offsetof(kv_run_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELLS("What to run"),
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|jsonl|csv",
     AT(format), .group = "What to print and store", .common = true,
     .help = "standard output as table (the default), json, jsonl or csv"},
    {KV_SLOT_FLAG, "wide", 0, AT(wide), .common = true,
     .help = "print every column of the table instead of six; the other "
             "formats always have all"},
    KV_OPTION_DB("store a row for each cell in an SQLite database, and the "
                 "finished layers of a cell that is not complete. A cell whose "
                 "row it has from this backend is not run again"),
    {KV_SLOT_TEXT, "decisions", 0, "DIR", AT(decisions), .use = KV_USE_FOLDER,
     .help = "write for each cell a file of what it keeps and attends to, for "
             "replay:file=FILE and for your own tools"},
    {KV_SLOT_FLAG, "tokens", 0, AT(tokens),
     .help = "also store in the database when each token leaves each lane and "
             "how often it is shown: 8 bytes per token, layer, lane and cell. "
             "From this kvreplay html draws which tokens survive"},
    KV_OPTION_QUIET,
    {KV_SLOT_TEXT, "selections", 0, "FILE", AT(selections),
     .use = KV_USE_CREATED, .group = "Files of one cell",
     .help = "what each lane keeps, as JSON lines"},
    {KV_SLOT_TEXT, "views", 0, "FILE", AT(views), .use = KV_USE_CREATED,
     .help = "what each query head attends to, as JSON lines"},
    {KV_SLOT_TEXT, "stored", 0, "FILE", AT(stored), .use = KV_USE_CREATED,
     .help = "K and V after the last step, as safetensors"},
    {KV_SLOT_TEXT, "outputs", 0, "FILE", AT(outputs), .use = KV_USE_CREATED,
     .help = "the attention output, as safetensors"},
    {KV_SLOT_LIST, "layout", 'l', "LAYOUT,...", .choices = kv_layout_choices,
     AT(layout_text), .group = "Memory of a server", .help = kv_layout_help},
    {KV_SLOT_LIST, "cache", 0, "CACHE,...", AT(cache_text),
     .help = "also account for a cache on the device for entries in host "
             "memory (tier=host): lru:N or lfu:N, with N entries per lane. "
             "Prints the share of lookups found there, and the bytes per step "
             "of the others"},
    {KV_SLOT_COUNT, "tp", 0, "N", .min = 2, .max = 1024, AT(beside.ranks),
     .help = "also deal the KV heads to N ranks that decide alone, as under "
             "tensor parallelism. Prints how many lanes then decide otherwise, "
             "and how much more than the mean the fullest rank holds"},
    {KV_SLOT_COUNT, "chunk", 0, "N", .min = 1, .max = 1 << 24, AT(beside.chunk),
     .help = "also replay with the prompt in pieces of N tokens: the method "
             "compresses after each, but every token attends as recorded. "
             "Prints how many lanes then decide otherwise, and peak bytes"},
    {KV_SLOT_FLAG, "together", 0, AT(together.asked),
     .help = "treat the traces as requests that share one pool of unified "
             "pages; each method and budget has its own pool. A request that "
             "finds no free page is refused"},
    {KV_SLOT_TEXT, "pool", 0, "BYTES", AT(together.pool_text),
     .help = "size of the pool of --together: 64MiB, 512KiB, 2GiB, or bytes"},
    {KV_SLOT_TEXT, "arrive", 0, "WHEN", AT(together.arrive_text),
     .help = "when the requests of --together arrive (default: all at once): "
             "100, one every 100 steps; poisson:100[:SEED], the same on "
             "average; or a FILE with one JSON object per line and request: "
             "timestamp, and optionally input_length and output_length"},
    {KV_SLOT_COUNT, "pace", 0, "N", .min = 1, .max = 1 << 30, AT(together.pace),
     .help = "one step lasts N units of the file's timestamps (default: 1; for "
             "milliseconds perhaps 25)"},
    {KV_SLOT_FLAG, "wait", 0, AT(together.wait),
     .help = "a request of --together that finds no free page waits, first "
             "come, first served, instead of leaving"},
    {KV_SLOT_CHOICE, "admit", 0, "WHAT", .choices = "room|peak",
     .min = KV_POOL_WAIT, AT(together.admit),
     .help = "like --wait. room admits a waiting request when its next step "
             "fits (the default of --wait); peak only when everything running "
             "can finish without preemption"},
    KV_OPTION_THREADS,
    KV_OPTION_BACKEND(kv_run_options),
    {KV_SLOT_FLAG, "twice", 't', AT(twice), .common = true,
     .help = "run again with the reference's portable kernels (no AVX) on one "
             "thread, and compare every digest (a hash of decisions, state or "
             "outputs)"},
    {KV_SLOT_FLAG, "dry-run", 'n', AT(dry_run), .common = true,
     .help = "print every cell, but replay none; only the searches for budgets "
             "in bytes run. With --shard also print the predicted cost"},
    {KV_SLOT_CHOICE, "walk", 'w', "ORDER", .choices = "layers|steps", AT(walk),
     .help = "layers (the default) has one layer of the trace in memory at a "
             "time; steps has all, and stores nothing before the trace ends. "
             "Never changes a number"},
    {KV_SLOT_TEXT, "shard", 0, "I/N", AT(shard_text),
     .help = "run only shard I of N, 1/N to N/N: some of the cells. All shards "
             "take about the same processor time"},
    {KV_SLOT_COUNT, "shards", 0, "N", .min = 1, .max = KV_SHARDS_MOST,
     AT(shards),
     .help = "the same in a job: the environment says which shard this process "
             "runs, as Slurm and PBS arrays, MPI and indexed jobs of "
             "Kubernetes set it"},
    {KV_SLOT_TEXT, "found", 0, "FILE", AT(found_path), .use = KV_USE_CREATED,
     .help = "also write the values that budgets in bytes come to; each is "
             "searched for anew. Later runs read them if the file is named "
             "budgets.csv and is in the folder of the traces, or above it"},
    KV_OPTION_STRICT,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay run chat.safetensors -m all -b 20%",
     "every method, at 20 % of the prompt"},
    {"kvreplay run *.safetensors -m h2o,snapkv -b 10%,20%,512 --db r.db",
     "a sweep, stored in a database; repeat the command to resume"},
    {"kvreplay run chat.safetensors -m quest:page=8,kivi -b mean:25% --twice",
     "25 % of the uncompressed bytes; every digest is computed twice"},
    {"kvreplay run chat.safetensors -m all -b 10% --backend cuda --db r.db",
     "on a GPU; this confirms rows that the database has from the CPU"},
    {"kvreplay run chat.safetensors -m h2o -b 10% --decisions kept",
     "its decisions, as a file that replay:file=... follows"},
    {"kvreplay run chat.safetensors -m h2o,random -b 20% --layout "
     "slots,pages:16",
     "how much memory comes free with pages of 16 tokens"},
    {"kvreplay run *.safetensors -m leankv --together --pool 64MiB --wait "
     "--arrive poisson:20",
     "requests that wait for pages: how long, and how full the pool is"},
    {"kvreplay run chat.safetensors -m snapkv,adakv -b 20% --tp 2",
     "do two ranks that see only their own heads decide the same?"},
    {"kvreplay run chat.safetensors -m snapkv,h2o -b 20% --chunk 512",
     "do methods decide the same if the prompt comes in pieces?"},
    {"kvreplay run chat.safetensors -m omnikv --cache lru:64,lfu:64",
     "how often what a step attends to is still on the device"},
    {"kvreplay run *.safetensors -m all -b 10%,20% --shard 2/4 --db r.%.db",
     "the second quarter of a sweep, in r.2-of-4.db"},
    {"kvreplay run *.safetensors -m all -b mean:20% -n --found budgets.csv",
     "only the searches, so that later runs skip them"},
    {NULL, NULL}};

static const char *const notes[] = {
    "A cell is one trace, method and budget; run replays every combination. It "
    "sends the recorded queries, keys and values of every layer through the "
    "method. It measures what attention lost and what the cache held. Replays "
    "are open loop: the recorded queries do not feel the approximation.",
    "Columns of the table. `tokens kept`: entries in a lane after the last "
    "step, averaged over lanes. `bytes held`: cache size, averaged over decode "
    "steps, as a share of the uncompressed cache; "
    "metadata, scales and page bounds count. `on the answer`: attention left "
    "on the tokens that answer the trace's question, as a share of the "
    "uncompressed cache's; absent if no trace has answers. `answer kept`: of "
    "the uncompressed cache's attention on these tokens, the share whose "
    "tokens are stored and read. What is dropped raises `on the answer` if the "
    "answer stays; it never raises `answer kept`. `worst error`: the "
    "largest error of an element of the attention output. `output error`: the "
    "distance to the uncompressed attention output, divided by that output's "
    "length. `worst error` orders methods most like a model's answers do; "
    "means such as `output error` hardly do.",
    KV_NOTES_REST,
    "With --wide the table also has the budget as typed (`asked`) and in "
    "entries (`budget`); bytes at the end, on average and read per step "
    "(`end`, `mean`, `read`); bytes looked at per step to choose what to read "
    "(`scan`); the log-sum-exp of the logits of stored entries minus that of "
    "all, in nats (`lse`); KL divergence (`kl`); and the digest of all "
    "decisions (`journal`). `kept`, `dense`, `needle`, `held`, `worst` and "
    "`error` are the six columns above.",
    "Three things have similar names. METHOD:prefill=N is chunked prefill: the "
    "method compresses after each chunk of N prompt tokens, and tokens of "
    "later chunks attend only to what it shows them. --chunk N is a prompt in "
    "pieces: it compresses too, but all tokens attend as recorded. chunkkv's "
    "chunk=N is a run of neighboring tokens that are kept or dropped together.",
    "With chunked prefill the table has two more columns, for prompt tokens "
    "after the first chunk. `prompt error` is the distance of their output "
    "from the uncompressed one. `prompt mass` is the exact attention on what "
    "they attend to. --wide calls them `prompt` and `p mass`.",
    "With --chunk every cell is replayed once more. After each piece the "
    "method compresses as if the prompt ended there. It sees the last queries "
    "read so far, against the entries that it kept; a method that cannot do "
    "chunked prefill sees only the queries of the piece. Compressing only "
    "after the last piece would decide as after the whole prompt, but hold it "
    "until then.",
    "With --tp a rank is replayed as if its KV heads, with their query heads, "
    "were the whole model. It sees no scores, messages or rows of other ranks. "
    "`decide other` counts lanes whose verbs or views then differ from those "
    "of the whole model. Head numbers begin at 0 on each rank, so the draws of "
    "random differ. A method that reads a file for all heads is skipped.",
    "Runs with --tp or --chunk replay all their cells anew, and the database "
    "does not store what these two print.",
    "With --together each cell is replayed by itself, because pages decide "
    "nothing. Then all requests of a method and budget go through one pool; a "
    "step is a block of the prompt, or a token, of each. The layout is "
    "unified, or one of --layout: unified:code, slots or pages. A line of an "
    "--arrive file takes the trace whose prompt and answer are closest to its "
    "lengths, and ends after output_length tokens, if not before; without "
    "lengths traces take turns. Rows in the database are replayed again.",
    "With --db, repeat a command that was interrupted or killed to continue "
    "it: a kill loses at most two minutes of work. If one layer of one cell "
    "takes longer, the run says how long. --selections and the other files "
    "need the whole trace again.",
    "With --shard or --shards each process runs some of the cells and writes "
    "its own database: % in the name after --db becomes 2-of-4, and %% becomes "
    "%. `kvreplay merge` joins the databases. All processes must see the same "
    "command line and files; --dry-run prints the name of the cut, to compare "
    "two machines. A shard without cells is no error. The command without "
    "--shard, repeated on the merged database, runs what is missing.",
    "A cell that cannot run as asked is refused, with the reason in its row; "
    "the last line on standard error counts refusals. A trace that cannot be "
    "read fails only its own cells, if there are others. An output must not be "
    "an input, another output, a trace or a database. The first interrupt ends "
    "a run within two seconds; everything finished is kept.",
    "The exit code is 1 if digests or a row of the database differ; 2 if no "
    "cell could run, or no request of --together fit; 4 if a backend cannot be "
    "used. It is 3 if a cell failed, if a method named other than by `all` was "
    "refused on every trace at every budget, or with --strict if any cell was "
    "refused.",
    NULL};

void kv_run_options_free(kv_run_options *o) {
  free(o->db_path);
  kv_cells_options_free(&o->cells);
  kv_layout_list_free(&o->layouts);
  kv_together_asked_free(&o->together);
}

/* These options need a number for every step, but a question enters whole. */
static kv_rc check_turns(const kv_run_options *o, kv_err *e) {
  const char *name = o->outputs          ? "outputs"
                     : o->decisions      ? "decisions"
                     : o->together.asked ? "together"
                     : o->layouts.n      ? "layout"
                                         : NULL;
  if (!o->cells.added[KV_OBSERVE_TURNS] || !name) return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "--%s has one number for every token after the prompt, but with --turns "
      "whole questions enter at once; leave one of them out",
      name);
}

/* The first option given for a file that only a replay can fill, so that no row
 * may come from a database; NULL: none. All but the last describe one cell. */
static const char *filled(const kv_run_options *o) {
  return o->selections  ? "selections"
         : o->views     ? "views"
         : o->stored    ? "stored"
         : o->outputs   ? "outputs"
         : o->decisions ? "decisions"
                        : NULL;
}

/* Files that describe one cell require exactly one cell. */
static kv_rc check_files(const kv_run_options *o, kv_err *e) {
  const char *name = filled(o);
  bool one = o->cells.traces.n == 1 && o->cells.specs.n == 1 &&
             o->cells.budgets.n <= 1;
  if (one || !name || !strcmp(name, "decisions")) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--%s describes one cell; give one trace, one method and "
                 "one budget",
                 name);
}

/* Files whose names or contents depend on all cells. */
static kv_rc check_shard_files(const kv_run_options *o, kv_err *e) {
  const char *name = filled(o);
  if (!name) return KV_OK;
  return kv_fail(e, KV_USAGE, "--%s needs all cells in one run; leave out %s",
                 name, o->shard_text ? "--shard" : "--shards");
}

/* Finds the shard and its database. Tasks of a job share a command line; if all
 * wrote to one database, they would wait for each other. */
static kv_rc check_shard(kv_run_options *o, kv_err *e) {
  if (!o->shard_text && !o->shards) return KV_OK;
  if (o->shard_text && o->shards)
    return kv_fail(e, KV_USAGE,
                   "give --shard, which names the shard, or --shards, which "
                   "finds it in the environment, not both");
  kv_rc rc = o->shard_text ? kv_shard_parse(o->shard_text, &o->shard, e)
                           : kv_shard_find(o->shards, getenv, &o->shard, e);
  if (!rc) rc = check_shard_files(o, e);
  if (rc || !o->cells.db) return rc;
  if (o->shards && !kv_shard_distinct(o->cells.db))
    return kv_fail(e, KV_USAGE,
                   "--shards needs a database for each shard; write %% in "
                   "place of its number, as in --db results.%%.db");
  o->db_path = kv_shard_path(o->cells.db, o->shard);
  if (!o->db_path) return kv_no_memory(e, "a file name", strlen(o->cells.db));
  o->cells.db = o->db_path;
  return KV_OK;
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
    rc = kv_fail(e, KV_USAGE, "--tokens needs a database; add --db FILE");
  o->people = o->format == KV_ROWS_TABLE;
  if (o->wide && o->people) o->format = KV_ROWS_WIDE;
  if (!rc)
    rc = kv_together_read(&o->together,
                          o->shard_text ? "--shard"
                          : o->shards   ? "--shards"
                                        : NULL,
                          &o->layouts, e);
  if (!rc) rc = check_turns(o, e);
  if (!rc) rc = check_files(o, e);
  if (!rc) rc = check_shard(o, e);
  if (!rc) rc = kv_cells_options_apart(&kv_command_run, &o->cells, e);
  if (!rc) rc = kv_cells_options_backend(strlen(name), name, &o->backend, e);
  return rc;
}

typedef struct task {
  kv_run_options options;
  kv_job of; /* kernels, database, cells */
  kv_row_writer *rows;
  int ran, failed;
  bool lacked;  /* a device lacked memory for a trace */
  bool served;  /* a request of --together reached its end */
  int rows_out; /* rows already written */
} task;

static int traces(const task *s) { return s->options.cells.traces.n; }

static kv_replay_how how_of(task *s) {
  kv_replay_how how = kv_job_how(&s->of, s->options.backend);
  how.by_steps = s->options.walk == KV_WALK_STEPS;
  how.fidelity = true;
  how.scores = s->of.db || s->options.twice;
  return how;
}

static kv_rc open_cells(task *s, kv_err *e) {
  kv_replay_how how = how_of(s);
  kv_rc rc = KV_OK;
  s->of.identify = !s->options.people;
  s->of.goes_on = true;
  s->of.layouts = &s->options.layouts;
  s->of.found_path = s->options.found_path;
  if (s->options.shard.count)
    rc = kv_job_cut(&s->of, &how, s->options.shard, e);
  if (!rc) rc = kv_job_open(&s->of, &how, e);
  if (!rc) rc = kv_beside_cells_check(&s->of, &s->options.beside, e);
  if (rc || !s->options.together.asked) return rc;
  s->options.together.how.threads = how_of(s).threads;
  return kv_together_check(&s->of, &s->options.together.how, e);
}

/* --- one trace ---------------------------------------------------------- */

static kv_rc compare(task *s, const kv_cell *a, const kv_cell *b) {
  const kv_result *x = &a->result, *y = &b->result;
  for (int i = 0; i < x->n_layers; i++) {
    const kv_layer_result *p = &x->layer[i], *q = &y->layer[i];
    const char *what = memcmp(&p->journal, &q->journal, 32) ? "journal"
                       : memcmp(&p->state, &q->state, 32)   ? "state"
                       : memcmp(&p->output, &q->output, 32) ? "output"
                       : memcmp(&p->scores, &q->scores, 32) ? "score digest"
                                                            : NULL;
    if (!what) continue;
    kv_err e = {0};
    kv_fail(&e, KV_DIFFERENT,
            "%s, %s: the %s of layer %d differs between %s with %d threads "
            "and %s with one",
            kv_result_name(x), x->spec, what, p->layer, x->isa, x->threads,
            y->isa);
    kv_job_differ(&s->of, &e);
    return KV_DIFFERENT;
  }
  return KV_OK;
}

/* Replays one trace again with the reference, portable kernels and one thread:
 * every digest must agree. Threads take turns with database and messages. */
static kv_rc again(task *s, const kv_batch *b, bool *stopped, kv_err *e) {
  kv_batch second = {0};
  kv_keeper keeper = {0};
  kv_survive *tokens = NULL;
  kv_replay_how how = how_of(s);
  how.backend = &kv_backend_ref;
  how.threads = 1;
  kv_rc rc = kv_kernels_named("portable", &how.kernels, NULL, e);
  if (!b->trace) return rc;
#pragma omp critical(kv_database)
  if (!rc) rc = kv_batch_again(b, how.kernels, s->of.db, &second, e);
  if (!rc && s->options.tokens) rc = kv_survive_open(&second, NULL, &tokens, e);
  how.watch = kv_survive_watch(tokens, NULL);
  if (!s->options.tokens) kv_job_keep(&s->of, &how, &keeper);
  if (!rc)
    rc = kv_replay(b->trace, second.each, second.cells, &how, stopped, e);
  if (!rc && tokens) kv_survive_take(tokens);
  kv_survive_close(tokens);
  kv_keeper_close(&keeper);
#pragma omp critical(kv_database)
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    if (!second.cell[i].runs) continue;
    if (!compare(s, &b->cell[i], &second.cell[i]))
      rc = kv_job_put(&s->of, &second.cell[i].result, false, e);
  }
  kv_batch_close(&second);
  return rc;
}

/* Replays everything again, each trace with one thread, several at once. */
static kv_rc twice(task *s, bool *stopped, kv_err *e) {
  kv_rc first = KV_OK;
  int threads = how_of(s).threads;
  kv_stop_cut(true);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int i = 0; i < traces(s); i++) {
    kv_err why = {0};
    bool cut = false;
    kv_rc rc = again(s, &s->of.batch[i], &cut, &why);
#pragma omp critical(kv_database)
    {
      *stopped = *stopped || cut;
      if (rc && !first) first = kv_fail(e, rc, "%s", why.text);
    }
  }
  kv_stop_cut(false);
  return first;
}

/* True if rows and layers in the database are not replayed. Files, a pool,
 * ranks, pieces and caches need the whole replay. */
static bool recalls(const task *s) {
  return s->of.db && !filled(&s->options) && !s->options.together.asked &&
         !kv_beside_asks(&s->options.beside);
}

/* True if layers of a trace are kept before its rows are complete. */
static bool keeps(const task *s) {
  return recalls(s) && !s->options.tokens && s->options.walk == KV_WALK_LAYERS;
}

/* Replays a batch and writes its files: those of one cell, decisions of all. */
static kv_rc replay(task *s, kv_batch *b, bool *stopped, kv_err *e) {
  kv_watch_paths paths = {s->options.selections, s->options.views,
                          s->options.stored, s->options.outputs};
  const char *dir = s->options.decisions;
  kv_watch_files *files = NULL;
  kv_decide_files decide = {0};
  kv_survive *tokens = NULL;
  kv_beside_cells others = {0};
  kv_keeper keeper = {0};
  kv_replay_how how = how_of(s);
  kv_rc rc = KV_OK;
  if (kv_watch_wanted(&paths) && b->cell[0].runs)
    rc = kv_watch_open(&paths, &b->cell[0], &files, &how.watch, e);
  if (!rc && dir)
    rc = kv_decide_files_open(dir, &s->options.cells.traces,
                              (int)(b - s->of.batch), b, &decide, e);
  if (!rc) how.watch = kv_decide_files_watch(&decide, how.watch);
  if (!rc && s->options.tokens) rc = kv_survive_open(b, NULL, &tokens, e);
  how.watch = kv_survive_watch(tokens, how.watch);
  if (!rc)
    rc = kv_beside_cells_open(b, &s->options.beside, how.watch, &others, e);
  if (!rc) how.watch = others.watch;
  if (!rc) kv_job_say_one_thread(&s->of, &how);
  if (keeps(s)) kv_job_keep(&s->of, &how, &keeper);
  if (!rc) rc = kv_job_replay(b, &how, stopped, e);
  if (!rc && !*stopped && files) rc = kv_watch_finish(files, e);
  if (!rc && !*stopped && dir) rc = kv_decide_files_write(&decide, e);
  if (!rc && !*stopped && tokens) kv_survive_take(tokens);
  if (!rc && !*stopped) rc = kv_beside_cells_ask(&others, &how, stopped, e);
  kv_beside_cells_close(&others);
  kv_survive_close(tokens);
  kv_keeper_close(&keeper);
  kv_decide_files_close(&decide);
  kv_watch_close(files);
  return rc;
}

/* True if only this trace failed and others can still be replayed: the trace is
 * bad, or the device lacked memory for it but has not failed. */
static bool only_this(const task *s, kv_rc rc) {
  bool (*lacked)(void) = s->options.backend->lacked;
  if (traces(s) < 2) return false;
  return rc == KV_INPUT || (rc == KV_RESOURCE && lacked && lacked());
}

/* Replays a batch. If its trace cannot be replayed and others can, only its
 * cells fail. */
static kv_rc replay_or_fail(task *s, kv_batch *b, bool *stopped, bool *bad,
                            kv_err *e) {
  kv_err why = {0};
  kv_rc rc = replay(s, b, stopped, &why);
  *bad = only_this(s, rc);
  s->lacked = s->lacked || (*bad && rc == KV_RESOURCE);
  if (rc && !*bad) return kv_fail(e, rc, "%s", why.text);
  if (!*bad) return KV_OK;
  kv_batch_fail(b, &why);
  kv_job_tell(&s->of, why.text);
  return KV_OK;
}

/* Rows of a trace that could not be replayed are no results, and not stored. */
static kv_rc compute(task *s, int at, bool *stopped, bool *bad, kv_err *e) {
  kv_batch *b = &s->of.batch[at];
  kv_rc rc = kv_job_put_trace(&s->of, at, e);
  b->tokens = s->options.tokens;
  if (!rc && recalls(s)) rc = kv_batch_recall(b, s->of.db, e);
  if (!rc) rc = replay_or_fail(s, b, stopped, bad, e);
  for (int i = 0; !rc && !*stopped && !*bad && i < b->cells; i++)
    if (b->cell[i].runs || !kv_result_ran(&b->cell[i].result))
      rc = kv_job_put(&s->of, &b->cell[i].result, false, e);
  return rc;
}

static void tell_failed(task *s, const kv_result *r) {
  char text[1024];
  snprintf(text, sizeof text, "%.255s, %.200s failed: %s", kv_result_name(r),
           r->spec, r->reason);
  kv_job_tell(&s->of, text);
}

static kv_rc print_trace(task *s, int at, bool bad, const bool *stopped,
                         kv_err *e) {
  const kv_batch *b = &s->of.batch[at];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    kv_result *r = &b->cell[i].result;
    bool failed = r->status == KV_CELL_FAILED;
    s->ran += kv_result_ran(r);
    s->failed += failed;
    if (failed && !bad) tell_failed(s, r);
    rc = kv_beside_cells_name(&s->options.beside, r, e);
    if (!rc) rc = kv_row_writer_add(s->rows, r, e);
    s->rows_out++;
  }
  if (!rc && !*stopped) s->of.whole++;
  return rc;
}

static kv_rc run_trace(task *s, int at, bool *stopped, kv_err *e) {
  bool bad = !s->of.batch[at].trace; /* reported already */
  kv_rc rc = bad ? KV_OK : compute(s, at, stopped, &bad, e);
  return rc ? rc : print_trace(s, at, bad, stopped, e);
}

/* If requests share a pool, no row is complete before all were replayed. */
static kv_rc run_together(task *s, bool *stopped, kv_err *e) {
  bool *bad = kv_zalloc((size_t)traces(s), sizeof *bad);
  kv_rc rc = bad ? KV_OK : kv_no_memory(e, "traces", (size_t)traces(s));
  for (int i = 0; !rc && !*stopped && i < traces(s); i++) {
    bad[i] = !s->of.batch[i].trace;
    if (!bad[i]) rc = compute(s, i, stopped, &bad[i], e);
  }
  if (!rc && !*stopped)
    rc = kv_together_cells(&s->of, &s->options.together.how, &s->served, e);
  for (int i = 0; !rc && !*stopped && i < traces(s); i++)
    rc = print_trace(s, i, bad[i], stopped, e);
  free(bad);
  return rc;
}

/* Says once if models do not give the marked answers of their traces. */
static void tell_answers(task *s) {
  const char *first = NULL, *by;
  char text[600], name[KV_SHOW], others[48] = "";
  int n = 0;
  for (int i = 0; i < traces(s); i++) {
    const kv_trace *t = s->of.batch[i].trace;
    by = t && t->n_answers ? kv_trace_answer_by(t) : NULL;
    if (by && !strcmp(by, "user") && n++ == 0) first = t->name;
  }
  if (n == 0) return;
  if (n > 1)
    snprintf(others, sizeof others, " and %d other trace%s", n - 1,
             n > 2 ? "s" : "");
  snprintf(text, sizeof text,
           "%s%s: the model itself does not give the marked answer (metadata "
           "answer_by is user), so `on the answer` and `answer kept` say "
           "little about what it would answer",
           kv_show(first, name), others);
  kv_job_tell(&s->of, text);
}

static kv_rc run_traces(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  tell_answers(s);
  if (s->options.together.asked) return run_together(s, stopped, e);
  for (int i = 0; !rc && !*stopped && i < traces(s); i++)
    rc = run_trace(s, i, stopped, e);
  return rc;
}

/* --- the command -------------------------------------------------------- */

static void list_cells(task *s) { /* --dry-run */
  for (int i = 0; i < traces(s); i++)
    for (int c = 0; c < s->of.batch[i].cells; c++) {
      const kv_result *r = &s->of.batch[i].cell[c].result;
      kv_job_print_cost(&s->of, i, c);
      kv_put_plain(stdout, kv_result_name(r));
      printf(" %s", r->spec);
      if (!kv_result_ran(r))
        printf(": %s: %s", kv_status_names[r->status], r->reason);
      putchar('\n');
      s->failed += r->status == KV_CELL_FAILED;
      s->ran += kv_result_ran(r);
    }
  kv_job_print_shard(&s->of);
}

/* Prints what an interrupt left, and how to continue. */
static void interrupted(void *self) {
  const task *s = self;
  char note[320];
  const char *kept = s->of.db ? "stored" : "printed";
  const char *next =
      s->of.db ? "repeat the command: stored results are not run again"
               : "use --db FILE to continue an interrupted command";
  snprintf(note, sizeof note,
           "interrupted: the rows of %d of %d traces are %s, and %s of the "
           "others; %s",
           s->of.whole, traces(s), kept,
           keeps(s) ? "all finished layers" : "nothing", next);
  if (s->options.together.asked)
    snprintf(note, sizeof note,
             "interrupted: requests that share a pool are replayed together; "
             "repeat the command");
  kv_note(note);
}

/* Prints complete rows from another thread if a method does not return
 * (sim/cli/signal.h). */
static void last_words(void *self) {
  task *s = self;
  kv_progress_wipe(&s->of.progress);
  kv_row_writer_close(s->rows, NULL);
  interrupted(s);
}

static kv_rc run_all(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = kv_row_writer_open((kv_row_format)s->options.format, stdout,
                                kv_colour_wanted(stdout), &s->rows, e);
  if (rc) return rc;
  kv_job_say_shard(&s->of);
  kv_stop_words(last_words, s);
  kv_progress_start(&s->of.progress, stderr, "replay", KV_REPLAY_UNIT,
                    kv_job_units(&s->of) * (s->options.twice ? 2 : 1),
                    s->options.cells.quiet);
  rc = run_traces(s, stopped, e);
  if (!rc && !*stopped && s->options.twice) rc = twice(s, stopped, e);
  kv_stop_words(NULL, NULL);
  kv_progress_end(&s->of.progress);
  kv_err closing = {0};
  kv_rc closed = KV_OK;
  if (rc && s->rows_out == 0)
    kv_row_writer_drop(s->rows);
  else
    closed = kv_row_writer_close(s->rows, &closing);
  s->rows = NULL;
  if (!rc && !closed && !*stopped && s->options.together.asked &&
      s->options.people)
    rc = kv_together_print(&s->of, stdout, e);
  if (!rc && !closed && !*stopped && s->options.people)
    rc = kv_beside_cells_print(&s->of, &s->options.beside, stdout, e);
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_run_options_check(kv_method_at, &((task *)self)->options, e);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  bool dry = s->options.dry_run;
  kv_rc rc =
      kv_together_deal(&s->options.together.how.arrive, &s->options.cells, e);
  if (!rc) rc = kv_job_start(&s->options.cells, !dry, &s->of, e);
  if (!rc) rc = open_cells(s, e);
  if (!rc && dry)
    list_cells(s);
  else if (!rc)
    rc = run_all(s, stopped, e);
  if (kv_interrupted() && s->of.whole < traces(s)) *stopped = true;
  return rc;
}

static int worse(const task *s) {
  if (s->of.differed) return KV_DIFFERENT;
  if (s->lacked || s->failed) return s->lacked ? KV_RESOURCE : KV_INPUT;
  if (!s->ran || !s->options.together.asked || s->served || s->options.dry_run)
    return KV_OK;
  kv_note("no request fit into its pool; give a larger --pool");
  return KV_USAGE;
}

static int conclude(void *self) {
  task *s = self;
  bool nothing = !s->ran && !kv_job_shared(&s->of);
  if (s->options.people) kv_refusals_unequal(&s->of);
  kv_refusals_needless(&s->of);
  return kv_refusals_conclude(&s->of, worse(s), nothing, "no cell could run");
}

static void clean(void *self) {
  task *s = self;
  kv_job_close(&s->of);
  kv_run_options_free(&s->options);
}

static const kv_task task_run = {sizeof(task), begin,    check, work,
                                 interrupted,  conclude, clean};

const kv_command kv_command_run = {
    KV_COMMAND(run, "replay traces through methods and measure"),
    KV_TAKES("TRACE...", 1, INT_MAX, kv_cells_options, traces, KV_USE_READ)};
