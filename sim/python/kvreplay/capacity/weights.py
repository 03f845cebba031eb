# SPDX-License-Identifier: Apache-2.0
"""Counts a config.json's weights, for architectures whose layers are known
exactly. Others, and encoders for images or sound, need --weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from .model import Cache, Weights

if TYPE_CHECKING:
    from .config import Config

KNOWN = ("llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe",
         "gpt_oss", "deepseek_v2", "deepseek_v3", "kimi_k2")  # fmt: skip


def attention(c: Config, x: Cache, h: int, heads: int) -> int:
    if x.latent:
        rank = c.number("kv_lora_rank")
        d = c.number("qk_nope_head_dim") + c.number("qk_rope_head_dim")
        v, nope = c.number("v_head_dim"), c.number("qk_nope_head_dim")
        q = h * heads * d
        if c.sees("q_lora_rank"):
            low = c.number("q_lora_rank")
            q = h * low + low + low * heads * d
        return (q + h * x.d + rank + rank * heads * (nope + v) +
                heads * v * h)  # fmt: skip
    q, kv = heads * x.d, 2 * x.heads * x.d
    n = 2 * h * q + h * kv
    if c.type in ("qwen2", "gpt_oss") or c.get("attention_bias"):
        n += q + kv
    if c.type == "gpt_oss":
        n += h + heads  # the output's bias, and a sink per head
    elif c.get("attention_bias"):
        n += h
    return n + (2 * x.d if c.type.startswith("qwen3") else 0)


def count(c: Config, caches: Sequence[Cache]) -> Weights:
    """The weights; Weights() if unknown."""
    other = (c.get("mlp_only_layers"), (c.get("decoder_sparse_step") or 1) > 1,
             (c.get("moe_layer_freq") or 1) != 1)  # fmt: skip
    tower = c.text is not c.root and any(
        x is not None and ("vision" in key or "audio" in key)
        for key, x in c.root.items())  # fmt: skip
    if c.type not in KNOWN or not c.sees("vocab_size") or any(other) or tower:
        return Weights()
    h, words = c.number("hidden_size"), c.get("vocab_size")
    heads, ff = c.number("num_attention_heads"), c.number("intermediate_size")
    embedding = words * h
    fixed = h + words * h
    e = c.get("n_routed_experts", "num_local_experts", "num_experts") or 0
    k = c.number("num_experts_per_tok") if e else 0
    if k > e:
        raise c.bad(f"num_experts_per_tok is {k}, of {e} experts")
    one, own = 0, 0  # of an expert; of a layer of experts besides them
    if e:
        wide = c.number("moe_intermediate_size", default=ff)
        one, own = 3 * h * wide, h * e
        if c.type == "gpt_oss":
            one, own = one + 2 * wide + h, own + e
        if c.type in ("deepseek_v3", "kimi_k2"):
            own += e  # biases that balance the experts
        own += (c.get("n_shared_experts") or 0) * 3 * h * wide
    first = (c.get("first_k_dense_replace") or 0) if e else len(caches)
    routed = 0  # layers of experts
    for i, x in enumerate(caches):
        fixed += attention(c, x, h, heads) + 2 * h
        routed += i >= first
        fixed += own if i >= first else 3 * h * ff
    tied = bool(c.get("tie_word_embeddings"))
    embedding = 0 if tied else embedding
    return Weights(fixed + embedding + routed * e * one,
                   fixed + routed * k * one, embedding, e, k)
