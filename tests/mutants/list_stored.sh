# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Faults of methods that weigh how a token is stored, and of kernels over rows
# as they are stored.
mutant upper_half_unread ref/kernels/coded.h 'coded' \
  'b < 2 ? word[v] : half[v]' 'word[v]'
mutant range_of_first_run ref/kernels/coded.h 'coded' \
  'int g = x / of->run;' 'int g = 0 * x / of->run;'
mutant search_runs_away ref/parts/calibrate.h 'methods' \
  'if (over > 0)' 'if (over < 0)'
mutant votes_uncounted ref/parts/votes.c 'methods' \
  'p->votes[p->order[i]] += i < k;' 'p->votes[p->order[i]] |= i < k;'
mutant candidate_is_not_judged ref/methods/leankv.h 'methods' \
  'if (score[c] >= high) {' 'if (score[c] >= low) {'
mutant low_one_goes_unasked ref/methods/leankv.h 'methods' \
  'bool lower = least_low < 0 || h < score[least_low];' 'bool lower = true;'
mutant gap_forgotten ref/parts/received.h 'methods' \
  'return queries > 0' 'return queries < 0'
mutant alike_coded_again ref/parts/tiers.c 'golden.sh' \
  'bool stays = t->coding' 'bool stays = false && t->coding'
