# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay record`. Checks options and prompts before it
imports torch and loads a model."""

from __future__ import annotations

import argparse
import os
from typing import List, Optional

from . import __doc__ as DOC
from ..hf.options import add_model, option, say_as, whole
from ..hf.text import packages_for, run
from ..programs import find
from .prompts import __doc__ as FILE
from .prompts import read_prompts
from .rows import read_layers, read_rows

NAME = "kvreplay record"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog=NAME, allow_abbrev=False,
        description=DOC + FILE[FILE.index("\nA line of") :],
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = p.add_argument
    add("model", metavar="MODEL", help="folder, hub name or .gguf file")
    add("--prompts", required=True, metavar="FILE", help="prompts as JSON "
        "lines, or one prompt as .txt (required)")  # fmt: skip
    add("-o", "--out", required=True, metavar="DIR", help="folder for the "
        "traces, created if missing (required)")  # fmt: skip
    add("--max-new", type=whole(0), default=64, metavar="N",
        help="generate at most N tokens (default: 64)")  # fmt: skip
    add("--layers", type=option(read_layers), default=None, metavar="LIST",
        help="layers to record, such as 0,3,8-11 (default: all possible)"
        )  # fmt: skip
    add("--rows", type=option(read_rows), default=None, metavar="ROWS",
        help="query rows to record (default: all). last=256,decode leaves out "
        "earlier tokens and records column sums of the prompt instead; with "
        "sums h2o and similar methods decide the same, and methods that need "
        "more rows are refused")  # fmt: skip
    add("--no-sums", action="store_true", help="no column sums with --rows")
    add("--no-o", action="store_true", help="leave out outputs; `kvtrace "
        "check` then has nothing to compare")  # fmt: skip
    add("--expanded", action="store_true", help="record multi-head latent "
        "attention (DeepSeek) as transformers computes it: a key and a value "
        "for each query head (default: as engines store it, one latent vector "
        "per token, with V a part of K)")  # fmt: skip
    add("--together", type=whole(1), default=1, metavar="N",
        help="run N prompts of equal length in one forward pass, with memory "
        "for N per layer (default: 1)")  # fmt: skip
    add("--check", action="store_true", help="recompute each trace's "
        "outputs with kvtrace check, and print the largest difference"
        )  # fmt: skip
    add("--repeat", action="store_true", help="also write KVzip's score "
        "of each prompt token to DIR/scores/ID.safetensors, for methods with "
        "score=file:scores=FILE"
        )  # fmt: skip
    add_model(p, "number type of the model and of the trace",
              " in the traces")  # fmt: skip
    return p


def go(a: argparse.Namespace) -> int:
    prompts = read_prompts(a.prompts)
    if os.path.lexists(a.out) and not os.path.isdir(a.out):
        raise NotADirectoryError(f"{a.out} is not a folder; name another")
    if a.check and a.no_o:
        raise ValueError("--check compares outputs but --no-o leaves them out; "
                         "give only one of them")  # fmt: skip
    packages_for(a.model)
    if a.check and not find("kvtrace"):
        raise ImportError("--check needs kvtrace, which is not on the path; "
                          "install kvreplay, or leave --check out")  # fmt: skip
    if a.rows is not None and not a.no_sums:  # fail before the first prompt
        from .sums import library

        library()
    from .run import record_all

    return record_all(a, prompts, say_as(NAME))


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    a = parser().parse_args(argv)
    return run(lambda: go(a), NAME)
