# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of real models: arguments, prompts, and calls of
`kvreplay record` and `kvreplay evaluate`. Arguments: KVTRACE KVREPLAY FOLDER
TINY, the folder of bundled traces."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np

import refusals
from kvreplay.evaluate import main as evaluation
from kvreplay.record import main as recording
from kvreplay.trace import read_trace

kvtrace, kvreplay, folder, tiny = sys.argv[1:]
for program in kvtrace, kvreplay:
    os.environ["PATH"] = f"{os.path.dirname(program)}:{os.environ['PATH']}"
PATH, DENSE = (os.path.join(folder, x + ".safetensors") for x in ("t", "o"))


def run(*words):
    x = subprocess.run(words, capture_output=True, text=True)
    assert x.returncode == 0, (words, x.stdout, x.stderr)
    return x.stdout


def left_out():
    """Which layers PATH leaves out, and why, by `kvtrace info`."""
    lines = run(kvtrace, "info", PATH).splitlines()
    (found,) = [x[9:].strip() for x in lines if x.startswith("left out ")]
    return found


def check_replays(near):
    """PATH, whose o differs by at most `near`, relative to its largest. Seen:
    4.3e-7 in float32, 3.1e-4 in float16, 3.1e-3 in bfloat16."""
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
    refusals.refused(says, capture, *args)
    assert not os.path.exists(PATH + "x")


def asset_digest(method):
    """The model that a bundled file is for, by its metadata."""
    with open(f"{tiny}/assets/{method}.kvtiny-6l.safetensors", "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    return head["__metadata__"]["model_digest"]


# --- kvreplay record ---

MODEL, PROMPTS = tiny + "/model", os.path.join(folder, "p.jsonl")
SOURCE = "key AB12: 83914;\nkey CD34: 27365;\nkey EF56: 51802;\n"
LINES = [
    dict(id="one", prompt=SOURCE + "what is CD34? ", answer="27365",
         source="27365"),
    dict(id="two", prompt=SOURCE + "what is EF56? ", answer="51802"),
    dict(id="three", prompt=SOURCE + "what is there? "),
]  # fmt: skip


def lines(*rows):
    with open(PROMPTS, "w") as f:
        f.write("".join(json.dumps(x) + "\n" for x in rows))


def record(out, *words, code=0, model=MODEL):
    """Standard error of the command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        got = recording([model, "--prompts", PROMPTS, "-o", at(out), *words])
    assert got == code, (words, got, said.getvalue())
    return said.getvalue()


def at(*names):
    return os.path.join(folder, *names)


def trace(out, name):
    path = at(out, name + ".safetensors")
    run(kvtrace, "check", path)
    return read_trace(path)


def digests(out, name, *methods):
    x = subprocess.run(
        [kvreplay, "run", at(out, name + ".safetensors"), "-b", "30%", "-q",
         "-f", "jsonl", "-m", ",".join(methods)],
        capture_output=True, text=True)  # fmt: skip
    return [(y["spec"], y["status"], y["journal"], y["output"])
            for y in map(json.loads, x.stdout.splitlines())]  # fmt: skip


def saved(name, model):
    """A folder with this model and the bundled tokenizer."""
    path = at(name)
    model.save_pretrained(path)
    for x in "tokenizer.json", "tokenizer_config.json":
        shutil.copy(os.path.join(MODEL, x), path)
    return path


# --- kvreplay evaluate ---

MORE = SOURCE + "key GH78: 40291;\n"
ASKED = dict(id="asked", prompt=MORE + "what is CD34? ", answer="27365", new=8,
             segments=[dict(role="context", text=MORE), dict(
                 role="question", text="what is CD34?")])


def evaluate(*words, code=0, model=MODEL, tasks=("--prompts", PROMPTS)):
    """Rows, {(item, question, method, target): row}, and standard error."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
        got = evaluation(
            [model, *tasks, "-f", "jsonl", "--threads", "2", *words])
    assert got == code, (words, got, said.getvalue())
    rows = [json.loads(x) for x in out.getvalue().splitlines()]
    of = "item question method target".split()
    found = {tuple(x[y] for y in of): x for x in rows}
    assert len(found) == len(rows)
    return found, said.getvalue()
