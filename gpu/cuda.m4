dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl Part of configure.ac: the CUDA Toolkit. Sets have_cuda, cuda_says and, for
dnl make, NVCC, NVCC_ARCH (what to generate code for, and how to pack it),
dnl NVCC_CUDART (how the runtime is linked, and where a shared one is found)
dnl and CUDA_PTX_ARCHS (the oldest and the newest architecture, for the PTX
dnl check). Without a toolkit nothing but the module is missing.
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR],
    [the CUDA module, with the toolkit in DIR [auto]])],
  [],[with_cuda=auto])
AC_ARG_WITH([cuda-arch],
  [AS_HELP_STRING([--with-cuda-arch=auto|major|all|"75 90-virtual"],
    [compute capabilities to compile for. auto: of the devices of this machine,
     or, where there is none, PTX of 75 and 80, which every later device can
     use; major: one of each family; all: the toolkit's, from 75 on. By number,
     90-virtual is PTX, the others are a device's own code; if none is virtual,
     PTX of the last is added. On two cores each takes a minute and a half,
     and three more if it is a device's own code [auto]])],
  [],[with_cuda_arch=auto])
AC_ARG_WITH([cudart],
  [AS_HELP_STRING([--with-cudart=static|shared],
    [CUDA's runtime: in the module, which then needs a driver only, or the
     libcudart of the machine, found where it is now by the module's RUNPATH,
     or elsewhere by LD_LIBRARY_PATH [static]])],
  [],[with_cudart=static])
AS_CASE([$with_cudart],[static|shared],[],
  [AC_MSG_ERROR([--with-cudart is static or shared, not $with_cudart])])
NVCC_CUDART="-cudart $with_cudart"
AC_SUBST([NVCC_CUDART])
AC_ARG_VAR([NVCC],[the CUDA compiler])
AC_ARG_VAR([NVCCFLAGS],[its flags, beside those that fix the bits [-O3]])
: ${NVCCFLAGS="-O3"}

for flag in $NVCCFLAGS; do
  AS_CASE([$flag],
    [*use_fast_math*|*fmad=true*|*fmad=1*|*ftz=true*|*ftz=1*|\
*prec-div=false*|*prec-div=0*|*prec-sqrt=false*|*prec-sqrt=0*|*ffast-math*],
    [AC_MSG_ERROR(m4_normalize([kvreplay gives the same bits everywhere and
      $flag breaks that: take it out of NVCCFLAGS.]))])
done

have_cuda=no
NVCC_ARCH=
CUDA_PTX_ARCHS=
AS_CASE([$with_cuda],
  [no],[NVCC=; kv_lack="--without-cuda"],
  [auto|yes],[AS_IF([test "x$NVCC" = x],
    [AC_PATH_PROG([NVCC],[nvcc],[],
      [${CUDA_HOME:+$CUDA_HOME/bin:}$PATH:/usr/local/cuda/bin])])
   kv_lack="there is no nvcc"],
  [AC_PATH_PROG([NVCC],[nvcc],[],[$with_cuda/bin])
   kv_lack="there is no nvcc"
   AS_IF([test "x$NVCC" = x],
     [AC_MSG_ERROR(m4_normalize([there is no nvcc in $with_cuda/bin: give the
       folder of the CUDA Toolkit, or --without-cuda.]))])])

dnl Where the compiler links a shared runtime from; ld.so finds the system's own
dnl folders by itself.
AS_IF([test "x$NVCC" != x && test "$with_cudart" = shared],[
  AC_MSG_CHECKING([where libcudart is])
  kv_cudart=
  for kv_folder in $("$NVCC" --dryrun -shared $NVCC_CUDART -o conftest.so \
      conftest.o 2>&1 | sed -n 's/^.*LIBRARIES= *//p' | tr -d '"' |
      tr ' ' '\n' | sed -n 's/^-L//p'); do
    AS_IF([test "x$kv_cudart" = x && test -e "$kv_folder/libcudart.so"],
      [kv_cudart=$(cd "$kv_folder" && pwd -P)])
  done
  AC_MSG_RESULT([${kv_cudart:-where the linker looks}])
  AS_CASE([$kv_cudart],[''|/lib|/lib/*|/lib64|/usr/lib|/usr/lib/*|/usr/lib64],
    [],[NVCC_CUDART="$NVCC_CUDART -Xlinker -rpath -Xlinker $kv_cudart"])])

AS_IF([test "x$NVCC" != x],[
  AC_MSG_CHECKING([which architectures to compile CUDA for])
  kv_known=$("$NVCC" --list-gpu-arch 2>/dev/null | sed -n 's/^compute_//p' |
    sort -n | tr '\n' ' ')
  dnl __nvcc_device_query is what nvcc asks for -arch=native: it fails where
  dnl there is no device.
  AS_CASE([$with_cuda_arch],
    [auto],
    [kv_query=$(dirname "$(readlink -f "$NVCC")")/__nvcc_device_query
     kv_archs=
     for arch in $("$kv_query" 2>/dev/null | tr ',' '\n' | sort -nu); do
       AS_CASE([" $kv_known "],[*" $arch "*],
         [AS_IF([test "$arch" -ge 75],[kv_archs="$kv_archs $arch"])])
     done
     : ${kv_archs:=75-virtual 80-virtual}],
    [major],
    [kv_archs=
     for arch in 75 80 90 100 110 120; do
       AS_CASE([" $kv_known "],[*" $arch "*],
         [kv_archs="$kv_archs $arch" kv_newest=$arch])
     done
     kv_archs="$kv_archs 80-virtual $kv_newest-virtual"],
    [all],
    [kv_archs=
     for arch in $kv_known; do
       AS_IF([test "$arch" -ge 75],[kv_archs="$kv_archs $arch"])
     done],
    [kv_archs=$(AS_ECHO(["$with_cuda_arch"]) | tr ', ' '\n\n' |
       sed '/^$/d; s/-real$//' | sort -n | uniq | tr '\n' ' ')])
  AC_MSG_RESULT([${kv_archs:-none}])
  kv_sass= kv_ptx= kv_numbers=
  for arch in $kv_archs; do
    kv_number=${arch%-virtual}
    AS_CASE([" $kv_known "],[*" $kv_number "*],[],
      [AC_MSG_ERROR(m4_normalize([$NVCC cannot compile for architecture
        $arch: --with-cuda-arch takes numbers among ${kv_known% }, each with
        -real or -virtual behind it if you like.]))])
    AS_CASE([$arch],[*-virtual],[kv_ptx="$kv_ptx $kv_number"],
      [kv_sass="$kv_sass $kv_number"])
    AS_CASE(["$kv_numbers "],[*" $kv_number "*],[],
      [kv_numbers="$kv_numbers $kv_number"])
  done
  kv_newest=${kv_numbers##* }
  AS_IF([test "x$kv_ptx" = x],[kv_ptx=" $kv_newest"])
  for arch in $kv_sass; do
    NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$arch,code=sm_$arch"
  done
  for arch in $kv_ptx; do
    NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$arch,code=compute_$arch"
  done
  CUDA_PTX_ARCHS=$(set dummy $kv_numbers; AS_ECHO(["$[]2"]))
  AS_IF([test "$CUDA_PTX_ARCHS" != "$kv_newest"],
    [CUDA_PTX_ARCHS="$CUDA_PTX_ARCHS $kv_newest"])

  dnl Measured on two cores with CUDA 13.0: 85 seconds each, 173 for ptxas.
  kv_seconds=30
  for arch in $kv_numbers; do kv_seconds=$(($kv_seconds + 85)); done
  for arch in $kv_sass; do kv_seconds=$(($kv_seconds + 173)); done
  kv_minutes=$(($kv_seconds / 60))

  AC_MSG_CHECKING([whether $NVCC works])
  cat >conftest.cu <<'END'
static __global__ void one(int *x) { *x = 1; }
int main() { one<<<1, 1>>>(0); return 0; }
END
  AS_IF([test "x$kv_archs" != x &&
      "$NVCC" -std=c++20 $NVCCFLAGS -gencode \
        arch=compute_$kv_newest,code=sm_$kv_newest $NVCC_CUDART \
        -Xcompiler -fPIC -shared -o conftest.so conftest.cu \
        >&AS_MESSAGE_LOG_FD 2>&1],
    [have_cuda=yes],
    [kv_lack="$NVCC cannot make a library (config.log)"])
  AC_MSG_RESULT([$have_cuda])

  dnl A quarter of the bytes, where the toolkit knows how (12.8 and later).
  AS_IF(["$NVCC" -std=c++20 --compress-mode=size -arch=compute_$kv_newest \
      -c -o conftest.so conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
    [NVCC_ARCH="$NVCC_ARCH --compress-mode=size"])
  rm -f conftest.cu conftest.so])

AS_IF([test "$have_cuda" = yes],
  [kv_release=$("$NVCC" --version |
     sed -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p')
   cuda_says="$kv_release ($NVCC), SASS of${kv_sass:- none}, PTX of$kv_ptx"
   cuda_says="$cuda_says: some $kv_minutes minutes of two cores"],
  [AS_CASE([$with_cuda],[auto|no],[],
     [AC_MSG_ERROR(m4_normalize([CUDA was asked for and $kv_lack: install the
       CUDA Toolkit, name its folder with --with-cuda=DIR, or leave it out
       with --without-cuda.]))])
   cuda_says="no: $kv_lack"
   NVCC=])
NVCC_BITS="-fmad=false -prec-div=true -prec-sqrt=true -ftz=false"
NVCC_BITS="$NVCC_BITS -Xcompiler -ffp-contract=off"
AC_SUBST([NVCC_BITS])
NVCC_WERROR=
AS_IF([test "x$enable_werror" = xyes],[NVCC_WERROR="-Werror all-warnings"])
AC_SUBST([NVCC_WERROR])
AC_SUBST([NVCC_ARCH])
AC_SUBST([CUDA_PTX_ARCHS])
AM_CONDITIONAL([KV_CUDA],[test "$have_cuda" = yes])
