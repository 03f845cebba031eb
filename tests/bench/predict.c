/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device should show, without one: `predict` prints the table of
 * `device --predict`.
 */
#include "tests/bench/gpu/device_predict.h"

int main(void) {
  for (int i = 0; i < 2; i++) predict_print(stdout, &predict_devices[i]);
  return 0;
}
