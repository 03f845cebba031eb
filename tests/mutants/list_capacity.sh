# SPDX-License-Identifier: Apache-2.0
#
# Mutants of `kvreplay capacity`: see list.sh.
mutant reserve_ignored sim/capacity/users.c 'capacity check_capacity.sh' \
  'part_of(n->gpu->bytes, n->percent, 100)' 'n->gpu->bytes'
mutant mean_rank sim/capacity/users.c 'capacity' \
  'int64_t steady = part_of(held->steady, fullest, of);' \
  'int64_t steady = part_of(held->steady, 1, n->tp);'
mutant prefill_forgotten sim/capacity/users.c 'capacity' \
  '(peak > steady ? peak - steady : 0)' '(peak > steady ? 0 : 0)'
mutant kinds_by_window_alone sim/capacity/lengths.c 'capacity' \
  'memcmp(w->kind[i].lane, w->now, size) == 0' 'size > 0'
mutant keys_alike sim/capacity/lengths.c 'capacity' \
  'x = x * 1664525 + 1013904223;' 'x = 1664525;'
mutant layer_not_repeated sim/capacity/lengths.c 'capacity' \
  'kv_cost_layer_copy(w->cell.cost, index, &in);' '(void)in;'
mutant entries_are_a_share sim/capacity/measured.c 'check_capacity.sh' \
  'return ratio >= 0.9 && ratio <= 1.1;' 'return ratio > 0;'
mutant other_values_match sim/spec/spec.c 'check_capacity.sh' \
  'if (*a && strcmp(a, b) != 0) return false;' ''
