# SPDX-License-Identifier: Apache-2.0
#
# Sections of .ci/run that are about other machines than this one, sourced by
# it: another processor, run by qemu, and a device, or none, and what the
# executor sees in its place.

# The CUDA module by one toolkit, chosen by the tree; KV_TOOLKITS='12 13' is
# both: that it needs nothing but libc (and the runtime of CUDA 12) and shows
# nothing but its entry, what nvcc and ptxas make of the kernels, and the
# comparison on a device or the sentence that there is none. C is compiled as by
# quickstart; a warning of nvcc is an error.
run_gpu() {
  local release
  export PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc >/dev/null || skip 'no nvcc here' || return
  packages g++
  drawn_gpu
  for release in $(toolkits); do
    if [ "$release" = 12 ] && ! brought12; then
      echo 'no CUDA 12 here, and none could be fetched: CUDA 13 alone'
      ! draw_all || return 1
      release=13
    fi
    "by_cuda$release"
  done
}

toolkits() {
  printf '%s\n' ${KV_TOOLKITS:-$(draw_one toolkits 12 13)} | draw_part
}

# For one new architecture, with what a machine with a device is given.
by_cuda13() {
  local part parts
  parts=$(parts13)
  moduled gpu "$(as_ptx 90)"
  for part in $parts; do "$part"; done
  on_device "$ci/gpu/sim/kvreplay"
}

# An architecture's own code takes nvcc thrice the time of PTX alone.
as_ptx() { if draw_all; then echo "$1"; else echo "$1-virtual"; fi; }

# What ptxas makes of the kernels, or the folder for a device.
parts13() {
  {
    turn sass gpu ref tests/nvcc tests/check_sass.sh
    turn kit gpu sim tests/bench/gpu tests/device.sh
  } | draw_some parts13 1 1
}

drawn_gpu() {
  local releases
  releases=$(toolkits)
  echo "CUDA $releases; of 13: $(parts13 | paste -s -d ' ')"
}

sass() {
  disassemblers
  export KV_SASS_PART
  draw_all || KV_SASS_PART=${KV_SASS_PART:-4}
  step make -C "$ci/gpu/tests" --no-print-directory sass
}

kit() {
  step make -C "$ci/gpu/tests" -s --no-print-directory -j"$jobs" kit
  step rehearsed "$ci/gpu"
}

# For the oldest architecture. KV_CUDA12 names the folder of the toolkit; else
# its compiler is fetched from Debian's next release and Python's packages,
# which have the runtime as a shared library only.
by_cuda12() {
  local to=${KV_CUDA12:-$ci/cuda12}
  unset LD_LIBRARY_PATH # the module knows where its runtime is
  "$to/bin/nvcc" --version | grep release
  moduled gpu12 "$(as_ptx 75)" NVCC="$to/bin/nvcc" --with-cudart=shared
  on_device "$ci/gpu12/sim/kvreplay"
}

brought12() {
  local to=${KV_CUDA12:-$ci/cuda12}
  [ -x "$to/bin/nvcc" ] || toolkit12 "$to" >"$ci/cuda12.said" 2>&1
}

# moduled NAME ARCHITECTURE [option]...: a build with the module, looked at.
moduled() {
  local module=$ci/$1/gpu/cuda.so needs name=$1 arch=$2
  shift 2
  step configured "$name" --with-cuda --with-cuda-arch="$arch" --without-blis \
    "$@"
  step make -C "$ci/$name" -s --no-print-directory -j"$jobs" \
    NVCC_WERROR='-Werror all-warnings'
  [ "$(nm -D --defined-only "$module" | awk '{ print $3 }')" = \
    kv_device_module ]
  needs=$(objdump -p "$module" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux.*)[.]so') || true
  [ "${needs:-libcudart.so.12}" = libcudart.so.12 ] || {
    echo "cuda.so needs $needs"
    return 1
  }
  if ldd "$module" | grep 'not found'; then return 1; fi
  [[ " $* " != *' --with-cudart=shared '* ]] ||
    objdump -p "$module" | grep -E 'R(UN)?PATH'
  declared "$ci/$name"
  # Both branches of the code; of each a fourth of the files.
  KV_PTX_PART=$(draw_all || echo 4) step make -C "$ci/$name/tests" \
    --no-print-directory ptx CUDA_PTX_ARCHS="${arch%-virtual}"
}

# What tests/cudart says that the runtime's functions and numbers are: its
# definitions, by the header of the toolkit of the build $1.
declared() {
  local nvcc
  nvcc=$(sed -n 's/^NVCC = //p' "$1/tests/Makefile")
  g++ -std=c++20 -fsyntax-only -D_GNU_SOURCE -I. -I"$1" \
    -I"$(dirname "$nvcc")/../include" tests/cudart/cudart.cc
}

# Onto the PATH, where the toolkit came without them.
disassemblers() {
  local to=$ci/sass file
  command -v nvdisasm >/dev/null && command -v cuobjdump >/dev/null && return
  wheels "$to" nvidia-cuda-nvdisasm nvidia-cuda-cuobjdump || return 0
  for file in "$to"/nvidia/*/bin; do
    chmod +x "$file"/*
    PATH=$PATH:$file
  done
}

# wheels FOLDER PACKAGE...: of Python's, unpacked there, nothing installed.
wheels() {
  local to=$1 file
  shift
  python3 -m pip --version >/dev/null 2>&1 || packages python3-pip || return
  mkdir -p "$to/wheel"
  python3 -m pip download -q --no-deps -d "$to/wheel" "$@" || return
  for file in "$to"/wheel/*.whl; do python3 -m zipfile -e "$file" "$to"; done
}

# toolkit12 FOLDER: nvcc and its parts there, laid out as NVIDIA does.
toolkit12() {
  local to=$1 mirror from=$1/from/usr tool lists
  lists=$to/sources.list
  mkdir -p "$to"/{bin,include,lib64,nvvm/bin,nvvm/libdevice}
  # shellcheck disable=SC2016 # apt's variables
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' |
    awk '$2 == "bookworm" { print $1; exit }')
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror trixie non-free" >"$lists"
  next=$lists fetched amd64 "$to/from" nvidia-cuda-toolkit libnvvm4 &&
    wheels "$to/from" nvidia-cuda-nvcc-cu12==12.4.131 \
      nvidia-cuda-runtime-cu12==12.4.127 || return
  find "$to/from/nvidia" -name __init__.py -delete
  cp -r "$to"/from/nvidia/*/include/* "$to/include"
  cp -r "$from"/lib/nvidia-cuda-toolkit/libdevice/* "$to/nvvm/libdevice"
  for tool in cudafe++ fatbinary nvlink ptxas; do
    cp "$from/bin/$tool" "$to/bin"
  done
  cp "$from/lib/nvidia-cuda-toolkit/bin/cicc" "$to/nvvm/bin"
  cp -r "$from/lib/nvidia-cuda-toolkit/bin/crt" "$to/bin"
  cp "$to"/from/nvidia/cuda_runtime/lib/libcudart.so.12 "$to/lib64"
  ln -s libcudart.so.12 "$to/lib64/libcudart.so"
  # shellcheck disable=SC2016 # nvcc's variables
  printf '%s\n' 'TOP = $(_HERE_)/..' \
    'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' \
    'PATH += $(TOP)/nvvm/bin:$(_HERE_):' \
    'INCLUDES += "-I$(TOP)/include" $(_SPACE_)' \
    'LIBRARIES =+ "-L$(TOP)/lib64" $(_SPACE_)' >"$to/bin/nvcc.profile"
  cp "$from/lib/nvidia-cuda-toolkit/bin/nvcc" "$to/bin"
}

# The executor sees the kernels' loads and stores: a part of tests/watch.sh,
# chosen by the tree; KV_WATCH_PARTS='made shapes': others, '': all.
# What is not compiled otherwise comes from quickstart's, by ccache.
run_watch() {
  local part
  ! draw_all || export KV_WATCH_PARTS=
  packages libcmocka-dev g++
  configured watch --enable-watch
  for part in commit.h '-C ref' '-C traces' '-C gpu' \
    '-C sim libsim.la libcli.la kvreplay'; do
    # shellcheck disable=SC2086 # a folder and targets
    make -C "$ci/watch" -s --no-print-directory -j"$jobs" $part
  done
  make -C "$ci/watch/tests" -s --no-print-directory -j"$jobs" watch \
    PARTS="${KV_WATCH_PARTS-drawn}"
}

# Another processor, without this one's instructions: the reference compiled
# for aarch64 takes the recorded decisions, run by qemu.
run_arm() {
  local root=$ci/arm-root lib run=$ci/arm-run
  [ "$(uname -m)" != aarch64 ] || skip 'this is such a processor' || return
  { packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static &&
    fetched arm64 "$root" libsqlite3-0 libsqlite3-dev libjansson4 \
      libjansson-dev; } || skip 'no cross compiler or no qemu here' || return
  lib=$root/usr/lib/aarch64-linux-gnu
  PKG_CONFIG_LIBDIR=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
    configured arm --host=aarch64-linux-gnu --without-blis \
    --disable-shared \
    --enable-werror \
    CC=aarch64-linux-gnu-gcc CXX=false \
    CPPFLAGS="-I$root/usr/include" LDFLAGS="-L$lib"
  # Not all of it: what makes the manual would run here.
  for part in 'commit.h' '-C ref all' '-C traces libtraces.la liboption.la' \
    '-C gpu all' '-C sim kvreplay'; do
    # shellcheck disable=SC2086 # a folder and targets
    make -C "$ci/arm" -s --no-print-directory -j"$jobs" $part
  done
  mkdir -p "$run/sim" "$run/traces"
  emulated "$ci/arm/sim/kvreplay" "$lib" "$run/sim/kvreplay"
  cp build/traces/kvtrace "$run/traces/"
  "$run/sim/kvreplay" --version
  draw_all || export KV_LITTLE=1
  top_builddir=$run bash tests/golden.sh
}

# fetched ARCHITECTURE FOLDER PACKAGE...: unpacked there, nothing installed.
# $next: a list of sources other than this system's.
fetched() {
  local o=(-oAPT::Architecture="$1" -oAPT::Architectures="$1"
    -oDir::State::Lists="$2/lists" -oDir::Cache="$2/cache" -qq)
  local root=$2 deb
  [ -z "${next:-}" ] || o+=(-oDir::Etc::SourceList="$next"
    -oDir::Etc::SourceParts=-)
  shift 2
  mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$root/deb"
  apt-get "${o[@]}" update </dev/null &&
    (cd "$root/deb" && apt-get "${o[@]}" download "$@" 2>/dev/null) || return
  for deb in "$root"/deb/*.deb; do dpkg -x "$deb" "$root"; done
}

# emulated PROGRAM LIBRARIES NAME: NAME runs it.
emulated() {
  local host=/usr/aarch64-linux-gnu
  printf '%s\n' '#!/bin/sh' "exec qemu-aarch64-static -L $host \\" \
    "  -E LD_LIBRARY_PATH=$2:$host/lib '$1' \"\$@\"" >"$3"
  chmod +x "$3"
}

# The folder for a machine with a device, without this build and on the
# executor: it starts, and its database can be merged.
rehearsed() {
  local out=$ci/device-run
  rm -rf "$out" "$out.db"
  [ "$(du -sm "$1/tests/device-kit" | cut -f 1)" -le 120 ] || {
    du -ah "$1/tests/device-kit" | sort -h | tail -n 12
    echo 'the folder for a device is larger than 120 MB'
    return 1
  }
  env -i PATH="$PATH" bash "$1/tests/device-kit/tests/device.sh" -B emu \
    -s device,database -o "$out"
  [ "$(grep -c passed "$out/summary.tsv")" = 2 ]
  "$1/analysis/kvreport" merge "$out.db" "$out/device.db"
}

on_device() {
  local said rc=0
  "$1" check --help >/dev/null 2>&1 || return 0
  said=$("$1" check traces/tiny/retrieval_8_small.safetensors -m all -b 25% \
    --backends ref,cuda 2>&1) || rc=$?
  tail -n 3 <<<"$said"
  case $rc in
  0) echo 'equal on the device' ;;
  4) grep -qE 'cuda.*(driver|device)' <<<"$said" ;;
  *) return 1 ;;
  esac
}
