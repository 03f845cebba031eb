# SPDX-License-Identifier: Apache-2.0
"""A small configuration of any causal type: its own, and those nested in it,
with known sizes replaced by name."""

# By value. Four layers include those that come every fourth layer.
NAMES = {
    64: "hidden_size n_embd d_model dim word_embed_proj_dim embedding_size "
        "conv_dim lru_width d_embed emb_dim",
    96: "intermediate_size ffn_dim n_inner decoder_ffn_dim encoder_ffn_dim "
        "ffn_hidden_size shared_expert_intermediate_size d_ff "
        "shared_intermediate_size intermediate_size_mlp "
        "moe_shared_expert_intermediate_size",
    4: "num_hidden_layers n_layer n_layers num_layers decoder_layers "
       "encoder_layers num_decoder_layers num_attention_heads n_head n_heads "
       "num_heads decoder_attention_heads encoder_attention_heads num_experts "
       "n_routed_experts num_local_experts moe_num_experts ffn_num_experts "
       "linear_num_value_heads linear_num_key_heads index_n_heads "
       "zero_expert_num",
    2: "num_key_value_heads num_kv_heads mamba_n_groups n_groups num_groups "
       "moe_k decoder_num_key_value_heads num_experts_per_tok moe_topk "
       "num_experts_per_token moe_num_active_primary_experts "
       "num_kv_shared_layers",
    1: "n_group topk_group first_k_dense_replace n_shared_experts "
       "moe_num_shared_experts num_shared_experts",
    16: "head_dim qk_nope_head_dim v_head_dim mamba_d_head d_kv "
        "attention_head_size linear_key_head_dim linear_value_head_dim "
        "mamba_head_dim index_head_dim kv_channels",
    8: "qk_rope_head_dim mamba_d_state state_size ssm_state_size rotary_dim "
       "mamba_dt_rank time_step_rank mamba_n_heads",
    32: "moe_intermediate_size q_lora_rank kv_lora_rank d_inner "
        "expert_intermediate_size mamba_chunk_size chunk_size "
        "moe_latent_size hidden_size_per_layer_input expert_ffn_hidden_size",
    128: "vocab_size vocab_size_per_layer_input mamba_d_ssm "
         "encoder_hash_byte_group_vocab",
    512: "max_position_embeddings n_positions max_seq_len n_ctx "
         "max_sequence_length seq_length",
}  # fmt: skip
SIZES = {x: n for n, names in NAMES.items() for x in names.split()}
SPECIAL = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
# Sizes that a type derives or omits (None), but cannot with those above.
NEEDED = {"head_dim", "num_key_value_heads", "n_routed_experts",
          "n_shared_experts", "num_experts_per_tok"}  # fmt: skip
MIXED = ["sliding_attention", "full_attention"] * 2
# Sizes that must fit together in some types.
MORE = {
    "jamba": dict(attn_layer_period=3, attn_layer_offset=1,
                  use_mamba_kernels=False),
    "mamba2": dict(num_heads=8, head_dim=16, n_groups=1, expand=2),
    "dbrx": dict(attn_config=dict(kv_n_heads=2, rope_theta=1e4, clip_qkv=8)),
    "bamba": dict(attn_layer_indices=[1, 3]),
    "kimi_linear": dict(layer_types=["linear_attention", "full_attention"] * 2),
    "bailing_hybrid": dict(layer_group_size=2),
    "granitemoehybrid": dict(layer_types=["mamba", "attention"] * 2),
    "longcat_flash": dict(head_dim=8),
    "glm_moe_dsa": dict(head_dim=8),
    "gpt_neo": dict(attention_types=[[["global", "local"], 2]]),
    "gemma3n_text": dict(layer_types=MIXED,
                         activation_sparsity_pattern=[0.0] * 4,
                         altup_num_inputs=2, laurel_rank=8),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"] * 2),
    "zamba": dict(attn_layer_period=2, attn_layer_offset=1),
    "zamba2": dict(layers_block_type=["mamba", "hybrid"] * 2,
                   use_mem_rope=True),
    "reformer": dict(attn_layers=["local", "lsh"] * 2,
                     axial_pos_shape=[16, 32], axial_pos_embds_dim=[32, 32]),
    "dory": dict(sliding_window=64),
    "xmod": dict(default_language="en_XX"),
    "persimmon": dict(head_dim=None),
}  # fmt: skip


def sizes(config):
    """{key: value} to replace: small sizes, a decoder, and a window of 16
    tokens if some layers have one."""
    own, found = config.to_dict(), {}
    for key, x in own.items():
        number = isinstance(x, int) and not isinstance(x, bool)
        if key in SIZES and (number or x is None and key in NEEDED):
            found[key] = SIZES[key]
        elif key in SPECIAL and (number or x is None):
            found[key] = SPECIAL[key]
    if "qk_rope_head_dim" in own:  # latent attention: one key per query head
        found.pop("head_dim", None)
        found["num_key_value_heads"] = 4
    if own.get("is_decoder") is False:
        found["is_decoder"] = True
    if MIXED[0] in {*(own.get("layer_types") or ())} <= {*MIXED}:
        found.update(sliding_window=16, layer_types=MIXED)  # some have None
    window = own.get("sliding_window")
    if isinstance(window, int) and window > 0:
        found["sliding_window"] = 16
    for key in getattr(type(config), "sub_configs", None) or {}:
        x = getattr(config, key, None)
        if x is not None and not isinstance(x, dict):
            found[key] = {**sizes(x), "model_type": x.model_type}
    return found


def small(make):
    own = sizes(make())
    return make(**{**own, **MORE.get(make.model_type, {})})
