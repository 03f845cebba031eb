# SPDX-License-Identifier: Apache-2.0
#
# What the scripts about shards share; sourced, never run. Sets kvreplay,
# kvreport, src, top and tmp (a folder, removed at the end), bad (failures).
#
#   fail TEXT...      counts a failure, with what stderr said
#   sweep OPTION...   `kvreplay run` of two short traces: 2 * 10 cells
#   same_rows A B     two databases hold the same rows, in every column of every
#                     table but who computed them, when and how long
#   no_environment    forgets the variables of schedulers
. "$(dirname "${BASH_SOURCE[0]}")/sh.sh"
ask=$sql whole=$top/tests/faults/whole_db shows=("$tmp/err")

no_environment() {
  unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN \
    SLURM_ARRAY_TASK_STEP PBS_ARRAY_INDEX OMPI_COMM_WORLD_RANK \
    OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE JOB_COMPLETION_INDEX
}

shard_traces=("$src/traces/tiny/retrieval_8_small.safetensors"
  "$src/traces/tiny/retrieval_8_small.f32.safetensors")
shard_cells=(-m 'dense,h2o,snapkv,quest:page=8:skip=0,kivi:group=8:residual=16'
  -b '20%,40')
sweep() {
  "$kvreplay" run "${shard_traces[@]}" "${shard_cells[@]}" "$@"
}

# The columns of a table, but for the integers that name rows within a file.
columns() { # DATABASE TABLE
  "$ask" "$1" "SELECT group_concat('t.' || name, ', ') FROM
    pragma_table_info('$2') WHERE name NOT IN ('run_id', 'environment_id')"
}

# lacks A B: rows of A that B has not, as TABLE: COUNT
lacks() {
  local table rows n
  for table in trace run part metric step_cost step_mean journal_digest held \
    ask layout layout_step survival request; do
    rows="SELECT r.key, $(columns "$1" $table) FROM %s.$table t JOIN %s.run r
      USING (run_id)"
    [ $table != trace ] || rows="SELECT $(columns "$1" trace) FROM %s.trace t"
    [ $table != run ] || rows="SELECT $(columns "$1" run) FROM %s.run t"
    n=$("$ask" "$1" "ATTACH '$2' AS b" "SELECT count(*) FROM
      (${rows//%s/main} EXCEPT ${rows//%s/b})") || echo "$table: no answer"
    [ "$n" = 0 ] || echo "$table: $n"
  done
}

same_rows() {
  local left
  left=$(lacks "$1" "$2" && lacks "$2" "$1")
  [ -z "$left" ] || fail "$1 and $2 differ:" $left
  [ "$("$ask" "$1" 'SELECT count(*) > 0 FROM run')" = 1 ] ||
    fail "$1 has no rows"
}
