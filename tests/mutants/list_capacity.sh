# SPDX-License-Identifier: Apache-2.0
#
# Mutants of `kvreplay capacity` and `lengths`: see list.sh.
mutant reserve_ignored sim/python/kvreplay/capacity/node.py \
  'check_capacity.sh' 'part(self.gpu.bytes, self.percent, 100)' \
  'self.gpu.bytes'
mutant mean_rank sim/python/kvreplay/capacity/node.py 'check_capacity.sh' \
  'steady = part(steady, x.fullest, x.of)' 'steady = part(steady, 1, self.tp)'
mutant prefill_forgotten sim/python/kvreplay/capacity/node.py \
  'check_capacity.sh' 'max(0, peak - steady)' '0'
mutant all_experts_read sim/python/kvreplay/capacity/model.py \
  'check_capacity.sh' '** (users - 1)' '* 0'
mutant new_key_passes sim/python/kvreplay/capacity/keys.py \
  'check_capacity.sh' 'if key in REFUSED or any(' 'if key in REFUSED and any('
mutant kinds_by_window_alone sim/cli/capacity/lengths.c 'lengths' \
  'memcmp(w->kind[i].lane, w->now, size) == 0' 'size > 0'
mutant keys_alike sim/cli/capacity/lengths.c 'lengths' \
  'x = x * 1664525 + 1013904223;' 'x = 1664525;'
mutant layer_not_repeated sim/cli/capacity/lengths.c 'lengths' \
  'kv_cost_layer_copy(w->cell.cost, index, &in);' '(void)in;'
mutant entries_are_a_share sim/cli/capacity/measured.c 'check_capacity.sh' \
  'return ratio >= 0.9 && ratio <= 1.1;' 'return ratio > 0;'
mutant other_values_match sim/ask/spec.c 'check_capacity.sh' \
  'if (*a && strcmp(a, b) != 0) return false;' ''
