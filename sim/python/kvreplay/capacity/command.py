# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay capacity`. Needs Python and the program."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import tempfile
from typing import Any, List, Optional

from . import __doc__ as DOC
from . import config, rows
from ..evaluate.asks import kvreplay
from ..hf.options import Parser, Usage, up_to
from ..hf.text import run
from .model import Model, of_table, shape
from .node import Gpu, Node, gpus, part

NAME = "kvreplay capacity"
HALVES = {"bf16": 4, "fp16": 4, "fp32": 8, "fp8": 2, "int8": 2, "int4": 1}


def parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    p = Parser(prog=NAME, description=DOC, formatter_class=form)
    add = p.add_argument_group("model and requests").add_argument
    add("-M", "--model", required=True, help="a model listed by `kvtrace plan "
        "--help`, a config.json or its folder (required)")  # fmt: skip
    add("-c", "--context", type=up_to(1 << 22), required=True, metavar="N",
        help="tokens of each user's prompt (required)")  # fmt: skip
    add("-o", "--output", type=up_to(1 << 20), default=1024, metavar="N",
        help="tokens decoded after it (default 1024)")  # fmt: skip
    add("--cache", metavar="TYPE", type=str.upper, default="MODEL",
        choices=["MODEL", "F16", "BF16", "F32"], help="type of K and V before "
        "compression: model (the default), F16, BF16 or F32")  # fmt: skip
    add = p.add_argument_group("methods").add_argument
    add("-m", "--methods", metavar="SPEC,...", required=True, action="append",
        help="methods, written as for `kvreplay run`")  # fmt: skip
    add("-b", "--budget", metavar="LIST", action="append", default=[],
        help="budgets for every method that has one: 512, 20%% of the prompt, "
        "ratio:0.8, or bytes (mean:20%%), which need a search")  # fmt: skip
    add = p.add_argument_group("node").add_argument
    add("-g", "--gpu", required=True, metavar="NAME", help="the device "
        f"(required): {', '.join(gpus())}")  # fmt: skip
    add("--gpus", type=up_to(4096), default=1, metavar="N",
        help="devices of the node (default 1)")  # fmt: skip
    add("--tp", type=up_to(4096), metavar="N", help="devices that share the "
        "model's heads (tensor parallelism; default: as many as possible); "
        "each such group serves its own users")  # fmt: skip
    add("-w", "--weights", default="bf16", metavar="TYPE", help="type of the "
        f"model's weights: {', '.join(HALVES)} (default bf16), or their bytes "
        "(141.1e9)")  # fmt: skip
    add("--percent", type=up_to(100), default=90, metavar="N", help="percent "
        "of each device's memory for weights and caches (default 90, like "
        "vLLM's gpu_memory_utilization)")  # fmt: skip
    add("--users", type=up_to(1 << 24), default=0, metavar="N",
        help="tokens/s while N users decode (default: as many as fit)")
    add("-d", "--db", metavar="FILE", help="rows of `kvreplay run`, for "
        "methods whose bytes depend on traces: the median of the traces and, "
        "in brackets, the 10th and 90th percentile")  # fmt: skip
    add = p.add_argument_group("what to print").add_argument
    add("-f", "--format", choices=["table", "csv", "json"], default="table",
        help="table (the default), csv or json; the last two have exact bytes, "
        "and bytes of a user's page tables, as in LeanKV")  # fmt: skip
    add("-j", "--jobs", type=up_to(4096), metavar="N", help="threads (default: "
        "one per processor), which never change a number")  # fmt: skip
    return p


def lengths(*words: str) -> dict[str, Any]:
    """The output of `kvreplay lengths`. A failure keeps its message."""
    done = kvreplay("lengths", *words)
    try:
        out: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        e = Usage(done.stderr.strip().removeprefix("kvreplay: "))
        e.code = done.returncode if done.returncode > 0 else 130
        raise e from None
    sys.stderr.write(done.stderr)
    return out


def device(name: str) -> Gpu:
    known = gpus()
    if name not in known:
        near = [x for x in known if name and x.startswith(name)]
        near = near or difflib.get_close_matches(name, known, 1)
        raise Usage(f"no GPU {name}; " + (
            f"did you mean {near[0]}?" if near else
            f"`{NAME} --help` names those that are known"))  # fmt: skip
    return known[name]


def weights_of(text: str, m: Model) -> int:
    """The bytes of all weights."""
    if text in HALVES:
        if m.weights.all == 0:
            raise Usage(f"the number of weights of {m.name} is unknown; give "
                        "their bytes, --weights 141.1e9")
        return part(m.weights.all, HALVES[text], 2)
    try:
        n = float(text)
        if not 0 <= n < 2.0**62:
            raise ValueError
    except ValueError:
        raise Usage(f"--weights must be {', '.join(HALVES)} or a number of "
                    f"bytes (141.1e9), not {text}") from None
    return int(n)


def node_of(a: argparse.Namespace, m: Model) -> Node:
    heads = m.ranks()
    usual = max(x for x in range(1, a.gpus + 1)
                if not a.gpus % x and not any(h % x for h in heads))
    tp = a.tp or usual
    node = Node(device(a.gpu), a.gpus, tp, a.percent, weights_of(a.weights, m),
                a.users, m, a.context, a.output)
    if a.gpus % tp:
        raise Usage(f"--gpus {a.gpus} must be a multiple of --tp {tp}, because "
                    f"groups of {tp} devices share the model")
    wrong = [h for h in heads if h % tp]
    if wrong:
        raise Usage(f"--tp {tp} must divide the {wrong[0]} KV heads of "
                    f"{m.name}, because each rank holds as many")
    if node.room() <= 0:
        raise Usage(
            f"the weights of {m.name}, {1e-09 * node.weights:.1f} GB over --tp "
            f"{tp}, leave nothing of {a.percent} % of the "
            f"{1e-09 * node.gpu.bytes:.1f} GB of {node.gpu.name}; use more "
            "devices, a larger --tp or smaller --weights")
    return node


def go(a: argparse.Namespace) -> int:
    own = a.model
    if os.path.isdir(own):
        own = os.path.join(own, "config.json")
    if os.path.exists(own):
        m = config.read(own, a.model)
    else:
        m = of_table(a.model, lengths("-M", a.model)["model"])
    if a.cache != "MODEL":
        m = m._replace(type=a.cache)
    node = node_of(a, m)
    words = [f"--context={a.context}", f"--output={a.output}",
             f"--tp={node.tp}"]  # fmt: skip
    words += [f"--methods={x}" for x in a.methods]
    words += [f"--budget={x}" for x in a.budget]
    words += [f"--{x}={getattr(a, x)}" for x in ("db", "jobs")
              if getattr(a, x) is not None]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kvreplay-") as made:
        path = os.path.join(made, os.path.basename(os.path.abspath(m.name)))
        with open(path, "w", encoding="utf-8") as f:
            json.dump(shape(m), f)
        found = lengths("-M", path, *words)
    said = [rows.row(node, x) for x in found["rows"]]
    tables = 0 if m.only_dense() else found["page_tables"]
    if a.format == "table":
        print(rows.table(node, said), end="")
    else:
        to = rows.as_json if a.format == "json" else rows.as_csv
        print(to(node, said, tables), end="")
    if all(r.why for r in said):
        return 2
    return 3 if any(r.why and r.named for r in said) else 0


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    return run(lambda: go(parser().parse_args(argv)), NAME)
