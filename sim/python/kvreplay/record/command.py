# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay record`. Options and prompts are checked with
Python alone, before torch is imported and a model is loaded."""

from __future__ import annotations

import argparse
import os
from typing import List, Optional

from . import __doc__ as DOC
from ..hf.options import add_model, option, say_as, whole
from ..hf.text import packages_for, run
from ..programs import find
from .prompts import read_prompts
from .rows import read_layers, read_rows

NAME = "kvreplay record"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog=NAME, description=DOC, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = p.add_argument
    add("model", metavar="MODEL")
    add("--prompts", required=True, metavar="FILE", help="JSON lines")
    add("-o", "--out", required=True, metavar="DIR", help="made where missing")
    add("--max-new", type=whole(0), default=64, metavar="N",
        help="tokens that the model adds at most (default: 64)")  # fmt: skip
    add("--layers", type=option(read_layers), default=None, metavar="LIST",
        help="such as 0,3,8-11 (default: all that can be)")  # fmt: skip
    add("--rows", type=option(read_rows), default=None, metavar="ROWS",
        help="query rows: last=256,decode leaves out those of earlier tokens, "
        "and has column sums of all of the prompt instead, which h2o and its "
        "like decide on as on the rows; a method that needs more is refused "
        "(default: all)")  # fmt: skip
    add("--no-sums", action="store_true", help="no column sums with --rows")
    add("--no-o", action="store_true", help="no outputs: `kvtrace check` has "
        "nothing to compare then")  # fmt: skip
    add("--expanded", action="store_true", help="multi-head latent attention "
        "(DeepSeek) as transformers computes it, with a key and a value for "
        "each query head (default: as engines hold it, one latent vector a "
        "token, V a part of K)")  # fmt: skip
    add("--together", type=whole(1), default=1, metavar="N",
        help="prompts of equal length in one forward; memory is for N of a "
        "layer (default: 1)")  # fmt: skip
    add("--check", action="store_true", help="compute each trace's outputs "
        "again, by kvtrace check, and print the largest difference"
        )  # fmt: skip
    add("--repeat", action="store_true", help="the pass of KVzip, too: DIR/"
        "scores/ID.safetensors, for methods with score=file:scores=FILE"
        )  # fmt: skip
    add_model(p, "the model computes, and the trace is, in it",
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
    if a.rows is not None and not a.no_sums:  # before the first prompt
        from .sums import library

        library()
    from .run import record_all

    return record_all(a, prompts, say_as(NAME))


def main(argv: Optional[List[str]] = None) -> int:
    """The command; argv: its words, None: of the command line. Returns the exit
    code."""
    a = parser().parse_args(argv)
    return run(lambda: go(a), NAME)
