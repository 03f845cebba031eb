/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with one fault each, which check_sass.sh must see: local memory, fma
 * of doubles, too much shared memory, loops of compare-and-swap; and one whose
 * loop of eight links is counted.
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
#pragma unroll
    for (int e = 0; e < 8; e++) a = __fmaf_rn(x[i + e], a, 1.0f);
  }
  y[0] = a;
}
