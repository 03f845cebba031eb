# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what compares backends: form as in list.sh.

# Where two part.
mutant ledgers_unread sim/compare.c 'ledgers check' \
  'if (!kv_look_ledger(&w->look, x, y)) return KV_OK;' \
  'if (!kv_look_ledger(&w->look, x, y) || x) return KV_OK;'
mutant ledger_total_only sim/compare.c 'ledgers check' \
  'if (!out->found) *out = total;' '*out = total;'
mutant hidden_unsought sim/compare.c 'compare' \
  'find_hidden(w, *found ? n + 1 : n);' '(void)n;'
mutant prefix_one_long sim/compare.c 'compare' \
  'int n = halve(w, 0, seen);' 'int n = halve(w, 0, seen) + 1;'
mutant second_layer_unseen sim/compare.c 'compare check' \
  'parted = differing(d) >= 0;' 'parted = i == 0 && differing(d) >= 0;'
mutant failure_is_equal sim/compare.c 'compare check' \
  '    out->found = true;' '    out->found = false;'
mutant side_is_equal sim/compare_bytes.c 'ledgers' \
  'differ(l, lane, "side", x->side, y->side, when)' 'false'
mutant read_is_equal sim/compare_bytes.c 'ledgers' \
  'differ(l, -1, "read", x->read, y->read, "")' 'false'
mutant kept_is_equal sim/compare_bytes.c 'ledgers' \
  'tell(l, -1, "kept", word_of(x->kept), word_of(y->kept), "")' 'false'

# Who runs, and what is kept of it.
mutant failed_is_left sim/verb_check.c 'check' \
  'b->cell[i].result.status != KV_CELL_REFUSED &&' \
  'second.cell[i].runs &&'
mutant ledger_conflict_lost sim/verb_check.c 'check' \
  'r.totals = got->totals;' ''
mutant any_backend_will_do sim/db_find.c 'run' \
  '*yes = !r->backend;' '*yes = true;'
mutant first_backend_named sim/db_read.c 'run' \
  '" ORDER BY c.backend = ? DESC, v.started,' \
  '" ORDER BY c.backend = ? ASC, v.started,'
mutant search_by_anyone sim/search.c 'run' \
  '!strcmp(ask->how.backend->name, kv_backend_ref.name)' 'true'
