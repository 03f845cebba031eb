# SPDX-License-Identifier: Apache-2.0
"""What trace_hf.py and record_shared.py share: arguments, what the programs say
of a trace, and refusals."""

import json
import os
import subprocess
import sys

import numpy as np

from kvreplay.trace import read_trace

kvtrace, kvreplay, folder, tiny = sys.argv[1:]
os.environ["PATH"] = f"{os.path.dirname(kvtrace)}:{os.environ['PATH']}"
PATH, DENSE = (os.path.join(folder, x + ".safetensors") for x in ("t", "o"))


def run(*words):
    x = subprocess.run(words, capture_output=True, text=True)
    assert x.returncode == 0, (words, x.stdout, x.stderr)
    return x.stdout


def left_out():
    """Which layers are not in PATH, and why, as `kvtrace info` says it."""
    lines = run(kvtrace, "info", PATH).splitlines()
    (found,) = [x[9:].strip() for x in lines if x.startswith("left out ")]
    return found


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


def refused(says, capture, *args):
    try:
        capture(*args)
    except ValueError as e:
        assert says in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")
    assert not os.path.exists(PATH + "x")


def asset_digest(method):
    """What model a bundled file says that it is for."""
    with open(f"{tiny}/assets/{method}.kvtiny-6l.safetensors", "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    return head["__metadata__"]["model_digest"]
