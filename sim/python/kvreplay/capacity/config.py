# SPDX-License-Identifier: Apache-2.0
"""Reads a config.json of Hugging Face transformers as an engine would serve the
model: which layers have a cache, what each stores per token, and what recurrent
layers store. A ValueError names a key that is missing or unknown
(kvreplay/capacity/keys.py)."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

from .keys import unknown
from .model import SIZE, Cache, Model
from .weights import count

MOST = 100000  # layers, heads, or numbers of a head
# Values that a config.json can omit, as in transformers 5.24.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma": dict(head_dim=256),
    "gemma2": dict(head_dim=256, num_attention_heads=8, num_key_value_heads=4,
                   sliding_window=4096, sliding_window_pattern=2),
    "gemma3_text": dict(head_dim=256, num_attention_heads=8,
                        num_key_value_heads=4, sliding_window=4096,
                        sliding_window_pattern=6),
    "gemma3n_text": dict(head_dim=256, num_attention_heads=8,
                         num_key_value_heads=2, sliding_window=512,
                         sliding_window_pattern=5, num_kv_shared_layers=15),
    "gemma4_text": dict(head_dim=256, num_attention_heads=8,
                        num_key_value_heads=4, sliding_window=512,
                        sliding_window_pattern=6, global_head_dim=512),
    "gpt_oss": dict(head_dim=64, num_attention_heads=64,
                    num_key_value_heads=8, sliding_window=128,
                    sliding_window_pattern=2),
    "qwen3": dict(head_dim=128),
    "llama4_text": dict(no_rope_layer_interval=4, head_dim=128,
                        attention_chunk_size=8192),
    "qwen3_next": dict(full_attention_interval=4),
}  # fmt: skip
ONE_HEAD = "falcon", "RefinedWebModel", "RefinedWeb", "gpt_bigcode"
OTHER = {"longcat_flash": "attends twice in a layer",
         "mimo_v2_flash": "has other heads where a window slides"}
# All layers have the window unless the config says which.
ALL_SLIDE = "mistral", "mixtral", "phi3", "starcoder2"
KINDS = {
    "full_attention": "full", "attention": "full", "full": "full",
    "sliding_attention": "sliding", "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "conv": "conv",
    "mlp": "none", "moe": "none", "M": "linear", "*": "full", "-": "none",
    "E": "none", "both": "both",
}  # fmt: skip
DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}


class Config:
    """A config.json. `text` is the part about the language model."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, encoding="utf-8") as f:
            try:
                root = json.load(f)
            except (ValueError, RecursionError) as e:
                raise self.bad(f"is not JSON: {e}") from None
        if not isinstance(root, dict):
            raise self.bad("is not a JSON object")
        self.root = self.text = root
        for key in "text_config", "llm_config", "language_config":
            if isinstance(root.get(key), dict):
                self.text = root[key]
                break
        self.type = str(self.text.get("model_type", ""))
        self.defaults = DEFAULTS.get(self.type, {})
        odd = unknown(self.text) or unknown(
            {k: x for k, x in root.items() if not isinstance(x, dict)})
        if self.type in OTHER:
            raise self.bad(f"{self.type} {OTHER[self.type]}, which is not "
                           "counted here")
        if odd:
            raise self.bad(
                f"{odd} may change what a cache holds, but its effect is "
                "unknown; name a model of the table, or remove the key if it "
                "changes nothing")

    def bad(self, said: str) -> ValueError:
        return ValueError(f"{self.path}: {said}")

    def get(self, *keys: str) -> Any:
        """The first key that is not null, else the default of an absent one."""
        for key in keys:
            if self.text.get(key) is not None:
                return self.text[key]
        return next((self.defaults[key] for key in keys
                     if key in self.defaults and key not in self.text), None)

    def number(self, *keys: str, default: int | None = None,
               of: Mapping[str, Any] = {}) -> int:
        """A number of at least 1. `of` overrides keys for one layer."""
        x = next((of[k] for k in keys if of.get(k) is not None),
                 self.get(*keys))  # fmt: skip
        x = default if x is None else x
        if x is None:
            raise self.bad(f"has no {keys[0]}, so it does not describe a model "
                           "whose cache could be counted")
        if type(x) is not int or not 1 <= x <= MOST:
            raise self.bad(f"{keys[0]} must be a whole number from 1 to {MOST}")
        return x

    def listed(self, key: str, n: int) -> list[Any] | None:
        x = self.get(key)
        if x is not None and (not isinstance(x, list) or len(x) < n):
            raise self.bad(f"{key} must be a list of {n} layers")
        return x

    def sees(self, *keys: str) -> bool:
        return self.get(*keys) is not None


# --- which layers do what -------------------------------------------------


def kinds(c: Config, n: int) -> list[str]:
    """For each layer a value of KINDS."""
    types = c.listed("layer_types", n) or c.listed("layers_block_type", n)
    if types or c.sees("hybrid_override_pattern"):
        types = list(types or c.get("hybrid_override_pattern"))[:n]
        wrong = [x for x in types if x not in KINDS]
        if wrong or len(types) < n:
            raise c.bad(f"what its layers of type {(wrong or ['?'])[0]} keep "
                        "is unknown; name a model of the table")
        return [KINDS[x] for x in types]
    if c.type == "falcon_h1":
        return ["both"] * n
    rest = "conv" if c.sees("conv_L_cache") else "linear"
    numbers = c.get("attn_layer_indices", "full_attn_idxs")
    if numbers is not None:
        return ["full" if i in numbers else rest for i in range(n)]
    every = c.number("full_attention_interval", "attn_layer_period", default=1)
    if every > 1 or c.sees("attn_layer_offset"):
        at = c.get("attn_layer_offset")
        at = every - 1 if at is None else at
        return ["full" if i % every == at else rest for i in range(n)]
    if c.sees("attention_chunk_size"):
        every = c.number("no_rope_layer_interval")
        turned = c.get("no_rope_layers") or [(i + 1) % every for i in range(n)]
        return ["chunked" if x else "full" for x in turned]
    return sliding(c, n)


def sliding(c: Config, n: int) -> list[str]:
    """The kinds of layers if the config does not list them."""
    if window(c) == 0:
        return ["full"] * n
    pattern = c.get("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 0:
        return ["sliding" if (i + 1) % pattern else "full" for i in range(n)]
    if c.get("use_sliding_window") and c.sees("max_window_layers"):
        first = c.get("max_window_layers")
        return ["sliding" if i >= first else "full" for i in range(n)]
    if c.type in ALL_SLIDE:
        return ["sliding"] * n
    raise c.bad("has a sliding_window but no layer_types that say which layers "
                "have it; add them, or name a model of the table")


def window(c: Config) -> int:
    x = c.get("sliding_window")
    if x is None or c.get("use_sliding_window") is False:
        return 0
    return c.number("sliding_window") if x != 0 else 0


# --- what a layer stores --------------------------------------------------


def heads_of(c: Config, i: int, heads: int) -> tuple[int, Mapping[str, Any]]:
    """The KV heads of layer i (0: no cache), and its own keys."""
    own = (c.get("per_layer_config") or {}).get(str(i), {})
    blocks = c.get("block_configs")
    each = c.get("num_key_value_heads_per_layer")
    if blocks is not None:
        x = blocks[i].get("attention", {}) if i < len(blocks) else {}
        if x.get("no_op") or x.get("replace_with_linear"):
            return 0, own
        if not isinstance(x.get("n_heads_in_group"), int):
            raise c.bad(f"block_configs has no n_heads_in_group for layer {i}")
        return heads // x["n_heads_in_group"], own
    if each is not None:
        return c.number("num_key_value_heads_per_layer", of={
            "num_key_value_heads_per_layer": each[i] if i < len(each) else 0,
        }), own
    many = c.get("multi_query")
    if many is None:
        many = c.type in ONE_HEAD
    if many and not c.get("new_decoder_architecture"):
        return 1, own
    return c.number("num_key_value_heads", "num_kv_heads", "n_head_kv",
                    "multi_query_group_num", "num_attention_groups",
                    default=heads, of=own), own


def cache(c: Config, i: int, kind: str, heads: int) -> Cache | None:
    """The cache of layer i, None if it has none."""
    if c.sees("kv_lora_rank"):
        rank, rope = c.number("kv_lora_rank"), c.number("qk_rope_head_dim")
        return Cache(i, 1, rank + rope, 0, heads * (2 * rank + rope),
                     latent=True)
    kv, own = heads_of(c, i, heads)
    if kv == 0:
        return None
    if heads % kv:
        raise c.bad(f"{heads} query heads do not divide by {kv} KV heads")
    if c.sees("head_dim", "kv_channels"):
        d = c.number("head_dim", "kv_channels", of=own)
    else:
        d = c.number("hidden_size", "n_embd", "d_model", "dim") // heads
    if kind == "full" and c.sees("global_head_dim") and "head_dim" not in own:
        d = c.number("global_head_dim")
        if c.get("attention_k_eq_v"):
            kv = c.number("num_global_key_value_heads", default=kv)
    v = c.number("v_head_dim", default=d, of=own)
    w, chunk = 0, 0
    if kind == "sliding":
        w = window(c)
        if w == 0 and c.get("use_sliding_window") is not False:
            raise c.bad("has sliding layers but no sliding_window")
    if kind == "chunked":
        chunk = c.number("attention_chunk_size")
    return Cache(i, kv, d, v, heads * (d + v), 0 if w == 1 else w, chunk)


def caches(c: Config, of: list[str], heads: int) -> list[Cache]:
    """The caches, each with its number of readers: the last
    num_kv_shared_layers layers read the last earlier cache of their kind."""
    shared = c.get("num_kv_shared_layers") or 0
    found: dict[int, Cache] = {}
    for i, kind in enumerate(of):
        if kind not in ("full", "sliding", "chunked", "both"):
            continue
        if i < len(of) - shared:
            x = cache(c, i, kind, heads)
            if x:
                found[i] = x
            continue
        owner = max((j for j in found if of[j] == kind), default=-1)
        if owner < 0:
            raise c.bad(f"num_kv_shared_layers leaves layer {i} without a "
                        "layer of its kind to share with")
        found[owner] = found[owner]._replace(readers=found[owner].readers + 1)
    if not found:
        raise c.bad("no layer has attention")
    return list(found.values())


def state(c: Config, kind: str, size: int) -> int:
    """Bytes that a recurrent layer stores per user, as in transformers 5.24:
    its state in 32 bits, unless the config says otherwise, and the last inputs
    of its convolution in the model's type."""
    text = c.get("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "float32"
    real = SIZE[DTYPES.get(str(text), "F32")]
    if kind == "linear" and not c.sees("mamba_d_state", "ssm_state_size"):
        if not c.sees("linear_num_key_heads"):
            raise c.bad("what its recurrent layers keep is unknown; name a "
                        "model of the table")
        k = c.number("linear_num_key_heads") * c.number("linear_key_head_dim")
        v = c.number("linear_num_value_heads")
        d = c.number("linear_value_head_dim")
        return (real * v * c.number("linear_key_head_dim") * d +
                size * (2 * k + v * d) * c.number("linear_conv_kernel_dim"))
    if kind == "conv":
        return size * c.number("hidden_size") * c.number("conv_L_cache")
    if kind not in ("linear", "both"):
        return 0
    n = c.number("mamba_d_state", "ssm_state_size")
    last = c.number("mamba_d_conv", "conv_kernel", default=4)
    if c.sees("mamba_n_heads", "mamba_num_heads"):  # Mamba 2
        wide = c.number("mamba_d_ssm", default=c.number(
            "mamba_n_heads", "mamba_num_heads") * c.number(
            "mamba_d_head", "mamba_head_dim"))  # fmt: skip
        groups = c.number("mamba_n_groups", "n_groups", default=1)
        return real * wide * n + size * (wide + 2 * groups * n) * last
    wide = c.number("mamba_expand", default=2) * c.number("hidden_size")
    return real * wide * n + size * wide * last


def read(path: str, name: str) -> Model:
    """The model. OSError or ValueError if it cannot be read or understood."""
    c = Config(os.path.join(path, "config.json") if os.path.isdir(path)
               else path)  # fmt: skip
    try:
        return described(c, name)
    except (AttributeError, LookupError, TypeError) as e:
        raise c.bad("a key has a value of another kind than transformers "
                    f"writes: {e}") from None


def described(c: Config, name: str) -> Model:
    types = c.get("layer_types", "layers_block_type", "hybrid_override_pattern")
    n = c.number("num_hidden_layers", "n_layer", "n_layers", "num_layers",
                 default=len(types) if types else None)
    heads = c.number("num_attention_heads", "n_head", "n_heads", "num_heads")
    dtype = c.get("dtype", "torch_dtype") or c.root.get("dtype") or (
        c.root.get("torch_dtype"))  # fmt: skip
    kind = DTYPES.get(str(dtype).removeprefix("torch."), "BF16")
    of = kinds(c, n)
    kept = caches(c, of, heads)
    words, wide = c.get("vocab_size") or 0, c.get("hidden_size") or 0
    layered = (c.get("vocab_size_per_layer_input") or 0) * n * (
        c.get("hidden_size_per_layer_input") or 0)  # fmt: skip
    tied = c.get("tie_word_embeddings")
    tied = c.type.startswith("gemma") if tied is None else tied
    w = count(c, kept)
    return Model(
        name, n, heads, kind, kept,
        sum(state(c, x, SIZE[kind]) for x in of), w,
        any("expert" in k and type(x) is int and x > 1
            for k, x in c.text.items()),
        layered + (0 if tied else words * wide))  # fmt: skip
