# SPDX-License-Identifier: Apache-2.0
"""Lets a Hugging Face model generate with a kvreplay session as its KV cache.

    python -m kvreplay.hf.session MODEL quest:page=16:skip=0 256 "Once upon" 32

256 is the budget (- for a method without one), and the model adds 32 tokens.
Any decoder with the attention interface works with any method, exactly and in
closed loop: the approximation affects the next tokens. Batch 1, greedy or
sampled, on any device; attention runs on the CPU. RECORD.md says how close
`dense` is to the model's own attention, and what a session costs. In your own
program:

    cache = SessionCache(model, "h2o", 256, room=4096)
    model.set_attn_implementation("kvsession")  # or load the model with it
    ids = model.generate(**inputs, past_key_values=cache, max_new_tokens=9)
    cache.session.ledger(), cache.session.digest()

From transformers 5.24 on, cache=cache works too. For several answers to one
prompt, feed it once in a forward pass, then

    for question in questions:
        with cache.fork() as own: model.generate(question, cache=own, ...)

SessionCache.of(model, session) uses a session that you have already fed.

The first forward pass is the prompt. Its tokens see all tokens before them
exactly, without the rounding of the model's own kernel, and methods compress at
its end. For a prompt in several forward passes - generate(prefill_chunk_size=)
- give SessionCache(prompt_len=). All later tokens are decode steps, also in
another generate(), whose ids must begin with the ids that the cache has seen;
generate() checks this. cache.reset() starts anew.
"""

from __future__ import annotations

import functools
import os
import sys
from copy import copy
from typing import Any, Callable, Optional

from .text import arguments, load, require, run

if __name__ == "__main__":
    require("numpy", "torch", "transformers")
    # torch's threads sleep while ours work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from transformers import DynamicCache

from ..binding import NAMES
from ..record.attention import SECOND
from ..record.layers import Layers
from ..session import Session
from .model import LayerCall, decoder_of, need, register, to_numpy, with_cache
from .plain import check_layers, check_plain, check_stateless, geometry
from .plain import turned_otherwise_from, window_of


def variant_of(model: Any, n_tokens: int) -> dict[str, Any]:
    """Layers.session() for so many tokens, found by one forward pass of two
    tokens. Without the rotation if that needs channels in another order."""
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    two = 1 + (pad == 1), 2 + (pad in (1, 2))  # padding can lack an embedding
    layers = Layers(model, torch.as_tensor(np.array([two])).to(model.device))
    found = layers.session(n_tokens)
    if layers.rotation([*range(layers.n)]).rope.channels is not None:
        found.update(inv_freq=None, interleaved=False, inv_freq_windowed=None,
                     k_bias=None)
    return found


class SessionCache(DynamicCache):
    """Holds no tensors: the session does. The first prompt opens it."""

    # The cache that a layer has updated, until its attention function takes it.
    # Nothing else says which cache the function's call belongs to.
    updated: Any = None
    is_linear = [False]  # transformers 5.24 applies all() to it: not empty

    def __init__(
        self,
        model: Any,
        method: str,
        budget: Any = None,
        room: int = 4096,
        prompt_len: Optional[int] = None,
    ) -> None:
        super().__init__()
        check_stateless(model)
        check_layers(model)
        limit, each = turned_otherwise_from(model) or (room, True)
        self.limit = room if each else limit
        self.model, self.method, self.budget = model, method, budget
        self.room, self.prompt_len = room, prompt_len
        self.variant = variant_of(model, room)
        self.first = 0  # tokens in the first forward pass
        self.reset()
        if not isinstance(model.generate, functools.partial):
            model.generate = functools.partial(generate, model.generate)

    @classmethod
    def of(
        cls, model: Any, session: Session, ids: Optional[torch.Tensor] = None
    ) -> SessionCache:
        """The cache of a session whose layers have all seen the prompt and
        equally many steps. ids [1, tokens]: what it was fed, for generate() to
        check, or None. The cache closes the session."""
        seen = set(session.seen.values())
        need(
            len(seen) == 1 and min(seen) >= session.prompt_len,
            f"layers have seen {sorted(seen)} tokens; first feed all of them "
            f"the prompt of {session.prompt_len}, and equally many steps",
        )
        cache = cls(
            model,
            session.spec,
            None,
            session.n_tokens,
            session.prompt_len,
        )
        cache.session, cache.ids = session, ids
        cache.seen = dict(session.seen)
        cache.first = cache.prompt = session.prompt_len
        cache.geometry = (
            session.n_heads,
            session.n_kv_heads,
            session.d,
            session.d_v,
            session.scale,
        )
        return cache

    def fork(self) -> SessionCache:
        """A second cache in the same state, for another answer."""
        session, other = self.session, copy(self)
        need(session, "no tokens were seen; run a forward over the prompt "
             "first")
        assert session  # need() has checked it
        other.session, other.seen = session.fork(), dict(self.seen)
        return other

    def close(self) -> None:
        """Frees the session. The cache has then seen nothing."""
        if self.session:
            self.session.close()
        self.reset()

    def __enter__(self) -> SessionCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n = self.get_seq_length(layer_idx) + key_states.shape[-2]
        own, SessionCache.updated = SessionCache.updated is not None, None
        need(
            not own,
            "the model uses its own attention; call "
            "model.set_attn_implementation('kvsession') first",
        )
        need(
            n <= self.room,
            f"{n} tokens exceed room={self.room}; make SessionCache(room=) as "
            "large as prompt and answers",
        )
        self.check_layer(layer_idx, n)
        self.seen[layer_idx], SessionCache.updated = n, self
        return key_states, value_states  # only the new tokens

    def check_layer(self, layer: int, n: int) -> None:
        """ValueError if this layer cannot grow to n tokens."""
        config = self.model.config.get_text_config()
        self.first = self.first or n
        need(
            n <= self.limit or self.first > self.limit,
            f"beyond {self.limit} tokens the model rotates its keys by other "
            "frequencies and would recompute the prompt's keys, which a "
            f"session does not do; stay within {self.limit}, or give a longer "
            "prompt",
        )
        need(
            layer not in self.seen
            or len(self.seen) == config.num_hidden_layers,
            f"only {len(self.seen)} of {config.num_hidden_layers} layers have "
            "attention, and a session cannot hold the state of the others; use "
            "another model",
        )

    def get_seq_length(self, layer_idx: Optional[int] = 0, *args: Any) -> int:
        return self.seen.get(layer_idx or 0, 0)

    get_query_offset = get_seq_length

    def get_mask_sizes(self, query: Any, layer_idx: int = 0) -> tuple[int, int]:
        n = query.shape[0] if hasattr(query, "shape") else int(query)
        return self.get_seq_length(layer_idx) + n, 0

    def crop(self, *args: Any) -> None:
        raise NotImplementedError(
            "a session cannot undo tokens; generate without assistance"
        )

    reorder_cache = batch_repeat_interleave = batch_select_indices = crop

    def reset(self) -> None:
        """Forgets everything. ids: what generate() began or ended with."""
        self.session: Optional[Session] = None
        self.seen: dict[int, int] = {}
        self.ids: Optional[torch.Tensor] = None
        self.first = 0

    def begin(
        self, ids: torch.Tensor, mask: Optional[torch.Tensor]
    ) -> Optional[torch.Tensor]:
        """Checks that ids [1, n] for generate() continue what was seen."""
        n = self.get_seq_length()
        if mask is not None and n and mask.shape[1] == n + ids.shape[1]:
            return None  # only new ids; the mask counts all tokens
        old = ids[:, :0] if self.ids is None else self.ids[:, :n].to(ids.device)
        need(
            ids.shape[1] > n and torch.equal(ids[:, : old.shape[1]], old),
            f"the cache has seen {n} tokens, and the given {ids.shape[1]} do "
            "not continue them; give all of these and more, or call "
            "cache.reset() for another prompt",
        )
        return ids

    def open(self, q: Any, k: Any, v: Any, geometry: Any) -> Session:
        config = self.model.config.get_text_config()
        shape: dict[str, Any] = {}
        shape["n_layers"] = config.num_hidden_layers
        shape["n_tokens"] = self.room
        shape["n_heads"], n, shape["d"] = q.shape
        shape["prompt_len"] = self.prompt_len or n
        shape["n_kv_heads"], shape["d_v"] = k.shape[0], v.shape[2]
        shape["dtype"] = NAMES.get(str(k.dtype), str(k.dtype))
        shape.update(self.variant)
        self.geometry, self.prompt = geometry, shape["prompt_len"]
        shape["scale"] = geometry[-1]
        self.session = Session(self.method, self.budget, **shape)
        return self.session


def generate(
    own: Callable[..., Any], inputs: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """model.generate that also checks and keeps the ids of a SessionCache,
    whether its keyword is past_key_values or cache."""
    caches = [x for x in kwargs.values() if isinstance(x, SessionCache)]
    ids = kwargs.get("input_ids", inputs)
    if not caches or ids is None:
        return own(inputs, *args, **kwargs)
    cache = caches[0]
    config = [kwargs.get("generation_config"), *args[:1]]
    config = [x for x in config if x] + [cache.model.generation_config]
    chunk = getattr(config[0], "prefill_chunk_size", None)
    need(
        not kwargs.get("prefill_chunk_size", chunk) or cache.prompt_len,
        "prefill_chunk_size: make SessionCache(prompt_len=) the number of the "
        "prompt's tokens, or the prompt ends with the first chunk",
    )
    cache.ids = cache.begin(ids, kwargs.get("attention_mask"))
    out = own(inputs, *args, **kwargs)
    if cache.ids is not None:
        cache.ids = getattr(out, "sequences", out)
    return out


def session_attention(x: LayerCall) -> torch.Tensor:
    """The attention function "kvsession" for transformers. Feeds the session of
    the cache that this layer has just updated; returns its outputs."""
    cache, SessionCache.updated = SessionCache.updated, None
    need(
        cache is not None,
        "attention without a session; generate with "
        "past_key_values=SessionCache(...), and only a decoder",
    )
    layer, n = x.layer, x.q.shape[2]
    window, chunks = window_of(x.module, x.more)
    check_plain(x, cache.seen[layer], window=None if chunks else window,
                known=SECOND)
    q, k, v = map(to_numpy, (x.q, x.k, x.v))
    own = geometry(x)
    session = cache.session or cache.open(q, k, v, own)
    need(
        own == cache.geometry,
        f"layer {layer} has heads, KV heads, d, d_v and scale {own}, another "
        f"{cache.geometry}, but a session has only one of each; use another "
        "model",
    )
    # The rest of the prompt is one block. Decode steps are single tokens.
    first = min(n, max(1, cache.prompt - session.seen.get(layer, 0)))
    out = [
        session.block(layer, q[:, t:end], k[:, t:end], v[:, t:end], out=True)
        for t, end in [(0, first), *((t, t + 1) for t in range(first, n))]
    ]
    seen = min(session.seen.values())
    if seen == cache.seen[layer] and seen >= cache.prompt:  # last layer
        session.end_step(seen)
    o = np.ascontiguousarray(np.concatenate(out, 1).transpose(1, 0, 2))
    made = torch.from_numpy(o)[None]
    return made.to(device=x.q.device, dtype=x.q.dtype)


register("kvsession", session_attention)


def main() -> None:
    """The command line."""
    a = arguments(__doc__, "model", "method", "budget", "prompt", new=32)
    model, tokens, ids = load(
        a.model, a.prompt, attn_implementation="kvsession"
    )
    budget = None if a.budget == "-" else a.budget
    cache = SessionCache(model, a.method, budget, ids.shape[1] + a.new)
    more = with_cache(decoder_of(model), cache)
    ids = model.generate(ids, max_new_tokens=a.new, **more)
    print(tokens.decode(ids[0]))
    if cache.session:
        print(cache.session.spec, cache.session.digest())


if __name__ == "__main__":
    sys.exit(run(main))
