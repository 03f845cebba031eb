# SPDX-License-Identifier: Apache-2.0
"""kvreplay.hf.session: models of random weights generate 32 tokens after 64.
`dense` gives the tokens and logits of the model's own attention, streamingllm
those of a forward over the tokens that it attends to. Impossible sessions are
refused. Prints the versions. Called by cases/session_py.cases."""

import numpy as np
import torch
import transformers

import hf_models
import refusals
from kvreplay.hf.session import SessionCache
from kvreplay.session import Session

N, NEW, ROOM = 64, 32, 200  # tokens: prompt, generated, capacity


def check_dense(torch, hf, SessionCache):
    """Largest differences seen: 2.4e-7 in float32, 0.0042 in bfloat16."""
    near = {torch.float32: 2e-6, torch.bfloat16: 0.01}
    for name, config in (
        ("Llama", dict(num_key_value_heads=4)),
        ("Llama", dict(head_dim=32)),  # differs from hidden_size / heads
        ("Qwen2", {}),
        ("Qwen3", dict(head_dim=32)),  # has norms on q and k
        ("Mistral", dict(sliding_window=N + NEW)),  # hides no token
        ("Gemma", dict(head_dim=16)),
        ("Granite", dict(attention_multiplier=0.11)),  # unlike 1/sqrt(d)
    ):
        for dtype in near:
            own = hf.model(name, dtype, **config)
            a, la = hf.generate(own)
            own.set_attn_implementation("kvsession")
            cache = SessionCache(own, "dense", room=ROOM)
            b, lb = hf.generate(own, past_key_values=cache)
            # In bfloat16 a near tie can change a token: compares up to there.
            same = (a == b)[0, N:].long().cumprod(0).sum() + 1
            assert same > NEW or dtype != torch.float32, (name, a, b)
            apart = (la - lb)[:same].abs().max()
            assert apart <= near[dtype], (name, dtype, apart)


def check_variants(torch, hf, SessionCache):
    """Windows, a cap on logits, sinks: `dense` is the model's own attention. In
    windowed layers it stores what the next token sees, and methods run."""
    for name, config in (
        ("Mistral", {}),
        ("Gemma2", dict(head_dim=16)),
        ("Gemma3Text", dict(head_dim=16, sliding_window_pattern=2)),
        ("GptOss", dict(head_dim=16, num_local_experts=4)),
    ):
        own = hf.model(name, sliding_window=24, **config)
        a, la = hf.generate(own)
        own.set_attn_implementation("kvsession")
        cache = SessionCache(own, "dense", room=ROOM)
        b, lb = hf.generate(own, past_key_values=cache)
        assert torch.equal(a, b), (name, a, b)
        assert (la - lb).abs().max() <= 5e-6, (name, (la - lb).abs().max())
        held = [len(cache.session.lane(l, 0)[0]) for l in range(3)]
        windows = cache.variant["window"]
        assert held == [x - 1 if x else N + NEW - 1 for x in windows], name
        assert 24 in windows, name
        cache = SessionCache(own, "h2o:windowed=compress", 12, ROOM)
        hf.generate(own, past_key_values=cache)
        held = {
            len(cache.session.lane(l, g)[0]) for l in range(3) for g in (0, 1)
        }
        assert held == {12}, (name, held)


def check_held(torch, hf, SessionCache):
    model = hf.model("Llama", attention="kvsession")
    for method, budget, held in (
        ("dense", None, N + NEW - 1),
        ("h2o", 32, 32),
        ("snapkv", 32, 32 + NEW - 1),
        ("quest:page=8:skip=0", 32, N + NEW - 1),
        ("streamingllm", 32, 32),
        ("kivi:group=16:residual=16", None, N + NEW - 1),
    ):
        cache = SessionCache(model, method, budget, ROOM)
        _, logits = hf.generate(model, past_key_values=cache)
        s = cache.session
        assert cache.get_seq_length() == s.ledger()["step"] == N + NEW - 1
        assert {len(s.lane(l, g)[0]) for l in range(3) for g in (0, 1)} == {
            held
        }, method
        if method == "dense":
            exact, bytes_dense = logits, s.ledger()["payload"]
        else:  # the method changes logits
            assert (logits - exact).abs().max() > 1e-3, method
        if held == 32 or method.startswith("kivi"):
            assert s.ledger()["payload"] < bytes_dense, method


def check_reindexed(torch, hf, SessionCache):
    """In one layer, k and v of a token do not depend on others. So attention to
    a few tokens at new positions equals a forward over only these, for both
    layouts of RoPE. Largest difference seen: 2.1e-7."""
    for name in ("Llama", "Cohere"):
        model = hf.model(name, num_hidden_layers=1, attention="kvsession")
        cache = SessionCache(model, "streamingllm", 32, ROOM)
        ids, logits = hf.generate(model, past_key_values=cache)
        own = hf.model(name, num_hidden_layers=1)
        for t in range(N + 1, N + NEW):  # 4 sinks, 28 recent tokens, itself
            kept = torch.cat([ids[:, :4], ids[:, t - 29 : t]], 1)
            apart = (own(kept).logits[0, -1] - logits[t - N]).abs().max()
            assert apart < 2e-6, (name, t, apart)


def check_again(torch, hf, SessionCache):
    """A second turn, a reset, and a prompt in a second cache."""
    model, own = hf.model("Llama", attention="kvsession"), hf.model("Llama")
    cache = SessionCache(model, "dense", room=ROOM)
    SessionCache(model, "h2o", 4, ROOM)
    ids, _ = hf.generate(model, past_key_values=cache)
    assert torch.equal(ids, hf.generate(own)[0])
    more = torch.cat([ids, hf.IDS[:, :20]], 1)
    got, _ = hf.generate(model, more, past_key_values=cache)
    assert torch.equal(got, hf.generate(own, more)[0])
    cache.reset()
    got, _ = hf.generate(model, hf.IDS[:, 9:], past_key_values=cache)
    assert torch.equal(got, hf.generate(own, hf.IDS[:, 9:])[0])


def check_pieces(torch, hf, SessionCache):
    """A prompt in several forwards, with prompt_len."""
    model = hf.model("Llama", attention="kvsession")
    for method, budget in ("dense", None), ("snapkv", 32):
        last = []
        for ends in [N], [24, 48, N]:
            more = dict(prompt_len=N) if len(ends) > 1 else {}
            cache = SessionCache(model, method, budget, ROOM, **more)
            for first, end in zip([0, *ends], ends):
                ids = hf.IDS[:, first:end]
                logits = model(ids, past_key_values=cache).logits
            last.append(logits[0, -1])
            assert cache.session.ledger()["step"] == N
            assert len(cache.session.lane(2, 1)[0]) == (budget or N)
        assert (last[0] - last[1]).abs().max() < 2e-6, method
    cache = SessionCache(model, "snapkv", 32, ROOM, prompt_len=N)
    hf.generate(model, past_key_values=cache, prefill_chunk_size=24)
    assert len(cache.session.lane(2, 1)[0]) == 32 + NEW - 1


def check_positional(torch, hf, SessionCache):
    """kvpress, imported later, passes dropout as sixth positional argument."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as known

    own = known["kvsession"]
    known["kvsession"] = lambda m, q, k, v, attention_mask, dropout, **more: (
        own(m, q, k, v, attention_mask, dropout, **more)
    )
    try:
        check_again(torch, hf, SessionCache)
    finally:
        known["kvsession"] = own


def check_refused(torch, hf, SessionCache):
    def refused(says, name="Llama", attention="kvsession", room=ROOM, **more):
        config = more.pop("config", {})
        model = hf.model(name, attention=attention, **config)
        try:
            cache = SessionCache(model, more.pop("method", "dense"), 32, room)
            model.train(more.pop("train", False))
            hf.generate(model, **{"past_key_values": cache, **more})
        except (ValueError, NotImplementedError, SessionError) as e:
            assert says in str(e), (says, str(e))
        else:
            raise AssertionError(f"nothing says: {says}")

    from kvreplay.session import SessionError

    holes = torch.ones_like(hf.IDS)
    holes[0, :3] = 0
    refused("64 tokens exceed room=63", room=63)
    refused("65 tokens exceed room=64", room=64)
    refused("a batch of 2", ids=hf.IDS.repeat(2, 1))
    refused("a batch of 2", num_beams=2)
    refused("the mask of tokens 0 to 63 hides", attention_mask=holes)
    refused("has a sliding window, which the method", "Mistral", method="h2o",
            config=dict(sliding_window=32))  # fmt: skip
    refused("has dropout", train=True, config=dict(attention_dropout=0.1))
    refused("keeps a recurrent state", "Qwen3Next")
    refused("without a session", past_key_values=None)
    refused("uses its own attention", attention="sdpa")
    refused("cannot undo tokens", prompt_lookup_num_tokens=3)
    refused("rope.inv_freq", "Phi", method="streamingllm")  # partial RoPE
    refused("SessionCache(prompt_len=)", prefill_chunk_size=24)
    refused("keeps a recurrent state", "Jamba", config=HYBRID)
    refused("keeps a recurrent state", "FalconH1")
    shared = dict(head_dim=16, layer_types=WINDOWS + WINDOWS[1:],
                  num_hidden_layers=5, num_kv_shared_layers=2,
                  vocab_size_per_layer_input=128)  # fmt: skip
    refused("layer 3 reads the K and V of layer 1, but a session needs",
            "Gemma3nText", config=dict(
                shared, laurel_rank=8, altup_num_inputs=2,
                activation_sparsity_pattern=[0.0] * 5))  # fmt: skip
    if hasattr(hf.transformers, "Gemma4TextConfig"):
        refused("layers 2,4 have heads, KV heads, d, d_v, scale and softcap (4,"
                " 2, 32, 32, 1.0, 0.0), but the others (4, 2, 16, 16, 1.0, ",
                "Gemma4Text", config=dict(shared, global_head_dim=32,
                                          hidden_size_per_layer_input=16)
                )  # fmt: skip
    refused("beyond 80 tokens", "Phi3", config=hf.longrope(80))
    refused_however(hf, SessionCache)
    model = hf.model("Llama", attention="kvsession")
    cache = SessionCache(model, "dense", room=ROOM)
    hf.generate(model, past_key_values=cache, new=2)
    other = torch.cat([hf.IDS[:, 9:], hf.IDS], 1)  # longer, but another text
    for ids in (other, hf.IDS[:, 9:], hf.IDS):
        refused_again(hf, model, ids, cache)


def refused_however(hf, SessionCache):
    """Another keyword for the cache; a model that hides its recurrent state."""
    import inspect

    model = hf.model("Llama", attention="kvsession")
    cache, known = SessionCache(model, "dense", room=ROOM), {"past_key_values"}
    known |= {*inspect.signature(model.forward).parameters} & {"cache"}
    for word in known:
        refusals.refused("SessionCache(prompt_len=)", hf.generate, model,
                   prefill_chunk_size=24, **{word: cache})  # fmt: skip
    x = torch.zeros(1, 2, N, 16)
    cache.update(x, x, 0)
    SessionCache.updated = None  # as after attention
    refusals.refused("only 1 of 3 layers have attention", cache.update, x, x, 0)
    if hf.transformers.__version__ < "5":
        return  # Jamba computes attention itself there
    model = hf.model("Jamba", attention="kvsession", **HYBRID)
    model._is_stateful = model.model._is_stateful = False

    def session():
        cache = SessionCache(model, "dense", room=ROOM)
        hf.generate(model, past_key_values=cache)

    types = getattr(model.config, "layer_types", None)  # since 5.24
    refusals.refused("layers of linear" if types else "layer 0 does not attend",
               session)  # fmt: skip


def check_forks(torch, hf, SessionCache):
    """Several answers to one prompt that is fed once equal those of separate
    caches, to the bit. So does an answer from a session that a program fed."""
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
            with torch.no_grad():  # like a fork: first the prompt, then steps
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
        (lambda: SessionCache(model, "dense").fork(), "run a forward"),
        (lambda: SessionCache.of(model, half(model, SessionCache)), "feed all"),
    ):
        refusals.refused(says, cache)


def half(model, SessionCache):
    """A session in which only the first layer has seen the prompt."""
    layers, rows = model.config.num_hidden_layers, np.zeros((2, N, 16), "f2")
    s = Session("dense", n_layers=layers, n_heads=2, n_kv_heads=2, d=16,
                n_tokens=N, prompt_len=N)
    s.block(0, rows, rows, rows)
    return s


def check_turned_otherwise(torch, hf, SessionCache):
    """Longrope on one side of its limit and growing NTK: equal to the model."""
    for config in (
        dict(name="Phi3", **hf.longrope(N + NEW)),
        dict(name="Phi3", **hf.longrope(N - 9)),
        dict(name="Llama", **hf.dynamic(N + 9)),
    ):
        own = hf.model(**config)
        a, _ = hf.generate(own)
        own.set_attn_implementation("kvsession")
        cache = SessionCache(own, "dense", room=ROOM)
        b, _ = hf.generate(own, past_key_values=cache)
        assert torch.equal(a, b), config


WINDOWS = ["sliding_attention"] * 2 + ["full_attention"]
HYBRID = dict(num_experts=2, attn_layer_period=3, attn_layer_offset=1,
              mamba_d_state=8, use_mamba_kernels=False)  # fmt: skip


def refused_again(hf, model, ids, cache):
    try:
        hf.generate(model, ids, past_key_values=cache)
    except ValueError as e:
        assert "do not continue them" in str(e), e
    else:
        raise AssertionError("another prompt on a used session")


for check in (
    check_dense, check_variants, check_held, check_reindexed, check_again,
    check_pieces, check_forks, check_positional, check_turned_otherwise,
    check_refused,
):  # fmt: skip
    with torch.no_grad():
        check(torch, hf_models, SessionCache)
print(f"transformers {transformers.__version__}, torch", torch.__version__)
