# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Faults of masks in the account of regular indices, and of merged rows.
mutant masks_unheard sim/layout/layout_regular.c 'layouts_hand' \
  'if (s->unread >> to & 1)' 'if (s->unread >> to & 2)'
mutant bits_come_back_unseen sim/layout/layout_regular.c 'layouts_hand' \
  's->back[lane] = true;' ''
mutant masked_rows_vacated_twice sim/layout/layout_regular.c 'layouts_hand' \
  'state->cleared -= s->row[side][format];' ''
mutant masked_rows_no_slack sim/layout/layouts_regular.c 'layouts_regular' \
  'of->step[i].codes - c.masked' 'of->step[i].codes'
mutant base_swaps_unseen sim/layout/layouts_regular.c 'layouts_regular' \
  'now[w] != (before[w] | entered)' '(before[w] & ~now[w])'
