# SPDX-License-Identifier: Apache-2.0
"""kvreplay.kvpress. With kvpress, on the model of traces/tiny: a press's
decisions replay, and methods work as presses (press_model.py). Without it, with
stub presses on a small model: finds what they drop, hide, rotate, and drop
while decoding, and refuses merges. presses_hf.py checks KVPRESS.md. Called by
cases/session_py.cases: KVREPLAY FOLDER TINY."""

import contextlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import types

import numpy as np
import torch
import transformers

import hf_models as hf
from kvreplay.decisions import read_decisions
from kvreplay.hf.capture import capture
from kvreplay.hf.rope import turned
from kvreplay.results import read_results
from kvreplay.trace import read_trace, write_trace
from refusals import refused

kvreplay, folder, tiny = sys.argv[1:]
PATH, TRACE, ROWS = (
    os.path.join(folder, x) for x in ("d.safetensors", "p.safetensors", "rows")
)
LAYERS, G, T, PROMPT = 2, 2, 24, 16  # of the small model and its trace


def replay(trace, *specs, budget="20%"):
    """Rows of kvreplay, in the order of specs."""
    words = [kvreplay, "run", trace, "-b", str(budget), "-q", "-f", "jsonl"]
    x = subprocess.run(
        [*words, "-m", ",".join(specs)], capture_output=True, text=True
    )
    assert x.returncode == 0, (specs, x.stderr)
    with open(ROWS, "w") as f:
        f.write(x.stdout)
    return read_results(ROWS)


def real():
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


class Press:
    """A press with a hook after each layer's attention, as in kvpress:
    hook(layer, module, cache, tokens seen, new tokens)."""

    def __init__(self, hook):
        self.hook = hook

    @contextlib.contextmanager
    def __call__(self, model):
        hooks = [
            x.self_attn.register_forward_hook(self.after, with_kwargs=True)
            for x in model.model.layers
        ]
        self.seen = {}
        try:
            yield
        finally:
            for x in hooks:
                x.remove()

    def after(self, module, args, kwargs, out):
        n, layer = out[0].shape[1], module.layer_idx
        self.seen[layer] = self.seen.get(layer, 0) + n
        cache = kwargs.get("cache") or kwargs["past_key_values"]
        self.hook(layer, module, cache, self.seen[layer], n)


class DecodingPress(Press):
    pass


KEPT = [0, 3, 9, 15]


def keep(places):
    """A hook that keeps these rows of every lane after the prompt."""

    def hook(layer, module, cache, seen, n):
        if n > 1:
            own = cache.layers[layer]
            own.keys = own.keys[:, :, places]
            own.values = own.values[:, :, places]

    return hook


def hide(layer, module, cache, seen, n):
    module.masked_key_indices = [0, 0], [0, 1], [2, layer]
    cache.layers[layer].keys[0, 0, 2] = 1e9  # like kvpress's fake keys


def turn(layer, module, cache, seen, n):
    keep(KEPT)(layer, module, cache, seen, n)
    own, freq = cache.layers[layer], read_trace(TRACE).inv_freq
    own.keys = torch.tensor(np.stack([
        turned(k.numpy(), freq, False, np.arange(4) - KEPT)
        for k in own.keys[0]]), dtype=torch.float32)[None]  # fmt: skip


def mixed(layer, *of):
    (turn if layer else keep(KEPT))(layer, *of)


def last(layer, module, cache, seen, n):
    """Keeps the last five at every fourth step; adds rows, but drops them."""
    own = cache.layers[layer]
    if n > 1:
        cache.update(own.keys, own.values, layer)
        own.keys, own.values = own.keys[:, :, :n], own.values[:, :, :n]
    if seen % 4 == 0:
        own.keys, own.values = own.keys[:, :, -5:], own.values[:, :, -5:]


def merge(layer, module, cache, seen, n):
    cache.layers[layer].values[0, 1, 4] *= 0.5


def rewrite(layer, module, cache, seen, n):
    cache.layers[layer].keys[0, 1, 4] *= 0.5


def adds(layer, module, cache, seen, n):
    cache.update(*(torch.ones_like(x[:, :, :1]) for x in (
        cache.layers[layer].keys, cache.layers[layer].values)), layer)


def old(*of):
    raise KeyError("cache_position")


def check_found(from_press, model, trace):
    """What presses keep, hide, rotate and keep while decoding."""
    every = {l: {PROMPT: [KEPT] * G} for l in range(LAYERS)}
    # Kept in any order, listed ascending, like kvreplay's lanes.
    assert from_press(model, Press(keep([9, 0, 15, 3])), trace, PATH) == every
    [row] = replay(TRACE, "replay:file=" + PATH)
    assert row["status"] in ("ok", "fixed")
    assert not read_decisions(PATH)["reindex"]
    part = TRACE + "1"  # a trace of only some layers
    write_trace(part, {1: trace.layer(1)}, PROMPT, None, trace.tokens, None,
                trace.inv_freq, {"rope.layout": "half", "n_layers": LAYERS})
    lists = from_press(model, Press(keep([9, 0])), read_trace(part), PATH)
    assert lists == {1: {PROMPT: [[0, 9]] * G}}, lists
    lists = from_press(model, Press(hide), trace, PATH)
    assert lists[1][PROMPT][0] == [x for x in range(PROMPT) if x != 2]
    assert lists[1][PROMPT][1] == [x for x in range(PROMPT) if x != 1]
    assert model.model.layers[0].self_attn.masked_key_indices is None
    assert from_press(model, Press(turn), trace, PATH) == every
    assert read_decisions(PATH)["reindex"]
    replay(TRACE, "replay:file=" + PATH)
    lists = from_press(model, DecodingPress(last), trace, PATH)
    assert lists[0] == {
        x: [[*range(x - 5, x)]] * G for x in (PROMPT, 20, 24)
    }, lists
    replay(TRACE, "replay:file=" + PATH)


def check_refused(from_press, model, trace):
    """What no decisions file can express, with the cause: the press, a
    recurrent state, other frequencies, or the versions."""

    def no(says, hook, model=model, **more):
        press = Press(hook)
        vars(press).update(more)
        refused(says, from_press, model, press, trace, PATH)

    no("the keys of some lanes", mixed)
    for hook in merge, rewrite, adds:
        no("(layer 0, KV head", hook)
    for says, config in (
        ("has other keys", {}),
        (f"beyond {T - 1} the model turns", hf.dynamic(T - 1)),
    ):
        other = hf.model("Llama", num_hidden_layers=LAYERS, **config)
        other.model.layers[1].self_attn.k_proj.weight.data.neg_()
        no(says, keep([0]), other)
    no("of no version does not run on this model by transformers "
       f"{transformers.__version__} (kvpress 0.5.5 needs one below", old)
    no("removes a delimiter", keep([0]), delimiter_token_id=7)
    model._is_stateful = True
    no("keeps a recurrent state", keep([0]))


def made_up():
    sys.modules["kvpress"] = types.SimpleNamespace(
        Press=Press, DecodingPress=DecodingPress
    )
    from kvreplay.kvpress import from_press, make_press

    model, ids = hf.model("Llama", num_hidden_layers=LAYERS), hf.IDS[:, :T]
    ids[0, 9] = ids[0, 3]  # two equal values in layer 0
    capture(model, ids, PROMPT, TRACE)
    trace = read_trace(TRACE)
    check_found(from_press, model, trace)
    check_refused(from_press, model, trace)
    assert make_press("Press([1, 'a'])").hook == [1, "a"]
    assert type(make_press("DecodingPress(Press(hook=2))").hook) is Press
    for text in ("None(1)", "Press(", "Press()", "Press(open('x'))", "1 + x"):
        refused("; write a press as in", make_press, text)
    print("made-up presses")


(real if importlib.util.find_spec("kvpress") else made_up)()
