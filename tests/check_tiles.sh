#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# However many decode steps, or rows of a prompt in chunks, a replay computes
# at once, a row is the same: every digest, byte and measure of it, for every
# method and its variants (KVREPLAY_TILE, sim/replay/measure/tile.h and
# ref/backend/ahead.h). One step at a time is what the others are held against:
# there nothing is computed ahead and no output is shared. One thread, so that a
# tile sees one layer after another; the last 80 decode steps of each trace,
# which are a tile of 64 and a part of one. The last traces are long enough for
# coded rows to fill several chunks.
. "$(dirname "$0")/replays.sh"

rows() { # TILE METHODS BUDGET TRACE...: without what time it took and when
  local tile=$1 run=(-m "$2" -b "$3" -q -j 1 -f jsonl) trace last
  for trace in "${@:4}"; do
    replay_last "$trace" 80
    KVREPLAY_TILE=$tile "$kvreplay" run "$trace" "${last[@]}" "${run[@]}" || {
      echo "check_tiles: KVREPLAY_TILE=$tile: exit $?" >&2
      exit 1
    }
  done >"$tmp/rows.$tile"
  sed 's/"seconds": [^,}]*//' "$tmp/rows.$tile" >"$tmp/tile.$tile"
}

# held WHAT TILES METHODS BUDGET TRACE...: rows of each tile against those of 1.
held() {
  local what=$1 tiles=$2 s
  shift 2
  rows 1 "$@"
  for s in $tiles; do
    rows "$s" "$@"
    cmp -s "$tmp/tile.1" "$tmp/tile.$s" && continue
    echo "check_tiles: $what: rows of tiles of $s steps are others than of 1:"
    diff "$tmp/tile.1" "$tmp/tile.$s" | cut -c 1-300 | head -n 4
    exit 1
  done
  checked=$((checked + $(wc -l <"$tmp/tile.1")))
}

checked=0
mapfile -t traces < <(replay_traces)
! replay_little || traces=("${traces[0]}")
held 'every method' '2 7 16 64' "$(replay_specs)" 60% "${traces[@]}"
held 'a prompt in chunks' '2 7 64' "snapkv:window=16:prefill=48,\
h2o:prefill=7,adakv:prefill=100,quest:page=8:skip=0:prefill=48,\
omnikv:k=20:layers=1:prefill=48,dense:prefill=32" 30% "${traces[0]}"
if ! replay_little; then
  held 'a long answer' '7 16' kivi,h2o,snapkv,snapkv+kivi,dense 25% \
    "$src/traces/tiny/generated_1500.safetensors"
fi
out=$(KVREPLAY_TILE=65 "$kvreplay" run "${traces[0]}" -m window -b 6 2>&1)
[ $? = 2 ] &&
  [[ $out == *'KVREPLAY_TILE is 65; it must be from 1 to 64 steps'* ]] || {
  echo "check_tiles: KVREPLAY_TILE=65: $out"
  exit 1
}
echo "check_tiles: $checked rows, the same with tiles of 1, 2, 7, 16, 64 steps"
