#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Four ranks of Open MPI replay a sweep, one of them is killed in the middle,
# mpirun runs again and goes on; the four databases, merged, hold what one
# process finds, row for row. Run by .ci/run as its section `shards`, for not
# everybody has an MPI: 77 without one.
. "$(dirname "$0")/shards.sh"
no_environment
cd "$tmp" || exit 1
command -v mpirun >/dev/null || {
  echo 'check_shards_mpi: skipped, no mpirun'
  exit 77
}

# Long enough to be killed in: each rank keeps a layer as it ends.
long=("$src/traces/tiny/generated_1500.safetensors"
  "$src/traces/tiny/retrieval_8_small.safetensors"
  -m 'dense,h2o,snapkv,tova,kivi' -b '10%,64' -q -j 1)
export KVREPLAY_KEEP=0
ranks() {
  mpirun --allow-run-as-root --oversubscribe -n 4 bash -c \
    'echo $$ >pid.$OMPI_COMM_WORLD_RANK
     exec "$@" >out.$OMPI_COMM_WORLD_RANK' \
    rank "$kvreplay" run "${long[@]}" --shards 4 --db r.%.db
}

# The rank that kept a layer first is killed: its shard is not done.
kill_one() {
  local i rank
  for ((i = 0; i < 3000; i++)); do
    for rank in 0 1 2 3; do
      [ -e "r.$((rank + 1))-of-4.db" ] &&
        [ "$("$ask" "r.$((rank + 1))-of-4.db" \
          'SELECT count(*) > 0 FROM partial' 2>&1)" = 1 ] || continue
      kill -KILL "$(cat pid.$rank)" && echo "$rank" >killed
      return
    done
    sleep 0.02
  done
}

ranks >said 2>err &
kill_one
wait $! && fail 'mpirun does not say that a rank was killed'
[ -s killed ] || fail 'no rank was killed'
shard=$(($(cat killed) + 1))
held=$("$ask" "r.$shard-of-4.db" 'SELECT count(*) FROM run')
kept=$("$ask" "r.$shard-of-4.db" 'SELECT count(*) FROM partial')
ranks >said 2>err || fail 'the ranks, again'
all=$("$ask" "r.$shard-of-4.db" 'SELECT count(*) FROM run')
[ "$held" -lt "$all" ] || fail "the killed shard was done: $held of $all rows"
"$kvreplay" run "${long[@]}" --db whole.db >out 2>err || fail 'one process'
"$kvreport" merge merged.db r.?-of-4.db 2>err || fail merge
same_rows merged.db whole.db
[ $bad = 0 ] && echo "check_shards_mpi: rank $(cat killed) was killed with" \
  "$held of $all rows and $kept layers; merged as in one process"
exit $((bad > 0))
