# SPDX-License-Identifier: Apache-2.0
#
# Mutants of selections and views on a device, on the executor: form as in
# list.sh.

mutant device_ties gpu/block/radix.cuh 'gpu_parts' \
  'in) return own >= c.place;' \
  'in) return own > c.place;'
mutant device_newest_goes gpu/parts/parts.cuh 'gpu_parts' \
  'kv_gpu_last(score, past)' 'past - 1'
mutant device_nothing_moves gpu/block/array.cuh 'gpu_parts' \
  'list ? list[at] : at + WAY' 'list ? list[at] : at'
mutant device_list_spills gpu/block/radix.cuh 'gpu_parts' \
  'listed = r->listed <= KV_LISTED;' 'listed = true;'
mutant device_no_carry gpu/block/radix.cuh 'gpu_parts' \
  'atomicAdd(&r->low[b], low) + low < low' \
  '0 * atomicAdd(&r->low[b], low)'
mutant device_run_cut gpu/backend/views.cu 'gpu_reads' \
  'own < 0 ? at.open' 'own < 0 ? base'
mutant device_adds_twice gpu/lane/method.cuh 'gpu_parts' \
  'return (int)gridDim.y * KV_BLOCK;' 'return KV_BLOCK;'
mutant device_less_forgets gpu/methods/less.cu 'gpu_latents' \
  's->z[j] = kv_add(s->z[j], psi[i * rank + j]);' \
  's->z[j] = psi[i * rank + j];'
mutant device_less_takes_others gpu/methods/less.cu 'gpu_latents' \
  'forget(at, lane, m - i < TILE ? m - i : TILE, gone + i);' \
  'forget(at, lane, m - i < TILE ? m - i : TILE, gone);'
mutant device_chunk_of_one_head gpu/lane/method.cuh 'gpu_latents' \
  'l.q + head * d, group, logits, within' \
  'group, group, logits, within'
mutant device_nearest_takes_later gpu/parts/latents.cuh 'gpu_latents' \
  'i < KV_SIDE && first + i < mine;' 'i < KV_SIDE && first + i <= mine;'
mutant device_latent_of_sum gpu/parts/residual.cuh 'gpu_latents' \
  's.z[x] = kv_sub(s.z[x], s.of_mean[x]);' \
  's.z[x] = kv_add(s.z[x], s.of_mean[x]);'
mutant device_first_tile_again gpu/parts/residual.cuh 'gpu_latents' \
  'int j = i * KV_CODE_TILE,' 'int j = i % 2 * KV_CODE_TILE,'
mutant device_directed_tile_again gpu/parts/lowrank.cuh 'gpu_latents' \
  'int j = i * KV_CODE_TILE,' 'int j = i % 2 * KV_CODE_TILE,'
mutant device_directions_of_first gpu/parts/lowrank.cuh 'gpu_latents' \
  '(size_t)g * (size_t)(b.dim[1]' '0 * (size_t)(b.dim[1]'
mutant device_parts_on_one_latent gpu/parts/lowrank.cuh 'gpu_latents' \
  '    from += p.rank;' ''
mutant device_directed_block_again gpu/parts/lowrank.cuh 'gpu_latents' \
  'l.lane[0].k_slab[f].used + i;' 'l.lane[0].k_slab[f].used;'
mutant device_ordered_has_positions gpu/formats/delta.cuh 'gpu_latents' \
  '(c.ordered ? 0 : 4)' '4'
mutant device_decoded_is_stored gpu/host/mirror.c 'gpu_latents' \
  'l->fault == KV_GPU_DECODED);' 'l->fault == KV_GPU_LATENT);'
mutant device_rows_unlooked gpu/parts/residual.cuh 'gpu_latents' \
  'wrong |= !kv_finite(row[x]);' 'wrong |= false;'
mutant decoded_unlooked ref/parts/lowrank.c 'methods' \
  'if (!kv_all_finite(t->row + i * t->w, t->w))' 'if (false)'

# The CUDA module's host part.
mutant module_keeps_its_pool gpu/module/cuda.cu 'gpu_runtime' \
  'if (the_pool) cudaMemPoolTrimTo(the_pool, 0);' ''
mutant module_trims_unwaited gpu/module/cuda.cu 'gpu_runtime' \
  'if (!fine(cudaStreamSynchronize(the_stream), "waiting for the device", 0))' \
  'if (broken)'
mutant module_tries_no_more gpu/module/cuda.cu 'gpu_runtime' \
  '&& make_room() ? call() : rc;' '&& make_room() && broken ? call() : rc;'
mutant module_forgives_nothing gpu/module/cuda.cu 'gpu_runtime' \
  'if (last) forgive();' ''
mutant module_wants_a_pool gpu/module/cuda.cu 'gpu_runtime' \
  'if (!rc && there && !try_pool(&pool)) the_pool = pool;' \
  'if (!rc && there) try_pool(&pool), the_pool = pool;'
mutant module_kernel_once gpu/module/cuda.cu 'gpu_runtime' \
  '*tries == 1 && make_room()' '*tries == 0 && make_room()'
mutant module_records_once gpu/module/cuda.cu 'gpu_runtime' \
  'if (recorded || !lacking) return recorded;' 'return recorded;'
mutant module_makes_room_within gpu/module/cuda.cu 'gpu_runtime' \
  'if (recording || broken) return false;' 'if (broken) return false;'
mutant lack_is_a_loss gpu/host/shared.c 'gpu_runtime' \
  'if (why) lacked = true;' 'if (why) lacked = false;'
mutant tokens_in_y gpu/parts/similar.cuh 'gpu_grids' \
  'dim3 rows((unsigned)((l->stride - 1) / KV_SIDE + 1), lanes);' \
  'dim3 rows(lanes, (unsigned)((l->stride - 1) / KV_SIDE + 1));'
