# SPDX-License-Identifier: Apache-2.0
"""As much of torch and transformers as the examples that import them touch,
on numpy: for machines without the two. FUNCTIONS has what was registered."""

import sys
import types

import numpy as np

FUNCTIONS = {}


class Tensor:
    def __init__(self, a):
        self.a, self.shape, self.dtype, self.device = a, a.shape, a.dtype, "cpu"

    def detach(self):
        return self

    cpu = contiguous = detach

    def __getitem__(self, i):
        return Tensor(self.a[i])

    def numpy(self):
        return self.a

    def transpose(self, i, j):
        return Tensor(self.a.swapaxes(i, j))

    def view(self, dtype):
        return Tensor(self.a.view(dtype))

    def to(self, device, dtype):
        return Tensor(self.a.astype(dtype))


def attend(q, k, v, scale):
    """The loop: what dense attention is, [heads, tokens, d], in binary64."""
    out = np.zeros(q.shape[:2] + v.shape[2:])
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    for h, t in np.ndindex(*q.shape[:2]):
        g, n = h * len(k) // len(q), k.shape[1] - q.shape[1] + t + 1
        s = k[g, :n] @ q[h, t] * scale
        p = np.exp(s - s.max())
        out[h, t] = p @ v[g, :n] / p.sum()
    return out


def own_attention(module, q, k, v, mask, scaling=None, **kwargs):
    out = attend(q.a[0], k.a[0], v.a[0], scaling).astype(np.float32)
    return Tensor(out.swapaxes(0, 1)[None]), None


class Interface:
    def __getitem__(self, name):
        assert name == "sdpa"
        return own_attention

    register = staticmethod(FUNCTIONS.__setitem__)


class Masks(Interface):
    register = staticmethod(lambda name, function: None)


def model(layers, **more):
    """What the examples ask of a model that has no rotation."""
    config = types.SimpleNamespace(num_hidden_layers=layers)
    config._attn_implementation = "sdpa"
    config.get_text_config = lambda: config
    return types.SimpleNamespace(config=config, base_model=None, **more)


sys.modules["torch"] = types.SimpleNamespace(
    bfloat16="bf16",
    uint16=np.uint16,
    from_numpy=Tensor,
    no_grad=lambda: lambda function: function,
)
sys.modules["transformers"] = types.SimpleNamespace(
    AttentionInterface=Interface,
    AttentionMaskInterface=Masks,
    DynamicCache=type("DynamicCache", (), {}),
    __version__="made up",
)
