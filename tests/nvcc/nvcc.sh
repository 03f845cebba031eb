# SPDX-License-Identifier: Apache-2.0
#
# What check_ptx.sh and check_sass.sh begin with: the compiler and the flags
# that fix the bits, as make names them, the tree, a scratch folder that is
# removed at the end, and .ci/draw.sh. Exit 77 without nvcc.
set -euo pipefail
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")/.." && pwd)
top=${top_srcdir:-$here}
build=${top_builddir:-$here}
nvcc=${NVCC-$(command -v nvcc || true)}
bits=${NVCC_BITS:--fmad=false -prec-div=true -prec-sqrt=true -ftz=false}
[ -n "$nvcc" ] || {
  echo "$(basename "$0" .sh): there is no nvcc here" >&2
  exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$top/.ci/draw.sh"
