# SPDX-License-Identifier: Apache-2.0
#
# Mutants of `kvreplay vectors`; sourced by run.sh, as list.sh says.

# What is decided, as it is written.
mutant order_is_by_place sim/vectors_collect.c 'check_vectors.sh' \
  'kv_order(s->score[l], m, list, spare);' '(void)spare;'
mutant chosen_beside sim/vectors_collect.c 'check_vectors.sh' \
  'if (s->keep[l][i]) out[m++] = i;' \
  'if (s->keep[l][i]) out[m++] = i + (i > 8);'
mutant columns_unseen sim/vectors_collect.c 'check_vectors.sh' \
  'if (kv_vectors_wants(now, at->step)) put_columns(now, at, lane);' ''
mutant scores_of_the_first sim/vectors_collect.c 'check_vectors.sh' \
  'memcpy(out, s->score[l], ' 'memcpy(out, s->score[0], '
mutant last_step_unseen sim/vectors_collect.c 'check_vectors.sh' \
  'for (int i = 0; i < v->ask->steps; i++)' \
  'for (int i = 0; i < v->ask->steps - 1; i++)'

# What a step attended.
mutant chunk_max_is_sum sim/vectors_seen.c 'check_vectors.sh' \
  'put(s, KV_V_CHUNK_MAX,' 'put(s, KV_V_CHUNK_SUM,'
also sim/vectors_seen.c \
  'float *sum = put(s, KV_V_CHUNK_SUM,' 'float *sum = put(s, KV_V_CHUNK_MAX,'
mutant scales_by_row sim/vectors_seen.c 'check_vectors.sh' \
  'table[2 * i + 1] = *of - 1;' 'table[2 * i + 1] = (int32_t)rows - 1;'
mutant entries_after sim/vectors_seen.c 'check_vectors.sh' \
  'id[i] = (int32_t)l->id[i];' 'id[i] = (int32_t)l->id[l->n - 1 - i];'

# What the manifest says of it.
mutant offsets_stand sim/vectors_manifest.c 'check_vectors.sh' \
  'at + (int64_t)kv_vector_bytes(x);' 'at;'
mutant lanes_are_kv_heads sim/vectors_manifest.c 'check_vectors.sh' \
  'needs.lanes == QUERY_HEAD ?' 'needs.lanes == KV_HEAD ?'
mutant digest_of_nothing sim/vectors_manifest.c 'check_vectors.sh' \
  'kv_json_text(j, "sha256", hex);' 'kv_json_text(j, "sha256", "");'
mutant fp16_by_fp32_rule sim/vectors_stages.c 'check_vectors.sh' \
  'fp16_rules[i] && in_fp16(v)' 'fp16_rules[i] && !in_fp16(v)'

# What is asked for.
mutant plus_from_first sim/vectors_lists.c 'check_vectors.sh' \
  '(*out)[(*n)++] = before = (int)step;' '(*out)[(*n)++] = (int)step;'
mutant full_folder_taken sim/vectors.c 'check_vectors.sh' \
  'if (d && names <= 2) return KV_OK;' 'if (d) return KV_OK;'
mutant raw_as_stages sim/vectors_files.c 'check_vectors.sh' \
  'v->ask->raw ? write_raw(v, dir, path, room, e)' \
  '!v->ask->raw ? write_raw(v, dir, path, room, e)'
