#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# However many decode steps a replay computes at once, a row is the same: every
# digest, byte and measure of it, for every method and its variants
# (KVREPLAY_TILE, sim/measure/tile.h and ref/backend/ahead.h). One step at a
# time is what the others are held against: there nothing is computed ahead and
# no output is shared. One thread, so that a tile sees one layer after another.
# The second set of traces is long enough for coded rows to fill several chunks.
. "$(dirname "$0")/replays.sh"

rows() { # TILE, then what to run: rows without what time it took and when
  local run=("$kvreplay" run "${@:2}" -q -j 1 -f jsonl)
  KVREPLAY_TILE=$1 "${run[@]}" >"$tmp/rows.$1" || {
    echo "check_tiles: KVREPLAY_TILE=$1: exit $?"
    exit 1
  }
  sed 's/"seconds": [^,}]*//' "$tmp/rows.$1" >"$tmp/tile.$1"
}

# held WHAT TILES TRACE... OPTION...: rows of each tile against those of 1.
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
held 'every method' '2 7 16 64' "${traces[@]}" -m "$(replay_specs)" -b 60%
if ! replay_little; then
  held 'a long answer' '7 16' "$src/traces/tiny/generated_1500.safetensors" \
    -m kivi,h2o,snapkv,snapkv+kivi,dense -b 25%
fi
out=$(KVREPLAY_TILE=65 "$kvreplay" run "${traces[0]}" -m window -b 6 2>&1)
[ $? = 2 ] && [[ $out == *'KVREPLAY_TILE is 65: it takes 1 to 64 steps'* ]] || {
  echo "check_tiles: KVREPLAY_TILE=65: $out"
  exit 1
}
echo "check_tiles: $checked rows, the same with tiles of 1, 2, 7, 16, 64 steps"
