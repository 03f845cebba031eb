# SPDX-License-Identifier: Apache-2.0
"""SessionCache.fork() and .of(): several answers to one prompt that is fed once
are those of caches of their own, to the bit; so is one that goes on from a
session that a program fed itself. Called by session_hf.py."""

import sys

import numpy as np

from kvreplay.session import Session

N, ROOM = 64, 200  # tokens of the prompt; room


def check_forks(torch, hf, SessionCache):
    windows = dict(head_dim=16, num_local_experts=4, sliding_window=24)
    for name, config, method, budget in (
        ("GptOss", windows, "h2o", 32),
        ("GptOss", windows, "snapkv:windowed=compress", 12),
        ("Llama", {}, "dense", None),
        ("Llama", {}, "snapkv", 32),
        ("Llama", {}, "zsmerge", 32),
    ):
        model = hf.model(name, attention="kvsession", **config)
        cache = SessionCache(model, method, budget, ROOM)
        with torch.no_grad():
            model(hf.IDS, past_key_values=cache)
        for first in 5, 40:  # two questions
            more = torch.cat([hf.IDS, hf.IDS[:, first : first + 9]], 1)
            alone = SessionCache(model, method, budget, ROOM, prompt_len=N)
            with torch.no_grad():  # as a fork does: the prompt, then steps
                model(hf.IDS, past_key_values=alone)
            with cache.fork() as own:
                own.ids = alone.ids = hf.IDS
                a, la = hf.generate(model, more, past_key_values=own)
                b, lb = hf.generate(model, more, past_key_values=alone)
                assert torch.equal(a, b) and torch.equal(la, lb), method
                assert own.session.ledger() == alone.session.ledger()
                assert own.session.digest() == alone.session.digest()
            assert cache.get_seq_length() == N and own.session is None
        fed = cache.session.fork()
        of = SessionCache.of(model, fed, hf.IDS)
        a, _ = hf.generate(model, more, past_key_values=of)
        assert torch.equal(a, b), method
        of.close()
    for cache, says in (
        (lambda: SessionCache(model, "dense").fork(), "a forward first"),
        (lambda: SessionCache.of(model, half(model, SessionCache)), "feed all"),
    ):
        try:
            cache()
        except ValueError as e:
            assert says in str(e), e
        else:
            sys.exit(f"taken, which is refused with: {says}")


def half(model, SessionCache):
    """A session whose first layer alone has seen the prompt."""
    layers, rows = model.config.num_hidden_layers, np.zeros((2, N, 16), "f2")
    s = Session("dense", n_layers=layers, n_heads=2, n_kv_heads=2, d=16,
                n_tokens=N, prompt_len=N)
    s.block(0, rows, rows, rows)
    return s
