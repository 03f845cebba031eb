# SPDX-License-Identifier: Apache-2.0
"""traces/examples/hf_session.py. With torch and transformers: models of random
weights generate 32 tokens after 64, `dense` gives the tokens and logits of the
model's own attention, streamingllm those of a forward over the tokens that it
attends, and what a session is not is refused. Without them a made-up model on
made-up modules, whose outputs are those of a loop. Says on stdout which.
Called by check_session_py.sh."""

import sys
import types

import numpy as np

N, NEW, ROOM = 64, 32, 200  # tokens of the prompt, after it; room
LAYERS, H, G, D = 2, 4, 2, 16  # of the made-up model


def check_dense(torch, hf, SessionCache):
    """Largest difference seen, float32 and bfloat16: 2.4e-7 and 0.0042."""
    near = {torch.float32: 2e-6, torch.bfloat16: 0.01}
    for name, config in (
        ("Llama", dict(num_key_value_heads=4)),
        ("Llama", dict(head_dim=32)),  # not hidden_size / heads
        ("Qwen2", {}),
        ("Qwen3", dict(head_dim=32)),  # norms on q and k
        ("Mistral", dict(sliding_window=N + NEW)),  # hides nothing here
        ("Gemma", dict(head_dim=16)),
        ("Granite", dict(attention_multiplier=0.11)),  # not 1/sqrt(d)
    ):
        for dtype in near:
            own = hf.model(name, dtype, **config)
            a, la = hf.generate(own)
            own.set_attn_implementation("kvsession")
            cache = SessionCache(own, "dense", room=ROOM)
            b, lb = hf.generate(own, past_key_values=cache)
            # bfloat16 near a tie may choose otherwise: up to there, then.
            same = (a == b)[0, N:].long().cumprod(0).sum() + 1
            assert same > NEW or dtype != torch.float32, (name, a, b)
            apart = (la - lb)[:same].abs().max()
            assert apart <= near[dtype], (name, dtype, apart)


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
        else:  # the model feels the method
            assert (logits - exact).abs().max() > 1e-3, method
        if held == 32 or method.startswith("kivi"):
            assert s.ledger()["payload"] < bytes_dense, method


def check_reindexed(torch, hf, SessionCache):
    """In one layer a token's k and v are its own, so attending a few tokens at
    new positions is a forward over those alone: with either way of RoPE to
    pair elements. Largest difference seen: 2.1e-7."""
    for name in ("Llama", "Cohere"):
        model = hf.model(name, num_hidden_layers=1, attention="kvsession")
        cache = SessionCache(model, "streamingllm", 32, ROOM)
        ids, logits = hf.generate(model, past_key_values=cache)
        own = hf.model(name, num_hidden_layers=1)
        for t in range(N + 1, N + NEW):  # 4 sinks, 28 before it, and itself
            kept = torch.cat([ids[:, :4], ids[:, t - 29 : t]], 1)
            apart = (own(kept).logits[0, -1] - logits[t - N]).abs().max()
            assert apart < 2e-6, (name, t, apart)


def check_again(torch, hf, SessionCache):
    """A second turn, a fresh start, and a prompt beside another cache."""
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

    from kvsession import SessionError

    holes = torch.ones_like(hf.IDS)
    holes[0, :3] = 0
    refused("64 tokens and room for 63", room=63)
    refused("65 tokens and room for 64", room=64)
    refused("a batch of 2", ids=hf.IDS.repeat(2, 1))
    refused("a batch of 2", num_beams=2)
    refused("the mask of tokens 0 to 63 hides", attention_mask=holes)
    refused("0 to 63 hides", "Mistral", config=dict(sliding_window=32))
    refused("attention has softcap", "Gemma2")
    refused("attention has s_aux", "GptOss", config=dict(num_local_experts=2))
    refused("has dropout", train=True, config=dict(attention_dropout=0.1))
    refused("layers of linear_attention", "Qwen3Next")
    refused("without a session", past_key_values=None)
    refused("attends by itself", attention="sdpa")
    refused("takes nothing back", prompt_lookup_num_tokens=3)
    refused("rope.inv_freq", "Phi", method="streamingllm")  # part of a head


def real():
    import torch
    import transformers
    import hf_models
    from hf_session import SessionCache

    for check in (
        check_dense,
        check_held,
        check_reindexed,
        check_again,
        check_refused,
    ):
        with torch.no_grad():
            check(torch, hf_models, SessionCache)
    print(f"transformers {transformers.__version__}, torch", torch.__version__)


def made_up():
    import hf_made_up as hf
    from hf_session import SessionCache

    attend = hf.FUNCTIONS["kvsession"]
    r = np.random.default_rng(5)
    q, k, v = (
        r.standard_normal((LAYERS, 1, h, N + NEW, D)).astype(np.float32)
        for h in (H, G, G)
    )
    for method, budget in (("dense", None), ("h2o", 6)):
        cache = SessionCache(hf.model(LAYERS), method, budget, ROOM)
        for first, end in [(0, N)] + [(t, t + 1) for t in range(N, N + NEW)]:
            for l in range(LAYERS):
                x = [hf.Tensor(y[l, :, :, first:end]) for y in (q, k, v)]
                x[1:] = cache.update(*x[1:], l)
                module = types.SimpleNamespace(layer_idx=l)
                out, _ = attend(module, *x, None, scaling=D**-0.5)
                assert cache.get_seq_length(l) == end
                if method == "dense" or end == N:
                    want = hf.attend(
                        x[0].a[0], k[l, 0, :, :end], v[l, 0, :, :end], D**-0.5
                    )
                    np.testing.assert_allclose(
                        out.a[0].swapaxes(0, 1), want, rtol=1e-4, atol=1e-5
                    )
        held = 6 if budget else N + NEW
        assert len(cache.session.lane(0, 0)[0]) == held
        assert cache.session.ledger()["step"] == N + NEW
        cache.session.digest()
    print("made-up modules")


try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError:
    made_up()
else:
    real()
