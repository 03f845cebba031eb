# SPDX-License-Identifier: Apache-2.0
"""traces/examples/hf_session.py in a model of two layers: with torch and
transformers a Llama of random weights, whose tokens under `dense` are those of
its own attention; without them a made-up model on made-up modules, whose
outputs are those of a loop. Called by check_session_py.sh."""

import sys
import types

import numpy as np

H, G, D, LAYERS, N, NEW = 4, 2, 16, 2, 9, 6


def real():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from hf_session import SessionCache

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=H * D,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=H,
        num_key_value_heads=G,
        pad_token_id=0,
        eos_token_id=None,
    )
    own = LlamaForCausalLM(config).eval()
    config._attn_implementation = "kvsession"
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(own.state_dict())
    ids = torch.randint(1, 64, (1, N))
    more = dict(
        max_new_tokens=NEW, do_sample=False, attention_mask=torch.ones_like(ids)
    )
    cache = SessionCache(model, "dense", room=64)
    with torch.no_grad():
        a = model.generate(ids, past_key_values=cache, **more)
        b = own.generate(ids, **more)
    assert a.tolist() == b.tolist(), (a, b)
    assert cache.session.seen == dict.fromkeys(range(LAYERS), N + NEW - 1)


class Tensor:
    """As much of torch.Tensor as the example touches."""

    def __init__(self, a):
        self.a, self.shape, self.dtype, self.device = a, a.shape, a.dtype, "cpu"

    def detach(self):
        return self

    cpu = contiguous = detach

    def __getitem__(self, i):
        return Tensor(self.a[i])

    def numpy(self):
        return self.a

    def view(self, dtype):
        return Tensor(self.a.view(dtype))

    def to(self, device, dtype):
        return Tensor(self.a.astype(dtype))


def made_up():
    names = {}
    interface = types.SimpleNamespace(register=names.__setitem__)
    cache = type("DynamicCache", (), {})
    sys.modules["torch"] = types.SimpleNamespace(
        bfloat16="bf16", int16=np.int16, from_numpy=Tensor
    )
    sys.modules["transformers"] = types.SimpleNamespace(
        AttentionInterface=interface, DynamicCache=cache
    )
    from hf_session import SessionCache

    attend = names["kvsession"]
    config = types.SimpleNamespace(num_hidden_layers=LAYERS)
    r = np.random.default_rng(5)
    shape = (LAYERS, 1, H, N + NEW, D)
    q, k, v = (
        r.standard_normal(shape)[:, :, :h].astype(np.float32) for h in (H, G, G)
    )
    for method, budget in (("dense", None), ("h2o", 6)):
        cache = SessionCache(
            types.SimpleNamespace(config=config), method, budget, 64
        )
        for first, end in [(0, N)] + [(t, t + 1) for t in range(N, N + NEW)]:
            for l in range(LAYERS):
                x = [Tensor(y[l, :, :, first:end]) for y in (q, k, v)]
                x[1:] = cache.update(*x[1:], l)
                module = types.SimpleNamespace(layer_idx=l)
                out, _ = attend(module, *x, None, scaling=D**-0.5)
                assert (
                    out.shape == (1, end - first, H, D)
                    and cache.get_seq_length(l) == end
                )
                for t in (
                    range(first, end) if method == "dense" or end == N else ()
                ):
                    for h in range(H):
                        s = k[l, 0, h // 2, : t + 1] @ q[l, 0, h, t] * D**-0.5
                        p = np.exp(s - s.max())
                        np.testing.assert_allclose(
                            out.a[0, t - first, h],
                            p @ v[l, 0, h // 2, : t + 1] / p.sum(),
                            rtol=1e-4,
                            atol=1e-5,
                        )
        assert len(cache.session.lane(0, 0)[0]) == (6 if budget else N + NEW)
        cache.session.digest()


try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError:
    made_up()
else:
    real()
