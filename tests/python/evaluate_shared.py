# SPDX-License-Identifier: Apache-2.0
"""What evaluate_hf.py and evaluate_press.py share: `kvreplay evaluate` and what
became of it. Arguments: KVTRACE KVREPLAY FOLDER TINY (trace_shared.py)."""

import contextlib
import io
import json
import os

from record_shared import MODEL, PROMPTS, SOURCE
from trace_shared import kvreplay

from kvreplay.evaluate import main

os.environ["PATH"] = os.path.dirname(kvreplay) + ":" + os.environ["PATH"]
MORE = SOURCE + "key GH78: 40291;\n"
ASKED = dict(id="asked", prompt=MORE + "what is CD34? ", answer="27365", new=8,
             segments=[dict(role="context", text=MORE), dict(
                 role="question", text="what is CD34?")])  # fmt: skip


def evaluate(*words, code=0, model=MODEL, tasks=("--prompts", PROMPTS)):
    """Rows, {(item, question, method, target): row}, and what is said."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
        got = main([model, *tasks, "-f", "jsonl", "--threads", "2", *words])
    assert got == code, (words, got, said.getvalue())
    rows = [json.loads(x) for x in out.getvalue().splitlines()]
    of = "item question method target".split()
    found = {tuple(x[y] for y in of): x for x in rows}
    assert len(found) == len(rows)
    return found, said.getvalue()
