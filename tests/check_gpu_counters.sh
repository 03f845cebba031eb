#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What every method needs of a device, by phase of a replay, is what
# gpu/counters.tsv says: a number that rises needs a reason, and one that fell
# must be written, so that it cannot rise again unseen. gpu/README.md, Counters,
# says what the columns are.
#
#   check_gpu_counters.sh            compares
#   check_gpu_counters.sh --update   writes the table
#
# text_400 has six layers, and weights for the methods that have some. Of its
# 400 tokens 48 are decoded, so that kivi codes once more. Beside all methods:
# other ways to code or merge a prompt. Exit 77 without the executor, or where
# its kernels are watched and count nothing.
. "$(dirname "$0")/sh.sh"
table=$src/tests/gpu/counters.tsv
counts=$top/tests/gpu_counts
further='leankv:variant=paper quant:k=q4_0:v=q4_0 quant:k=int4:v=int2:groups=2
  zsmerge:variant=code deltakv:refs=recon snapkv+quant:k=int4:v=int4'

[ -x "$counts" ] || { echo 'no gpu_counts in this build' && exit 77; }
{
  printf 'method\tphase\tlaunches\twaits\tcopies\tsent\tread\tbarriers\tfmas'
  printf '\telements\n'
  # shellcheck disable=SC2086
  "$counts" "$src/traces/tiny/text_400.safetensors" 352 all $further
} >"$tmp/now" || exit 1
if [ "${1-}" = --update ]; then
  cp "$tmp/now" "$table"
  echo "check_gpu_counters: wrote $table"
  exit
fi

awk -F '\t' '
  FNR == 1 { for (i = 3; i <= NF; i++) name[i] = $i }
  NR == FNR { old[$1, $2] = $0; next }
  !(($1, $2) in old) { print $1 ", " $2 ": no row in the table"; next }
  {
    seen[$1, $2] = 1
    n = split(old[$1, $2], was, FS)
    for (i = 3; i <= n; i++)
      if ($i != was[i])
        print $1 ", " $2 ": " name[i] ($i > was[i] + 0 ? " rose" : " fell") \
          " from " was[i] " to " $i
  }
  END {
    for (k in old)
      if (!(k in seen)) print "not counted now: " old[k]
  }' "$table" "$tmp/now" >"$tmp/said"
cat "$tmp/said"
[ ! -s "$tmp/said" ] || {
  fail "what rose needs a reason; then, and where numbers only fell, write" \
    "the table: tests/check_gpu_counters.sh --update"
  exit 1
}
echo "check_gpu_counters: $(wc -l <"$tmp/now") rows as in the table"
