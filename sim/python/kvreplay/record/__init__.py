# SPDX-License-Identifier: Apache-2.0
"""Records traces of a Hugging Face model, one per prompt.

    kvreplay record MODEL --prompts FILE.jsonl -o DIR
    kvreplay run DIR/*.safetensors -m all -b 20%

MODEL is a folder, a name on the hub, or a .gguf file. A FILE.txt is one prompt.
Each line of FILE.jsonl is one: {"context": "...", "question": "...", "answer":
"..."}, or {"prompt": "..."}. The keys are

    id        name of the trace: DIR/ID.safetensors
    context   with question: put together by the model's chat template, if it
              has one. place: where the question is: after (default), before or
              inside (the same text as after; nothing marks the question)
    prompt    instead: a text
    messages  instead: [{"role": "user", "content": "..."}, ...], for the chat
              template
    answer    text of the right answer
    source    text in the prompt that says the answer. With both, or if the
              answer is in the prompt exactly once, the trace has a needle (the
              column `on the answer`)
    segments  [{"role": "context", "text": "..."}, {"role": "question", ...}],
              for `kvreplay run --observe`
    new       for `kvreplay evaluate` only; here use --max-new

The decode steps are the tokens that the model generates greedily, at most
--max-new. If they lack the given answer, the answer's tokens replace them.
Existing traces are not recorded again. An unfinished trace never has its final
name.

Exit codes: 0 all traces exist, 2 wrong usage, 3 a bad model, file or prompt, 4
no memory, disk or package, 130 interrupted; finished traces stay.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """`kvreplay record`; returns its exit code."""
    from .command import main

    return main(argv)
