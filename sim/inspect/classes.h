/* SPDX-License-Identifier: Apache-2.0
 *
 * The class of a number in a histogram of n classes, from 0 to n - 1; what is
 * outside is in the first or the last one. No libm: compares with powers of two
 * decide. For sim/inspect/residual.c and latent.c; residual.h says which
 * classes each histogram has.
 */
#ifndef KV_SIM_INSPECT_CLASSES_H
#define KV_SIM_INSPECT_CLASSES_H

/* The octave of an integer x: c with 2^c <= x < 2^(c + 1). */
static inline int kv_class_octave(int x, int n) {
  int c = 0;
  while (c < n - 1 && x >> (c + 1)) c++;
  return c;
}

/* The largest whole number not above x, counted from `first` on: class 0 ends
 * below first + 1. */
static inline int kv_class_line(double x, int first, int n) {
  double y = x - first;
  if (!(y > 0)) return 0;
  return y < n ? (int)y : n - 1;
}

/* The quarter of an octave of x > 0, from 2^(first / 4) on: class c begins at
 * 2^((first + c) / 4). first is below 0 and a multiple of 4. */
static inline int kv_class_quarter(double x, int first, int n) {
  static const double part[] = {0x1.306fe0a31b715p+0, 0x1.6a09e667f3bcdp+0,
                                0x1.ae89f995ad3adp+0};
  int c = -first;
  if (!(x > 0)) return 0;
  for (; x < 1 && c > 0; c -= 4) x *= 2;
  for (; x >= 2 && c < n; c += 4) x /= 2;
  for (int i = 0; i < 3; i++) c += x >= part[i];
  return c < 0 ? 0 : c < n ? c : n - 1;
}

#endif
