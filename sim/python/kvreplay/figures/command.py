# SPDX-License-Identifier: Apache-2.0
"""The commands `kvreplay attention`, `residuals` and `selection`. Each has a
module of its name with `layer`, which yields a layer's rows, and `said`, which
yields the lines to print. A trace is stored whole or not at all, and is not
computed again if the database has it. Needs numpy, for the database the
library, and for pictures matplotlib."""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import sys
from typing import (TYPE_CHECKING, Any, Iterator, List, Optional, Tuple,
                    Union)

from ..hf.options import Parser, up_to
from ..hf.text import missing, run
from ..need import need

if TYPE_CHECKING:
    from ..trace import Trace
    from .weights import Weights

# A row of the table `figure`, without trace and layer: figure, KV head (-1: all
# of the layer), series, part, x, y, value.
#   attention.rows critical       ''           ''          0          0
#     seen tokens
#   attention.class               ''           ''          score      norm
#   selection.lse                 ''           ''          token      0
#   selection.before after        adapter      ''          token      share
#     temperature map
#   nearest.tokens far close      space        ''          0          0
#     chance
#   class.distance cosine         space        'nearest'   class      0
#   class.norm value              space        residual    class      0
#   residual.tokens norm share    space        residual    0          0
#   latent.size                   'kv'         'z'         token      0
#   spectrum.share total          space        residual    direction  0
#   missed                        stride       k           octave     0
#   entropy.bins elements bits    keys, values coding      0          0
#     scales tables error
#   rebuilt                       compressor   references  octave     0
# Octave -1: tokens of all positions. The lower end of class c is, for a
# distance, 2^c; for a cosine, c / 20; for a norm, 2^(c / 4); for a value, c / 8
# of the root mean square of raw elements (for z, of its own). Empty classes
# have no row. A map is an array of 32-bit integers. For a selection: how many
# KV heads select a token, summed over each 64th of the tokens. For sizes:
# thousandths of the root mean square of z, by ranges of its elements.
Row = Tuple[str, int, str, str, int, int, Union[int, float, bytes]]
# A figure that each layer of a trace has once its command has run.
MARKS = {"attention": "attention.rows", "residuals": "nearest.tokens",
         "selection": "selection.lse"}  # fmt: skip
OWN = {"attention": " AND figure LIKE 'attention.%'",
       "selection": " AND figure LIKE 'selection.%'",
       "residuals": " AND figure NOT LIKE 'attention.%' AND figure NOT LIKE"
       " 'selection.%'"}
DOC = {
    "attention": """\
Counts which tokens the heads of a trace attend to, after LeanKV's paper.

A row is the attention of one query head at one recorded token. For each layer
and KV head, attention finds how few tokens have 95 % of the mass of a row, and
how scores of tokens spread against the norms of their values. The figure `rows`
counts the rows from token 64 on. `critical` sums over them the fewest tokens
with 95 % of the mass, `seen` the tokens that a row sees. A token's score is the
mean of its probabilities over the recorded rows from its own on, and the
largest over the query heads of a KV head. A token with less than 16 rows has
none. Class c of a score or a norm begins at 10^(c / 3); the first and the last
class have everything beyond.
""",
    "residuals": """\
Measures how similar the tokens of a trace are, after DeltaKV's paper.

Looks at tokens from the 17th on, in two spaces. kv: keys before their rotation
and values of all KV heads of a layer; the nearest earlier token has the least
squared distance, as in DeltaKV. k: the keys alone; the nearest has the largest
cosine, as in the authors' figure. The residual is the token itself (raw), or
the token minus the nearest earlier one, minus one that a hash of layer and
position draws (random), or in kv minus the mean of the 4 nearest references of
stride 10: the first 8 tokens and every tenth.

If there is a file of DeltaKV's compressors for the model (in assets/ beside the
trace, or with -w), residuals also measures its latent vectors z. And it
measures the squared error of tokens rebuilt from them: f_d(f_c(token) -
f_c(mean)) + mean (nearest) and f_d(f_c(token)) (none).

Entropies are those of keys and values coded like CacheGen (arXiv 2310.07240):
no coder with one table per channel needs less. Deltas: of ten tokens the first
has 8 bits, and the others are coded as the difference to it. Tokens: each is
coded as it is.
""",
    "selection": """\
Counts the tokens that hold 60 and 90 % of the probability, after Hard-KV.

Takes at most 16 rows of each layer and KV head, from token 64 on. The
probabilities are those of attention itself (vanilla), of logits pooled like
SnapKV's, and of R-KV's score; at temperature 1 (before) and at the temperature
at which the same number of tokens holds the same mass (after). A row's logits
are the largest of a KV head's query heads. Nothing is dropped. selection also
stores the log-sum-exp of each row, and how many KV heads select the tokens of
each 64th of the trace. The arithmetic is hardkv's (ref/parts/votes.h), except
for the cosines of keys, which are binary64.
""",
}
LAST = """\
Numbers go into table `figure` of the database, one per row. If matplotlib is
installed, the figures of these traces are drawn as SVG files in the folder
FILE.figures. A trace that the database has is not computed again.
"""
TYPES = {"float16": "F16", "uint16": "BF16", "float32": "F32"}


class Rows(List[Tuple[Any, ...]]):
    """A trace's rows: (layer, *Row)."""

    def of(self, figure: str, series: str = "", part: str = "",
           x: Optional[int] = None, y: Optional[int] = None) -> dict[Any, Any]:
        """{(layer, head, x, y): value}"""
        return {(l, h, a, b): value for l, f, h, s, p, a, b, value in self
                if (f, s, p) == (figure, series, part) and
                x in (None, a) and y in (None, b)}


def parser(name: str) -> argparse.ArgumentParser:
    p = Parser(
        prog=f"kvreplay {name}", description=DOC[name], epilog=LAST,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("traces", metavar="TRACE", nargs="+")
    if name == "residuals":
        add("-w", "--weights", metavar="FILE", action="append", default=[],
            help="rebuild tokens with this compressor of deltakv (kvreplay "
            "train) too, beside the one in assets/; may be repeated")
    add("-d", "--db", metavar="FILE", required=True, help="the database for "
        "the numbers, created if missing (required)")
    add("-j", "--jobs", type=up_to(4096), metavar="N", help="threads of numpy "
        "(default: one per processor)")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    return p


def plain(t: Trace, name: str) -> None:
    """ValueError if these figures cannot handle the trace's attention."""
    who = f"which kvreplay {name} cannot handle; give a trace without "
    need(not t.shared, t.path, f"V is a part of K (kv.shared), {who}it")
    need(not t.softcap, t.path, f"logits have a cap (attn.softcap), {who}one")
    for l in t.layers:
        need(t.sinks(l) is None, t.path, f"layer {l} has learned sinks, {who}"
             "them")
        need(not t.windows[l], t.path, f"layer {l} has a sliding window of "
             f"{t.windows[l]} tokens, but kvreplay {name} needs layers that "
             "see all of them; give a trace of such layers only")


class Store:
    """The database of results. The library creates its tables."""

    def __init__(self, path: str) -> None:
        from ..evaluate import store

        store.Store(path).close()
        self.db = sqlite3.connect(os.path.abspath(path), 60)

    def find(self, identity: str, name: str) -> Rows:
        return Rows(tuple(x) for x in self.db.execute(
            "SELECT layer, figure, head, series, part, x, y, value FROM figure"
            " WHERE identity = ?" + OWN[name], (identity,)))

    def put(self, t: Trace, name: str, rows: Rows, files: List[Weights]
            ) -> None:
        """Stores in one transaction; existing numbers stay."""
        dtype = TYPES[t.layer(t.layers[0])["k"].dtype.name]
        with self.db:
            self.db.execute(
                "INSERT OR IGNORE INTO trace (identity, name, n_tokens,"
                " n_layers, n_heads, n_kv_heads, d, d_v, dtype)"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                (t.identity, name, t.n_tokens, t.n_layers, t.n_heads,
                 t.n_kv_heads, t.head_dim, t.value_dim, dtype))
            self.db.executemany(
                "INSERT OR IGNORE INTO figure (identity, layer, figure, head,"
                " series, part, x, y, value) VALUES (?,?,?,?,?,?,?,?,?)",
                ([t.identity, *x] for x in rows))
            for w in files:
                self.db.execute(
                    "INSERT INTO compressor (digest, file, kind, width, latent,"
                    " hidden, length, code, learned) VALUES (?,?,?,?,?,?,?,?,?)"
                    " ON CONFLICT DO UPDATE SET code = excluded.code, learned ="
                    " excluded.learned",
                    (w.digest, w.name, w.kind, w.width, w.latent, w.hidden,
                     w.length, w.run_code(), "none" if w.alone else "nearest"))


def stem(path: str) -> str:
    """The name of a trace."""
    name = os.path.basename(path)
    for end in ".safetensors.index.json", ".safetensors":
        if name.endswith(end):
            return name[:-len(end)]
    return name


def there(t: Trace, name: str, rows: Rows, files: List[Weights]) -> bool:
    def layers(*of: str) -> int:
        return len({x[0] for x in rows if (x[1], x[3]) == of or of == x[1:2]})

    return layers(MARKS[name]) == len(t.layers) and all(
        layers("rebuilt", w.digest) == len(w.layers) for w in files)


def opened(t: Trace, paths: List[str]) -> List[Weights]:
    """The compressors beside the trace and at paths, each once."""
    from . import weights

    own = weights.beside(t)
    files = [weights.Weights(own, t, True)] if own else []
    files += [weights.Weights(x, t, False) for x in paths]
    return [*{w.digest: w for w in reversed(files)}.values()][::-1]


def computed(t: Trace, name: str, of: Any, more: List[Any], quiet: bool
             ) -> Iterator[Tuple[Any, ...]]:
    for i, l in enumerate(t.layers):
        if not quiet and sys.stderr.isatty():
            print(f"{name}: {stem(t.path)}: layer {i + 1} of {len(t.layers)}",
                  end="\r" if l != t.layers[-1] else "\n", file=sys.stderr)
        for row in of.layer(t, l, *more):
            yield (l, *row)


def go(name: str, a: argparse.Namespace) -> None:
    missing("numpy")
    if a.jobs:  # more threads than cores would wait for each other
        most = min(a.jobs, os.cpu_count() or 1)
        for x in "OMP", "OPENBLAS", "MKL":
            os.environ.setdefault(x + "_NUM_THREADS", str(most))
    from ..trace import read_trace

    of = importlib.import_module(f".{name}", __package__)
    store = Store(a.db)
    looked = {}
    for path in a.traces:
        t, called = read_trace(path), stem(path)
        plain(t, name)
        more = []
        if name == "residuals":
            of.check(t)
            more = [opened(t, a.weights)]
        rows = store.find(t.identity, name)
        if there(t, name, rows, *more or [[]]):
            print(f"{called}: exists already", flush=True)
        else:
            rows = Rows(computed(t, name, of, more, a.quiet))
            store.put(t, called, rows, *more or [[]])
            print("\n".join(of.said(called, rows, *more)), flush=True)
        looked[t.identity] = called
    from . import draw

    draw.figures(store, name, looked, a.db + ".figures")


def main(name: str, argv: Optional[List[str]] = None) -> int:
    def work() -> None:
        go(name, parser(name).parse_args(argv))

    return run(work, f"kvreplay {name}")


def attention(argv: Optional[List[str]] = None) -> int:
    """Returns an exit code, as the next two do."""
    return main("attention", argv)


def residuals(argv: Optional[List[str]] = None) -> int:
    return main("residuals", argv)


def selection(argv: Optional[List[str]] = None) -> int:
    return main("selection", argv)
