# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face model whose KV cache is a kvreplay session: any decoder with
the attention interface generates under any method, slow and exact, and feels
the approximation (closed loop). Batch 1, greedy or sampled, on any device;
attention runs on the CPU. Ran with transformers 4.57.3 and 5.23.0, where
`dense` gives the logits of the model's own attention within 2.4e-7 (float32).

    python hf_session.py MODEL "quest:page=16:skip=0" 256 "Once upon a time"

In a program of your own:

    cache = SessionCache(model, "h2o", 256, room=4096)
    model.set_attn_implementation("kvsession")  # or load the model with it
    ids = model.generate(**inputs, past_key_values=cache, max_new_tokens=9)
    cache.session.ledger(), cache.session.digest()

The first forward is the prompt: its tokens see all before them (exactly,
whatever the model's own kernel would round); methods settle when it has ended.
All later tokens are decode steps, also those of another generate(), whose ids
must begin with those the cache has seen. cache.reset() begins anew.
"""

import sys

import numpy as np
import torch
from transformers import DynamicCache

from hf_model import check_layers, check_plain, need, register, rotation
from hf_model import to_numpy
from kvsession import Session

DTYPES = {"float16": "f16", "uint16": "bf16", "float32": "f32"}


class SessionCache(DynamicCache):
    """Holds no tensor: the session does. Opened by the first prompt."""

    # The cache that a layer updated, until the attention function that comes
    # next takes it: nothing else tells that whose tokens it has.
    updated = None

    def __init__(self, model, method, budget=None, room=4096):
        super().__init__()
        check_layers(model)
        self.model, self.method, self.budget = model, method, budget
        self.room, self.session, self.seen = room, None, {}

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        n = self.get_seq_length(layer_idx) + key_states.shape[-2]
        own, SessionCache.updated = SessionCache.updated is not None, None
        need(
            not own,
            "the model attends by itself: model.set_attn_implementation("
            "'kvsession') first",
        )
        need(
            n <= self.room,
            f"{n} tokens and room for {self.room}: make SessionCache(room=) "
            "as large as prompt and answers",
        )
        self.seen[layer_idx], SessionCache.updated = n, self
        return key_states, value_states  # the new tokens alone

    def get_seq_length(self, layer_idx=0, *args):
        return self.seen.get(layer_idx or 0, 0)

    get_query_offset = get_seq_length

    def get_mask_sizes(self, query, layer_idx=0):
        n = query.shape[0] if hasattr(query, "shape") else int(query)
        return self.get_seq_length(layer_idx) + n, 0

    def crop(self, *args):
        raise NotImplementedError(
            "a session takes nothing back: generate without assistance"
        )

    reorder_cache = batch_repeat_interleave = batch_select_indices = crop

    def reset(self):
        self.session, self.seen = None, {}

    def open(self, module, q, k, v, scale):
        config = self.model.config.get_text_config()
        shape = dict(n_layers=config.num_hidden_layers, n_tokens=self.room)
        shape["n_heads"], shape["prompt_len"], shape["d"] = q.shape
        shape["n_kv_heads"], shape["d_v"] = k.shape[0], v.shape[2]
        shape["dtype"] = DTYPES.get(str(k.dtype), str(k.dtype))
        shape["inv_freq"], shape["interleaved"] = rotation(
            self.model, module, k.shape[2]
        )
        self.scale = scale
        self.session = Session(self.method, self.budget, scale=scale, **shape)


def session_attention(
    module, query, key, value, attention_mask, scaling=None, **kwargs
):
    cache, SessionCache.updated = SessionCache.updated, None
    need(
        cache is not None,
        "attention without a session: generate with past_key_values="
        "SessionCache(...), a decoder alone",
    )
    layer, n = module.layer_idx, query.shape[2]
    check_plain(query, attention_mask, cache.seen[layer], kwargs)
    q, k, v = (to_numpy(x) for x in (query, key, value))
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    if cache.session is None:
        cache.open(module, q, k, v, scale)
    need(
        scale == cache.scale,
        f"layer {layer} has scale {scale}, another {cache.scale}, a session "
        "one: take another model",
    )
    step = 1 if cache.session.seen.get(layer) else n  # the prompt is one block
    out = [
        cache.session.block(
            layer, *(x[:, t : t + step] for x in (q, k, v)), out=True
        )
        for t in range(0, n, step)
    ]
    if min(cache.session.seen.values()) == cache.seen[layer]:  # the last layer
        cache.session.end_step(cache.seen[layer])
    out = np.ascontiguousarray(np.concatenate(out, 1).transpose(1, 0, 2))
    out = torch.from_numpy(out)[None]
    return out.to(device=query.device, dtype=query.dtype), None


register("kvsession", session_attention)


def main(name, method, budget, prompt):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(name)
    load = AutoModelForCausalLM.from_pretrained
    model = load(name, attn_implementation="kvsession")
    cache = SessionCache(model, method, budget)
    text = tokens(prompt, return_tensors="pt")
    ids = model.generate(**text, past_key_values=cache, max_new_tokens=32)
    print(tokens.decode(ids[0]))
    print(cache.session.spec, cache.session.digest())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
