# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Faults of masks in the account of regular indices, and of merged rows.
mutant masks_unheard sim/replay/layout/layout_regular.c 'layouts_hand' \
  'if (s->unread >> to & 1)' 'if (s->unread >> to & 2)'
mutant bits_come_back_unseen sim/replay/layout/layout_regular.c 'layouts_hand' \
  's->back[lane] = true;' ''
mutant masked_rows_vacated_twice sim/replay/layout/layout_regular.c \
  'layouts_hand' \
  'layer_of(s, lane)->vacated += s->bytes[at];' \
  'layer_of(s, lane)->vacated += 2 * s->bytes[at];'
mutant masked_rows_no_slack sim/replay/layout/layouts_regular.c \
  'layouts' \
  '(c->stored - c->masked)' 'c->stored'
mutant base_swaps_unseen sim/replay/layout/layouts_regular.c 'layouts' \
  'x->now[w] != (x->before[w] | entered)' \
  '(x->before[w] & ~x->now[w])'
mutant ranks_take_turns sim/replay/layout/layout_regular.c 'layouts_hand' \
  'return lane / (s->lanes / s->ranks);' 'return lane % s->ranks;'
mutant ranks_first_alone sim/replay/layout/layouts_regular.c 'layouts' \
  'if (r->regular.mti > most)' 'if (x.rank == 0)'
mutant one_mask_of_lanes sim/replay/layout/regular.c 'layouts_hand' \
  '(one ? 1 : c->lanes)' '(one ? c->lanes : c->lanes)'
mutant one_mask_reads_own sim/replay/layout/regular.c 'layouts_hand' \
  'return one ? c->lanes * c->joined : c->kept;' \
  'return one ? c->kept : c->kept;'
mutant merged_rows_stay_fp32 ref/lane/lane.c 'merged' \
  'k->type = v->type = kv_merged_type(l->needs, s);' \
  'k->type = v->type = KV_F32;'
mutant merged_halves_cut ref/lane/verbs.c 'merged' \
  'half[i] = kv_to_bf16(x[i]);' 'half[i] = (uint16_t)(kv_bits(x[i]) >> 16);'
mutant means_pass ref/lane/verbs.c 'merged' \
  'finite = finite && kv_finite(row[x]);' '(void)row;'
mutant moved_means_wide sim/replay/measure/cost.c 'merged' \
  'v.moved += (int64_t)(kv_slab_bytes(&l->k_slab[KV_MERGED], 1).codes +' \
  'v.moved += (int64_t)(4 * (size_t)l->shape->d +'
mutant read_means_wide sim/replay/measure/cost.c 'cost' \
  'int64_t merged = (int64_t)kv_slab_bytes(&slab[KV_MERGED], 1).codes;' \
  'int64_t merged = 4 * width;'
mutant device_means_pass gpu/lane/verbs.cuh 'gpu_latents' \
  'if (lost) kv_gpu_fail(lane, KV_GPU_MEAN, lane->id[into]);' '(void)lost;'
mutant device_means_of_no_type gpu/host/store.c 'gpu_rows' \
  'to->type = (int)from->type;' ''
mutant merged_apart_in_pages sim/replay/layout/layout_pages.c 'layouts_hand' \
  'if (f == KV_MERGED && kv_means_in_place(room->shape, room->needs)) {' \
  'if (f < 0) {'
