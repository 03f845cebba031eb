# SPDX-License-Identifier: Apache-2.0
"""Trains what a method reads, with a Hugging Face model in the loop.

    kvreplay train-hf deltakv MODEL --prompts FILE... -o NAME.safetensors
    kvreplay run T.safetensors -m deltakv:compressor=NAME.safetensors

METHOD is one of

    deltakv       the compressors of DeltaKV by its Algorithm 1: the model runs
                  on with K and V rebuilt from their latents; squared error of
                  K and V, and the loss of the next token
    less          the perceptrons of LESS: squared error of each layer's
                  attention behind its output projection, and, if asked for, the
                  loss of the next token
    duoattention  a gate for each KV head: the last hidden state of answers
                  where each head's output is mixed of all and of a stream

MODEL is a folder, a name on the hub, or a .gguf file, and stays as it is. A
FILE is prompts as `kvreplay record` takes them (.jsonl, or a .txt, which is one
text), or a trace, of which the tokens and answers are read. Files are those
that `kvreplay train` makes of traces alone; --from begins with one.

While it runs NAME.safetensors.training holds what is needed to go on: the same
command, typed again after it was killed, ends with the same numbers as one that
was not (same machine, same number of threads).

Exit codes: 0 done, 2 wrong usage, 3 a bad model, file or prompt, 4 no memory,
disk or package, 130 interrupted.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay train-hf`; returns its exit code."""
    from .command import main

    return main(argv)
