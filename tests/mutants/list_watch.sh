# SPDX-License-Identifier: Apache-2.0
#
# Faults that a watched build alone sees (`run.sh --watch`): what orders warps
# and blocks, taken out of kernels, and the watch itself. On the executor every
# digest stays what it was. The format is list.sh's; the check watch:PART is
# that of tests/watch.sh.

# Barriers.
mutant watch_join gpu/backend/join.cu 'watch:shapes' \
  'kv_async_wait<STAGES - 1>();
    __syncthreads();' 'kv_async_wait<STAGES - 1>();'
mutant watch_join_next_columns gpu/backend/join.cu 'watch:shapes watch:long' \
  '    __syncthreads();
    fetch(x, stage, t + STAGES);' '    fetch(x, stage, t + STAGES);'
mutant watch_probabilities gpu/block/block.cuh 'watch:shapes gpu_parts' \
  'part[kv_thread() / KV_WARP] = mine;
  __syncthreads();' 'part[kv_thread() / KV_WARP] = mine;'
# One of the two is enough, so both go.
mutant watch_sums_in_a_row gpu/block/block.cuh 'gpu_pages' \
  'mine = join(mine, part[w]);
  __syncthreads();' 'mine = join(mine, part[w]);'
also gpu/block/block.cuh \
  'KV_SHARED(T, part, KV_WARPS);
  __syncthreads();
  if (kv_thread() % KV_WARP' 'KV_SHARED(T, part, KV_WARPS);
  if (kv_thread() % KV_WARP'
# From 1,025 entries on: the list of those that stay is written in rounds.
mutant watch_list_of_a_long_lane gpu/block/block.cuh 'watch:long' \
  '  __syncthreads();
  if (lane == KV_WARP - 1) part[warp] = sum;' \
  '  if (lane == KV_WARP - 1) part[warp] = sum;'
mutant watch_entries_move gpu/block/array.cuh 'watch:shapes watch:long' \
  'own[j] = kv_gpu_word<Word>(a, list ? list[at] : at + WAY);
    }
    __syncthreads();' \
  'own[j] = kv_gpu_word<Word>(a, list ? list[at] : at + WAY);
    }'
mutant watch_keys_of_a_stage gpu/lane/keys.cuh 'watch:shapes' \
  'link(stage(s));
    __syncthreads();' 'link(stage(s));'

# Fences: what one block hands to another.
mutant watch_given_unfenced gpu/backend/pages.cu 'gpu_pages' \
  '    __threadfence();
    before[0] = atomicAdd(done, 1u);' '    before[0] = atomicAdd(done, 1u);'
mutant watch_taken_unfenced gpu/backend/pages.cu 'gpu_pages' \
  '    before[0] = atomicAdd(done, 1u);
    __threadfence();' '    before[0] = atomicAdd(done, 1u);'
mutant watch_waits_unfenced gpu/backend/pages.cu 'gpu_pages' \
  '    }
    __threadfence();' '    }'
mutant watch_arrives_early gpu/backend/pages.cu 'gpu_pages' \
  'KV_SHARED(unsigned, before, 1);
  __syncthreads();' 'KV_SHARED(unsigned, before, 1);'
mutant watch_waits_for_none gpu/backend/pages.cu 'gpu_pages' \
  '  wait_for(&f->given, all);
' ''

# The watch.
mutant watch_forgets_readers gpu/emu/emu_races.cc 'watch' \
  'warps |= kv_emu_trace_warps(*last);' '(void)last;'
mutant watch_forgets_blocks gpu/emu/emu_races.cc 'watch' \
  'of->before[a.kind] = *last;' '(void)of;'
mutant watch_cells_of_eight gpu/emu/emu_races.cc 'watch' \
  'if (fits < p->shift) cut(r, p, fits);' \
  'if (fits < p->shift) to = (to + 7) & ~(size_t)7;'
mutant watch_shared_stays gpu/emu/emu_races.cc 'watch' \
  'shared ? r->time.block : r->time.launch,' 'r->time.launch,'
mutant watch_launches_race gpu/emu/emu_races.cc 'watch' \
  'r->time.launch = r->time.now + 1;' 'r->time.launch = 1;'
mutant watch_copies_rest gpu/emu/emu_races.cc 'watch' '  see_copies(c);
' ''
mutant watch_barriers_unseen gpu/emu/emu_meet.cc 'watch' \
  '    kv_emu_races_barrier(c);
' ''
mutant watch_fences_at_once gpu/emu/emu_order.cc 'watch' \
  'when <= before : when < before;' 'when <= before : when <= before;'
mutant watch_gives_without gpu/emu/emu_order.cc 'watch' \
  'fenced >= o->begin[o->ran - 1]' 'fenced <= UINT32_MAX'
mutant watch_ranges_of_one gpu/emu/emu_hooks.cc 'watch' \
  'kv_emu_see(at, n, KV_EMU_WRITE, HERE);
}

/* Called' 'kv_emu_see(at, n > 4, KV_EMU_WRITE, HERE);
}

/* Called'
