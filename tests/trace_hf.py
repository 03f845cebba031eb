# SPDX-License-Identifier: Apache-2.0
"""traces/examples/capture_hf.py: with torch and transformers the model of
traces/tiny, fed the tokens of a bundled trace, gives that trace's q, k, v and
o, and small models of random weights in three formats; without them a made-up
model. `kvtrace check` computes the outputs of each again, and so does
`kvreplay run -m dense` those of the decode steps. Called by
check_session_py.sh: KVTRACE KVREPLAY FOLDER TINY."""

import os
import subprocess
import sys
import types

import numpy as np

kvtrace, kvreplay, folder, tiny = sys.argv[1:]
sys.path.append(os.path.join(tiny, ".."))
from kvtrace import read_trace  # noqa: E402

PATH, DENSE = (os.path.join(folder, x + ".safetensors") for x in ("t", "o"))
LAYERS, H, G, D, T, PROMPT = 2, 4, 2, 16, 40, 30  # of the made-up model


def run(*words):
    x = subprocess.run(words, capture_output=True, text=True)
    assert x.returncode == 0, (words, x.stdout, x.stderr)


def check_replays(near):
    """PATH, whose o differs by at most `near`, relative to its largest. Seen:
    4.3e-7 of float32, 3.1e-4 of float16, 3.1e-3 of bfloat16."""
    run(kvtrace, "check", PATH)
    run(kvreplay, "run", PATH, "-m", "dense", "-q", "--outputs", DENSE)
    t = read_trace(PATH)
    with open(DENSE, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        f.seek(8 + n)
        dense = np.frombuffer(f.read(), np.float32)
    own = np.stack([t.o(l)[:, t.prompt_len :] for l in t.layers])
    apart = abs(dense.reshape(own.shape) - own).max() / abs(own).max()
    assert own.size and apart <= near, apart
    return t


def check_tiny(torch, capture):
    """Against what plain torch gave when the trace was recorded. Largest
    difference seen: 3.9e-5, of k."""
    from transformers import AutoModelForCausalLM

    want = read_trace(tiny + "/retrieval_8_small.f32.safetensors")
    ids = torch.from_numpy(np.array(want.tokens, np.int64))[None]
    model = AutoModelForCausalLM.from_pretrained(tiny + "/model")
    capture(model, ids, want.prompt_len, PATH, model="kvtiny-4l")
    got = check_replays(1e-5)
    for l in want.layers:
        for x in "qkvo":
            apart = getattr(want, x)(l) - getattr(got, x)(l)
            assert abs(apart).max() < 2e-4, (l, x)
    assert np.allclose(want.inv_freq, got.inv_freq, rtol=1e-6)
    for key in ("rope.layout", "n_layers", "layers", "prompt_len"):
        assert want.metadata[key] == got.metadata[key], key
    assert np.isclose(want.scale, got.scale)
    assert want.tokens.tolist() == got.tokens.tolist()


def real():
    import torch
    import transformers
    import hf_models as hf
    from capture_hf import capture

    check_tiny(torch, capture)
    for name, dtype, near in (
        ("Llama", torch.float32, 1e-5),
        ("Cohere", torch.bfloat16, 0.01),
        ("OPT", torch.float16, 0.002),  # no rotation
    ):
        model = hf.model(name, dtype)
        ids, _ = hf.generate(model)
        capture(model, ids, hf.IDS.shape[1], PATH)
        t = check_replays(near)
        assert model.config._attn_implementation == "eager"
        assert t.metadata.get("rope.layout") == {
            "Llama": "half",
            "Cohere": "interleaved",
        }.get(name)
    try:
        capture(hf.model("Mistral", sliding_window=32), ids, 64, PATH + "x")
    except ValueError as e:
        assert "a sliding window" in str(e)
    else:
        raise AssertionError("a sliding window is recorded")
    assert not os.path.exists(PATH + "x")
    print(f"transformers {transformers.__version__}, torch", torch.__version__)


def made_up():
    import hf_made_up as hf
    from capture_hf import capture

    r = np.random.default_rng(3)
    q, k, v = (
        r.standard_normal((LAYERS, 1, h, T, D)).astype(np.float32)
        for h in (H, G, G)
    )

    class Model(types.SimpleNamespace):
        def set_attn_implementation(self, name):
            self.config._attn_implementation = name

        def __call__(self, ids, use_cache):
            attend = hf.FUNCTIONS[self.config._attn_implementation]
            for l in range(LAYERS):
                module = types.SimpleNamespace(layer_idx=l)
                x = [hf.Tensor(y[l]) for y in (q, k, v)]
                attend(module, *x, None, scaling=0.3)

    model = Model(**vars(hf.model(LAYERS)))
    capture(model, hf.Tensor(np.arange(T)[None]), PROMPT, PATH, source="test")
    t = check_replays(1e-5)
    for l in range(LAYERS):
        assert (t.q(l) == q[l, 0]).all() and (t.k(l) == k[l, 0]).all()
        assert (t.v(l) == v[l, 0]).all()
    assert (t.scale, t.prompt_len) == (0.3, PROMPT), (t.scale, t.prompt_len)
    assert t.tokens.tolist() == [*range(T)]
    assert model.config._attn_implementation == "sdpa"
    print("made-up modules")


try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError:
    made_up()
else:
    real()
