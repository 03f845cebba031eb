# SPDX-License-Identifier: Apache-2.0
#
# What stands in the place of tokens: residual latents, and a state of low rank.
# The format is list.sh's.
mutant nearest_takes_later ref/kernels/similar.h 'methods' \
  'if (j < t->n && i < seen[j])' 'if (j < t->n && i <= seen[j])'
mutant nearest_of_equals_later ref/kernels/similar.h 'similar' \
  'value[at - 1] > v' 'value[at - 1] >= v'
mutant references_without_last ref/parts/residual.c 'methods' \
  'b->seen[b->n] = s->r.n;' 'b->seen[b->n] = s->r.n > 1 ? s->r.n - 1 : 1;'
mutant blocks_count_from_text ref/parts/residual.h 'methods' \
  'KV_PHASE_BLOCK ? from : 0' 'KV_PHASE_BLOCK ? 0 : 0'
mutant one_lane_votes ref/methods/deltakv.c 'methods' \
  'for (int g = 1; g < lanes; g++)
    for (int i = 0; i < n; i++)' 'for (int g = lanes; g < lanes; g++)
    for (int i = 0; i < n; i++)'
mutant groups_are_the_vector ref/formats/delta.c 'methods' \
  'c->group ? c->group : c->latent' 'c->group ? c->latent : c->latent'
mutant share_of_all_tokens ref/methods/deltakv.h 'methods' \
  'kv_mul(o->r, (float)n)' 'kv_mul(o->r, (float)(n + o->recent))'
mutant named_are_not_read sim/replay/measure/cost.c 'methods' \
  'if (c) mark_named(l, c, i, mark);' ''
mutant named_are_read_whole sim/replay/measure/cost.c 'methods' \
  'held ? READ_AS_IT_CAME : READ' 'held ? READ : READ'
mutant made_rows_are_free sim/replay/measure/cost.c 'cost' \
  '(c->group ? 0 : materialised)' '(c->group ? 0 : 0 * materialised)'
mutant groups_hold_no_rows sim/replay/measure/cost.c 'cost' \
  'c->group ? materialised : 0' 'c->group ? 0 * materialised : 0'
mutant groups_never_end sim/replay/measure/cost.c 'cost' \
  'c->group[r] != c->group[r - 1]' 'c->group[r] < c->group[r - 1]'
mutant who_chooses_holds_rows ref/methods/deltakv.c 'down' \
  'GROUP && role_of(&at) == KV_FOLLOWS' 'GROUP && role_of(&at) == KV_CHOOSES'
mutant latents_of_tokens_alone sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'z = code - w.code(layer, mean)' 'z = code + w.code(layer, mean)'
mutant sizes_of_signed sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' 'sizes(token, np.abs(z) /' 'sizes(token, z /'
mutant rebuilt_without_mean sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'w.decode(layer, z) + mean)' 'w.decode(layer, z))'
mutant alone_takes_differences sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' 'w.decode(layer, code)' 'w.decode(layer, z)'
mutant histogram_without_first sim/python/kvreplay/figures/draw.py \
  'traces/check_trace_figures.sh' \
  'share = v / sum(here.values())' 'share = v / max(here.values())'
mutant weights_once_are_there sim/python/kvreplay/figures/command.py \
  'traces/check_trace_figures.sh' \
  'layers("rebuilt", w.digest) == len(w.layers)' 'True'
mutant mean_of_one_more ref/parts/latents.c 'methods' \
  'out[x] = out[x] / (float)n;' 'out[x] = out[x] / (float)(n + 1);'
mutant latent_of_difference ref/parts/latents.c 'methods' \
  'b->z[i] = b->z[i] - b->of_mean[i];' 'b->z[i] = b->z[i] + b->of_mean[i];'
mutant share_of_no_part ref/formats/formats.c 'methods' \
  'kv_part_begin(bytes, part + 1, parts)' \
  'kv_part_begin(bytes, part + 2, parts)'
mutant buffer_too_short ref/methods/deltakv.h 'methods' \
  '(whole > 1 ? whole - 1 : 0)' 'whole'
mutant kept_is_as_it_came ref/parts/residual.c 'methods' \
  'recorded && !s->o->kept' 'recorded'
mutant sinks_stay_whole ref/parts/residual.c 'methods' \
  'from == o->sink ? 0 : from' 'from'
mutant full_layers_stay_whole ref/methods/deltakv.c 'methods' \
  'from, end, full);' 'from, end, false);'
mutant kept_is_read_rotated ref/parts/latents.c 'methods' \
  '    kv_turn_back(lane[g]->turns, lane[g]->id[i], key_of(s, out, g));' ''
mutant less_forgets ref/methods/less.c 'methods' \
  's->z[j] = kv_add(s->z[j], p);' 's->z[j] = p;'
mutant less_no_floor ref/methods/less.h 'methods' \
  'x > KV_LESS_FLOOR || ' '1 || '
mutant rank_halves_up ref/parts/lowrank.c 'methods' \
  'rest > by || (rest == by && whole % 2)' 'rest >= by'
mutant energy_of_the_first ref/parts/lowrank.c 'methods' \
  'g * t->dim[1] + from;' 'g * t->dim[1];'
mutant parts_on_one_latent ref/parts/lowrank.c 'methods' \
  '    from += p.rank;' ''
mutant ordered_has_positions ref/formats/delta.c 'methods' \
  '(c->ordered ? 0 : 4)' '4'
mutant layered_as_second ref/lane/compose.c 'cases/compose.cases' \
  'if (b->coding[i].format->layered)' 'if (false)'

# Caches on the device of what lies in the host's memory.
mutant cached_by_last_alone sim/run/look/device_cache.c 'device_cache' \
  'c->asked.often ? c->steps[x->token] : 0' '0 * c->steps[x->token]'
mutant cached_higher_first sim/run/look/device_cache.c 'device_cache' \
  'compare(b->token, a->token)' 'compare(a->token, b->token)'
mutant cached_before_step sim/run/look/device_cache.c 'device_cache' \
  'hits += c->in[t];' 'hits += c->last[t] > 0;'
mutant cached_is_fetched sim/run/look/device_caches.c 'cases/caches.cases' \
  'c->in[l->id[i]] ? 0 : r->mark[i]' 'c->in[l->id[i]] < 0 ? 0 : r->mark[i]'
mutant caches_do_not_conflict sim/store/tables.c 'cases/caches.cases' \
  'I(held_peak))' \
  'MEMBER(held_peak, held_peak, "INTEGER NOT NULL", '\''i'\'', FIRST, 0))'
mutant caches_unverified sim/cli/verify_rows.c 'cases/caches.cases' \
  'kv_device_caches_open(b, asked, true, out, e)' \
  'kv_device_caches_open(b, asked + b->cells, false, out, e)'
