/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that a plugin may call. A program links only the parts of our
 * libraries that it uses itself; this table makes it link the rest. It is also
 * the list of functions for writing a method; the contracts are in the headers
 * named below. Other visible symbols may not exist in the next version.
 */
#include "ref/backend/attend.h"
#include "ref/ground/rope.h"
#include "ref/lane/decisions.h"
#include "ref/parts/grow.h"
#include "ref/parts/parts.h"
#include "sim/ask/door.h"

#define CALL(name)                                                             \
  { #name, (void (*)(void))name }

const kv_plugin_call kv_plugin_calls[] = {
    /* ref/ground/err.h */
    CALL(kv_fail),
    CALL(kv_no_memory),
    /* ref/lane/method.h: workspace and views */
    CALL(kv_work_take),
    CALL(kv_view_add),
    CALL(kv_view_mask),
    /* ref/lane/lane.h: the verbs, and reading */
    CALL(kv_keep),
    CALL(kv_keep_mask),
    CALL(kv_merge),
    CALL(kv_sweep),
    CALL(kv_recode),
    CALL(kv_move),
    CALL(kv_retier),
    CALL(kv_lane_key),
    CALL(kv_lane_value),
    CALL(kv_lane_raw_key),
    CALL(kv_lane_raw_value),
    CALL(kv_lane_bias),
    CALL(kv_lane_bytes),
    /* ref/parts/parts.h: selections */
    CALL(kv_top),
    CALL(kv_top_shared),
    CALL(kv_top_p),
    CALL(kv_top_hash),
    CALL(kv_order),
    CALL(kv_argmin),
    CALL(kv_argmax),
    CALL(kv_scores),
    CALL(kv_scores_seen),
    CALL(kv_pool_max),
    CALL(kv_pool_sum),
    CALL(kv_pool_avg),
    CALL(kv_dot),
    CALL(kv_column_add),
    CALL(kv_keep_ends),
    CALL(kv_keep_top),
    CALL(kv_keep_top_recent),
    CALL(kv_window_state),
    CALL(kv_window_add),
    CALL(kv_window_score),
    CALL(kv_window_observe),
    CALL(kv_window_past),
    CALL(kv_window_keep),
    /* ref/parts/parts.h: what open checks */
    CALL(kv_open_budget),
    CALL(kv_open_part),
    CALL(kv_open_kernel),
    CALL(kv_open_sums),
    CALL(kv_open_window),
    CALL(kv_fallback_window),
    /* ref/parts/grow.h: compression again while decoding */
    CALL(kv_open_every),
    CALL(kv_open_grow),
    CALL(kv_grow_observe),
    CALL(kv_grow_compress),
    CALL(kv_score_heads),
    CALL(kv_group_lanes),
    /* ref/backend/attend.h, ref/kernels/kernels.h, ref/ground/rope.h: numbers
     */
    CALL(kv_observation_row),
    CALL(kv_observation_sink),
    CALL(kv_all_finite),
    CALL(kv_kernels_best),
    CALL(kv_sincos),
    CALL(kv_rope_table),
    CALL(kv_rope_rotate),
    CALL(kv_rope_unrotate),
    /* ref/formats/format.h; the formats themselves are data */
    CALL(kv_coding_members),
    CALL(kv_coding_alike),
    CALL(kv_format_at),
    CALL(kv_format_named),
    /* ref/lane/asset.h, ref/lane/decisions.h: what a file holds */
    CALL(kv_asset_meta),
    CALL(kv_asset_layer),
    CALL(kv_decisions_read),
    CALL(kv_decisions_fit),
    {NULL, NULL}};
