# SPDX-License-Identifier: Apache-2.0
#
# Training: vectors, tables of heads and directions, which need no torch. The
# format is list.sh's.
mutant train_turns_forth sim/python/kvreplay/train/data.py \
  'sim/check_train.sh' 'b * cos - a * sin' 'b * cos + a * sin'
mutant train_gate_halved sim/python/kvreplay/train/means.py \
  'sim/check_train.sh' 'self.own.penalty / (2 * share)' \
  'self.own.penalty / share'
mutant train_needle_anywhere sim/python/kvreplay/train/means.py \
  'sim/check_train.sh' 'found = (first <= best) & (best < end)' \
  'found = best < end'
mutant train_energy_unshared sim/python/kvreplay/train/means.py \
  'sim/check_train.sh' 'even /= energy.sum() or 1' 'even /= 1'
mutant train_turn_longer sim/python/kvreplay/train/means.py \
  'sim/check_train.sh' 'hadamard / turn**0.5' 'hadamard / turn'
