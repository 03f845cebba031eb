/* SPDX-License-Identifier: Apache-2.0
 *
 * That nothing is missing, oldest first: in entries and kept every token, in
 * a view every entry: vectors_dense DIR STAGE...
 */
#include "tests/vectors/vectors_folder.h"

int main(int argc, char **argv) {
  read_folder(argc, 3, argv);
  int32_t every[tokens];
  for (int i = 0; i < tokens; i++) every[i] = i;
  for (int i = 2; i < argc; i++)
    for (matrix *m = all; m < end; m++) {
      if (strcmp(m->stage, argv[i])) continue;
      int lane = m->head / (heads / lanes), view = !strcmp(m->stage, "view");
      int n = view ? find("entries", m, m->step, lane)->rows : m->step;
      hold(m->stage, m, m->step, m->head, n, every);
    }
  return wrong > 0;
}
