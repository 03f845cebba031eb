# SPDX-License-Identifier: Apache-2.0
"""kvreplay.kvpress. With kvpress: on the model of traces/tiny a press's
decisions replay, and methods as presses (press_model.py). Without it made-up
presses on a made-up model: what they drop, hide, turn and drop while decoding
is found, and what they merge is refused. That presses are what KVPRESS.md says
is presses_hf.py's. Called by check_session_py.sh: KVREPLAY FOLDER TINY."""

import importlib.metadata
import os
import subprocess
import sys
import types

import numpy as np

from kvreplay.decisions import read_decisions
from kvreplay.results import read_results
from kvreplay.trace import read_trace, write_trace

kvreplay, folder, tiny = sys.argv[1:]
PATH, TRACE, ROWS = (
    os.path.join(folder, x) for x in ("d.safetensors", "p.safetensors", "rows")
)
LAYERS, H, G, D, T, PROMPT = 2, 4, 2, 8, 24, 16  # of the made-up model


def replay(trace, *specs, budget="20%"):
    """Rows of kvreplay, in the order of the specifications."""
    words = [kvreplay, "run", trace, "-b", str(budget), "-q", "-f", "jsonl"]
    x = subprocess.run(
        [*words, "-m", ",".join(specs)], capture_output=True, text=True
    )
    assert x.returncode == 0, (specs, x.stderr)
    with open(ROWS, "w") as f:
        f.write(x.stdout)
    return read_results(ROWS)


def refused(says, call, *args):
    try:
        call(*args)
    except ValueError as e:
        assert says in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")


def real():
    import torch
    from kvreplay.hf.capture import capture
    from kvreplay.hf.text import load
    from kvreplay.kvpress import from_press, make_press

    import press_model

    torch.set_num_threads(1)
    model, _, _ = load(tiny + "/model", None, dtype=torch.float32)
    small = read_trace(tiny + "/retrieval_16.safetensors")
    layers = {l: small.layer(l) for l in small.layers}
    write_trace(TRACE, layers, small.prompt_len, None, small.tokens[::-1])
    refused("has other keys", from_press, model, make_press("KnormPress(0.5)"),
            read_trace(TRACE), PATH)  # fmt: skip
    ids = torch.as_tensor(np.asarray(small.tokens, np.int64)[None, :280])
    capture(model, ids, small.prompt_len, TRACE, model="kvtiny-6l")
    trace = read_trace(TRACE)
    press = "KeyRotationPress(SnapKVPress(0.5, 16, 7))"
    refused("kvpress has no KeyRotationPress", make_press, press)
    from_press(model, make_press(press.replace("Rot", "Rerot")), trace, PATH)
    assert read_decisions(PATH)["reindex"]
    replay(TRACE, "replay:file=" + PATH)
    press_model.check(model, tiny + "/model", trace, PATH)
    print("kvpress", importlib.metadata.version("kvpress"))


def keep(places):
    """A press that keeps these rows of every lane, after the prompt."""

    def hook(layer, cache, at):
        if len(at) > 1:
            own = cache.layers[layer]
            own.keys = hf.Tensor(own.keys.a[:, :, places])
            own.values = hf.Tensor(own.values.a[:, :, places])

    return hook


class Press:
    """With a hook after each layer's attention, as those of kvpress."""

    def __init__(self, hook):
        self.hook = hook

    def __call__(self, model):
        self.layers = model.get_decoder().layers
        return self

    def __enter__(self):
        for x in self.layers:
            x.self_attn.hook = self.hook

    def __exit__(self, *_):
        for x in self.layers:
            x.self_attn.hook = None


def check_in_part(from_press, rows, rope, freq):
    """A trace of some of the model's layers: of these alone."""
    part, path = {1: dict(zip("qkv", (x[0] for x in rows[1])))}, TRACE + "1"
    meta = {"attn.scale": 0.3, "rope.layout": "half", "n_layers": LAYERS}
    write_trace(path, part, PROMPT, None, np.arange(T), None, freq, meta)
    trace, press = read_trace(path), Press(keep([9, 0]))
    lists = from_press(hf.model(rows, rope), press, trace, PATH)
    assert lists == {1: {PROMPT: [[0, 9]] * G}}, lists


class DecodingPress(Press):
    pass


def made_up_rows():
    r = np.random.default_rng(9)
    rows = [
        [
            r.standard_normal((1, h, T, D)).astype(np.float32)
            for h in (H, G, G)
        ]
        for l in range(LAYERS)
    ]
    rows[0][2][:, :, 3] = rows[0][2][:, :, 9]  # one token's values twice
    return rows


def check_who_is_to_blame(from_press, trace, model, other):
    """The press, a state, other frequencies, or what kvpress runs by."""

    def old(layer, cache, at):
        raise KeyError("cache_position")

    refused("of no version does not run on this model by transformers made up "
            "(kvpress 0.5.5 needs one below", from_press, model, Press(old),
            trace,
            PATH)  # fmt: skip
    finch = Press(keep([0]))
    finch.delimiter_token_id = 7
    refused("takes a delimiter out", from_press, model, finch, trace, PATH)
    other.get_decoder().ropes.append(
        types.SimpleNamespace(rope_type="dynamic", original_max_seq_len=T - 1)
    )
    refused(f"beyond {T - 1} the model turns", from_press, other,
            Press(keep([0])), trace, PATH)  # fmt: skip
    model._is_stateful = True
    refused("remembers by a state", from_press, model, Press(keep([0])), trace,
            PATH)  # fmt: skip
    model._is_stateful = False


def made_up():
    sys.modules["kvpress"] = types.SimpleNamespace(
        Press=Press, DecodingPress=DecodingPress
    )
    from kvreplay.kvpress import from_press, make_press

    rows = made_up_rows()
    layers = {
        l: dict(zip("qkv", (x[0] for x in rows[l]))) for l in range(LAYERS)
    }
    freq = (0.5 ** np.arange(D // 2)).astype(np.float32)
    meta = {"attn.scale": 0.3, "rope.layout": "half"}
    write_trace(TRACE, layers, PROMPT, None, np.arange(T), None, freq, meta)
    trace, rope = read_trace(TRACE), Rope(freq)
    model = hf.model(rows, rope)

    # In any order they are kept: as kvreplay keeps lanes, ascending.
    lists = from_press(model, Press(keep([9, 0, 15, 3])), trace, PATH)
    assert lists == {l: {PROMPT: [[0, 3, 9, 15]] * G} for l in (0, 1)}, lists
    [row] = replay(TRACE, "replay:file=" + PATH)
    assert row["status"] in ("ok", "fixed") and not read_decisions(PATH)[
        "reindex"
    ]

    def hide(layer, cache, at):
        module = model.get_decoder().layers[layer].self_attn
        module.masked_key_indices = [0, 0], [0, 1], [2, layer]
        cache.layers[layer].keys.a[0, 0, 2] = 1e9  # as fake keys are

    check_in_part(from_press, rows, rope, freq)

    lists = from_press(model, Press(hide), trace, PATH)
    assert lists[1][PROMPT][0] == [x for x in range(PROMPT) if x != 2]
    assert lists[1][PROMPT][1] == [x for x in range(PROMPT) if x != 1]
    assert model.get_decoder().layers[0].self_attn.masked_key_indices is None

    def turn(layer, cache, at):
        kept = [0, 3, 9, 15]
        keep(kept)(layer, cache, at)
        own, moves = cache.layers[layer], np.arange(4) - kept
        own.keys = hf.Tensor(rope.turn(own.keys.a, moves))

    lists = from_press(model, Press(turn), trace, PATH)
    assert lists == {l: {PROMPT: [[0, 3, 9, 15]] * G} for l in (0, 1)}, lists
    assert read_decisions(PATH)["reindex"]
    replay(TRACE, "replay:file=" + PATH)

    def mixed(layer, cache, at):
        (turn if layer else keep([0, 3, 9, 15]))(layer, cache, at)

    refused("the keys of some lanes", from_press, model, Press(mixed), trace,
            PATH)  # fmt: skip

    def last(layer, cache, at):  # every fourth step, the last five
        own = cache.layers[layer]
        if at[-1] < PROMPT:  # and rows of its own, for a while
            n = len(at)
            cache.update(own.keys, own.values, layer)
            own.keys = hf.Tensor(own.keys.a[:, :, :n])
            own.values = hf.Tensor(own.values.a[:, :, :n])
        if at[-1] % 4 == 3:
            own.keys = hf.Tensor(own.keys.a[:, :, -5:])
            own.values = hf.Tensor(own.values.a[:, :, -5:])

    lists = from_press(model, DecodingPress(last), trace, PATH)
    assert lists[0] == {
        x: [[*range(x - 5, x)]] * G for x in (PROMPT, 20, 24)
    }, lists
    replay(TRACE, "replay:file=" + PATH)

    def merge(layer, cache, at):
        cache.layers[layer].values.a[0, 1, 4] *= 0.5

    def rewrite(layer, cache, at):
        cache.layers[layer].keys.a[0, 1, 4] *= 0.5

    def adds(layer, cache, at):
        cache.update(*(hf.Tensor(np.ones((1, G, 1, D), "f4")),) * 2, layer)

    for press in map(Press, (merge, rewrite, adds)):
        refused("(layer 0, KV head", from_press, model, press, trace, PATH)
    other = hf.model([[x[0], -x[1], x[2]] for x in rows], rope)
    refused("has other keys", from_press, other, Press(turn), trace, PATH)
    check_who_is_to_blame(from_press, trace, model, other)

    assert make_press("Press([1, 'a'])").hook == [1, "a"]
    assert type(make_press("DecodingPress(Press(hook=2))").hook) is Press
    for text in ("None(1)", "Press(", "Press()", "Press(open('x'))", "1 + x"):
        refused(": give a press as in", make_press, text)
    print("made-up modules")


class Rope:
    def __init__(self, freq):
        self.inv_freq, self.attention_scaling = hf.Tensor(freq), 1.0

    def turn(self, key, at):
        turn = np.exp(1j * np.outer(at, self.inv_freq.a))
        x = (key[..., : D // 2] + 1j * key[..., D // 2 :]) * turn
        return np.concatenate([x.real, x.imag], -1).astype(np.float32)


try:
    import kvpress  # noqa: F401
except ImportError:
    import hf_made_up as hf

    made_up()
else:
    real()
