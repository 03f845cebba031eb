# SPDX-License-Identifier: Apache-2.0
#
# Sections of .ci/run that look at a program while it runs, sourced by it: the
# sanitizers of gcc and clang, valgrind, and fuzzers.

# Of the tests of the build $1 a ninth and two, of which most may be
# those of files that changed: a test's own, and those whose seeded faults it is
# named for.
drawn_asan() {
  local names
  mapfile -t names < <(make -C "$1/tests" -s --no-print-directory names |
    grep -E '^(check_|cases/)')
  awk '
    FILENAME == ARGV[1] { own[$2] = own[$2] " " $1; next }
    FILENAME == ARGV[2] { sees[$1] = sees[$1] " " $2; next }
    {
      name = $1
      sub(/^check_/, "", name)
      if ($1 ~ /[.](sh|cases)$/) name = $1
      print $1 own[$1] sees[name]
    }' <(find tests -name 'check_*' -print -o -name '*.cases' -print |
      sed -E 's,^tests/(cases/.*),& \1,; t
        s,.*/([a-z0-9_]+([.]sh)?).*,& \1,') \
    <(bash tests/mutants/run.sh --checks) <(printf '%s\n' "${names[@]}") |
    draw_some asan $((${#names[@]} / 9 + 2)) $((${#names[@]} / 12))
}

# The libraries of row kernels but the best that this machine runs: no test asks
# for them, or it cannot run them.
plain_sets() {
  local other=avx2
  ! draw_all || return 0
  grep -qw avx512vl /proc/cpuinfo || other=avx512
  echo "libkern_portable.la libkern_$other.la"
}

# Optimised: the executor runs its kernels thrice as fast as with -O1. There
# gcc 12 takes the address of a thread's own variable for null; what reads
# through a null pointer still ends, by ASan. gcc needs minutes to instrument
# the unrolled row kernels of an instruction set, which are one source: those of
# the best set of this machine are, and of the others where all is taken.
run_asan() {
  local tests plain flags='-g1 -O2 -fno-omit-frame-pointer'
  flags+=' -fsanitize=address,undefined'
  flags+=' -fno-sanitize=null'
  packages libcmocka-dev
  step configured asan CC=gcc CFLAGS="$flags -fno-sanitize-recover=all"
  plain=$(plain_sets)
  # shellcheck disable=SC2086
  [ -z "$plain" ] || make -C "$ci/asan/ref/kernels" -s --no-print-directory \
    -j"$jobs" CFLAGS='-g1 -O1 -ffp-contract=off' $plain
  step make -C "$ci/asan" -s --no-print-directory -j"$jobs"
  export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
  export UBSAN_OPTIONS=print_stacktrace=1
  mapfile -t tests < <(drawn_asan "$ci/asan" | draw_part)
  echo "${tests[*]}"
  make -C "$ci/asan/tests" --no-print-directory -j"$jobs" check \
    TESTS="${tests[*]}" \
    LOG_COMPILER="bash $top/.ci/timed.sh" \
    SH_LOG_COMPILER="bash $top/.ci/timed.sh bash" \
    CASES_LOG_COMPILER="bash $top/.ci/timed.sh bash $top/tests/cases.sh"
  echo 'of these took longest, in seconds of processor:'
  grep -Hr --include='*.log' '^timed: ' "$ci/asan/tests" |
    sed -E 's,.*/(.*)[.]log:timed: ,\1 ,' | sort -k 2,2nr | head -n 8
}

# Races that libomp's barriers order are told to TSan by archer; a program
# with a race and one without show that both see.
run_tsan() {
  local archer steady=()
  packages clang libomp-dev
  archer=$(find /usr/lib/llvm-* -name libarcher.so | sort -V | tail -n 1)
  [ -n "$archer" ] || skip 'libomp-dev brings no libarcher.so' || return
  setarch -R true 2>/dev/null && steady=(setarch -R)
  export OMP_TOOL_LIBRARIES=$archer OMP_NUM_THREADS=4
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66
  mkdir -p "$ci"
  racing 'x += i' && { echo 'a race was not seen'; return 1; }
  racing '_Pragma("omp atomic") x += i' || { echo 'false alarm'; return 1; }
  built tsan CC=clang CFLAGS='-g1 -O1 -fsanitize=thread' --disable-shared \
    --enable-static
  small "$ci/tsan/sim/kvreplay" 4 "${steady[@]}"
}

# Is a parallel loop with this body free of races?
racing() {
  printf '%s\n' '#include <stdio.h>' 'int main(void) { int x = 0, i;' \
    '#pragma omp parallel for' 'for (i = 0; i < 9999; i++) {' "$1;" '}' \
    'printf("%d\n", x); return 0; }' >"$ci/race.c"
  clang -g -O1 -fopenmp -fsanitize=thread "$ci/race.c" -o "$ci/race"
  "${steady[@]}" "$ci/race" >/dev/null 2>&1
}

# The build of quickstart. Valgrind 3.19 knows no AVX-512.
run_valgrind() {
  packages valgrind
  [ -x build/sim/kvreplay ] || ./quickstart check
  export KVREPLAY_ISA=avx2
  small build/sim/kvreplay 1 valgrind -q --error-exitcode=9 \
    --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite
}

# The kernels without the sanitizers: clang takes ten minutes to instrument all
# that is unrolled in them, they read no file, and asan looks at them.
run_fuzz() {
  local flags='-g1 -O1 -fsanitize=fuzzer-no-link,address,undefined'
  local seconds=${FUZZ_SECONDS:-6}
  ! draw_all || seconds=${FUZZ_SECONDS:-60}
  compgen -G 'tests/fuzz/fuzz_*.c' >/dev/null ||
    skip 'no tests/fuzz/fuzz_*.c yet' || return
  packages clang libclang-rt-14-dev libomp-dev
  configured fuzz CC=clang CFLAGS="$flags -fno-sanitize-recover=undefined"
  make -C "$ci/fuzz/ref/kernels" -s -j"$jobs" CFLAGS='-g1 -O1'
  make -C "$ci/fuzz" -s --no-print-directory -j"$jobs"
  make -C "$ci/fuzz/tests/fuzz" --no-print-directory fuzzers
  export -f fuzzed && export ci seconds
  printf '%s\n' tests/fuzz/fuzz_*.c | xargs -P "$jobs" -I {} bash -c 'fuzzed {}'
}

# One target, by its source; each is one process.
fuzzed() {
  local name log corpus
  name=$(basename "$1" .c)
  [ "$name" != fuzz_database ] || seconds=$((3 * seconds)) # slow: it has disks
  log=$ci/fuzz/$name.log corpus=tests/fuzz/corpus_${name#fuzz_}
  mkdir -p "$ci/fuzz/found_$name" "$corpus"
  "$ci/fuzz/tests/fuzz/$name" -max_total_time="$seconds" -timeout=30 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$ci/fuzz/" \
    "$ci/fuzz/found_$name" "$corpus" 2>"$log" || { tail -n 40 "$log"; exit 1; }
  echo "$name for $seconds s"
  grep -E 'number_of_executed_units|average_exec' "$log"
}
