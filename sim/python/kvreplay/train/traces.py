# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay train`, and its run. Checks arguments before it
reads traces; imports torch only for gradients."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import sys
import textwrap
import time
from typing import Any, Dict, List, Optional, Tuple

from . import __doc__ as DOC
from ..hf.options import Parser, Usage, say_as, whole
from ..hf.text import check_folder, missing, run
from .hf import share

NAME = "kvreplay train"
MANY = range(1, (1 << 20) + 1)

# By method: title, and parameters, each with allowed values (names, integers,
# or the ends of an interval), default and help.
Param = Tuple[Any, Any, str]
METHODS: Dict[str, Tuple[str, Dict[str, Param]]] = {
    "deltakv": ("compressors of differences from the mean of references", {
        "compressor": (["swiglu", "gelu"], "swiglu", "swiglu, the light one, or"
                       " gelu, two layers each way"),
        "references": (["nearest", "none"], "nearest", "none: z encodes only "
                       "the token, for deltakv:references=none"),
        "latent": (range(1, 65537), None, "width of z; default a quarter of K "
                   "and V, as in the paper; 3/8 without references"),
        "hidden": (range(1, 131073), None, "units of f_c; default 1.5 times the"
                   " width of K and V for swiglu, 2 times for gelu"),
        "back": (range(1, 131073), None, "units of f_d, only gelu; default "
                 "those of f_c"),
        "stride": (MANY, None, "one reference every N tokens; default 10"),
        "k": (range(1, 65), None, "references per token; default 4"),
        "sinks": (range(1, 65537), 8, "first tokens, which are never coded"),
    }),
    "duoattention": ("gates of KV heads, by what a stream loses of answers", {
        "sink": (range(1 << 30), 64, "first tokens of a stream"),
        "recent": (range(1, 1 << 30), 256, "last tokens of a stream"),
        "penalty": ((0, 1000), 0.05, "weight of the mean gate"),
    }),
    "headkv": ("scores of query heads, from how well they find answers", {}),
    "less": ("perceptrons whose state replaces dropped tokens", {
        "rank": (range(1, 1025), 8, "width of phi and psi"),
        "hidden": (range(1, 65537), 512, "hidden units"),
        "budget": (range(2, 1 << 20), 32, "tokens to keep, half of them "
                   "recent"),
        "context": (range(4, 1 << 20), 512, "first tokens of a piece that are "
                    "used"),
    }),
    "palu": ("principal directions of groups of KV heads", {
        "heads": (range(1, 4097), None, "KV heads per group; default 4, or "
                  "all if there are fewer"),
        "turn": (range(1, 1025), 1, "directions mixed by a Hadamard matrix, "
                 "for latents of 4 bits: a power of two"),
        "share": ((0, 1), 0.5, "share of the directions, for printed losses"),
    }),
}  # fmt: skip


def value(word: str, text: str, may: Any) -> Any:
    """Parses a parameter's value."""
    if isinstance(may, list):
        if text not in may:
            raise Usage(f"{word} must be one of {'|'.join(may)}, not '{text}'")
        return text
    try:
        x = int(text) if isinstance(may, range) else float(text)
    except ValueError:
        raise Usage(f"{word} must be a number, not '{text}'") from None
    low, high = may[0], may[-1]
    if not low <= x <= high:
        raise Usage(f"{word} must be from {low} to {high}, not {text}")
    return x


def read_method(text: str) -> Tuple[str, argparse.Namespace]:
    """Parses NAME:key=value:.. into the name and its options."""
    name, *pairs = text.split(":")
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        raise Usage(f"no method that is trained {name}; " + (
            f"did you mean {near[0]}?" if near else f"{NAME} --help has all"))
    may = METHODS[name][1]
    own = argparse.Namespace(**{x: y[1] for x, y in may.items()})
    for pair in pairs:
        word, equals, of = pair.partition("=")
        if not equals:
            raise Usage(f"{name}: {pair} is not key=value")
        if word not in may:
            raise Usage(f"training {name} has no parameter {word}; {NAME} "
                        "--help has all")
        setattr(own, word, value(word, of, may[word][0]))
    return name, own


def parser() -> argparse.ArgumentParser:
    own = [line for name, (title, params) in METHODS.items() for line in (
        f"  {name}: {title}", *(
            textwrap.fill(f"{x:10}  {y[2]}" + (
                "" if y[1] is None else f" (default {y[1]})"), 80,
                initial_indent=" " * 4, subsequent_indent=" " * 16)
            for x, y in params.items()))]  # fmt: skip
    p = Parser(prog=NAME, description=DOC, allow_abbrev=False,
               formatter_class=argparse.RawDescriptionHelpFormatter,
               epilog="\n".join(["methods and their parameters:", *own])
               )  # fmt: skip
    add = p.add_argument
    add("words", nargs="+", metavar="METHOD TRACE...",
        help="NAME:key=value:.., then traces of one model")  # fmt: skip
    add("-o", "--output", dest="out", required=True, metavar="FILE",
        help="the file to write, NAME.safetensors (required)")  # fmt: skip
    add("--hold-out", action="append", default=[], metavar="TRACE",
        help="a trace that is not trained on; its loss is printed at the end; "
        "may be repeated")  # fmt: skip
    add("-n", "--steps", type=whole(1), metavar="N", help="steps of one piece "
        "each (default: 12 passes over all pieces for deltakv, 40 for less)"
        )  # fmt: skip
    add("-t", "--tokens", type=whole(2), default=512, metavar="N",
        help="cut traces into pieces of N tokens (default: 512)")  # fmt: skip
    add("-r", "--rate", type=share, metavar="X", help="learning rate (default: "
        "as in the method's paper)")  # fmt: skip
    add("-s", "--seed", type=whole(0), default=0, metavar="N",
        help="seed of the first weights and the order of pieces (default: 0)"
        )  # fmt: skip
    add("--dtype", choices=["auto", "f16", "bf16", "f32"], default="auto",
        help="number type of the file; auto, the default: f16 for weights, "
        "f32 for tables of heads")  # fmt: skip
    add("--keep", type=whole(0), default=30, metavar="SECONDS",
        help="interval between checkpoints in FILE.training (default: 30; 0: "
        "after each step)")  # fmt: skip
    add("-j", "--jobs", type=whole(1), metavar="N", help="threads (default: "
        "one per processor)")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress bar")
    return p


def check(a: argparse.Namespace) -> None:
    if not a.words:
        raise Usage(f"no trace to train on; write {NAME} {a.method} TRACE... "
                    "-o FILE")
    if not a.out.endswith(".safetensors") or len(a.out) == 12:
        raise Usage(f"the output must be called NAME.safetensors, not {a.out}")
    seen: Dict[str, str] = {}
    for of, paths in ("trained on", a.words), ("held out", a.hold_out):
        for path in paths:
            real = os.path.realpath(path)
            if real in seen:
                raise Usage(f"{path} is both {seen[real]} and {of}; name it "
                            "once")
            seen[real] = of
    check_folder(a.out)


# --- a run --------------------------------------------------------------------


def by_gradients(a: argparse.Namespace, data: Any, of: Any) -> Tuple[int, str]:
    """Takes all steps. Returns how many were done before, and the loss."""
    from .steps import Run

    asked = (a.method, sorted(vars(a.own).items()), a.tokens, a.rate, a.seed,
             [x.identity for x in data.traces])  # fmt: skip
    told = hashlib.sha256(repr(asked).encode()).hexdigest()
    x = Run(a, say_as(NAME), of, data.pieces, told)
    losses = list(x.steps().values())
    return x.resumed, f", loss {losses[0]:.5g}" if losses else ""


def by_means(a: argparse.Namespace, data: Any, of: Any) -> Tuple[int, str]:
    from .data import order

    todo = order(len(data.pieces), a.seed, 0)
    for _ in range(a.steps):
        of.learn(data.pieces[next(todo)])
    of.finish()
    return 0, ""


def judge(of: Any, piece: Any) -> Tuple[float, float, float]:
    """The loss, its weight and the untrained loss, summed over a piece."""
    if not hasattr(of, "losses"):
        x: Tuple[float, float, float] = of.judge(piece)
        return x
    import torch

    with torch.no_grad():
        losses = of.losses(piece, lambda loss: None)
    n = of.weight(piece) * len(of.data.common(piece.trace)) if losses else 0
    loss, without = (y * n for y in losses.values()) if n else (0, 0)
    return loss, n, without


def held_out(data: Any, of: Any) -> None:
    """Prints a line for each held-out trace, and one for all."""
    if data.held:
        print(f"{'held out':24}  {'tokens':>7}  {'loss':>10}  {'without':>10}")
    lines = []
    for t in data.held:
        found = [judge(of, x) for x in data.cut(t)]
        name = os.path.basename(t.path).partition(".safetensors")[0]
        lines.append((name, t.n_tokens, *map(sum, zip(*found))))
    if len(lines) > 1:
        lines.append(("all", *map(sum, zip(*(x[1:] for x in lines)))))
    for name, tokens, loss, n, without in lines:
        x, y = (f"{z / n:.5g}" if n else "-" for z in (loss, without))
        print(f"{name:24}  {tokens:7}  {x:>10}  {y:>10}", flush=True)


def write(a: argparse.Namespace, data: Any, of: Any) -> None:
    from ..container import save
    from .data import packed

    meta: Dict[str, object] = dict(
        format=of.format,
        trained=f"{len(data.traces)} traces, {data.tokens} tokens, {a.steps} "
        f"steps, rate {a.rate:g}, seed {a.seed}",
        trained_length=a.tokens, **of.tell())  # fmt: skip
    for key in "model", "model_digest":
        said = [t.metadata[key] for t in data.traces if key in t.metadata]
        meta.update({key: x for x in said[:1]})
    dtype = of.dtype if a.dtype == "auto" else a.dtype.upper()
    tensors = {x: y.detach().numpy() if hasattr(y, "detach") else y
               for x, y in of.tensors().items()}  # fmt: skip
    save(a.out, {x: str(y) for x, y in meta.items()},
         {x: packed(x, dtype, y) for x, y in tensors.items()})
    if os.path.lexists(a.out + ".training"):
        os.unlink(a.out + ".training")


def train(a: argparse.Namespace) -> int:
    """Trains and writes the file; returns the exit code."""
    a.method, a.own = read_method(a.words.pop(0))
    check(a)
    gradients = a.method in ("deltakv", "less")
    missing("numpy", *(["torch"] if gradients else []))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from .data import Data

    if gradients:
        import torch

        from . import recorded

        kind: Any = dict(deltakv=recorded.DeltaKV, less=recorded.LESS)[a.method]
        torch.manual_seed(a.seed)
        if a.jobs:
            torch.set_num_threads(a.jobs)
        by = f"torch {torch.__version__}, threads {torch.get_num_threads()}"
    else:
        import numpy

        from . import means

        kind = dict(duoattention=means.DuoAttention, headkv=means.HeadKV,
                    palu=means.Palu)[a.method]  # fmt: skip
        by = f"numpy {numpy.__version__}"
    data = Data(a.method, a.words, a.hold_out, a.tokens, kind.turning,
                kind.answers)  # fmt: skip
    a.own.steps = a.steps = a.steps or kind.passes * len(data.pieces)
    a.rate = a.rate or kind.rate
    of = kind(data, a.own)
    began = time.monotonic()
    go = by_gradients if gradients else by_means
    resumed, loss = go(a, data, of)
    print(f"{a.method}: {len(data.traces)} traces, {data.tokens} tokens, "
          f"{a.steps} steps; {time.monotonic() - began:.1f} s for "
          f"{a.steps - resumed} of them, {by}{loss}", flush=True)
    held_out(data, of)
    write(a, data, of)
    return 0


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    return run(lambda: train(parser().parse_intermixed_args(argv)), NAME)


if __name__ == "__main__":
    sys.exit(main())
