# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face model whose KV cache is a kvreplay session: any model with
the attention interface generates under any method, slow and exact, and feels
the approximation (closed loop). transformers 4.51 or later, batch 1, greedy or
sampled, on any device; attention runs on the CPU.

    python hf_session.py MODEL "quest:page=16:skip=0" 256 "Once upon a time"

In a program of your own:

    cache = SessionCache(model, "h2o", 256, room=4096)
    model.set_attn_implementation("kvsession")  # or load the model with it
    ids = model.generate(**inputs, past_key_values=cache, max_new_tokens=9)
    cache.session.digest(), cache.session.ledger()

The prompt's tokens see all before them (exactly, whatever the model's own
kernel would round); methods settle when it has ended. Causality comes from the
session, so the mask is ignored: no padding, no packed sequences.
"""

import sys

import numpy as np
import torch
from transformers import AttentionInterface, DynamicCache

from kvsession import Session


def to_numpy(x):
    """[1, heads, tokens, d] to [heads, tokens, d]; bfloat16 as its bits."""
    x = x.detach().cpu()[0]
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(np.uint16)
    return x.numpy()


class SessionCache(DynamicCache):
    """Holds no tensor: the session does. Opened by the first prompt."""

    current = None

    def __init__(self, model, method, budget=None, room=4096):
        super().__init__()
        self.model, self.method, self.budget, self.room = (
            model,
            method,
            budget,
            room,
        )
        self.session, self.seen = None, {}
        SessionCache.current = self

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        n = key_states.shape[-2]
        self.seen[layer_idx] = self.seen.get(layer_idx, 0) + n
        return key_states, value_states  # the new tokens alone

    def get_seq_length(self, layer_idx=0, *args):
        return self.seen.get(layer_idx or 0, 0)

    def get_mask_sizes(self, query, layer_idx=0):
        n = query.shape[0] if hasattr(query, "shape") else int(query)
        return self.get_seq_length(layer_idx) + n, 0

    def open(self, q, k, v, scale):
        text = getattr(self.model.config, "get_text_config", lambda: None)()
        rotary = getattr(getattr(self.model, "model", None), "rotary_emb", None)
        freq = (
            None if rotary is None else rotary.inv_freq.detach().cpu().numpy()
        )
        if freq is not None and 2 * len(freq) != k.shape[2]:
            freq = None  # partial rotation: methods that re-index refuse
        self.session = Session(
            self.method,
            self.budget,
            scale=scale,
            inv_freq=freq,
            n_layers=(text or self.model.config).num_hidden_layers,
            n_heads=q.shape[0],
            n_kv_heads=k.shape[0],
            d=k.shape[2],
            d_v=v.shape[2],
            n_tokens=self.room,
            prompt_len=q.shape[1],
            dtype={"float16": "f16", "uint16": "bf16", "float32": "f32"}[
                str(k.dtype)
            ],
        )


def session_attention(
    module, query, key, value, attention_mask, scaling=None, **kwargs
):
    cache = SessionCache.current
    for name in ("sliding_window", "softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise NotImplementedError(
                f"{name}: a session has no arithmetic for it"
            )
    if cache is None or query.shape[0] != 1:
        raise ValueError(
            "a session is one request: batch 1, past_key_values="
            "SessionCache(...)"
        )
    n = query.shape[2]
    q, k, v = (to_numpy(x[:, :, -n:]) for x in (query, key, value))
    if cache.session is None:
        cache.open(q, k, v, scaling or q.shape[2] ** -0.5)
    out = cache.session.block(module.layer_idx, q, k, v, out=True)
    out = torch.from_numpy(np.ascontiguousarray(out.transpose(1, 0, 2)))[None]
    return out.to(device=query.device, dtype=query.dtype), None


AttentionInterface.register("kvsession", session_attention)


def main(name, method, budget, prompt):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(
        name, attn_implementation="kvsession"
    )
    cache = SessionCache(model, method, budget)
    with torch.no_grad():
        ids = model.generate(
            **tokens(prompt, return_tensors="pt"),
            past_key_values=cache,
            max_new_tokens=32,
        )
    print(tokens.decode(ids[0]))
    print(cache.session.spec, cache.session.digest())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
