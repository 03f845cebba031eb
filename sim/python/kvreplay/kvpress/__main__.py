# SPDX-License-Identifier: Apache-2.0
"""Writes what a press of kvpress keeps, or its scores, as a file for kvreplay.

    python -m kvreplay.kvpress MODEL 'SnapKVPress(0.8, 32, 7)' \\
        T.safetensors D.safetensors TEXT.txt 64
    kvreplay run T.safetensors -m snapkv,replay:file=D.safetensors -b ratio:0.8

Records T, the trace of TEXT and of 64 tokens that the model generates. Without
TEXT, T must exist and be of this model. D gets the tokens that the press keeps.
With --scores it gets the scores of the press, which serve every budget:

    python -m kvreplay.kvpress MODEL 'KVzipPress()' T.safetensors \\
        S.safetensors --scores
    kvreplay run T.safetensors -b 10%,20%,40% \\
        -m adakv:score=file:scores=S.safetensors

A press that merges, rewrites or adds rows is refused, because a file of
decisions only says which tokens stay. KVPRESS.md lists the presses.
"""

import sys

from ..hf.text import NAME, arguments, check_folder, go_on, load, read_text
from ..hf.text import program, require, run

if __name__ == "__main__":
    require("kvpress", "numpy", "torch", "transformers")

from ..hf.capture import capture
from ..trace import Trace, read_trace
from . import from_press, from_scorer, make_press
from .decide import Lists

FLAGS = {"scores": "write the press's scores instead of its decisions"}


def decided(lists: Lists, trace: Trace) -> None:
    """Prints how many tokens lanes hold after the prompt and at the end."""
    for step in sorted({trace.prompt_len, *[*lists[trace.layers[0]]][-1:]}):
        held = [len(x) for l in lists.values() for x in l.get(step, ())]
        print(f"after {step} tokens lanes hold {min(held)} to {max(held)}")


def main() -> int:
    """The command line. Returns the exit code."""
    a = arguments(
        __doc__, "model", "press", "trace", "decisions", options=NAME,
        flags=FLAGS, text="", new=64,
    )  # fmt: skip
    check_folder(a.trace, a.decisions)
    try:
        press = make_press(a.press)
    except ValueError as e:  # a wrong command line, so code 2, not 3
        print(f"{program()}: {e}", file=sys.stderr)
        return 2
    model, tokenizer, ids = load(a.model, read_text(a.text) if a.text else None)
    if a.text:
        n, ids = ids.shape[1], go_on(model, ids, a.new)
        capture(model, ids, n, a.trace, model=a.name or a.model)
    trace = read_trace(a.trace)
    if not a.scores:
        decided(from_press(model, press, trace, a.decisions, a.press), trace)
        return 0
    scores = from_scorer(model, press, trace, a.decisions, a.press)
    print(f"scores of {len(scores.of)} layers, {trace.prompt_len} tokens")
    if scores.bound:
        ratio = scores.press.compression_ratio or 0.5
        print(f"they depend on the ratio: for -b ratio:{ratio:g} alone")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
