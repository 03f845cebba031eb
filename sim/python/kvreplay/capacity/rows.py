# SPDX-License-Identifier: Apache-2.0
"""The rows of `kvreplay capacity`, and how they are printed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Sequence

from .node import At, Node, take
from .model import Stored


class Row(NamedTuple):
    method: str
    budget: str  # "": nothing sets the knob
    traces: int  # number of measured rows; 0: lengths decide
    reads: int  # rows that measured reads, if lengths decide the bytes
    at: At | None  # by lengths, or of the median trace by bytes
    low: At | None  # of the traces at 10 % and 90 % by bytes
    high: At | None
    why: str  # why there are no numbers, else ""
    named: bool  # the method was named, not one of all


def row(node: Node, x: dict[str, Any]) -> Row:
    """A row from the output of `kvreplay lengths`."""
    found = [Stored(**y) for y in x.get("measured", ())]
    n, at, low, high, reads = len(found), None, None, None, 0
    if node.model.only_dense() and x["method"] == "dense":
        at = take(node, node.model.dense(node.context, node.output, node.tp))
    elif "lengths" in x:
        stored = Stored(**x["lengths"])
        if found:
            middle = found[(n - 1) // 2]
            stored = stored._replace(read=middle.read,
                                     attended=middle.attended)
        at, reads, n = take(node, stored), n, 0
    elif found:
        at, low, high = (take(node, found[i]) for i in (
            (n - 1) // 2, (n + 9) // 10 - 1, (9 * n + 9) // 10 - 1))
    why = "" if at else x["method"] * bool(node.model.only_dense()) + " " + (
        x["why"])  # fmt: skip
    return Row(x["method"], x["budget"], n, reads, at, low, high, why.strip(),
               bool(x["named"]))


# --- for people -----------------------------------------------------------


def number(x: float | None, form: str = "%.3f") -> str:
    return "-" if x is None else form % x


def span(at: At, low: At | None, high: At | None, name: str) -> str:
    """A count, with its range over traces, if any."""
    text = str(getattr(at, name))
    if not low or not high or getattr(low, name) == getattr(high, name):
        return text
    return f"{text} [{getattr(high, name)}, {getattr(low, name)}]"


def cells(r: Row, node: Node) -> list[str]:
    out = [r.method, r.budget or "-"]
    a = r.at
    if a is None:
        return out
    x, state = a.stored, node.model.state
    out += [number(1e-9 * x.bytes), number(1e-9 * x.peak)]
    out += [number(1e-9 * state)] * bool(state)
    out += [span(a, r.low, r.high, "users"),
            span(a, r.low, r.high, "codes_users"),
            number(None if x.read is None else 1e-9 * x.read),
            number(a.speed, "%.0f"), a.binds]
    return out + [f"{r.traces} traces" if r.traces else
                  f"lengths, reads of {r.reads} traces" if r.reads else
                  "lengths"]  # fmt: skip


def table(node: Node, rows: Sequence[Row]) -> str:
    m = node.model
    # One line at the end explains all unnamed methods without numbers.
    others = [r for r in rows if m.only_dense() and r.why and not r.named]
    rows = [r for r in rows if r not in others]
    head = ["method", "budget", "GB a user", "in prefill",
            *["GB state"] * bool(m.state), "users", "codes", "GB a step",
            "tokens/s", "binds", "from"]  # fmt: skip
    body = [cells(r, node) for r in rows]
    wide = [max(len(x[i]) for x in [head, *body] if i < len(x))
            for i in range(len(head))]  # fmt: skip
    text = (
        f"{m.name}, {node.context} + {node.output} tokens, on {node.gpus} x "
        f"{node.gpu.name} ({1e-9 * node.gpu.bytes:.1f} GB each), tp {node.tp}\n"
        f"weights {1e-9 * node.weights:.1f} GB; {node.percent} % of a device's "
        f"memory leaves {1e-9 * node.room():.2f} GB for caches\n\n")
    for x, why in zip([head, *body], ["", *(r.why for r in rows)]):
        left = [y.ljust(n) if i < 2 or i > len(head) - 3 else y.rjust(n)
                for i, (y, n) in enumerate(zip(x, wide))]  # fmt: skip
        text += ("  ".join([*left, why])).rstrip() + "\n"
    return text + f"\nEach other method {m.only_dense()}\n" * bool(others)


# --- for programs ---------------------------------------------------------

COLUMNS = (
    "model context output gpu gpus tp weights method budget traces bytes "
    "bytes_prefill codes users users_p10 users_p90 codes_users read decoding "
    "tokens_per_s binds page_tables state why").split()  # fmt: skip


def of_at(a: At) -> dict[str, Any]:
    x = a.stored
    return {"bytes": x.bytes, "bytes_prefill": x.peak, "codes": x.codes,
            "fullest_rank": x.fullest / x.of, "users": a.users,
            "codes_users": a.codes_users, "read": x.read,
            "decoding": a.decoding, "tokens_per_s": a.speed,
            "binds": a.binds}  # fmt: skip


def of_row(node: Node, r: Row, tables: int) -> dict[str, Any]:
    return {"model": node.model.name, "context": node.context,
            "output": node.output, "gpu": node.gpu.name, "gpus": node.gpus,
            "tp": node.tp, "weights": node.weights, "room": node.room(),
            "page_tables": tables, "state": node.model.state,
            "method": r.method, "budget": r.budget or None,
            "why": r.why or None, "traces": r.traces,
            "reads": r.reads}  # fmt: skip


def as_json(node: Node, rows: Sequence[Row], tables: int) -> str:
    lines = []
    for r in rows:
        out = of_row(node, r, tables)
        for key, a in ("at", r.at), ("p10", r.low), ("p90", r.high):
            if a:
                out[key] = of_at(a)
        lines.append(json.dumps(out, ensure_ascii=False))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def put(key: str, x: Any) -> str:
    """A CSV field; texts from users are quoted."""
    if key in ("model", "method", "budget") or key == "why" and x:
        return '"' + (x or "").replace('"', '""') + '"'
    return "" if x is None else "%.17g" % x if type(x) is float else str(x)


def as_csv(node: Node, rows: Sequence[Row], tables: int) -> str:
    text = ",".join(COLUMNS) + "\n"
    for r in rows:
        out = of_row(node, r, tables)
        if r.at:
            out |= of_at(r.at)
            out |= {"users_p10": (r.high or r.at).users,
                    "users_p90": (r.low or r.at).users}  # fmt: skip
        else:
            out["traces"] = None
        text += ",".join(put(x, out.get(x)) for x in COLUMNS) + "\n"
    return text
