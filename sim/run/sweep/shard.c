/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing shards, and names of their files: sim/run/sweep/shard.h.
 */
#include "sim/run/sweep/shard.h"

#include "ref/ground/text.h"
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 32 }; /* bytes for "10000-of-10000" */

kv_rc kv_shard_parse(const char *text, kv_shard *out, kv_err *e) {
  char index[16] = "", show[KV_SHOW];
  const char *slash = strchr(text, '/');
  uint64_t i = 0, n = 0;
  size_t length = slash ? (size_t)(slash - text) : 0;
  bool read = length > 0 && length < sizeof index;
  if (read) memcpy(index, text, length);
  read = read && kv_text_count(index, KV_SHARDS_MOST, &i) &&
         kv_text_count(slash + 1, KV_SHARDS_MOST, &n);
  if (!read)
    return kv_fail(
        e, KV_USAGE,
        "--shard must be SHARD/SHARDS, 1/4 to 4/4, not '%s'; the limit is %d",
        kv_show(text, show), KV_SHARDS_MOST);
  if (n == 0)
    return kv_fail(e, KV_USAGE,
                   "--shard must have at least one shard, 1/1, not '%s'", text);
  if (i == 0 || i > n)
    return kv_fail(e, KV_USAGE,
                   "--shard %s: shards are counted from 1, so the first is "
                   "1/%d and the last %d/%d",
                   text, (int)n, (int)n, (int)n);
  *out = (kv_shard){(int)i, (int)n};
  return KV_OK;
}

char *kv_shard_path(const char *pattern, kv_shard shard) {
  char name[NAME];
  snprintf(name, sizeof name, "%d-of-%d", shard.index, shard.count);
  char *path = malloc(strlen(pattern) * (NAME + 1) + 1), *to = path;
  if (!path) return NULL;
  for (const char *c = pattern; *c; c++) {
    bool twice = c[0] == '%' && c[1] == '%';
    if (*c == '%' && !twice)
      to += strlen(strcpy(to, name));
    else
      *to++ = *c;
    c += twice;
  }
  *to = 0;
  return path;
}

bool kv_shard_distinct(const char *pattern) {
  for (const char *c = pattern; *c; c++) {
    if (*c != '%') continue;
    if (c[1] != '%') return true;
    c++;
  }
  return false;
}

/* The shard of a process, from the variables of schedulers and MPI. Each source
 * is a row of a table; those that are set must agree. */

/* Variables of a scheduler. A count or a step that is not set is unknown. */
typedef struct source {
  const char *index, *count; /* count NULL: there is none */
  const char *first;         /* variable of the first task's index, or NULL: */
  int from;                  /* the first task's index otherwise */
  const char *step; /* variable of the step between two tasks, or NULL: 1 */
  const char *how, *rest; /* before and after N: what submits N tasks */
} source;

static const source table[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", 1,
     "SLURM_ARRAY_TASK_STEP", "sbatch --array=1-", ""},
    {"PBS_ARRAY_INDEX", NULL, NULL, 1, NULL, "qsub -J 1-", ""},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, 0, NULL,
     "mpirun -n ", ""},
    {"PMI_RANK", "PMI_SIZE", NULL, 0, NULL, "mpiexec -n ", ""},
    {"JOB_COMPLETION_INDEX", NULL, NULL, 0, NULL,
     "completions: ", " of an Indexed job"}};
enum { SOURCES = sizeof table / sizeof *table };

/* What one source says. */
typedef struct said {
  const source *from;
  int shard; /* from 1 */
  int count; /* 0: unknown */
} said;

/* Reads a variable, if it is set, into *out. */
static kv_rc number(kv_lookup *lookup, const char *name, int *out, kv_err *e) {
  const char *text = name ? lookup(name) : NULL;
  char show[KV_SHOW];
  uint64_t value;
  if (!text) return KV_OK;
  if (!kv_text_count(text, INT_MAX, &value))
    return kv_fail(e, KV_USAGE,
                   "--shards: the variable %s is %s, not a number; name the "
                   "shard by --shard",
                   name, *text ? kv_show(text, show) : "empty");
  *out = (int)value;
  return KV_OK;
}

static kv_rc outside(const source *s, int index, int n, kv_err *e) {
  return kv_fail(e, KV_USAGE,
                 "--shards %d: %s is %d, not an index of %d tasks; submit them "
                 "by %s%d%s, or name the shard by --shard",
                 n, s->index, index, n, s->how, n, s->rest);
}

/* Reads a source whose index is set. */
static kv_rc hear(const source *s, kv_lookup *lookup, int n, said *out,
                  kv_err *e) {
  int index = 0, count = 0, first = s->from, step = 1;
  kv_rc rc = number(lookup, s->index, &index, e);
  if (!rc) rc = number(lookup, s->count, &count, e);
  if (!rc) rc = number(lookup, s->first, &first, e);
  if (!rc) rc = number(lookup, s->step, &step, e);
  if (rc) return rc;
  int at = index - first;
  *out = (said){s, 0, count};
  if (count && count != n) return KV_OK; /* the caller reports the count */
  if (step < 1 || at < 0 || at % step || at / step >= n)
    return outside(s, index, n, e);
  out->shard = at / step + 1;
  return KV_OK;
}

/* Drops sources that count one task if another exists; returns how many stay.
 */
static int drop_alone(int n, int heard, said *s) {
  int kept = 0, others = 0;
  for (int i = 0; i < heard; i++) others += s[i].count != 1;
  if (n == 1 || others == 0) return heard;
  for (int i = 0; i < heard; i++)
    if (s[i].count != 1) s[kept++] = s[i];
  return kept;
}

static kv_rc agree(int n, int heard, const said *s, kv_err *e) {
  for (int i = 0; i < heard; i++)
    if (s[i].count && s[i].count != n)
      return kv_fail(e, KV_USAGE,
                     "--shards %d: %s is %d; give both the same number, or "
                     "name the shard by --shard",
                     n, s[i].from->count, s[i].count);
  for (int i = 1; i < heard; i++)
    if (s[i].shard != s[0].shard)
      return kv_fail(e, KV_USAGE,
                     "--shards %d: %s means shard %d but %s shard %d; name the "
                     "shard by --shard",
                     n, s[0].from->index, s[0].shard, s[i].from->index,
                     s[i].shard);
  return KV_OK;
}

kv_rc kv_shard_find(int n, kv_lookup *lookup, kv_shard *out, kv_err *e) {
  said s[SOURCES];
  int heard = 0;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < SOURCES; i++)
    if (lookup(table[i].index)) rc = hear(&table[i], lookup, n, &s[heard++], e);
  if (rc) return rc;
  if (heard == 0)
    return kv_fail(e, KV_USAGE,
                   "--shards %d: the environment has no task index (a Slurm or "
                   "PBS array, a rank of MPI, an Indexed job of Kubernetes); "
                   "name the shard by --shard 1/%d",
                   n, n);
  heard = drop_alone(n, heard, s);
  rc = agree(n, heard, s, e);
  if (!rc) *out = (kv_shard){s[0].shard, n};
  return rc;
}
