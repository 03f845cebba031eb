/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with one fault each, which check_sass.sh must see: local memory, fma
 * of doubles, too much shared memory, loops of compare-and-swap; and two whose
 * counts are known: a turn of eight links with a branch beside them that is not
 * on its way, and five barriers, four of them in what is called.
 */
__global__ void locals(int *x, int n) {
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = x[i] + n;
  for (int i = 0; i < n; i++) a[x[i] & 63] += x[i + 1];
  x[n] = a[x[n] & 63];
}
__global__ void doubles(double *d) { d[0] = __fma_rn(d[1], d[2], d[3]); }
template <int N> __device__ void fill(int *x) {
  __shared__ int a[N];
  a[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[0] = a[x[1]];
}
__global__ void full(int *x) { fill<12032>(x); }
__global__ void crowded(int *x) { fill<12033>(x); }
__global__ void swaps(unsigned long long *x) {
  __shared__ unsigned long long s[2];
  if (threadIdx.x < 2) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&s[x[threadIdx.x] & 1], x[threadIdx.x]);
  __syncthreads();
  x[0] = s[0] + s[1];
}
__global__ void links(const float *x, float *y, int n) {
  float a = 0;
#pragma unroll 1
  for (int i = 0; i < n; i += 8) {
    if (y[i] == 7) // not on the way: it has no link
      for (int j = 0; j < n; j++) y[j + 1] = y[2 * j] + y[j & i] - y[j ^ i];
#pragma unroll
    for (int e = 0; e < 8; e++) a = __fmaf_rn(x[i + e], a, 1.0f);
  }
  y[0] = a;
}
__noinline__ __device__ void waits(int *x) {
  __syncthreads();
  x[threadIdx.x] += x[threadIdx.x + 1];
  __syncthreads();
}
__global__ void calls(int *x) {
  waits(x);
  __syncthreads();
  waits(x + 2);
}
