#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of a run in shards: every cell is in one shard, whatever their number;
# the databases of all shards, merged, are that of the run in one process, row
# for row; a shard that is killed goes on; one without cells is a success and
# leaves a database that can be merged; which shard a process is, schedulers
# may say; and what is asked wrongly is one sentence.
. "$(dirname "$0")/shards.sh"
no_environment
cd "$tmp" || exit 1

# spared TEXT COMMAND...: it is refused so, and nothing is made.
spared() {
  refused 2 "$@"
  [ -z "$(find . -name '*.db')" ] || fail "$*: made a database"
}

# --- what is wrong -----------------------------------------------------------
spared 'shards are counted from 1' sweep --shard 0/4
spared 'the last 4/4' sweep --shard 5/4
spared '1/4 to 4/4' sweep --shard 3
spared '1/4 to 4/4' sweep --shard 1/4x
spared 'not both' sweep --shard 1/4 --shards 4
spared 'has no task index' sweep --shards 4 --db r.%.db
spared 'needs a database for each shard' env PMI_RANK=0 PMI_SIZE=4 \
  "$kvreplay" run x -m dense --shards 4 --db r.db
spared 'needs a database for each shard' env PMI_RANK=0 PMI_SIZE=4 \
  "$kvreplay" run x -m dense --shards 4 --db r%%.db
spared 'PMI_SIZE is 8' env PMI_RANK=0 PMI_SIZE=8 \
  "$kvreplay" run x -m dense --shards 4
for option in selections views stored outputs decisions; do
  spared "--$option needs all cells in one run" \
    "$kvreplay" run x -m dense --shard 1/2 --$option "$tmp/made"
done
sweep /nowhere/none --shard 1/2 >out 2>err
[ $? = 3 ] && grep -q 'be split into shards' err || fail 'a trace is lost'

# --- every cell is in one shard ---------------------------------------------
sweep -n | sort >all
for n in 1 2 3 7 40; do
  for ((i = 1; i <= n; i++)); do
    sweep -n --shard "$i/$n" >part || fail "dry run of $i/$n"
    grep -o 'cut [0-9a-f]*' part >>cuts.$n
    sed -n 's/^ *[0-9.]* s  //p' part
  done | sort >dealt.$n
  cmp -s all dealt.$n || fail "$n shards: not every cell once"
  [ "$(sort -u cuts.$n | wc -l)" = 1 ] || fail "$n shards: more than one cut"
done
[ "$(wc -l <all)" = 16 ] || fail "$(wc -l <all) cells, not 16"

# What a shard takes is what its lines say and what they share, of which there
# is some; and the shares are even.
for i in 1 2 3; do sweep -n --shard $i/3; done >parts
awk '/ s  / { own += $1; mine = 1 }
  /predicted/ {
    for (i = 1; i < NF; i++) if ($i == "predicted") cost = $(i + 1)
    if (!(cost > own)) print "no shared part"
    if (cost > most) most = cost
    all += cost; own = 0; n++
  }
  END { if (n != 3 || most * 3 > all * 1.1) print n, most, all }' parts >odd
[ ! -s odd ] || fail "costs: $(cat odd)"

# --- merged, it is the run in one process -----------------------------------
sweep -q --db whole.db >out 2>err || fail 'the run in one process'
for i in 1 2 3; do
  sweep -q --shard $i/3 --db s.%.db -f jsonl >out.$i 2>err || fail "shard $i"
  [ -s err ] && fail "shard $i is not quiet"
  [ -e s.$i-of-3.db ] || fail "no database of shard $i"
done
[ "$(cat out.? | wc -l)" = 16 ] || fail 'rows of the shards'
"$kvreport" merge merged.db s.?-of-3.db 2>err || fail merge
same_rows merged.db whole.db
"$kvreport" merge both.db merged.db whole.db 2>err || fail 'a contradiction'

# A repeated shard runs nothing; the command without shards, what is missing.
sweep -q --shard 2/3 --db s.%.db >out 2>err || fail 'a repeated shard'
"$kvreport" merge two.db s.1-of-3.db s.3-of-3.db
sweep -q --db two.db >out 2>err || fail 'the rest'
same_rows two.db whole.db

# --- a shard without cells ---------------------------------------------------
for i in 1 2 3 4 5; do
  "$kvreplay" run "${shard_traces[0]}" -q -m dense,window -b 40 -f json \
    --shard $i/5 --db e.%.db >out 2>err || fail "shard $i of two cells"
  ! grep -q 'has nothing to run; there are only 2 cells' err ||
    { [ "$(cat out)" = '[]' ] || fail 'rows of no cells'; echo $i >>empty; }
  "$whole" e.$i-of-5.db >>rows 2>err || fail "the database of shard $i"
done
[ "$(wc -l <empty)" = 3 ] || fail 'not three empty shards'
[ "$(wc -l <rows)" = 2 ] || fail 'not two rows in all'
"$kvreport" merge e.db e.?-of-5.db 2>err || fail 'merge of empty ones'
"$kvreport" merge f.db e."$(head -n 1 empty)"-of-5.db e.db 2>err ||
  fail 'merge into an empty one'

# Cells that are refused: a shard of nothing else is no failure, a sweep is, of
# which one method has no cell anywhere, too (check_refused.sh).
"$kvreplay" run "${shard_traces[@]}" -q -m snapkv:window=32,dense -b 24,64 \
  --shard 1/4 >out 2>err || fail "refused cells in one shard: exit $?"
for i in 1 2; do
  "$kvreplay" run "${shard_traces[@]}" -q -m snapkv:window=32 -b 24 \
    --shard $i/2 >out 2>err
  [ $? = 2 ] || fail 'no cell could run, and the exit code is not 2'
done

# --- from the environment ----------------------------------------------------
# as I VARIABLE=VALUE...: a process in that environment is shard I of 3.
as() {
  local i=$1
  shift
  env "$@" "$kvreplay" run "${shard_traces[@]}" "${shard_cells[@]}" -n \
    --shards 3 >found 2>err || fail "$*"
  sweep -n --shard "$i/3" | cmp -s - found || fail "$*: not shard $i"
}
as 1 SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1
as 3 SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0
as 2 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_ID=6
as 3 PBS_ARRAY_INDEX=3
as 1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3
as 2 PMI_SIZE=3 PMI_RANK=1
as 2 JOB_COMPLETION_INDEX=1
as 2 SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 \
  PMI_RANK=0 PMI_SIZE=1
rm -f ./*.db
spared 'means shard 1 but' env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 \
  JOB_COMPLETION_INDEX=2 "$kvreplay" run x -m dense --shards 3

# --- job files ----------------------------------------------------------------
# Each is the command line of eight tasks, which the scheduler starts: here that
# is a loop, and kvreplay prints what it would run.
mkdir bin jobs && cd jobs && ln -s "${shard_traces[@]}" . || exit 1
printf '%s\n' '#!/bin/sh' "exec '$kvreplay' \"\$@\" -n" >../bin/kvreplay
printf '%s\n' '#!/bin/sh' 'echo "$@" >merged' >../bin/kvreport
printf '%s\n' '#!/bin/bash' 'while [ "${1#-}" != "$1" ]; do shift 2; done' \
  'for i in 0 1 2 3 4 5 6 7; do' \
  'OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=8 "$@"; done' >../bin/mpirun
chmod +x ../bin/*
jobs=$src/analysis/cluster
slurm() {
  for i in 1 2 3 4 5 6 7 8; do
    SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=8 \
      SLURM_ARRAY_TASK_MIN=1 bash "$jobs/slurm.sbatch"
  done
}
kubernetes() { # what stands in its quotes, on two lines
  tr '\n' ' ' <"$jobs/kubernetes.yaml" |
    sed 's/.*sh, -c, "\([^"]*\)".*/\1/' >../command
  for i in 0 1 2 3 4 5 6 7; do JOB_COMPLETION_INDEX=$i sh ../command; done
}
"$kvreplay" run ./*.safetensors -m all -b 10%,20%,40% -n | sort >../all
for job in slurm kubernetes "sh $jobs/mpi.sh"; do
  PATH=$tmp/bin:$PATH $job >../said 2>../err || fail "$job"
  sed -n 's/^ *[0-9.]* s  //p' ../said | sort | cmp -s - ../all ||
    fail "$job: not every cell once"
done
grep -q 'sweep.db sweep.\*-of-8.db' merged || fail 'mpi.sh does not merge'
cd "$tmp" || exit 1

# --- killed, and gone on -----------------------------------------------------
# The kill comes when a first layer is kept; where the shard was faster, there
# was nothing to lose, and the rows are the same all the same.
KVREPLAY_KEEP=0 sweep -q -j 1 --shard 1/2 --db k.%.db >out 2>err &
for ((i = 0; i < 400; i++)); do
  [ "$("$ask" k.1-of-2.db 'SELECT count(*) > 0 FROM partial' 2>&1)" != 1 ] ||
    break
  sleep 0.02
done
kill -KILL $!
wait $! 2>/dev/null
for i in 1 2; do
  sweep -q --shard $i/2 --db k.%.db >out 2>err || fail "shard $i, repeated"
done
sweep -q --db whole.db >out 2>err || fail 'the run in one process, again'
"$kvreport" merge k.db k.?-of-2.db 2>err || fail 'merge of what was killed'
same_rows k.db whole.db

[ $bad = 0 ] && echo 'check_shards: all laws hold'
exit $((bad > 0))
