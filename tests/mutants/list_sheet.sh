# SPDX-License-Identifier: Apache-2.0
#
# Faults of the engine sheet and of ranks: list.sh says how each is written.

mutant sheet_flash_stays sim/cli/sheet/sheet.c 'check_engine.sh' \
  'decode || need->view_logits' 'need->view_logits'
mutant sheet_peak_of_three sim/cli/sheet/sheet.c 'check_engine.sh' \
  'held + share * (' 'held + (0 * share + 1) * ('
mutant sheet_rows_of_replay sim/cli/sheet/sheet.c 'check_engine.sh' \
  'open_on(m, &m->like, PROMPT, spec' \
  'open_on(m, m->on.trace, m->on.trace->shape.prompt_len, spec'
mutant rank_keys_of_first sim/cli/sheet/beside.c 'check_engine.sh' \
  'y.k = skip(x->k, g *' 'y.k = skip(x->k, 0 * g *'
mutant rank_values_of_first sim/cli/sheet/beside.c 'check_engine.sh' \
  'y.v = skip(x->v, g *' 'y.v = skip(x->v, 0 * g *'
mutant rank_queries_of_first sim/cli/sheet/beside.c 'check_engine.sh' \
  'y.q = skip(x->q, h *' 'y.q = skip(x->q, 0 * h *'
mutant rank_compares_first sim/cli/sheet/beside.c 'check_engine.sh' \
  'kv_decided_unlike(whole, rank * lanes, part)' \
  'kv_decided_unlike(whole, 0 * rank, part)'
mutant decided_without_ids sim/cli/sheet/decided.c 'check_engine.sh' \
  'add_all(x, r.payload, r.count);' '(void)0;'
mutant sheet_rows_of_any sim/cli/sheet/sheet.c 'check_engine.sh' \
  'kv_spec_has(&row, asked)' 'row.method != NULL'
mutant pieces_share_all sim/cli/sheet/decided.c 'check_engine.sh' \
  '(unsigned)whole->has[i] & other->has[i]' '(unsigned)whole->has[i]'
mutant pieces_never_unlike sim/cli/sheet/decided.c 'check_engine.sh' \
  'return kv_fold_end(&a->later) == kv_fold_end(&b->later);' \
  'return a != NULL && b != NULL;'
mutant rank_bytes_of_first sim/cli/sheet/beside.c 'check_engine.sh' \
  'hold(kv_decided_bytes(whole, rank * lanes, lanes), &x->told);' \
  'hold(kv_decided_bytes(whole, 0, lanes), &x->told);'
mutant sheet_codes_unseen sim/cli/sheet/decided.c 'check_engine.sh' \
  'x->recodes |= kind == KV_RECODE;' 'x->recodes |= kind == KV_MERGE;'
mutant sheet_folder_stays sim/cli/sheet/sheet_trace.c 'check_engine.sh' \
  'rmdir(x->folder);' '(void)0;'
mutant sheet_csv_for_people sim/cli/sheet/sheet.c 'check_engine.sh' \
  'show(&v, false, word);' 'show(&v, true, word);'
