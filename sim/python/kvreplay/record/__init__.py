# SPDX-License-Identifier: Apache-2.0
"""Records traces of a Hugging Face model: one of each prompt.

    kvreplay record MODEL --prompts FILE.jsonl -o DIR
    kvreplay run DIR/*.safetensors -m all -b 20%

MODEL is a folder, a name on the hub, or a .gguf file. A line of FILE.jsonl is
{"prompt": "...", "answer": "...", "source": "..."}, all but prompt optional:

    id        what its trace is called, DIR/ID.safetensors
    messages  instead of prompt: [{"role": "user", "content": "..."}, ...], by
              the model's chat template
    answer    the right answer's text, and source, the text in the prompt that
              says it: with both, or an answer that stands in the prompt once,
              a trace has a needle (the column `on the answer`)
    segments  [{"role": "context", "text": "..."}, {"role": "question", ...}],
              for `kvreplay run --observe`
    new       of `kvreplay evaluate` alone; here it is --max-new

The decode steps are what the model adds, greedily, up to --max-new tokens.
Where an answer is given and these do not have it, they are the answer's tokens.
--repeat adds DIR/scores/ID.safetensors, KVzip's score of each prompt token. A
FILE.txt is one prompt. A trace that is there already is not made again; one
that is half done when a recording ends is never seen under its name.

Exit codes: 0 all are there, 2 wrong usage, 3 a bad model, file or prompt, 4 no
memory, disk or package, 130 interrupted; what was finished stays.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay record`; returns its exit code."""
    from .command import main

    return main(argv)
