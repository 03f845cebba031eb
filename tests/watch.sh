#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernels under the watch of the executor (gpu/emu/emu_races.h), in a build
# configured with --enable-watch: a race ends the program that runs it, and so
# the part. What is computed must be the reference's, too.
#
#   make -C tests watch                all of it: half an hour of two cores
#   make -C tests watch PARTS='long'   some parts
#   make -C tests watch PARTS=drawn    what CI asks: half a minute of a core,
#                                      chosen by .ci/draw.sh
#   tests/watch.sh --list               the parts
#   tests/watch.sh --drawn              the methods of part drawn
#
# Prints a line for each part. Environment: top_builddir, KV_ORDERS, as
# check_laws_emu.sh has it.
. "$(dirname "$0")/replays.sh"
. "$src/.ci/draw.sh"
read -ra orders <<<"${KV_ORDERS:-forward reverse}"
cells=0 turn=0 methods=all shows=("$tmp/out" "$tmp/err")

# --- how ---------------------------------------------------------------------

made() { # PROGRAM...
  make -C "$top/tests" -s --no-print-directory -j2 "$@" >"$tmp/made" 2>&1 ||
    { cat "$tmp/made" && exit 1; }
}

programs() {
  local p
  made "$@"
  for p in "$@"; do
    "$top/tests/$p" >"$tmp/out" 2>"$tmp/err" || fail "$p"
  done
}

# on_emu PROGRAM[:HALF]...: asks the executor what they ask the reference, two
# at a time, one order after the other in turn: a race is one in both.
on_emu() {
  local p order half running=0
  made "${@%:*}"
  : >"$tmp/failed"
  for p; do
    half=${p#"${p%:*}"} order=${orders[$((turn++ % ${#orders[@]}))]}
    (env ${half:+KV_HALF="${half#:}"} KV_TEST_BACKEND=emu \
      KVREPLAY_EMU_ORDER="$order" "$top/tests/${p%:*}" >"$tmp/$p.$order" 2>&1 ||
      echo "$p $order" >>"$tmp/failed") &
    [ $((running += 1)) -lt 2 ] || { wait -n; running=1; }
  done
  wait
  while read -r p order; do
    shows=("$tmp/$p.$order")
    fail "$p, threads $order"
  done <"$tmp/failed"
  shows=("$tmp/out" "$tmp/err")
}

# Did `check` with exit code $1 find every cell equal, but those refused because
# no file of their method is there for that model, or because the trace records
# too few queries of so long a prompt?
held() {
  [[ $1 = [03] ]] && awk -v codes='[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +' '
    $0 ~ "^" codes "no file of [a-z0-9-]+ for this model: " { without++ }
    $0 ~ "^" codes "[a-z0-9-]+ needs the last [0-9]+ query rows " { without++ }
    /^ *[0-9]+ equal, 0 different/ { said = 1; refused = 0 + $5 }
    END { exit !(said && refused == without + 0) }' "$tmp/out"
}

# compared TRACE STEPS METHODS [OPTION]...: its last steps, one order a call in
# turn: a race is one in both.
compared() {
  local order=${orders[$((turn++ % ${#orders[@]}))]} t rc=0
  t=$("$kvtrace" info --format json "$1" | tr -d ' \n' |
    grep -oE '"tokens":[0-9]+' | grep -oE '[0-9]+')
  KVREPLAY_EMU_ORDER=$order "$kvreplay" check "$1" -q -m "$3" -b 20% \
    -B ref,emu --prompt-len $((t - $2)) "${@:4}" >"$tmp/out" 2>"$tmp/err" ||
    rc=$?
  held "$rc" || {
    sed -i '/ equal$/d' "$tmp/out" # what is left says why
    fail "$1, -m $3, threads $order, exit $rc"
  }
  cells=$((cells + $(grep -c ' equal$' "$tmp/out")))
}

# shaped HEADS KV-HEADS DIM DTYPE TOKENS STEPS METHODS
shaped() {
  local trace=$tmp/$1_$2_$3_$5.safetensors
  [ -e "$trace" ] ||
    "$kvtrace" synth -o "$trace" --layers 1 --heads "$1" --kv-heads "$2" \
      --dim "$3" --dtype "$4" -t "$5" >"$tmp/out" 2>"$tmp/err" ||
    fail "synth $*"
  compared "$trace" "$6" "$7"
}

# --- what --------------------------------------------------------------------

part_made() { programs check_watch; }

device=(check_gpu_pages check_gpu_parts check_gpu_coded check_gpu_reads
  check_gpu_rebuilt)
part_device() { programs "${device[@]}"; }

# Every K and V made NaN once it was appended; latents; pages and regular
# indices of a store.
part_stores() {
  programs check_gpu_indexed check_gpu_rows check_gpu_tiers check_gpu_latents
}

# Groups that share passes unevenly, columns of more than one pass, rows that
# are no multiples of 16 bytes.
part_shapes() {
  local heads kv dim dtype tokens
  while read -r heads kv dim dtype tokens; do
    shaped "$heads" "$kv" "$dim" "$dtype" "$tokens" 2 "$methods"
  done <<'END'
11 1 20 F16 290
5 1 12 F32 290
10 2 160 F16 150
16 1 36 BF16 150
END
}

# What a lane needs as soon as it is longer: than 1,024 entries a list of
# indexes, than 4,096 a move of entries, than 8,192 two stages of a join.
part_long() {
  shaped 2 1 8 F16 2100 3 "$methods"
  shaped 1 1 8 F32 8500 2 dense,snapkv,h2o,streamingllm,quest,kivi
}

# The bundled ones, of learned weights, with those that read them.
part_traces() {
  local trace
  for trace in "$tiny"/*.safetensors; do compared "$trace" 2 all; done
  trace=$tiny/retrieval_8_small.safetensors
  compared "$trace" 3 "$replay_variants"
  compared "$trace" 2 leankv,snapkv+int4,dense+k8v4:residual=32,kivi --pages
}

part_methods() { on_emu "${orders[@]/*/check_methods}"; } # in both orders

# Lanes of up to 200 tokens. Each half of the methods in another order; all of
# them in both orders, but not watched, is what check_laws_emu.sh asks.
part_laws() {
  KV_WHIMS=${KV_WHIMS:-30} on_emu check_laws:0 check_laws:1 check_whims \
    check_chunk check_down check_layers check_segments
}

parts='made device shapes long stores traces methods laws'

# Of every method one in three, those first whose twins changed.
drawn_methods() {
  local n method file
  n=$(replay_methods | wc -l)
  replay_methods | while read -r method; do
    file=gpu/methods/${method//-/_}.cu
    [ -e "$src/$file" ] || file=gpu/methods/scored.cu
    echo "$method $file"
  done | draw_some methods $(((n + 2) / 3)) $((n / 6)) | paste -s -d ,
}

# These; of the bundled traces one; of the programs two.
part_drawn() {
  local traces name
  traces=$(cd "$tiny" && echo ./*_8*.safetensors text_400.safetensors)
  methods=$(drawn_methods)
  echo "$methods: $(draw_why)"
  part_made
  # shellcheck disable=SC2046 # words
  programs "${device[0]}" $(draw_one device "${device[@]:1}")
  part_shapes
  part_long
  # shellcheck disable=SC2086 # words
  for name in $(draw_one traces $traces); do
    compared "$tiny/${name#./}" 2 "$methods"
  done
}

# --- the run -----------------------------------------------------------------

case ${1-} in
--list) tr ' ' '\n' <<<"$parts drawn" && exit ;;
--drawn) drawn_methods && exit ;;
esac
nm "$kvreplay" 2>/dev/null | grep -q kv_emu_see ||
  { echo 'skipped: not a build by configure --enable-watch' && exit 77; }
[ $# -gt 0 ] || read -ra all <<<"$parts"
for part in "${@:-${all[@]}}"; do
  grep -qxF "$part" <<<"$(tr ' ' '\n' <<<"$parts drawn")" ||
    { echo "watch.sh: no part $part: --list names them" >&2 && exit 2; }
  before=$bad cells=0 start=$SECONDS
  "part_$part"
  printf '%-8s %d cells equal, %d failed, %d s\n' "$part" "$cells" \
    $((bad - before)) $((SECONDS - start))
done
[ "$bad" = 0 ]
