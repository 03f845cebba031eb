# SPDX-License-Identifier: Apache-2.0
#
# Mutants of `kvreplay vectors`; sourced by run.sh, as list.sh says.

# What is decided, as it is written.
mutant order_is_by_place sim/run/look/vectors_collect.c 'check_vectors.sh' \
  'kv_order(s->score[l], m, list, spare);' '(void)spare;'
mutant chosen_beside sim/run/look/vectors_collect.c 'check_vectors.sh' \
  'if (s->keep[l][i]) out[m++] = i;' \
  'if (s->keep[l][i]) out[m++] = i + (i > 8);'
mutant columns_unseen sim/run/look/vectors_collect.c 'check_vectors.sh' \
  'if (c->hook == KV_HOOK_compress_lane) put_columns(v, &c->at, c->lane[0]);' ''
mutant scores_of_the_first sim/run/look/vectors_collect.c 'check_vectors.sh' \
  'memcpy(out, s->score[l], ' 'memcpy(out, s->score[0], '
mutant last_step_unseen sim/run/look/vectors_collect.c 'check_vectors.sh' \
  'for (int i = 0; i < v->ask->steps; i++)' \
  'for (int i = 0; i < v->ask->steps - 1; i++)'

# What a step attended.
mutant chunk_max_is_sum sim/run/look/vectors_seen.c 'check_vectors.sh' \
  'put(s, KV_V_CHUNK_MAX,' 'put(s, KV_V_CHUNK_SUM,'
also sim/run/look/vectors_seen.c \
  'float *sum = put(s, KV_V_CHUNK_SUM,' 'float *sum = put(s, KV_V_CHUNK_MAX,'
mutant scales_by_row sim/run/look/vectors_seen.c 'check_vectors.sh' \
  'table[2 * i + 1] = *of - 1;' 'table[2 * i + 1] = (int32_t)rows - 1;'
mutant entries_after sim/run/look/vectors_seen.c 'check_vectors.sh' \
  'id[i] = (int32_t)l->id[i];' 'id[i] = (int32_t)l->id[l->n - 1 - i];'

# What the manifest says of it.
mutant offsets_stand sim/run/look/vectors_manifest.c 'check_vectors.sh' \
  'at + (int64_t)kv_vector_bytes(x);' 'at;'
mutant lanes_are_kv_heads sim/run/look/vectors_manifest.c 'check_vectors.sh' \
  'return kv_lane_count(&m->v->cell->plan.needs, s);' \
  'return s->n_kv_heads;'
mutant digest_of_nothing sim/run/look/vectors_manifest.c 'check_vectors.sh' \
  'kv_json_text(j, "sha256", hex);' 'kv_json_text(j, "sha256", "");'
mutant fp16_by_fp32_rule ref/formats/minmax.c 'check_vectors.sh' \
  'return c->rule == KV_RULE_FP16 ? fp16 : fp32;' \
  'return c->rule == KV_RULE_FP16 ? fp32 : fp16;'

# What is asked for.
mutant plus_from_first sim/run/look/vectors.c 'check_vectors.sh' \
  '(*out)[(*n)++] = before = (int)step;' '(*out)[(*n)++] = (int)step;'
mutant full_folder_taken sim/run/look/vectors.c 'check_vectors.sh' \
  'if (d && names <= 2) return KV_OK;' 'if (d) return KV_OK;'
mutant raw_as_stages sim/run/look/vectors.c 'check_vectors.sh' \
  'v->ask->raw ? write_raw(v, dir, path, room, e)' \
  '!v->ask->raw ? write_raw(v, dir, path, room, e)'
mutant vectors_miss_layers sim/replay/engine/cell_layers.c 'check_vectors.sh' \
  'c->layer[l].method = c->plan.method;' ''
# What the authors' own code decided.
mutant kivi_read_in_fp16 ref/kernels/coded.h \
  'conformance/check_conformance.sh' \
  'kv_add(kv_mul(code, scale), min)' \
  'kv_round_f16(kv_add(kv_round_f16(kv_mul(code, scale)), min))'
mutant critical_without_epsilon ref/methods/criticalkv.c \
  'conformance/check_conformance.sh' 'kv_add(score[i], o->epsilon)' 'score[i]'
mutant ada_shares_cut ref/methods/adakv.c 'conformance/check_conformance.sh' \
  '(int)kv_rint(kv_add(c, (float)least))' '(int)kv_add(c, (float)least)'
