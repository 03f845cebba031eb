# SPDX-License-Identifier: Apache-2.0
"""As much of torch, transformers and kvpress as the examples that import them
touch, on numpy: for machines without them. FUNCTIONS has what was registered,
model() is a decoder of given q, k and v."""

import contextlib
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

    def float(self):
        return Tensor(self.a.astype(np.float32))

    def __getitem__(self, i):
        return Tensor(self.a[i])

    def numpy(self):
        return self.a

    def data_ptr(self):
        return self.a.ctypes.data

    def reshape(self, n):
        return Tensor(self.a.reshape(n))

    def is_floating_point(self):
        return self.a.dtype.kind == "f"

    def transpose(self, i, j):
        return Tensor(self.a.swapaxes(i, j))

    def repeat_interleave(self, n, axis):
        return Tensor(self.a.repeat(n, axis))

    def view(self, dtype):
        return Tensor(self.a.view(dtype))

    def isfinite(self):
        return np.isfinite(self.a)

    def to(self, device=None, dtype=None):
        return Tensor(self.a.astype(dtype or self.a.dtype))


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


def own_attention(module, q, k, v, attention_mask, scaling=None, **kwargs):
    out = attend(q.a[0], k.a[0], v.a[0], scaling).astype(np.float32)
    return Tensor(out.swapaxes(0, 1)[None]), None


class Interface:
    def __getitem__(self, name):
        assert name == "sdpa"
        return own_attention

    register = staticmethod(FUNCTIONS.__setitem__)


class Masks(Interface):
    register = staticmethod(lambda name, function: None)


class Cache:
    """Of one sequence: layers[l].keys and .values, [1, heads, tokens, d]."""

    def __init__(self):
        self.layers = []

    def update(self, keys, values, layer_idx, *args, **kwargs):
        if layer_idx == len(self.layers):
            empty = Tensor(keys.a[:, :, :0]), Tensor(values.a[:, :, :0])
            self.layers.append(
                types.SimpleNamespace(keys=empty[0], values=empty[1])
            )
        own = self.layers[layer_idx]
        own.keys = Tensor(np.concatenate([own.keys.a, keys.a], 2))
        own.values = Tensor(np.concatenate([own.values.a, values.a], 2))
        return own.keys, own.values


class Decoder:
    """Attends with the q, k and v [1, heads, tokens, d] of each layer, at the
    positions that it is given; of a prompt of one token over and over with the
    first of them, the key turned by `rope`. calls: how often it ran."""

    def __init__(self, rows, rope, config, **module):
        self.rows, self.config, self.calls = rows, config, 0
        self.ropes = [rope] if rope else []
        self.layers = [
            types.SimpleNamespace(
                self_attn=types.SimpleNamespace(layer_idx=l, **module)
            )
            for l in range(len(rows))
        ]
        self.set_attn_implementation("sdpa")

    def modules(self):
        return self.ropes

    def set_attn_implementation(self, name):
        self.config._attn_implementation = name

    def rows_of(self, layer, ids, at):
        one = (ids.a == ids.a[0, 0]).all() and len(at) > 1
        q, k, v = (x[:, :, at * (not one)] for x in self.rows[layer])
        if one and self.ropes:
            k = self.ropes[0].turn(k[:, :, :1], at)
        return Tensor(q), Tensor(k), Tensor(v)

    def __call__(
        self, input_ids, use_cache=None, past_key_values=None, position_ids=None
    ):
        self.calls += 1
        n = input_ids.shape[1]
        at = np.arange(n) if position_ids is None else position_ids.a[0]
        function = FUNCTIONS.get(self.config._attn_implementation)
        for l, layer in enumerate(self.layers):
            q, k, v = self.rows_of(l, input_ids, at)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, l)
            if function:  # by keyword, as some models do
                function(
                    layer.self_attn, q, k, v, attention_mask=None, scaling=0.3
                )
            if getattr(layer.self_attn, "hook", None):
                layer.self_attn.hook(l, past_key_values, at)


class Config(types.SimpleNamespace):
    def get_text_config(self):
        return self

    def to_dict(self):
        return dict(vars(self))


def model(rows, rope=None, config=(), **module):
    """A model whose decoder has these rows [q, k, v] in each layer."""
    config = Config(num_hidden_layers=len(rows), **dict(config))
    decoder = Decoder(rows, rope, config, **module)

    def generate(inputs, past_key_values=None, **kwargs):
        return Tensor(np.append(inputs.a, [[7, 8]], 1))

    def state_dict():
        return {
            f"layers.{l}.{name}": Tensor(x)
            for l in range(len(rows))
            for name, x in zip("qkv", rows[l])
        }

    return types.SimpleNamespace(
        config=config,
        state_dict=state_dict,
        device="cpu",
        dtype=np.float32,
        generate=generate,
        generation_config=types.SimpleNamespace(prefill_chunk_size=None),
        get_decoder=lambda: decoder,
        set_attn_implementation=decoder.set_attn_implementation,
    )


class NoGrad(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


sys.modules["torch"] = types.SimpleNamespace(
    Tensor=Tensor,
    bfloat16="bf16",
    uint16=np.uint16,
    float16=np.dtype(np.float16),
    float32=np.dtype(np.float32),
    promote_types=np.promote_types,
    aminmax=lambda x: (Tensor(x.a.min()), Tensor(x.a.max())),
    tensor=lambda x, device: Tensor(np.array(x)),
    finfo=np.finfo,
    cat=lambda x: Tensor(np.concatenate([y.a for y in x])),
    from_numpy=Tensor,
    as_tensor=Tensor,
    no_grad=NoGrad,
    arange=lambda *x, device: Tensor(np.arange(*x)),
    full=lambda shape, x, device: Tensor(np.full(shape, x)),
    equal=lambda x, y: np.array_equal(x.a, y.a),
)
sys.modules["transformers"] = types.SimpleNamespace(
    AttentionInterface=Interface,
    AttentionMaskInterface=Masks,
    DynamicCache=Cache,
    __version__="made up",
)
sys.modules["transformers.modeling_utils"] = types.SimpleNamespace(
    ALL_ATTENTION_FUNCTIONS={},
)
