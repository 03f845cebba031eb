/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin may call. A program links of our libraries what it uses
 * itself; this table makes it bring the rest, and is the list to look at when
 * writing a method. Contracts stand in the headers. Whatever else a symbol
 * table shows is not promised to be there in the next version.
 */
#include "ref/attend.h"
#include "ref/decisions.h"
#include "ref/parts.h"
#include "ref/rope.h"
#include "sim/door.h"

#define CALL(name)                                                             \
  { #name, (void (*)(void))name }

const kv_plugin_call kv_plugin_calls[] = {
    /* ref/err.h */
    CALL(kv_fail),
    CALL(kv_no_memory),
    /* ref/method.h: workspace and views */
    CALL(kv_work_take),
    CALL(kv_view_add),
    CALL(kv_view_mask),
    /* ref/lane.h: the verbs, and reading */
    CALL(kv_keep),
    CALL(kv_keep_mask),
    CALL(kv_merge),
    CALL(kv_recode),
    CALL(kv_move),
    CALL(kv_reclass),
    CALL(kv_lane_key),
    CALL(kv_lane_value),
    CALL(kv_lane_raw_key),
    CALL(kv_lane_raw_value),
    CALL(kv_lane_bias),
    CALL(kv_lane_bytes),
    /* ref/parts.h: selections */
    CALL(kv_top),
    CALL(kv_top_shared),
    CALL(kv_top_p),
    CALL(kv_top_hash),
    CALL(kv_order),
    CALL(kv_argmin),
    CALL(kv_argmax),
    CALL(kv_scores),
    CALL(kv_pool_max),
    CALL(kv_pool_sum),
    CALL(kv_pool_avg),
    CALL(kv_dot),
    CALL(kv_column_add),
    CALL(kv_keep_ends),
    CALL(kv_keep_top_recent),
    CALL(kv_window_state),
    CALL(kv_window_add),
    CALL(kv_window_score),
    CALL(kv_window_observe),
    CALL(kv_window_past),
    CALL(kv_window_keep),
    /* ref/parts.h: what open checks */
    CALL(kv_open_budget),
    CALL(kv_open_part),
    CALL(kv_open_sums),
    CALL(kv_open_window),
    CALL(kv_fallback_window),
    CALL(kv_score_heads),
    CALL(kv_group_lanes),
    /* ref/attend.h, ref/kernels.h, ref/rope.h: numbers */
    CALL(kv_evidence_row),
    CALL(kv_all_finite),
    CALL(kv_kernels_best),
    CALL(kv_sincos),
    CALL(kv_rope_table),
    CALL(kv_rope_rotate),
    CALL(kv_rope_unrotate),
    /* ref/format.h; the formats themselves are data */
    CALL(kv_coding_members),
    /* ref/decisions.h */
    CALL(kv_decided_at),
    CALL(kv_lists_find),
    {NULL, NULL}};

/* kv_format_channel and kv_format_token, for needs.coding. */
const kv_format *const kv_plugin_formats[] = {&kv_format_channel,
                                              &kv_format_token};
