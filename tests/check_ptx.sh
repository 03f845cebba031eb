#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What nvcc makes of the kernels: the PTX of every .cu of gpu/ must hold no
# instruction whose result the device is free to choose. Refused: approximate
# and flushing forms, full-range division, the matrix units, ex2, lg2, sin,
# cos, tanh, atomics on floats, and every float add, sub, mul, mad, fma, div,
# rcp, sqrt or conversion to float that does not say that it rounds to
# nearest. Refused as well, because the reference does something else: an fma
# whose source line asks for none, which is what nvcc contracts; an fma of
# doubles, which nobody asks for; min and max of floats, whose zeros and NaN
# are the device's, but on lines of $clamps; floats to integers by any rounding
# but those of $integers; and reading past the coherent cache (.nc), where a
# kernel may read what it wrote. One line for each, with the source line that
# it came from.
#
# Demanded, from compute capability 8.0 on: every kernel that reads K or V for
# attention (logits, chunks) does so by cp.async in two groups or more: after
# the first ones were committed, a wait that leaves one.
#
#   NVCC, NVCC_BITS   the compiler and the flags that fix the bits, from make
#   CUDA_PTX_ARCHS    architectures to look at, as "75 90"; from make the
#                     oldest and the newest that the module is compiled for.
#                     The code has two branches, below 8.0 and from it: where
#                     they are all of one, 75 or 80 is looked at, too
#   KV_PTX_PART       3: a third of the files, chosen by .ci/draw.sh, for each
#                     architecture another
#   KV_BIG=1          all that the toolkit knows from 75 on: each takes a
#                     hundred seconds of a processor, a dozen ten minutes
#                     on two, which is why the others look at two
#
# It first proves on files with faults that each is seen, and on one without
# that it is silent. Exit 77 without nvcc.
. "$(dirname "$0")/nvcc/nvcc.sh"

# Lines where `y > 0 ? y : 0` and its like may become max.f32, which gives the
# same bits as the comparison does: NaN and -0 become +0.
clamps='y > 0 [?] y : 0|y < top [?] y : top'
# To an integer as C casts, and as rint does, from all that is within range.
integers='rzi[.]s(32|64)[.]f(32|64)|rni[.](s32|s64|f32)[.]f32'

# Prints what is wrong with the PTX file $1, which it reads twice.
faults() {
  awk -v top="$top/" -v clamps="$clamps" -v integers="$integers" \
    -f "$here/tests/nvcc/ptx.awk" "$1" "$1"
}

# The kernels of the PTX file $1 that read rows and wait for them.
waiting() {
  awk '
    function judge() {
      if (name ~ /(6logits|6chunks)/ && !(copies && commits && waits))
        print name ": does not copy K or V by cp.async while it computes"
      name = ""
    }
    /^[.]visible [.]entry|^[.]entry/ {
      judge()
      name = $0
      sub(/.*[.]entry /, "", name)
      sub(/[( ].*/, "", name)
      copies = commits = waits = 0
    }
    { sub(/\/\/.*/, "") }
    /cp[.]async[.]cg[.]shared[.]global([.]L2::128B)? .*, 16;/ { copies++ }
    /cp[.]async[.]commit_group;/ { commits++ }
    /cp[.]async[.]wait_group [1-9]/ { waits++ }
    END { judge() }' "$1"
}

# The faults of the source $1 for architecture $2; a line a fault.
look() {
  local ptx=$scratch/$BASHPID.ptx
  # shellcheck disable=SC2086
  "$nvcc" -x cu -std=c++20 -O3 -lineinfo -D_GNU_SOURCE -I"$top" \
    -I"${top_builddir:-$top}" -arch="compute_$2" $bits \
    -ptx -o "$ptx" "$1" 2>"$ptx.said" || {
    cat "$ptx.said" >&2
    echo "$1: nvcc cannot compile it for compute_$2"
    return
  }
  grep -q '^[.]visible [.]entry\|[.]entry ' "$ptx" || [ "$3" = empty ] ||
    echo "$1: no kernel in its PTX"
  faults "$ptx"
  [ "${2%[a-z]}" -lt 80 ] || waiting "$ptx"
}

# Statements of a kernel, each with the instruction that must be named.
statements() {
  cat <<'END'
x[0] = __expf(x[1]);|ex2.approx
x[0] = __fdividef(x[1], x[2]);|div.approx
x[0] = __fsqrt_rz(x[1]);|sqrt.rz.f32
x[0] = __fadd_rd(x[1], x[2]);|add.rm.f32
x[0] = __fmaf_rz(x[1], x[2], x[3]);|fma.rz.f32
x[0] = __int2float_rz(n);|cvt.rz.f32
d[0] = __dmul_ru(d[1], d[2]);|mul.rp.f64
x[0] = rsqrtf(x[1]);|rsqrt.approx
x[0] = __cosf(x[1]);|cos.approx
x[0] = __sinf(x[1]);|sin.approx
x[0] = __log2f(x[1]);|lg2.approx
atomicAdd(x, x[1]);|add.f32
atomicAdd(d, d[1]);|add.f64
d[0] = __fma_rn(d[1], d[2], d[3]);|fma.rn.f64
x[0] = fmaxf(x[1], x[2]);|max.f32
x[0] = fminf(x[1], x[2]);|min.f32
n = __float2int_ru(x[1]); x[0] = n;|cvt.rpi.s32.f32
n = (int)(unsigned)x[1]; x[0] = n;|cvt.rzi.u32.f32
x[0] = floorf(x[1]);|cvt.rmi.f32.f32
x[0] = __ldg(x + n);|ld.global.nc
END
}

# Instructions, not all of which every nvcc would write.
instructions() {
  cat <<'END'
add.rn.ftz.f32 %f0, %f1, %f1
add.f32 %f0, %f1, %f1
sub.f32 %f0, %f1, %f1
mul.f32 %f0, %f1, %f1
mul.f64 %fd0, %fd1, %fd1
mad.f32 %f0, %f1, %f1, %f1
fma.f32 %f0, %f1, %f1, %f1
add.f32x2 %rd0, %rd1, %rd1
mul.bf16x2 %r0, %r1, %r1
any.approx.f32 %f0, %f1
fma.rn.f32x2 %rd0, %rd1, %rd1, %rd1
max.NaN.f32 %f0, %f1, %f1
min.bf16x2 %r0, %r1, %r1
cvt.rni.sat.s32.f32 %r0, %f1
ld.global.nc.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1]
div.full.f32 %f0, %f1, %f1
div.f32 %f0, %f1, %f1
rcp.rz.f32 %f0, %f1
sqrt.f64 %fd0, %fd1
ex2.f32 %f0, %f1
lg2.f32 %f0, %f1
sin.f32 %f0, %f1
cos.f32 %f0, %f1
tanh.f32 %f0, %f1
cvt.rm.f32.f64 %f0, %fd1
atom.global.add.f32 %f0, [%rd1], %f1
red.global.add.noftz.f16x2 [%rd1], %r1
red.shared.add.f64 [%rd1], %fd1
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %f0
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 %f0
@!%p1 sub.f32 %f0, %f1, %f1
$L__BB0_1: mul.f32 %f0, %f1, %f1
mov.b32 %r0, %r1; tanh.approx.f32 %f0, %f1
END
}

# Nothing that asks for an fma; $bits must keep it so.
contracted() {
  echo '__global__ void k(float *x) { x[0] = x[1] * x[2] + x[3]; }'
}

# With $bits it stays a product and a sum; without -fmad=false it does not, and
# that is seen.
prove_contraction() {
  local bits=${bits//-fmad=false/}
  contracted >"$scratch/contracted"
  [[ $(look "$scratch/contracted" "$1" full) = *'asks for no fma'* ]] ||
    echo 'check_ptx: does not see a contraction'
}

# Everything that the kernels may compute with.
clean() {
  cat <<'END'
#include "ref/ground/arith.h"
__global__ void k(float *x, double *d, long long *y, unsigned *u) {
  x[0] = x[1] * x[2] + x[3] / x[4] - sqrtf(x[5]);
  x[6] = kv_expm(x[7]) + kv_log(x[8]) + kv_unfix(kv_fix(x[9]));
  d[0] = d[1] * d[2] + (double)x[0];
  auto clamp = [](float y, float top) {
    y = y > 0 ? y : 0;
    return y < top ? y : top;
  };
  x[10] = clamp(x[10], x[11]) + kv_rint(x[12]);
  x[13] = (float)((int)x[14] + (int)(long long)x[15]);
  y[0] = __float2ll_rn(x[6]) * y[1] + y[2];
  atomicAdd(u, 3u), atomicMax(u + 1, u[2]);
}
END
}

# Are all of $2 (a function above) named in $1, a line each in order?
named() {
  local i=0 at text want
  while IFS='|' read -r text want; do
    i=$((i + 1))
    at=$(grep -F "seeds:$i:" <<<"$1" || true)
    [[ -n $at && $at == *"$want"* ]] ||
      echo "check_ptx: does not see '${want:-$text}' in '$text'"
  done < <("$2")
}

# Kernels that read K as attention should, and three that do not.
readers() {
  cat <<'END'
#include "gpu/block/async.h"
template <int HOW> __global__ void logits(const char *from, unsigned *to) {
  __shared__ kv_piece piece[2];
  for (int i = 0; i < 2; i++) {
    if (HOW == 0 || HOW == 2) kv_async_16(&piece[i], from + 16 * i);
    if (HOW == 1) piece[i] = ((const kv_piece *)from)[i];
    kv_async_commit();
  }
  if (HOW == 0 || HOW == 1) kv_async_wait<1>();
  if (HOW == 2) kv_async_wait<0>();
  to[0] = piece[0].word[1];
  kv_async_wait<0>();
  to[1] = piece[1].word[2];
}
template __global__ void logits<0>(const char *, unsigned *);
template __global__ void logits<1>(const char *, unsigned *);
template __global__ void logits<2>(const char *, unsigned *);
END
  echo '__global__ void chunks(const int *from, int *to) { *to = *from; }'
}

# Are all but the first of them named, and no more?
prove_readers() {
  local said want
  [ "${1%[a-z]}" -ge 80 ] || return 0 # there is no cp.async before
  readers >"$scratch/readers"
  said=$(look "$scratch/readers" "$1" full | sed 's/:.*//' | sort)
  want=$(printf '%s\n' _Z6chunksPKiPi _Z6logitsILi1EEvPKcPj \
    _Z6logitsILi2EEvPKcPj)
  [ "$said" = "$want" ] ||
    echo "check_ptx: of readers without cp.async it names: $said"
}

prove() {
  local arch=$1 i=0 text
  contracted >"$scratch/clean"
  clean | sed 's/k(float/c(float/' >>"$scratch/clean"
  look "$scratch/clean" "$arch" full
  prove_contraction "$arch"
  while IFS='|' read -r text _; do
    i=$((i + 1))
    echo "__global__ void k$i(float *x, double *d, int n) { $text }"
  done < <(statements) >"$scratch/seeds"
  named "$(look "$scratch/seeds" "$arch" full)" statements
  instructions | awk -v q='"' '{ print ".loc 1 " NR " 0\n\t" $0 ";" }
    END { print ".file 1 " q "seeds" q }' >"$scratch/seeds"
  named "$(faults "$scratch/seeds")" instructions
}

# One file of the kernels for one architecture: check_one FILE ARCHITECTURE
check_one() {
  look "$1" "$2" empty | sed "s|^|compute_$2: |" >"$scratch/$2.${1//\//_}.found"
}

# The architecture of a branch of the code that none of $1 is of, if the
# compiler has it.
other_branch() {
  local arch known old='' new=''
  known=" $("$nvcc" --list-gpu-arch | sed -n 's/^compute_//p' | paste -sd ' ') "
  for arch in $1; do
    if [ "${arch%[a-z]}" -lt 80 ]; then old=1; else new=1; fi
  done
  if [ -z "$old" ] && [[ $known = *' 75 '* ]]; then echo 75; fi
  if [ -z "$new" ] && [[ $known = *' 80 '* ]]; then echo 80; fi
}

prove_branches() {
  local of want said
  while read -r of want; do
    said=$(other_branch "${of//,/ }")
    [ "$said" = "${want-}" ] ||
      echo "check_ptx: beside $of it looks at '$said'"
  done <<<$'75 80\n90 75\n75,90\n80,120a 75'
}

# Files for the architecture $1.
files_for() {
  local files=("$top"/gpu/*/*.cu) n
  n=$(((${#files[@]} - 1) / ${KV_PTX_PART:-1} + 1))
  printf '%s\n' "${files[@]}" | awk -v top="$top/" '{
    print $1, substr($1, length(top) + 1)
  }' | draw_some "ptx$1" "$n" $(((n + 1) / 2)) | awk -v ORS='\0' -v arch="$1" '{
    print $1
    print arch
  }'
}

check() {
  local arch
  export -f check_one look faults waiting
  export nvcc bits here top scratch clamps integers
  for arch in $archs; do files_for "$arch"; done |
    xargs -0 -n 2 -P "$(nproc)" bash -c 'check_one "$@"' check_ptx
  cat "$scratch"/*.found
}

archs=${CUDA_PTX_ARCHS:-75 90}
[ "${KV_BIG-}" != 1 ] || archs=$("$nvcc" --list-gpu-arch |
  sed -n 's/^compute_//p' | awk '$1 >= 75' | sort -n | paste -sd ' ')
added=$(other_branch "$archs")
# shellcheck disable=SC2086
archs=$(printf '%s\n' $archs $added | sort -n | paste -sd ' ')
found=$(prove_branches && prove "${archs%% *}" &&
  prove_readers "${archs##* }" && check)
if [ -n "$found" ]; then
  printf '%s\n' "$found"
  exit 1
fi
of=${KV_PTX_PART:+, of a part of the files}
echo "check_ptx: nothing is left to the device, compute capability $archs$of"
