# SPDX-License-Identifier: Apache-2.0
#
# Mutants of the kernels, on the executor: form as in list.sh.

mutant device_smallest gpu/parts/parts.cuh 'gpu_parts' \
  '| ~(uint32_t)i;' '| (uint32_t)i;'
mutant device_order gpu/parts/parts.cuh 'gpu_parts' \
  'set ? said : ~said' 'said'
mutant device_rounds gpu/lane/values.cuh 'check_backends.sh' \
  'a[2 * h + u % 2] = kv_fma(w.x[u / 2], v[u], a[2 * h + u % 2]);' \
  'a[2 * h + u % 2] = kv_add(kv_mul(w.x[u / 2], v[u]), a[2 * h + u % 2]);'
mutant device_odd_column gpu/lane/values.cuh 'check_backends.sh' \
  'return kv_thread() % KV_VALUE_PAIRS * 2;' \
  'return kv_thread() % KV_VALUE_PAIRS * 2 + 1;'
mutant device_middle_head gpu/lane/values.cuh 'gpu_reads' \
  'return kv_value_upper() ? heads - kv_value_heads(heads) : 0;' \
  'return kv_value_upper() ? heads / 2 : heads % 2;'
mutant device_never_waits gpu/lane/values.cuh 'check_backends.sh' \
  'kv_async_wait<KV_VALUE_STAGES - 1>();' ''
mutant device_joins_late gpu/backend/join.cu 'check_backends.sh' \
  'kv_async_wait<STAGES - 1>();' 'kv_async_wait<STAGES>();'
mutant device_waits_late gpu/lane/keys.cuh 'check_backends.sh' \
  'kv_async_wait<KV_KEY_STAGES - 1>();' 'kv_async_wait<KV_KEY_STAGES>();'
mutant device_no_barrier gpu/lane/keys.cuh 'check_backends.sh' \
  'link(stage(s));
    __syncthreads();' 'link(stage(s));'
mutant device_pair_of_two gpu/backend/logits.cu 'gpu_coded' \
  'own.block != next.block;' 'false;'
mutant device_code_astray gpu/formats/minmax.cuh 'gpu_coded' \
  '(b < 2 ? codes : codes >> 16)' 'codes'
mutant device_rounded_scale gpu/formats/minmax.cuh 'whims' \
  'return kv_minmax_unrounded(&c, of.a, of.b);' \
  'return {kv_div(1, r.scale), of.a};'
mutant device_key_half_moved gpu/lane/keys_rows.cuh 'gpu_coded' \
  'word[i] >> 16 | word[i + 1] << 16' 'word[i] >> 16'
mutant device_key_one_range gpu/lane/keys_rows.cuh 'gpu_coded' \
  'at >= x.how.group ? 2 : 0' 'at > x.how.group ? 2 : 0'
mutant device_row_amid gpu/backend/attend.cu 'gpu_coded' \
  'row[kv_thread()].slab != slab' 'false'
mutant device_never_whole gpu/backend/attend.cu 'gpu_coded' \
  'slab->in.pages || !kv_gpu_has_rows(slab->format)' 'true'
mutant device_shares_unlike gpu/backend/attend.cu \
  'check_backends.sh gpu_reads' \
  'return !kv_block_any(other);' 'return !kv_block_any(other) || j >= 0;'
mutant device_mass_carries gpu/block/warp.h 'emu_words check_backends.sh' \
  '(uint32_t)x & 0x3ffffffu' '(uint32_t)x & 0x1ffffffu'
mutant device_weighs_once gpu/backend/attend.cu 'check_backends.sh' \
  'if (HEADS - h >= KV_WARPS || warp < HEADS - h)' 'if (HEADS > 1 || warp < 1)'
mutant device_reads_twice gpu/backend/attend.cu 'gpu_reads' \
  'else if (h != first)' 'else if (h < first)'
mutant emu_copies_early gpu/emu/emu_async.cc 'emu_words' \
  'if (own->groups - a->group > left)' 'if (own->groups - a->group >= left)'
mutant device_forgets_row gpu/backend/observation.cu 'check_backends.sh' \
  'if (i < kv_gpu_visible(l, lane, r))' \
  'if (i < kv_gpu_visible(l, lane, r) - 1)'
mutant device_divides_once gpu/lane/verbs.cuh 'gpu_rows' \
  'kv_div(kv_fma(a, kv_gpu_element(into, x), y), den)' \
  'kv_mul(kv_fma(a, kv_gpu_element(into, x), y), kv_div(1.0f, den))'
mutant device_reads_trace gpu/backend/logits.cu 'gpu_rows' \
  'row[at] = kv_gpu_raw_at(a.lane->k_raw, a.lane->k[i].block);' \
  'row[at] = l.k + ((size_t)a.lane->kv_head * (size_t)l.shape.n_tokens +
                     a.lane->id[i]) * a.lane->k_raw.size;'
mutant device_row_not_freed gpu/lane/verbs.cuh 'gpu_rows' \
  'pool->n_free = n_free + n;' 'pool->n_free = n_free;'
mutant device_merged_row_kept gpu/lane/verbs.cuh 'gpu_rows' \
  'kv_gpu_leave(pool, slab, r);
  *r' 'if (r->format != KV_RAW) kv_gpu_leave(pool, slab, r);
  *r'
mutant device_coded_row_kept gpu/lane/verbs.cuh 'gpu_rows' \
  'if (all_raw) kv_gpu_free_rows(pool, ref, n, entry);' ''
mutant device_row_shared gpu/backend/append.cu 'gpu_rows' \
  'pool.free[left - 1]' 'pool.free[0]'
mutant device_rows_to_spare gpu/host/pages.c 'gpu_rows' \
  'pool->used + count - pool->n_free' 'pool->used + count'
mutant device_row_half_copied gpu/backend/append.cu 'gpu_rows' \
  'units = (int)(pool.size / sizeof(T));' \
  'units = (int)(pool.size / sizeof(T)) / 2;'
mutant logits_past_the_row gpu/backend/logits.cu 'gpu_reads' \
  'if (base >= kv_gpu_visible(l, lane, rows - 1)) return;' \
  'if (base >= lane->n) return;'
# Unified pages on a device.
mutant device_pages_room gpu/backend/pages.cu 'gpu_pages' \
  'if (sum.take == 0) room += sum.give;' 'room += sum.give;'
mutant device_pages_one_tile gpu/backend/pages.cu 'gpu_pages' \
  'base.give += total.give;' ''
mutant device_pages_all_served gpu/backend/pages.cu 'gpu_pages' \
  '!suffices(p, n, room) &&' 'false &&'
mutant device_paged_left gpu/lane/paged.cuh 'gpu_tiers' \
  'beyond < 0 ? p.entries - 1 - x :' 'beyond < 0 ? x :'
mutant device_paged_shift gpu/backend/paged.cu 'gpu_tiers' \
  'low ? c.low.magic : c.high.magic' 'c.high.magic'
mutant device_paged_slow gpu/backend/paged.cu 'gpu_tiers' \
  'return s.how.bits < 8 &&' 'return s.how.bits < 4 &&'
mutant device_tiers_not_turned gpu/backend/place.cu 'gpu_tiers' \
  'first < last; first++' 'first > last; first++'
mutant device_tiers_not_reserved gpu/backend/place.cu 'gpu_tiers' \
  'int n = t.held + more;' 'int n = t.held;'
mutant device_tiers_report gpu/backend/report.cu 'gpu_tiers' \
  'b.codes + (at - metadata)' 'b.codes + at'
mutant device_tiers_nobodys gpu/backend/paged_logits.cu 'gpu_tiers' \
  '{i[0] >= 0, i[1] >= 0}' '{true, true}'
mutant device_tiers_uncoded gpu/backend/paged_logits.cu 'gpu_tiers' \
  'slowly<QUERIES>(l, {lane, 0, lane->queries, false}, own);' ';'
mutant device_tiers_in_slabs gpu/host/store.c 'gpu_tiers' \
  'if (!in->pages) to->data' 'to->data'
mutant device_tiers_no_barrier gpu/backend/paged.cu 'gpu_tiers' \
  '  kv_async_wait<0>();
  __syncthreads();' '  kv_async_wait<0>();'
mutant device_pages_wait gpu/backend/paged_logits.cu 'gpu_tiers' \
  '8 * eight + own % 8, piece = own / 8;' \
  '8 * eight + own / x.full, piece = own % x.full;'
mutant device_pages_twice gpu/backend/paged_logits.cu 'gpu_tiers' \
  '    int j = 8 * eight + own % 8, piece = own / 8;' \
  '    int j = at % (8 * eights), piece = at / (8 * eights);
    (void)own;'
# Stores of regular indices: chunks by rank, places by what stands before.
mutant regular_from_start gpu/backend/regular.cu 'gpu_indexed' \
  'total) - c * CHUNK;' 'total);'
mutant rewrite_overwrites gpu/backend/rewrite.cu 'gpu_indexed' \
  'int before = count(mask, 0, first);' 'int before = count(mask, 0, 0);'
mutant rewrite_keeps_masks gpu/backend/rewrite.cu 'gpu_indexed' \
  'bits > 0 ? (1u << bits) - 1' 'bits > 0 ? ~0u'
# Re-indexed lanes: back by a position's angle, forth by a place's.
mutant placed_by_difference ref/ground/places.c 'places' \
  'kv_rope_move(p->d, p->rope->interleaved, back, forth, room + 2 * d, row);' \
  '(void)back, (void)forth;
  kv_rope_table(p->rope->inv_freq, p->d, to - from, room);
  kv_rope_rotate(p->d, p->rope->interleaved, room, row, row);'
mutant placed_without_gaps ref/ground/places.c 'places' \
  'p->place.sc ? &p->place : &p->token' '&p->token'
mutant placed_at_its_end ref/backend/observation.c 'places' \
  'a->seen - a->rows + r' 'a->seen - 1'
mutant placed_as_halves ref/ground/rope.c 'places' \
  '  move(d, step, apart, from, to, x, y);
}' '  move(d, 1, apart, from, to, x, y);
}'
mutant device_placed_at_end gpu/backend/load.cu 'places' \
  'kv_gpu_visible(l, lane, r) - 1' 'lane->n - 1'
mutant device_placed_back gpu/lane/entry.cuh 'places' \
  'kv_gpu_forth(p, t.forth, x, x1, x2)' 'kv_gpu_forth(p, t.back, x, x1, x2)'
# Rows made of latent vectors where they are attended.
mutant rebuilt_not_turned gpu/backend/rebuilt.cu 'gpu_rebuilt' \
  '    turn_rows(l, r, x, from, n);' '    __syncthreads();'
mutant rebuilt_turns_all gpu/backend/rebuilt.cu 'gpu_rebuilt' \
  'if (x.place[from + j] < 0)' 'if (from + j >= 0)'
mutant rebuilt_sees_itself gpu/backend/rebuilt_stages.cu 'gpu_rebuilt' \
  's.reference[middle] < i' 's.reference[middle] <= i + 10'
mutant rebuilt_mean_of_all gpu/lane/rebuilt.cuh 'gpu_rebuilt' \
  'kv_div(sum, (float)n)' 'kv_div(sum, (float)r.how.nearest)'
mutant rebuilt_last_chunk gpu/backend/rebuilt.cu 'gpu_rebuilt' \
  'int n = more < SOME ? more' 'int n = more < SOME ? SOME'

# Rows of a replay that lie by regular indices.
mutant device_indexed_keeps_bits gpu/backend/regular.cu 'gpu_indexed' \
  'if (all || is_read(l, lane, i))' 'if (true)'
mutant device_indexed_not_followed gpu/backend/regular.cu 'gpu_indexed' \
  'before[at / 32] + __popc(below);' 'before[at / 32];'
mutant device_indexed_in_pools gpu/host/store.c 'gpu_indexed' \
  '  kv_gpu_indexed_take(s);' ''
mutant device_indexed_out_of_order gpu/host/indexed.c 'gpu_indexed' \
  'up = up && l->id[i - 1] < l->id[i];' 'up = up && i > 0;'
mutant device_indexed_not_gathered gpu/host/indexed.c 'gpu_indexed' \
  'if (!masked && has_lost(s, all))' 'if (false)'
mutant device_indexed_not_joined gpu/host/indexed.c 'gpu_indexed' \
  'if (all) act(s, KV_GPU_REGULAR_JOIN, stream);' ''
mutant device_indexed_joins_first gpu/backend/regular.cu 'gpu_indexed' \
  'any |= mask[(size_t)i * (size_t)r.words];' \
  'any |= mask[0 * (size_t)i * (size_t)r.words];'

mutant device_shared_though_apart gpu/host/indexed.c 'gpu_indexed' \
  'x->alike = x->alike && alike(' 'x->alike = x->alike || alike('
mutant device_shared_of_one_lane gpu/backend/regular.cu 'gpu_indexed' \
  'if (all || is_read(l, lane, i))' \
  'if (r.stride + (blockIdx.x == 0) && (all || is_read(l, lane, i)))'
mutant device_shared_not_wiped gpu/backend/regular.cu 'gpu_indexed' \
  'if (!r->stride)' 'if (r->words < 0)'
mutant device_shared_not_forgotten gpu/host/indexed.c 'gpu_indexed' \
  'if (was != kv_gpu_indexed_walked(s))' 'if (was && !x->in_order)'
mutant base_in_pools sim/replay/layout/regular.c 'gpu_indexed' \
  'if (task == KV_REGULAR_NONE)' \
  'if (task == KV_REGULAR_NONE || task == KV_REGULAR_BASE)'
mutant base_of_each_lane sim/replay/layout/regular.c 'gpu_indexed' \
  'bool joined = task == KV_REGULAR_BASE ||' 'bool joined ='

# Latent vectors that a replay's attention decodes.
mutant device_rebuilt_unpacked gpu/backend/rebuilt_lanes.cu 'gpu_rows' \
  'for (int b = *r.packed + (int)blockIdx.x' \
  'for (int b = *r.packed + 1 + (int)blockIdx.x'
mutant device_rebuilt_decoded gpu/host/step.c 'gpu_rows' \
  'else if (s->rebuilt)' 'else if (s->rebuilt && s->lost)'
