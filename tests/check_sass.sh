#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What ptxas makes of the kernels of gpu/ for one architecture (sm_90).
#
# Refused with any toolkit: a stack frame, local memory (what spills), fma of
# doubles, and loops of compare-and-swap, where a method's kernel is not allowed
# them by "Allowed local: KERNEL," or "Allowed cas: KERNEL,", and why, at the
# head of gpu/methods/NAME.cu; and more than 47 KB of static shared memory, of
# 48 that a kernel may have on every architecture, so that one more array still
# compiles. Under the release of the toolkit that sass.tsv names, also more than
# 8 registers above the table's, shared memory above it, kernels that the table
# lacks (but those of methods, which the next --update adds), and rows of
# kernels that are gone.
#
#   check_sass.sh             proves on faults that each is seen, then looks
#   check_sass.sh --update    writes the table's kernels
#
#   NVCC, NVCC_BITS   the compiler and the flags that fix the bits, from make
#   KV_SASS_PART      4: a fourth of the files of gpu/, chosen by .ci/draw.sh
#   SASS_ARCH         another architecture than 90: only what is refused with
#                     any toolkit; on 75 more kernels spill (gpu/README.md)
#
# Objects of the build (gpu/*/*.obj) serve where they are newer than what they
# were made from and hold this architecture; the others are compiled here, which
# takes minutes. Exit 77 without nvcc, cuobjdump or nvdisasm. The last two come
# with the CUDA Toolkit, or as the Python packages nvidia-cuda-cuobjdump and
# nvidia-cuda-nvdisasm.
. "$(dirname "$0")/nvcc/nvcc.sh"

arch=${SASS_ARCH:-90}
table=$top/tests/nvcc/sass.tsv
passed= # names of files that are not looked at
packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' \
  2>/dev/null || true)
for folder in "$(dirname "$nvcc")" "${packages:-/nowhere}"/*/bin; do
  PATH=$PATH:$folder
done
for tool in cuobjdump nvdisasm c++filt; do
  command -v "$tool" >/dev/null || {
    echo "check_sass: there is no $tool here: the CUDA Toolkit has it," \
      'or the Python package nvidia-cuda-cuobjdump or nvidia-cuda-nvdisasm' >&2
    exit 77
  }
done
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')

# ---- objects --------------------------------------------------------------

# compiled SOURCE OBJECT
compiled() {
  # shellcheck disable=SC2086
  "$nvcc" -x cu -std=c++20 -O3 -D_GNU_SOURCE -I"$top" -I"$build" $bits \
    -gencode "arch=compute_$arch,code=sm_$arch" -cubin -o "$2" "$1" \
    2>"$2.said" && return
  cat "$2.said" >&2
  echo "$1: nvcc cannot compile it for sm_$arch"
  return 1
}

# The build's object of the source $1, if it will do.
ready() {
  local object=$build/${1#"$top/"} file
  object=${object%.cu}.obj
  [ -e "$object" ] && [ -e "${object%.obj}.dep" ] || return
  for file in "$1" $(sed 's/^[^:]*://; s/\\$//' "${object%.obj}.dep"); do
    file=$(cd "$build/gpu" && realpath -e "$file" 2>/dev/null) || continue
    [ "$object" -nt "$file" ] || return
  done
  cuobjdump -arch "sm_$arch" -lelf "$object" 2>/dev/null | grep -q cubin &&
    echo "$object"
}

# Names as a reader writes them: logits<8, true>, kv_run_view<view>.
short() {
  c++filt | sed -E 's/^void //; s/_INTERNAL_[A-Za-z0-9_]*:://g
    s/\(anonymous namespace\):://g; s/\([a-z_0-9 ]+\)([-0-9])/\1/g
    s/&\(([^(]*)\([^)]*\)\)/\1/g; s/&//g; s/\(.*//'
}

# Of each kernel of the object $1, by tabs: "kernel", its name with the file $2
# before it, its mangled name, registers, shared bytes, stack and local bytes.
resources() {
  cuobjdump -arch "sm_$arch" -res-usage "$1" 2>&1 | awk -v OFS='\t' '
    /^ Function / { name = $2; sub(/:$/, "", name) }
    /^  REG:/ {
      gsub(/[A-Z]+:/, "")
      print name, $1, $3, $2 + $4
    }' >"$scratch/$2.raw"
  cut -f 1 "$scratch/$2.raw" | short | sed "s|^|kernel\t$2/|" |
    paste - "$scratch/$2.raw"
}

# counted SOURCE NAME: what is said of its kernels, a line each:
#   kernel  KERNEL  registers  shared  stack
#   count           as tests/nvcc/sass.awk writes it
counted() {
  local object list=$scratch/$2.list
  object=$(ready "$1") || {
    object=$scratch/$2.cubin
    compiled "$1" "$object" || return 0
  }
  resources "$object" "$2" >"$list"
  [ -s "$list" ] || return 0
  cut -f 1,2,4- "$list"
  cuobjdump -arch "sm_$arch" -sass "$object" |
    awk -v mark="${mark-}" -f "$top/tests/nvcc/sass.awk" "$list" -
}

# Sets $taken, the files of gpu/ that are looked at, and $passed.
take() {
  local all=("$top"/gpu/{backend,methods}/*.cu) n
  n=$(((${#all[@]} - 1) / ${KV_SASS_PART:-1} + 1))
  taken=$(printf '%s\n' "${all[@]}" | awk -v top="$top/" '{
    print $1, substr($1, length(top) + 1)
  }' | draw_some sass "$n" $(((n + 1) / 2)))
  passed=$(printf '%s\n' "${all[@]}" | grep -vxF "$taken" |
    sed 's,.*/,,; s,[.]cu$,,' | paste -sd ' ') || true
}

all_counted() {
  local file
  export -f counted compiled ready resources short
  export nvcc bits arch top build scratch table
  for file in $taken; do
    printf '%s\0%s\0' "$file" "$(basename "$file" .cu)"
  done | xargs -0 -n 2 -P "$(nproc)" bash -c 'counted "$@" >"$scratch/$2.out"' \
    check_sass
  cat "$scratch"/*.out
}

# ---- rules ----------------------------------------------------------------

# What no kernel may have, of the lines on stdin. Shared memory is without what
# the system has of each block's, as the seeds say.
refused() {
  awk -F '\t' -v OFS=': ' -v most=48128 \
    -v base="$(cat "$scratch/base" 2>/dev/null || echo 0)" '
    FILENAME ~ /[.]cu$/ && / Allowed (local|cas): .*,$/ {
      file = FILENAME
      gsub(/.*[/]|[.]cu$/, "", file)
      split($0, x, / Allowed |: |,$/)
      allowed[x[2], file "/" x[3]] = 1
    }
    FILENAME ~ /[.]cu$/ { next }
    $1 == "kernel" && $4 - base > most {
      print $2, $4 - base " bytes of static shared memory, at most " most
    }
    (("local", $2) in allowed) && $1 == "kernel" { next }
    $1 == "kernel" && $5 { print $2, $5 " bytes of stack" }
    $1 != "count" { next }
    $3 && !(("local", $2) in allowed) {
      print $2, $3 " accesses to local memory"
    }
    $4 { print $2, $4 " fma of doubles" }
    $5 && !(("cas", $2) in allowed) {
      print $2, $5 " compare-and-swaps: a native atomic is wanted"
    }' "$top"/gpu/methods/*.cu -
}

# Where the lines on stdin are not what the table $1 says.
compared() {
  awk -F '\t' -v OFS=': ' -v methods="$methods" -v passed="$passed" '
    BEGIN {
      for (i = split(methods, m, " "); i; i--) method[m[i]] = 1
      for (i = split(passed, m, " "); i; i--) skipped[m[i]] = 1
    }
    function file_of(k) { return substr(k, 1, index(k, "/") - 1) }
    $1 != "kernel" { next }
    FILENAME == ARGV[1] {
      registers[$2] = $3
      shared[$2] = $4
      next
    }
    {
      seen[$2] = 1
      if (!($2 in registers)) {
        if (!(file_of($2) in method)) print $2, "no row in the table"
        next
      }
      if ($3 > registers[$2] + 8)
        print $2, $3 " registers, " registers[$2] " in the table"
      if ($4 > shared[$2])
        print $2, $4 " bytes of shared memory, " shared[$2] " in the table"
    }
    END {
      for (k in registers)
        if (!(k in seen) && !(file_of(k) in skipped))
          print k, "there is no such kernel"
    }' "$1" - | sort
}

# ---- faults, each of which must be seen -----------------------------------

# A table and what is counted, which agree.
plant() {
  printf 'kernel\ta/k\t40\t512\n' >"$1/table"
  printf 'kernel\ta/k\t48\t512\t0\ncount\ta/k\t0\t0\t0\n' >"$1/said"
  printf 'kernel\th2o/m\t255\t512\t0\ncount\th2o/m\t0\t0\t0\n' >>"$1/said"
}

# File of plant, a change to it, what must be said then.
prove_rules() {
  local folder=$scratch/rules file change want said
  mkdir -p "$folder"
  while IFS='|' read -r file change want; do
    plant "$folder"
    sed -i "$change" "$folder/$file"
    said=$(refused <"$folder/said"
      compared "$folder/table" <"$folder/said")
    [ "$said" = "$want" ] ||
      echo "check_sass: after '$change' it says '$said', not '$want'"
  done <<'END'
said|s/x/x/|
said|s/	48/	49/|a/k: 49 registers, 40 in the table
said|s/k	48	512/k	48	513/|a/k: 513 bytes of shared memory, 512 in the table
said|s/48	512	0/48	512	8/|a/k: 8 bytes of stack
said|s/k	0	0	0/k	1	0	0/|a/k: 1 accesses to local memory
said|s/k	0	0	0/k	0	1	0/|a/k: 1 fma of doubles
said|s/k	0	0	0/k	0	0	1/|a/k: 1 compare-and-swaps: a native atomic is wanted
said|/^kernel	a/d|a/k: there is no such kernel
said|s/h2o.m	0/h2o\/m	1/|h2o/m: 1 accesses to local memory
table|/^kernel/d|a/k: no row in the table
END
}

# What is counted of kernels with faults and of one without, in whose loop are
# eight links.
prove_counts() {
  local said want
  said=$(mark=FFMA counted "$top/tests/nvcc/sass_seeds.cu" seeds)
  awk -F '\t' '$1 == "kernel" && $2 == "seeds/full" { print $4 - 48128 }' \
    <<<"$said" >"$scratch/base"
  want='seeds/crowded seeds/doubles seeds/locals seeds/locals seeds/swaps'
  [ "$(refused <<<"$said" | sed 's/:.*//' | sort | paste -sd ' ')" = \
    "$want" ] || echo 'check_sass: does not see what is wrong with the seeds'
  awk -F '\t' '$1 == "loop" && $3 == 8 && $4 > 16 && $4 < 40 { seen = 1 }
    END { exit !seen }' <<<"$said" ||
    echo "check_sass: miscounts a loop: $(grep '^loop' <<<"$said")"
}

# ---- the whole ------------------------------------------------------------

# The table's kernels from the lines of the file $1; its head stays.
update() {
  {
    sed '/^kernel/d; /^release/d' "$table"
    printf 'release\t%s\n' "$release"
    awk -F '\t' -v OFS='\t' '$1 == "kernel" { print $1, $2, $3, $4 }' "$1" |
      sort
  } >"$scratch/table"
  cp "$scratch/table" "$table"
  echo "check_sass: wrote $table"
}

methods=$(basename -s .cu "$top"/gpu/methods/*.cu | paste -sd ' ')
known=$(sed -n 's/^release\t//p' "$table")
found=$(prove_rules && prove_counts)
[ -n "$found" ] || {
  take
  all_counted >"$scratch/said"
  if [ "${1-}" = --update ]; then
    update "$scratch/said"
    exit
  fi
  found=$(grep -vE '^(kernel|count)	' "$scratch/said" || true
    refused <"$scratch/said"
    [ "$arch $release" != "90 $known" ] ||
      compared "$table" <"$scratch/said")
}
if [ -n "$found" ]; then
  printf '%s\n' "$found"
  exit 1
fi
held="as the table says"
[ "$arch $release" = "90 $known" ] ||
  held="not compared with the table, which is of $known and sm_90"
[ -z "${KV_SASS_PART-}" ] || held+=', of a part of the files'
echo "check_sass: $(grep -c ^kernel "$scratch/said") kernels for sm_$arch by" \
  "$release without stack, local memory, fma of doubles; $held"
