# SPDX-License-Identifier: Apache-2.0
#
# Resuming: what one layer gives, forgotten or twice; parts believed that are
# not to be. The format is list.sh's.
mutant resume_forgets_ledger sim/replay/engine/partial.c 'resume' \
  'kv_cost_layer_copy(c->cost, layer, x);' ''
mutant resume_forgets_values sim/replay/measure/fidelity.c 'resume' \
  'kv_copy(x, kv_spill_slice(&f->spill, layer), f->values * sizeof(double));' \
  'x->size += f->values * sizeof(double);'
mutant resume_forgets_fault sim/replay/engine/partial.c 'resume' \
  'if (h.fault.rc) kv_cell_fail(c, layer, &h.fault);' ''
mutant resume_counts_twice sim/replay/engine/cell.c 'resume' \
  'kv_cost_layer_begin(c->cost, layer);' ''
mutant resume_replays_again sim/run/sweep/keeper.c 'resume' \
  'return r->there[p->layer] = true;' 'return true;'
mutant resume_keeps_another sim/replay/engine/replay.c 'resume' \
  'for (int i = 0; i < f->n; i++) f->cell[i] = p->at[f->cell[i]];' ''
mutant resume_adds_layers_up sim/replay/measure/cost.c 'cost' \
  'return c->rows == 1 ? 0 : layer;' 'return c->rows == 1 ? 0 : layer / 2;'
mutant resume_believes_all sim/store/db_partial.c 'resume' \
  'return memcmp(&said, &is, sizeof is) == 0;' 'return true;'
mutant resume_any_build sim/run/sweep/keeper.c 'resume' \
  'if (!same_build(r->keeper, p)) return false;' ''
mutant resume_leaves_parts sim/store/db_write.c 'resume' \
  'if (!rc && !db->still) rc = kv_db_unkeep(db, key, r->backend, e);' ''
mutant resume_keeps_nothing sim/run/sweep/keeper.c 'resume' \
  'k->pending[at[i] * k->layers + layer] = true;' '(void)at;'
mutant resume_one_group sim/replay/engine/groups.c 'resume' \
  'if (all <= room) return n;' 'return n;'
mutant search_forgets_probes sim/run/sweep/search.c 'resume' \
  'return db && !found && worth' 'return 0 && worth'
mutant resume_forgets_prompt sim/replay/measure/fidelity.c 'resume' \
  'kv_copy(x, kv_spill_slice(&f->spill, layer), f->values * sizeof(double));' \
  'kv_copy(x, kv_spill_slice(&f->spill, layer),
          f->start[KV_PROMPT_ERROR] * sizeof(double));'
