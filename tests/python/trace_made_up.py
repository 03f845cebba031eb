# SPDX-License-Identifier: Apache-2.0
"""kvreplay.hf.capture on a made-up model, by made-up modules: for
machines without torch and transformers. Called by trace_hf.py."""

import types

import hf_made_up
import numpy as np

from kvreplay.trace import read_trace
from trace_shared import PATH, check_replays, left_out, refused

LAYERS, H, G, D, T, PROMPT = 2, 4, 2, 16, 40, 30  # of the made-up model


class Rope:
    """A rotary embedding, and what it makes of one key [1, heads, 1, d]."""

    def __init__(self, kind):
        self.kind, freq = kind, 0.5 ** np.arange(D // 2)
        self.attention_scaling = 1.0
        self.inv_freq = hf_made_up.Tensor(freq.astype(np.float32))

    def turn(self, key, at):
        angle = np.outer(at, self.inv_freq.a)
        angle *= {"reversed": -1, "faster": 1.01}.get(self.kind, 1)
        turn = np.exp(1j * angle)
        if self.kind == "interleaved":
            x = (key[..., ::2] + 1j * key[..., 1::2]) * turn
            out = np.stack([x.real, x.imag], -1).reshape(*x.shape[:-1], D)
        else:
            x = (key[..., : D // 2] + 1j * key[..., D // 2 :]) * turn
            out = np.concatenate([x.real, x.imag], -1)
        return (out if self.kind != "zeros" else 0 * out).astype(np.float32)


def check_rotation(rows):
    """What is recorded is what the keys of one token prove."""
    from kvreplay.hf.capture import capture

    ids = hf_made_up.Tensor(np.arange(T)[None])
    for kind, layout, sign in (
        ("half", "half", 1),
        ("interleaved", "interleaved", 1),
        ("reversed", "half", -1),
        ("faster", None, 0),  # not by the frequencies that it says
        ("zeros", None, 0),  # which any rotation explains
    ):
        rope = Rope(kind)
        model = hf_made_up.model(rows, rope)
        assert capture(model, ids, PROMPT, PATH) == bool(layout), kind
        t = read_trace(PATH)
        assert t.metadata.get("rope.layout") == layout, (kind, t.metadata)
        assert not layout or (t.inv_freq == sign * rope.inv_freq.a).all()


def check_refused(rows):
    """With a sentence, and before anything runs where it can be told."""
    from kvreplay.hf.capture import capture

    ids = hf_made_up.Tensor(np.arange(T)[None])
    args, path = (ids, PROMPT), PATH + "x"
    model = hf_made_up.model(rows, is_causal=False)
    refused("it sees later tokens", capture, model, *args, path)
    model = hf_made_up.model(rows)
    refused("no folder", capture, model, *args, path + "/none/t.safetensors")
    assert model.get_decoder().calls == 0
    model.get_decoder().layers[1].self_attn.layer_idx = 0
    refused("layer 0 attends twice", capture, model, *args, path)
    model = hf_made_up.model(rows)
    model.get_decoder().layers.clear()
    refused("the model attends by itself", capture, model, *args, path)
    model._is_stateful = True
    refused("has no attention that could be seen", capture, model, *args, path)
    check_refused_first(rows, capture)


def check_refused_first(rows, capture):
    """What is said before anything is computed: nothing of it is written."""

    class Encoding(dict):  # what a chat template gives
        pass

    model, ids = hf_made_up.model(rows), hf_made_up.Tensor(np.arange(T)[None])
    path = PATH + "x"
    for key in "layers", "prompt_len", "attn.scale", "model_digest", "n_heads":
        try:
            capture(model, ids, PROMPT, path, **{key: "0,3"})
        except ValueError as e:
            assert f"metadata {key}: " in str(e), str(e)
        else:
            raise AssertionError(f"{key} is overwritten without a word")
    for wrong, says in (
        (Encoding(input_ids=ids), 'take ["input_ids"]'),
        ([*range(T)], "the tokens are a list"),
        (hf_made_up.Tensor(np.arange(T)), "of shape [40]: give one sequence"),
        (hf_made_up.Tensor(np.arange(T).reshape(2, -1)), "of shape [2, 20]"),
    ):
        refused(says, capture, model, wrong, PROMPT, path)
    for n in 0, T + 1:
        refused(f"a prompt of {n} tokens: give 1 to 40", capture, model, ids,
                n, path)  # fmt: skip
    for kind, more, says in (
        ("longrope", dict(original_max_position_embeddings=PROMPT + 1), "31"),
        ("dynamic", {}, "33"),
    ):
        rope = types.SimpleNamespace(inv_freq=None, rope_type=kind)
        rope.original_max_seq_len = PROMPT + 3
        model = hf_made_up.model(rows, rope, more)
        refused(f"beyond {says} the model turns its keys", capture, model, ids,
                PROMPT, path)  # fmt: skip
        capture(model, ids, T, PATH)  # a prompt alone: its own keys
    assert model.get_decoder().calls == 2


def check_in_part_made_up(rows):
    """Layers of other heads: those that agree and whose chunks hide nothing,
    the most of them, are recorded; those that read the K and V of another are
    not, and the trace names them."""
    from kvreplay.hf.capture import capture

    other = [np.concatenate([x, x], 3) for x in rows[0]]
    ids = hf_made_up.Tensor(np.arange(T)[None])
    for four, chunks, want in (
        ([rows[0], other, rows[1], other, rows[1]], {}, [0, 2, 4]),
        ([other, rows[0], rows[1], other, other], {}, [0, 3, 4]),
        ([other, rows[0], rows[1], other, other], {3: T - 1}, [0, 4]),
        ([other, rows[0], rows[1], other, other], {3: 9, 4: 9}, [1, 2]),
        ([other, rows[0], rows[1], other, other], {3: T, 1: 9}, [0, 3, 4]),
    ):
        model = hf_made_up.model(four)
        for l in chunks:
            attention = model.get_decoder().layers[l].self_attn
            attention.attention_chunk_size = chunks[l]
        capture(model, ids, PROMPT, PATH)
        t = check_replays(1e-5)
        assert (t.layers, t.n_layers) == (want, 5), (t.layers, want)
        assert all((t.k(l) == four[l][1][0]).all() for l in want)
    model = hf_made_up.model([rows[0], rows[1], rows[0], rows[1], rows[0]])
    for l, of in (2, 0), (3, 1), (4, 0):
        attention = model.get_decoder().layers[l].self_attn
        attention.is_kv_shared_layer, attention.kv_shared_layer_index = True, of
    capture(model, ids, PROMPT, PATH)
    assert check_replays(1e-5).layers == [0, 1]
    assert left_out() == "2,4: reads the K and V of layer 0; 3: reads the K " \
        "and V of layer 1"  # fmt: skip


def check_digest(rows):
    """Which model it is, by its numbers and its configuration alone."""
    from kvreplay.hf.identity import model_digest, settled

    def digest(rows, **config):
        return model_digest(hf_made_up.model(rows, None, config))

    own = digest(rows)
    assert len(own) == 64 and own == digest(rows, dtype="float32", _x=1, a=None)
    for other in dict(eps=1e-5), dict(text_config=dict(eps=1e-5)):
        assert digest(rows, **other) != own
    for place in (0, 0, 0, 0), (0, H - 1, T - 1, D - 1):  # of the first tensor
        tuned = [[x.copy() for x in y] for y in rows]
        tuned[0][0][place] += 1
        assert digest(tuned) != own, place
    half = [[x.astype("f2") for x in y] for y in rows]
    wide = [[x.astype("f4") for x in y] for y in half]
    assert digest(half) == digest(wide) != own
    model = hf_made_up.model(rows)
    model.state_dict = lambda: {"x": None}
    assert model_digest(model) is None  # known by its name alone
    for four, five in (
        (dict(rope_theta=1e4, rope_scaling=None),
         dict(rope_parameters=dict(rope_theta=1e4, rope_type="default"))),
        (dict(rope_theta=1e4, rope_scaling=dict(rope_type="yarn", factor=2)),
         dict(rope_parameters=dict(rope_theta=1e4, rope_type="yarn",
                                   factor=2))),
    ):  # fmt: skip
        assert settled(four) == settled(five)
    assert settled(four) != settled(dict(rope_theta=1e4))


def made_up():
    from kvreplay.hf.capture import capture

    r = np.random.default_rng(3)
    rows = [
        [
            r.standard_normal((1, h, T, D)).astype(np.float32)
            for h in (H, G, G)
        ]
        for l in range(LAYERS)
    ]
    model = hf_made_up.model(rows)
    ids = hf_made_up.Tensor(np.arange(T)[None])
    assert not capture(model, ids, PROMPT, PATH, source="test")
    t = check_replays(1e-5)
    for l, (q, k, v) in enumerate(rows):
        assert (t.q(l) == q[0]).all() and (t.k(l) == k[0]).all()
        assert (t.v(l) == v[0]).all()
    assert (t.scale, t.prompt_len) == (0.3, PROMPT), (t.scale, t.prompt_len)
    assert len(t.metadata["model_digest"]) == 64
    assert t.tokens.tolist() == [*range(T)]
    assert model.config._attn_implementation == "sdpa"
    check_rotation(rows)
    check_refused(rows)
    check_in_part_made_up(rows)
    check_digest(rows)
    print("made-up modules")
