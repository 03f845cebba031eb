# SPDX-License-Identifier: Apache-2.0
"""Measures how sparse the attention of a prompt is, in blocks of tokens.

    kvtrace prefill -b 16 traces/tiny/haystack_8.safetensors
        # heads whose prompt could be read sparsely, and by which pattern
    kvtrace prefill -f csv --map 2 chat.safetensors
        # what the heads of layer 2 attend to: sinks, near tokens, documents

A pair is a block of queries and a block of keys that one of them sees. Its mass
is the sum of its probabilities. The fewest pairs with 95 % of a head's mass are
the largest ones, which nobody knows beforehand. A pattern chooses as many pairs
by its own rule; prefill prints the share of the mass that they have.

vertical-slash: columns and diagonals by the attention of the prompt's last
block of rows, as in FlexPrefill (Lai et al. 2025), after MInference (Jiang et
al. 2024). A-shape: the first column, the main diagonal, and those next to it.
block top-k: for each query block as many key blocks, by the product of mean
query and mean key, as in MInference's block-sparse pattern.

All query rows of the prompt must be recorded. A map has means over a query
block's rows. So a line of it adds up to 1, or less with learned sinks.

Exit codes: 0 done; 2 wrong usage; 3 a bad trace; 4 no memory or package.
"""

# A probability counts as RN(P * 2^40), an integer, so that the order of
# summation changes no figure. A pattern gives each pair the number of the first
# line (column, diagonal, rank) that takes it. Within a line, later query blocks
# come first; this decides if a line is cut short.

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional

from .hf.options import Parser, Usage, up_to
from .hf.text import missing, run
from .need import need

if TYPE_CHECKING:
    from .container import Array
    from .trace import Trace

NAME = "kvtrace prefill"
UNIT = 2.0**40
PATTERNS = dict(vertical_slash="vertical-slash", a_shape="A-shape",
                block_topk="block top-k")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = Parser(prog=NAME, description=__doc__,
               formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trace", metavar="TRACE")
    add = p.add_argument_group("what to measure").add_argument
    add("-b", "--block", type=up_to(1 << 20), default=64, metavar="N",
        help="tokens per block (default 64)")  # fmt: skip
    add("-s", "--share", type=up_to(100), default=95, metavar="PERCENT",
        help="percent of a head's mass that the pairs must hold (default 95)")
    add("-m", "--map", type=up_to(1 << 20, 0), metavar="LAYER", help="instead "
        "print the attention map of a layer, one row per head and pair of "
        "blocks (csv or json)")  # fmt: skip
    add = p.add_argument_group("what to print").add_argument
    add("-f", "--format", choices=["table", "json", "csv"], default="table",
        help="table (the default), json or csv")  # fmt: skip
    return p


# --- one query head ---------------------------------------------------------


class Head(NamedTuple):
    """One head's attention over the prompt, in blocks."""

    mass: Array  # [query blocks, key blocks] int64
    seen: Array  # [query blocks, key blocks] bool: does some row see the pair?
    column: Array  # [tokens] int64: mass of the last block of rows, by key
    distance: Array  # [tokens] the same, by row minus key
    pooled: Array  # [query blocks, key blocks] mean queries times mean keys


def head_of(t: Trace, layer: int, h: int, block: int) -> Head:
    """Computes the prompt's logits; memory: one block of rows."""
    import numpy as np

    n, window, cap = t.prompt_len, t.windows[layer], t.softcap
    q = t.q(layer)[h, :n].astype(float)
    k = t.k(layer)[h // (t.n_heads // t.n_kv_heads), :n].astype(float)
    sinks = t.sinks(layer)
    sink = -np.inf if sinks is None else float(sinks[h])
    starts, token = np.arange(0, n, block), np.arange(n)
    mass = np.zeros((len(starts), len(starts)), np.int64)
    seen = np.zeros(mass.shape, bool)
    last = max(0, n - block)

    def fixed(rows: Array) -> tuple[Array, Array]:
        """RN(P * 2^40) of these rows, and which tokens each row sees."""
        s = q[rows] @ k.T * t.scale
        s = cap * np.tanh(s / cap) if cap else s
        away = rows[:, None] - token
        near = (away >= 0) & ((away < window) | (not window))
        s = np.where(near, s, -np.inf)
        top = np.maximum(s.max(1, keepdims=True), sink)
        e = np.exp(s - top)
        p = e / (e.sum(1, keepdims=True) + np.exp(sink - top))
        return np.rint(p * UNIT).astype(np.int64), near

    for i, first in enumerate(starts):
        p, near = fixed(token[first : first + block])
        mass[i] = np.add.reduceat(p.sum(0), starts)
        seen[i] = np.logical_or.reduceat(near.any(0), starts)
    p, near = fixed(token[last:])
    distance = np.zeros(n, np.int64)
    away = token[last:, None] - token
    np.add.at(distance, away[near], p[near])
    sizes = np.diff(starts, append=n)[:, None]
    means = [np.add.reduceat(x, starts) / sizes for x in (q, k)]
    return Head(mass, seen, p.sum(0), distance, means[0] @ means[1].T)


def entering(sums: Array, block: int) -> List[tuple[int, int]]:
    """The lines of one kind in order, the first block first: (the mass at which
    it enters, its number). Line r enters when gamma reaches the mass of the r *
    block - 1 largest tokens: so the authors' code turns gamma into blocks."""
    import numpy as np

    mass = np.add.reduceat(sums, np.arange(0, len(sums), block))
    mass[0] = np.iinfo(np.int64).max
    order = np.argsort(-mass, kind="stable")
    upto = np.concatenate([[0], np.cumsum(np.sort(sums)[::-1])])
    return [(int(upto[max(0, r * block - 1)]), int(x))
            for r, x in enumerate(order)]  # fmt: skip


def vertical_slash(x: Head, block: int) -> Array:
    """If a column and a diagonal enter at the same gamma, the column first."""
    import numpy as np

    kinds = entering(x.column, block), entering(x.distance, block)
    ways = sorted((gamma, kind, r, line) for kind in (0, 1)
                  for r, (gamma, line) in enumerate(kinds[kind]))
    place = np.zeros((2, len(x.mass)), int)
    for at, (_, kind, _, line) in enumerate(ways):
        place[kind, line] = at
    row, column = np.indices(x.mass.shape)
    return np.minimum(place[0, column], place[1, abs(row - column)])


def a_shape(x: Head, block: int) -> Array:
    """A first column one block wide; MInference's has 128 tokens."""
    import numpy as np

    row, column = np.indices(x.mass.shape)
    return np.where(column == 0, 0, 1 + row - column)


def block_topk(x: Head, block: int) -> Array:
    """The same k for all query blocks. Ties: the lower key block first."""
    import numpy as np

    score = np.where(x.seen, -x.pooled, np.inf)
    return np.argsort(np.argsort(score, 1, kind="stable"), 1)


def taken(x: Head, name: str, block: int) -> Array:
    """The masses of the pairs in the order in which a pattern takes them."""
    import numpy as np

    line = globals()[name](x, block)
    row, column = np.nonzero(x.seen)
    order = np.lexsort((-row, line[row, column]))
    return x.mass[row, column][order]


def figures(x: Head, block: int, percent: int) -> dict[str, Any]:
    """How many pairs rows see, how few of them have the share of the mass, and
    how much mass as many pairs of each pattern have."""
    import numpy as np

    mass = x.mass[x.seen]
    whole, upto = int(mass.sum()), np.cumsum(np.sort(mass)[::-1])
    needed = int(np.searchsorted(upto, -(-whole * percent // 100))) + 1
    kept = {name: int(taken(x, name, block)[:needed].sum()) / whole
            for name in PATTERNS}  # fmt: skip
    return dict(pairs=mass.size, needed=needed, **kept)


# --- what is printed --------------------------------------------------------


def check(t: Trace, layer: int) -> None:
    """ValueError: a row of the prompt is missing, or a number is not finite."""
    import numpy as np

    rows, p = t.rows(layer), t.prompt_len
    have = int((rows < p).sum())
    need(have == p, t.path, f"layer {layer} has query rows of only {have} of "
         f"the prompt's {p} tokens, but sparse prefill needs all; give a trace "
         "recorded with --rows all")  # fmt: skip
    for name, x in zip("qkv", (t.q(layer), t.k(layer), t.v(layer))):
        bad = np.argwhere(~np.isfinite(x))
        need(not len(bad), t.path, f"tensor layers.{layer}.{name} holds NaN or "
             "Inf at ", *bad[:1].tolist())  # fmt: skip


def measured(t: Trace, a: argparse.Namespace) -> List[dict[str, Any]]:
    """One row per head."""
    found = []
    for layer in t.layers:
        check(t, layer)
        found += [dict(layer=layer, head=h, **figures(
            head_of(t, layer, h, a.block), a.block, a.share))
            for h in range(t.n_heads)]  # fmt: skip
    return found


def drawn(t: Trace, a: argparse.Namespace) -> List[dict[str, Any]]:
    """One row for each head and pair of blocks of a layer."""
    if a.map not in t.layers:
        raise Usage(f"{t.path}: layer {a.map} is not recorded; kvtrace info "
                    "--format json lists the recorded ones")
    check(t, a.map)
    found = []
    for h in range(t.n_heads):
        x = head_of(t, a.map, h, a.block)
        for i, j in zip(*map(list, x.seen.nonzero())):
            rows = min(a.block, t.prompt_len - i * a.block)
            found.append(dict(layer=a.map, head=h, query_block=int(i),
                              key_block=int(j),
                              mass=int(x.mass[i, j]) / UNIT / rows))
    return found


def line(layer: object, head: object, rows: List[dict[str, Any]]) -> str:
    """A line of the table: means of these rows."""
    shares = [sum(r["needed"] / r["pairs"] for r in rows)] + [
        sum(r[x] for r in rows) for x in PATTERNS]
    pairs, *kept = (x / len(rows) for x in shares)
    return f"{layer!s:>5}  {head!s:>4}  {100 * pairs:6.1f}%" + "".join(
        f"  {x:14.4f}" for x in kept)


def table(name: str, t: Trace, a: argparse.Namespace,
          rows: List[dict[str, Any]]) -> str:
    """One line per head and per layer, and one for all."""
    out = [f"{name}: a prompt of {t.prompt_len} tokens in blocks of {a.block}",
           f"pairs: the fewest pairs of a query and a key block with {a.share} "
           "% of the mass; then\nthe mass in a pattern of as many pairs\n",
           "layer  head    pairs" + "".join(
               f"  {x:>14}" for x in PATTERNS.values())]  # fmt: skip
    for layer in t.layers:
        own = [r for r in rows if r["layer"] == layer]
        out += [line(layer, r["head"], [r]) for r in own]
        out.append(line(layer, "mean", own))
    return "\n".join([*out, line("all", "mean", rows)])


def go(a: argparse.Namespace) -> int:
    """Measures and prints."""
    from .trace import read_trace

    if a.map is not None and a.format == "table":
        raise Usage("--map gives a row for every pair of blocks, too many for "
                    "a table; use --format csv or json")
    t = read_trace(a.trace)
    rows = measured(t, a) if a.map is None else drawn(t, a)
    name = os.path.basename(a.trace).split(".safetensors")[0]
    if a.format == "table":
        print(table(name, t, a, rows))
    elif a.format == "json":
        print(json.dumps({
            "trace": name, "prompt": t.prompt_len, "block": a.block,
            "share": a.share, "heads" if a.map is None else "map": rows
        }, indent=1))  # fmt: skip
    else:
        print(",".join(rows[0]))
        for r in rows:
            print(*(f"{x:.9g}" for x in r.values()), sep=",")
    return 0


def main(argv: Optional[List[str]] = None) -> int:
    """`kvtrace prefill`; returns its exit code."""
    def work() -> int:
        a = parser().parse_args(argv)
        missing("numpy")
        return go(a)

    return run(work, NAME)


if __name__ == "__main__":
    sys.exit(main())
