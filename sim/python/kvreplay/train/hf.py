# SPDX-License-Identifier: Apache-2.0
"""Trains a method's weights or tables, with a Hugging Face model in the loop.

    kvreplay train-hf deltakv MODEL --prompts FILE... -o NAME.safetensors
    kvreplay run T.safetensors -m deltakv:compressor=NAME.safetensors

METHOD is one of

    deltakv       DeltaKV's compressors, by its Algorithm 1: the model continues
                  with K and V rebuilt from their latents. The loss is the
                  squared error of K and V and the loss of the next token
    less          LESS's perceptrons. The loss is the squared error of each
                  layer's attention after its output projection, optionally with
                  the loss of the next token
    duoattention  a gate for each KV head. The loss is the error of the last
                  hidden state of answers, if each head mixes full attention and
                  a stream

MODEL is a folder, a name on the hub, or a .gguf file; it is not changed. A FILE
has prompts as for `kvreplay record` (.jsonl, or .txt, which is one prompt), or
is a trace, whose tokens and answers are read. The result is a file like that of
`kvreplay train`; --from starts with such a file.

During training NAME.safetensors.training has the state. Repeat a killed command
to continue it; it ends with the same numbers as one that was not killed, on the
same machine with as many threads.

Exit codes: 0 done, 2 wrong usage, 3 a bad model, file or prompt, 4 no memory,
disk or package, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from ..hf.options import add_model, option, say_as, whole
from ..hf.text import check_folder, packages_for, run
from ..record.rows import read_layers

NAME = "kvreplay train-hf"


def share(text: str) -> float:
    """A number above 0, up to 1."""
    x = float(text)
    if not 0 < x <= 1:
        raise ValueError
    return x


share.__name__ = "number above 0 and up to 1"


def weight(text: str) -> float:
    """A number from 0 to 1000."""
    x = float(text)
    if not 0 <= x <= 1000:
        raise ValueError
    return x


weight.__name__ = "number from 0 to 1000"

# A method's options: name, parser or choices, default (None: the help states
# it), help.
Own = Tuple[str, Any, Any, str]
CUT: Own = ("tokens", whole(2), 512, "tokens of a piece; cuts longer "
            "prompts")  # fmt: skip
BEGIN: Own = ("from", str, None, "start with this file of train-hf or train "
              "(default: random weights)")  # fmt: skip
OWN: Dict[str, List[Own]] = {
    "deltakv": [
        CUT, BEGIN,
        ("loss", ["both", "mse", "ntp"], "both", "squared error, loss of the "
         "next token, or both with equal weight"),
        ("refs", ["raw", "recon"], "raw", "references as the model computes "
         "them, which the method stores, or rebuilt ones, as in Algorithm 1"),
        ("hidden", whole(1), None, "units of f_c; default 1.5 times the width "
         "of K and V, as in the paper"),
        ("latent", whole(1), None, "width of z; default a quarter of K and V, "
         "as in the paper"),
        ("stride", whole(1), 10, "one reference every N tokens"),
        ("k", whole(1), 4, "references per token"),
        ("sinks", whole(1), 8, "first tokens, which are never coded"),
    ],
    "less": [
        CUT, BEGIN,
        ("loss", ["mse", "both"], "mse", "squared error of each layer "
         "alone, as in the paper; both: the model continues with the "
         "approximation, and the loss of its next token is added"),
        ("hidden", whole(1), None, "hidden units; default 512, as in the "
         "paper"),
        ("rank", whole(1), None, "width of phi and psi; default 8, as in the "
         "paper"),
        ("budget", whole(2), 32, "tokens to keep, half of them recent"),
    ],
    "duoattention": [
        ("sink", whole(0), 64, "first tokens of a stream"),
        ("recent", whole(1), 256, "last tokens of a stream"),
        ("penalty", weight, 0.05, "weight of the mean gate"),
    ],
}  # fmt: skip
# Default steps and learning rate; the rates are those of the papers.
PACE = {"deltakv": (2000, 2e-4), "less": (1000, 1e-3),
        "duoattention": (400, 0.02)}  # fmt: skip


def own_options(p: argparse.ArgumentParser, own: List[Own]) -> None:
    for word, read, default, said in own:
        choice: Dict[str, Any] = (
            dict(choices=read) if isinstance(read, list) else dict(type=read)
        )
        if default is not None:
            said += f" (default: {default})"
        p.add_argument("--" + word, dest="begin" if word == "from" else word,
                       default=default, help=said, **choice)  # fmt: skip


def add_options(p: argparse.ArgumentParser, method: str) -> None:
    add, (steps, rate) = p.add_argument, PACE[method]
    add("model", metavar="MODEL", help="folder, hub name or .gguf file")
    add("--prompts", required=True, nargs="+", metavar="FILE",
        help=".jsonl, .txt or traces (.safetensors)")  # fmt: skip
    add("-o", "--out", required=True, metavar="NAME.safetensors",
        help="the file to write (required)")  # fmt: skip
    add("--hold-out", nargs="+", default=[], metavar="FILE",
        help="prompts that are not trained on; their losses are printed at the "
        "end")  # fmt: skip
    add("--layers", type=option(read_layers), default=None, metavar="LIST",
        help="layers to train and write, such as 0,3,8-11; the others are not "
        "changed (default: all possible)")  # fmt: skip
    add("-n", "--steps", type=whole(1), default=steps, metavar="N",
        help=f"steps of one piece each (default: {steps})")  # fmt: skip
    add("-r", "--rate", type=share, default=rate, metavar="X",
        help=f"learning rate (default: {rate})")  # fmt: skip
    add("-s", "--seed", type=whole(0), default=0, metavar="N",
        help="seed of the first weights and the order of pieces (default: 0)"
        )  # fmt: skip
    own_options(p, OWN[method])
    add("--keep", type=whole(0), default=30, metavar="SECONDS",
        help="interval between checkpoints in NAME.safetensors.training "
        "(default: 30; 0: after each step)")  # fmt: skip
    add_model(p, "number type of the model; the file fits traces of any type",
              " in the file")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(prog=NAME, description=__doc__,
                                allow_abbrev=False, formatter_class=raw
                                )  # fmt: skip
    each = p.add_subparsers(dest="method", metavar="METHOD", required=True,
                            title="methods, each with --help")  # fmt: skip
    for method in OWN:
        add_options(each.add_parser(method, allow_abbrev=False), method)
    return p


def check(a: argparse.Namespace) -> None:
    if not a.out.endswith(".safetensors") or not a.out[:-12].strip("./"):
        raise ValueError(f"-o must be called NAME.safetensors, not {a.out}")
    check_folder(a.out)
    for path in a.prompts + a.hold_out:
        if not os.path.isfile(path):
            raise ValueError(f"{path}: no such file of prompts")
    if a.method == "less" and a.tokens <= a.budget:
        raise ValueError(
            f"--tokens {a.tokens} leaves nothing to drop with --budget "
            f"{a.budget}; give longer pieces"
        )


def go(a: argparse.Namespace) -> int:
    check(a)
    packages_for(a.model)
    from .loop import train

    return train(a, say_as(NAME))


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    a = parser().parse_args(argv)
    return run(lambda: go(a), NAME)


if __name__ == "__main__":
    sys.exit(main())
