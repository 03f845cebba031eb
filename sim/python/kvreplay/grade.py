# SPDX-License-Identifier: Apache-2.0
"""Grades a kernel's decisions and outputs against the reference: equal, tied or
wrong. Runs `kvreplay grade`. Needs only Python; numpy if outputs are arrays.

    write_decisions("mine.safetensors", t, "mine", lists, kind="view",
                    head="query")                   # of kvreplay.decisions
    r = grade("chat.safetensors", "quest:page=16", 1024, "mine.safetensors",
              outputs={l: o[l] for l in t.layers}, tie=8e-3)
    assert r["passed"], wrong(r)    # a test of the kernel
    r["equal"], r["ties"], r["wrong"], r["least_tie"], r["layers"]

sim/run/README.md defines the grades and how to choose `tie`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from .programs import program

if TYPE_CHECKING:
    import numpy as np

Path = Union[str, "os.PathLike[str]"]
Arrays = Mapping[int, "np.ndarray[Any, Any]"]
_NONE = {"NaN": float("nan"), "Infinity": float("inf"),
         "-Infinity": -float("inf")}  # JSON has no such numbers


def _numbers(found: dict[str, Any]) -> dict[str, Any]:
    if "passed" in found:  # the outermost object: its strings are names
        return found
    return {x: _NONE.get(y, y) if isinstance(y, str) else y
            for x, y in found.items()}


def write_outputs(path: Path, outputs: Arrays,
                  lse: Optional[Arrays] = None) -> None:
    """Writes a kernel's outputs: {recorded layer: [n_heads, decode steps,
    value_dim]}, float32, float16 or bfloat16 (as uint16). lse: the log-sum-exp
    of its logits, {layer: [n_heads, decode steps]}."""
    from .container import FLOATS, save, tensor
    from .need import need

    tensors = {}
    for part, given, n in ("o", outputs, 3), ("lse", lse or {}, 2):
        for l, x in given.items():
            at = f"layers.{l}.{part}"
            need(getattr(x, "ndim", 0) == n and x.dtype.name in FLOATS, path,
                 at, " is no array of ", n, " dimensions, float32, float16 or "
                 "uint16 (bfloat16)")
            tensors[at] = tensor(FLOATS[x.dtype.name], x)
    save(os.fspath(path), {"format": "kvoutputs"}, tensors)


def grade(trace: Path, method: str, budget: Union[str, int, None],
          theirs: Path, outputs: Union[Path, Arrays, None] = None, *,
          kvreplay: Optional[Path] = None, **options: Any) -> dict[str, Any]:
    """Grades the file `theirs` (from write_decisions) against the method on the
    trace. outputs: a file, or arrays as for write_outputs. method, budget: as
    after -m and -b; None for a method without a budget. options: those of
    `kvreplay grade --help`: `tie`, `atol`, `rtol`, `lse_base`, `follow`,
    `prompt_len`, `observe`, `db`, and all=True. kvreplay: the program, if not
    the package's or the one on the PATH.

    Returns the report of --format json: passed; equal, ties and wrong, counts
    of decisions; least_tie, None if no tie suffices; layers, with the same and
    first_wrong; outputs. ValueError: it cannot be graded. RuntimeError: no
    memory or the like. FileNotFoundError: no program."""
    if isinstance(outputs, Mapping):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "outputs.safetensors")
            write_outputs(path, outputs)
            return grade(trace, method, budget, theirs, path,
                         kvreplay=kvreplay, **options)
    words = [os.fspath(kvreplay or program("kvreplay")), "grade", "-q", "-f",
             "json", f"--methods={method}", f"--theirs={os.fspath(theirs)}"]
    words += [] if budget is None else [f"--budget={budget}"]
    words += [] if outputs is None else [f"--outputs={os.fspath(outputs)}"]
    for name, x in options.items():
        name = "--" + name.replace("_", "-")
        if x not in (None, False):
            words += [name] if x is True else [f"{name}={x}"]
    try:
        done = subprocess.run([*words, "--", os.fspath(trace)], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no program {words[0]}; install kvreplay's wheel, or put "
            "kvreplay's folder on the PATH") from None
    if done.returncode > 1:
        said = done.stderr.strip().split("\n")[-1] or (
            f"kvreplay grade ended with code {done.returncode}")
        raise (ValueError if done.returncode in (2, 3) else RuntimeError)(
            said.replace("kvreplay: ", "", 1))
    report: dict[str, Any] = json.loads(done.stdout, object_hook=_numbers)
    return report


def wrong(report: Mapping[str, Any]) -> list[str]:
    """One sentence for each layer's first wrong decision, and one for its wrong
    output rows. Empty if everything is equal or tied."""
    said = []
    for x in report["layers"]:
        if x["first_wrong"]:
            said.append(x["first_wrong"]["sentence"])
        o = x["outputs"]
        if o and o["wrong"]:
            at = o["first_wrong"]
            said.append(
                f"layer {x['layer']}: {o['wrong']} of {o['rows']} rows of "
                f"outputs are wrong, first that of step {at['step']}, head "
                f"{at['head']}: {at['theirs']} for {at['ours']}")
    return said
