#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Six runs that share no axis give the same journal, state and output digest,
# for every method and its variants, on traces of full mantissas:
#
#   instruction set  the best, AVX2, portable (asked for by KVREPLAY_ISA)
#   threads          1, 2, 8
#   walk             layer by layer, step by step
#   tile             16, 7, 64, 2 decode steps computed at once (KVREPLAY_TILE),
#                    or each by itself, as step by step always is
#   build            this one and those of KVREPLAY_BINARIES, a list of
#                    kvreplay programs separated by blanks; a compiler, an
#                    optimisation level each: .ci/run makes them
#
# The third run compares itself with portable kernels on one thread besides, and
# with them what selections were shown (--twice). Without KVREPLAY_BINARIES that
# is the fourth run: all are of this build.
#
# Of each trace the last 80 decode steps: a whole tile of 64 and a part of one.
# KV_SIX_TRACES='0 2': of the traces the first and the third alone. Prints the
# table of runs and how many digests were equal; the first that is not is
# named: trace, method, budget, run, which digest.
. "$(dirname "$0")/replays.sh"

read -r -a extra <<<"${KVREPLAY_BINARIES-}"

# The way of run i: instruction set ("-" the best), threads, walk, tile.
ways=('- 1 layers 16' 'portable 2 steps 1' 'avx2 8 layers 64'
  'portable 1 layers 7' '- 8 steps 1' 'avx2 2 layers 2')

program_of() { # extra programs take the later ways, each at least one
  local n=${#extra[@]} i=$1
  if [ "$n" -gt 0 ] && [ "$i" -ge 3 ]; then
    echo "${extra[(i - 3) % n]}"
  else
    echo "$kvreplay"
  fi
}

runs=${#ways[@]}
while [ $((runs - 3)) -lt ${#extra[@]} ]; do # more programs than ways
  ways+=("${ways[runs % 6]}")
  runs=$((runs + 1))
done

build_of() { # compiler and level, as the program says
  "$1" --version | awk '/^compiler/ { $1 = ""; c = substr($0, 2) }
    /^flags/ { for (i = 2; i <= NF; i++) if ($i ~ /^-O/) o = $i }
    END { printf "%s %s", c, o }'
}

specs=$(replay_specs)
mapfile -t traces < <(replay_traces)
all=("${traces[@]}") traces=()
! replay_little || KV_SIX_TRACES=0
for i in ${KV_SIX_TRACES:-0 1 2}; do traces+=("${all[i]}"); done
printf '%-4s %-9s %-8s %-7s %-5s %s\n' run ISA threads walk tile build
for ((i = 0; i < runs; i++)); do
  read -r isa threads walk tile <<<"${ways[i]}"
  [ "$i" != 3 ] || [ ${#extra[@]} -gt 0 ] || continue # --twice of the third
  program=$(program_of "$i")
  [ "$isa" != - ] || isa=
  printf '%-4s %-9s %-8s %-7s %-5s %s\n' "$i" "${isa:-best}" "$threads" \
    "$walk" "$tile" "$(build_of "$program")"
  how=(-m "$specs" -b '6,25%' -q --jobs "$threads" --walk "$walk" -f jsonl)
  [ "$i" != 2 ] || how+=(--twice)
  for trace in "${traces[@]}"; do
    replay_last "$trace" 80
    KVREPLAY_ISA=$isa KVREPLAY_TILE=$tile "$program" run "$trace" \
      "${last[@]}" "${how[@]}" 2>"$tmp/said" || {
      printf 'check_six_runs: run %d: exit %d: %s\n' "$i" $? \
        "$(cat "$tmp/said")" >&2
      exit 1
    }
  done >"$tmp/rows"
  digests <"$tmp/rows" >"$tmp/run.$i"
done

# Every method must be there, with three digests that are not null; a format by
# its short name is the method quant.
awk -v want="$specs" '
  BEGIN { n = split(want, w, ","); for (i = 1; i <= n; i++) {
            gsub(/:[^+]*/, "", w[i])
            sub(/(^|[+])(q[0-9]_|iq4_|mxfp4|nvfp4|fp[48]_)[^+]*$/, "+quant",
                w[i])
            sub(/^[+]/, "", w[i])
            sub(/((int|sym|e[0-9]m|qserve|atom|k[0-9]+v)[0-9]+-?)+$/, "quant",
                w[i])
            need[w[i]] = 1 } }
  { name = $2; gsub(/:[^+]*/, "", name); delete need[name]
    if ($5 !~ /^[0-9a-f]+$/ || $6 !~ /^[0-9a-f]+$/ || $7 !~ /^[0-9a-f]+$/) {
      print "check_six_runs: no digest: " $1 " " $2; bad = 1 } }
  END { for (m in need) { print "check_six_runs: no row of " m; bad = 1 }
        exit bad }' "$tmp/run.0" || exit 1

equal=0
for ((i = 1; i < runs; i++)); do
  [ -e "$tmp/run.$i" ] || continue
  awk -v run="$i" '
    NR == FNR { line[FNR] = $0; n = FNR; next }
    { split(line[FNR], a, " "); split("- - - - journal state output", what, " ")
      for (k = 1; k <= 7; k++) {
        if (a[k] == $k) { if (k > 4) same++; continue }
        name = k > 4 ? what[k] : "row"
        printf "check_six_runs: %s, %s, budget %s: run %d has another %s " \
               "than run 0: %s, not %s\n", a[1], a[2], a[3], run, name, $k,
               a[k]
        bad = 1
        exit
      } }
    END { if (!bad && FNR != n) { print "check_six_runs: rows are missing"
                                  bad = 1 }
          print same + 0 > "/dev/stderr"; exit bad }
  ' "$tmp/run.0" "$tmp/run.$i" 2>"$tmp/same" || exit 1
  equal=$((equal + $(cat "$tmp/same")))
done
printf 'check_six_runs: %d runs of %d cells of %s, %d digests equal\n' "$runs" \
  "$(wc -l <"$tmp/run.0")" "$(basename -a "${traces[@]}" | paste -s -d ' ')" \
  "$equal"
