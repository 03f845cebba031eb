/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of tests/bench/gpu/device.cu on the executor: what they compare,
 * they compare here too, where there is no device. Nothing is timed; --quick
 * rehearses theme replay on a tiny trace, and its times mean nothing.
 */
#define KV_BENCH_CHECK_ONLY
#include "tests/bench/gpu/device.cu"
