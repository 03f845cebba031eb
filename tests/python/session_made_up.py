# SPDX-License-Identifier: Apache-2.0
"""kvreplay.hf.session on made-up modules, where there is no torch: outputs are
those of a loop, in one piece or several, and what a session is not is refused.
Called by session_hf.py."""

import types

import numpy as np

N, NEW, ROOM = 64, 32, 200  # tokens of the prompt, after it; room
LAYERS, H, G, D = 2, 4, 2, 16  # of the made-up model


def refused_by(says, call, *args, **more):
    try:
        call(*args, **more)
    except ValueError as e:
        assert says in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")


def made_up_rows():
    r = np.random.default_rng(5)
    return [
        [
            r.standard_normal((1, h, N + NEW, D)).astype(np.float32)
            for h in (H, G, G)
        ]
        for l in range(LAYERS)
    ]


def check_made_up(hf, SessionCache, method, budget, pieces):
    """Outputs, lanes and ledger; the prompt, and what it ends with, comes in
    these pieces."""
    attend, rows = hf.FUNCTIONS["kvsession"], made_up_rows()
    more = dict(prompt_len=N) if len(pieces) > 1 else {}
    cache = SessionCache(hf.model(rows), method, budget, ROOM, **more)
    ends = [*np.cumsum(pieces), *range(sum(pieces) + 1, N + NEW + 1)]
    for first, end in zip([0, *ends], ends):
        for l, (q, k, v) in enumerate(rows):
            x = [hf.Tensor(y[:, :, first:end]) for y in (q, k, v)]
            x[1:] = cache.update(*x[1:], l)
            module = types.SimpleNamespace(layer_idx=l)
            out, _ = attend(module, *x, None, 0.0, scaling=D**-0.5)
            assert cache.get_seq_length(l) == end
            if method == "dense" or end <= N:
                want = hf.attend(
                    x[0].a[0], k[0, :, :end], v[0, :, :end], D**-0.5
                )
                np.testing.assert_allclose(
                    out.a[0].swapaxes(0, 1), want, rtol=1e-4, atol=1e-5,
                    equal_nan=False,
                )
    assert len(cache.session.lane(0, 0)[0]) == (budget or N + NEW)
    assert cache.session.ledger()["step"] == N + NEW
    return cache.session.digest()


def check_made_up_refused(hf, SessionCache):
    attend, rows = hf.FUNCTIONS["kvsession"], made_up_rows()
    model = hf.model(rows)
    cache = SessionCache(model, "dense", room=ROOM)
    x = [hf.Tensor(y) for y in rows[0]]
    cache.update(*x[1:], 0)
    module = types.SimpleNamespace(layer_idx=0, is_causal=False)
    refused_by("it sees later tokens", attend, module, *x, None)
    cache = SessionCache(model, "dense", room=ROOM)
    cache.update(*x[1:], 0)
    module = types.SimpleNamespace(layer_idx=0)
    refused_by("has dropout", attend, module, *x, None, 0.1)

    cache = SessionCache(model, "dense", room=ROOM)
    ids = hf.Tensor(np.arange(N)[None])
    more, chunks = dict(past_key_values=cache), types.SimpleNamespace()
    chunks.prefill_chunk_size = 5
    for args, how in (
        ((), dict(prefill_chunk_size=5, **more)),
        ((), dict(prefill_chunk_size=5, cache=cache)),  # transformers 5.24
        ((), dict(generation_config=chunks, **more)),
        ((chunks,), dict(cache=cache)),
    ):
        refused_by("SessionCache(prompt_len=)", model.generate, ids, *args,
                   **how)  # fmt: skip
    out = model.generate(ids, **more)
    cache.seen = {0: N + 1}
    model.generate(hf.Tensor(np.append(out.a, [[3]], 1)), **more)
    cache.seen = {0: N + 4}
    for other in (out, hf.Tensor(np.arange(1, N + 40)[None])):
        refused_by("do not go on from them", model.generate, other, **more)
    cache.reset()
    model.generate(other, **more)
    model.generate(ids)  # without a session it is the model's own
    check_made_up_state(hf, SessionCache, rows)


def check_made_up_state(hf, SessionCache, rows):
    """Models that remember by more than keys that are turned once."""
    model, x = hf.model(rows), [hf.Tensor(y) for y in rows[0]]
    for holder in model, model.get_decoder():
        holder._is_stateful = True
        refused_by("remembers by a state", SessionCache, model, "dense")
        holder._is_stateful = False
    def grow(cache, layer, n):
        cache.update(*(y[:, :, :n] for y in x[1:]), layer)
        SessionCache.updated = None  # as if attention had come

    cache = SessionCache(model, "dense", room=ROOM)
    grow(cache, 0, N)
    refused_by("1 of 2 layers attend", grow, cache, 0, 1)
    rope = types.SimpleNamespace(inv_freq=None, rope_type="longrope")
    limit = dict(rope_parameters=dict(original_max_position_embeddings=N))
    model = hf.model(rows, rope, limit)
    for first, then in (N, 1), (N - 9, 10), (N + 1, 1), (N - 9, 9):
        cache = SessionCache(model, "dense", room=ROOM)
        grow(cache, 0, first)
        grow(cache, 1, first)
        if first <= N < first + then:
            refused_by(f"beyond {N} tokens", grow, cache, 0, then)
        else:
            grow(cache, 0, then)


def made_up():
    import hf_made_up as hf
    from kvreplay.hf.session import SessionCache

    for method, budget in (("dense", None), ("h2o", 6)):
        whole = check_made_up(hf, SessionCache, method, budget, [N])
        pieces = check_made_up(hf, SessionCache, method, budget, [9, 50, 8])
        assert whole == pieces, method
    check_made_up_refused(hf, SessionCache)
    print("made-up modules")
