# SPDX-License-Identifier: Apache-2.0
"""What record_hf.py, record_second.py, record_repeat.py and plan_hf.py share:
prompts, `kvreplay record` and what became of it. Arguments: KVTRACE KVREPLAY
FOLDER TINY (trace_shared.py)."""

import contextlib
import io
import json
import os
import shutil
import subprocess

from trace_shared import folder, kvreplay, kvtrace, run, tiny

from kvreplay.record import main
from kvreplay.trace import read_trace

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
    """What is said on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        got = main([model, "--prompts", PROMPTS, "-o", at(out), *words])
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
    """A folder of that model, with the bundled tokenizer."""
    path = at(name)
    model.save_pretrained(path)
    for x in "tokenizer.json", "tokenizer_config.json":
        shutil.copy(os.path.join(MODEL, x), path)
    return path
