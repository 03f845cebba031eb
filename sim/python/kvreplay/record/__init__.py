# SPDX-License-Identifier: Apache-2.0
"""Records traces of a Hugging Face model, one per prompt.

    kvreplay record MODEL --prompts FILE.jsonl -o DIR
    kvreplay run DIR/*.safetensors -m all -b 20%

MODEL is a folder, a name on the hub, or a .gguf file. A FILE.txt is one prompt,
and so is each line of a FILE.jsonl.

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
