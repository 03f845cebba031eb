# SPDX-License-Identifier: Apache-2.0
"""The keys of a config.json about caches. READ are understood. IGNORED change
no byte. REFUSED change bytes in an unknown way. Other keys whose names contain
a part of NAMES are refused, too."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

NAMES = ("head", "kv", "cache", "window", "chunk", "lora", "ssm", "conv",
         "state")  # fmt: skip
READ = frozenset("""
num_attention_heads n_head n_heads num_heads
num_key_value_heads num_kv_heads n_head_kv num_key_value_heads_per_layer
n_heads_in_group num_kv_shared_layers num_global_key_value_heads
head_dim kv_channels v_head_dim global_head_dim
kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim
sliding_window use_sliding_window max_window_layers sliding_window_pattern
_sliding_window_pattern attention_chunk_size
linear_num_key_heads linear_num_value_heads linear_key_head_dim
linear_value_head_dim linear_conv_kernel_dim
mamba_n_heads mamba_num_heads mamba_d_head mamba_head_dim mamba_d_state
ssm_state_size mamba_d_conv conv_kernel mamba_d_ssm
mamba_ssm_cache_dtype mamba_ssm_dtype conv_L_cache
""".split())
IGNORED = frozenset("""
use_cache cache_implementation output_hidden_states chunk_size_feed_forward
pruned_heads qk_head_dim clip_qkv qkv_bias use_qkv_bias lm_head_bias
lm_head_multiplier chunk_size mamba_chunk_size mamba_conv_bias use_conv_bias
conv_bias conv_dim conv_dim_out conv_use_xavier_init ssm_in_multiplier
ssm_out_multiplier ssm_multipliers use_backbone_lora use_llm_lora
""".split())
REFUSED = frozenset("""
index_head_dim index_n_heads window_length attention_window_size window_size
kv_n_heads use_cla attn_type_list cross_attention_layers
""".split())
# Parts of keys about encoders for images or sound, weights, or positions.
ELSEWHERE = ("vision", "audio", "speech", "image", "quantization", "rope")


def items(text: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys and values, also of nested objects and lists of objects."""
    for key, value in text.items():
        if any(x in key for x in ELSEWHERE) and key not in READ:
            continue
        yield key, value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from items(inner)


def unknown(text: Mapping[str, Any]) -> str | None:
    """A key that is set and may change a cache in an unknown way, or None."""
    for key, value in items(text):
        if value is None or value is False or key in READ or key in IGNORED:
            continue
        if key in REFUSED or any(x in key.lower() for x in NAMES):
            return key
    return None
