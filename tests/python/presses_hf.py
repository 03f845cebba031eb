#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every press of the installed kvpress on the model of traces/tiny, in
binary32: how many tokens it keeps, which specification of ours keeps the same
(by `kvreplay grade`) or why none does, and whether its scores can be exported.

    presses_hf.py KVREPLAY TINY                     one line per row
    presses_hf.py KVREPLAY TINY --table KVPRESS.md  writes its table
    presses_hf.py KVREPLAY TINY --part 12 KVPRESS.md   compares 12 rows with it,
                                                    other ones when kvpress/*.py
                                                    changes

presses_rows.py has the rows. Exit 1: a press without a row, a result without a
reason, or another than the table's; 77 without kvpress. Needs the package on
PYTHONPATH and KVREPLAY_LIBRARY.
"""

import hashlib
import importlib.metadata
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
try:
    import kvpress
except ImportError:
    print("presses: needs kvpress (pip install '.[kvpress]')")
    sys.exit(77)
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from presses_rows import MERGES, ROWS, made_up  # noqa: E402

from kvreplay.hf.capture import capture  # noqa: E402
from kvreplay.hf.text import load  # noqa: E402
from kvreplay.kvpress import from_press, from_scorer  # noqa: E402
from kvreplay.kvpress import decide, make_press, scorer  # noqa: E402
from kvreplay.trace import read_trace  # noqa: E402

TOKENS = 280  # of retrieval_16: its prompt has 273, so seven decode steps
HEAD = (
    "| press | tokens a KV head | specification of `-m` | `-b` | is | scores |"
    "\n|---|---|---|---|---|---|"
)


class Failed(Exception):
    """A row that contradicts presses_rows.py."""


class Bench:
    """The model, its trace, and paths for files."""

    def __init__(self, kvreplay, tiny, folder):
        self.kvreplay = kvreplay
        self.path, self.scores, self.kept = (
            os.path.join(folder, x + ".safetensors") for x in "tsd"
        )
        self.model, _, _ = load(tiny + "/model", None, dtype=torch.float32)
        old = read_trace(tiny + "/retrieval_16.safetensors")
        ids = torch.as_tensor(np.asarray(old.tokens, np.int64)[None, :TOKENS])
        capture(self.model, ids, old.prompt_len, self.path, model="kvtiny-6l")
        self.trace = read_trace(self.path)

    def press(self, text):
        """The press, and whether its weights are made up."""
        torch.manual_seed(5)
        press, made = make_press(text), False
        made = made_up(press, self.model)
        return press, made

    def export(self, text):
        """The result of --scores: "yes", "its ratio" or "-"; and the scores."""
        try:
            press, _ = self.press(text)
            x = from_scorer(self.model, press, self.trace, self.scores, text)
        except (OSError, ValueError):
            return "-", None
        return "its ratio" if x.bound else "yes", x.of

    def budget(self, asked, lists):
        """A row's budget; "same": as many per layer as the press kept."""
        if asked != "same":
            return asked
        kept = [lists[l][min(lists[l])] for l in self.trace.layers]
        return "/".join(str(len(x[0])) for x in kept)

    def grade(self, spec, budget):
        """Counts the press's decisions, ties and wrong ones by `grade`."""
        words = [self.kvreplay, "grade", self.path, "-m", spec]
        words += ["-b", budget] if budget else []
        words += ["--theirs", self.kept, "--tie", "1e-5"]
        x = subprocess.run(words, capture_output=True, text=True)
        found = re.search(
            r"(\d+) decisions: \d+ equal, (\d+) ties?, (\d+) wrong", x.stdout
        )
        if not found:
            raise Failed(f"{spec}: {x.stdout}{x.stderr}")
        return map(int, found.groups())


def threshold(scores, lists):
    """The smallest score that was kept."""
    return min(
        scores[l][h][np.asarray(x)].min()
        for l in lists
        for h, x in enumerate(lists[l][min(lists[l])])
    )


def line(bench, text, spec, asked, why):
    """A row of the table."""
    says, scores = bench.export(text)
    press, made = bench.press(text)
    made = " (made-up weights)" if made else ""
    begin = f"| `{text}`{made}"
    try:
        lists = from_press(bench.model, press, bench.trace, bench.kept, text)
    except (OSError, ValueError) as e:
        if not why or (why == MERGES) != (MERGES in str(e)):
            raise Failed(f"{text}: {e}") from e
        kind = "refused" if "does not run" not in str(e) else "not run"
        kind = "not run" if isinstance(e, OSError) else kind
        said = "it merges or rewrites rows" if why == MERGES else why
        return f"{begin} | | | | {kind}: {said} | {says} |"
    held = [len(x) for l in lists.values() for x in l[min(l)]]
    kept = f"{min(held)} to {max(held)}" if min(held) < max(held) else held[0]
    if not spec:
        return f"{begin} | {kept} | | | other: {why} | {says} |"
    least = f"{threshold(scores, lists):.9g}" if "{threshold}" in spec else ""
    given = spec.format(scores=bench.scores, threshold=least)
    budget = bench.budget(asked, lists)
    n, ties, wrong = bench.grade(given, budget)
    if wrong and not why:
        raise Failed(f"{text}: {spec}: {wrong} of {n} wrong")
    is_ = f"other, {wrong} of {n}: {why}" if wrong else "equal"
    is_ = f"equal, {ties} of {n} ties" if ties and not wrong else is_
    shown = spec.format(scores="S", threshold="X")
    return f"{begin} | {kept} | `{shown}` | {budget} | {is_} | {says} |"


def lines(bench, rows):
    """The table's lines. Prints and counts failures."""
    out, bad = [], 0
    for row in rows:
        try:
            out.append(line(bench, *row))
        except Failed as e:
            print("presses:", " ".join(str(e).split())[:400])
            bad += 1
        else:
            print(out[-1], flush=True)
    return out, bad


def without_row():
    """Presses of kvpress without a row."""
    tried = {re.match(r"\w+", x[0])[0] for x in ROWS}
    kinds = {x: getattr(kvpress, x) for x in kvpress.__all__}
    known = {
        x for x, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, kvpress.BasePress)
    }  # fmt: skip
    return sorted(known - tried - {"BasePress", "ScorerPress"})


def drawn(most):
    """So many rows; other ones when the package's files change."""
    h = hashlib.sha256()
    for x in decide, scorer:
        with open(x.__file__, "rb") as f:
            h.update(f.read())
    def key(row):
        return hashlib.sha256(h.digest() + row[0].encode()).digest()
    return sorted(ROWS, key=key)[:most]


def version():
    """The versions that the table is for."""
    return (
        f"kvpress {importlib.metadata.version('kvpress')}, transformers "
        f"{transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    )


def main():
    kvreplay, tiny, *more = sys.argv[1:]
    torch.set_num_threads(1)
    part = int(more[1]) if more[:1] == ["--part"] else len(ROWS)
    document, bad = more[-1] if more else None, 0
    for name in without_row():
        print(f"presses: {name} has no row in presses_rows.py")
        bad += 1
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(kvreplay, tiny, folder)
        found, failed = lines(bench, drawn(part) if part < len(ROWS) else ROWS)
    bad += failed
    text = ""
    if document:
        with open(document, encoding="utf-8") as f:
            text = f.read()
    if more[:1] == ["--table"] and not bad:
        made = "\n".join([f"Seen with {version()}.", "", HEAD, *found])
        begin, _, rest = text.partition("<!-- presses -->\n")
        end = "\n<!-- end -->" + rest.partition("<!-- end -->")[2]
        text = f"{begin}<!-- presses -->\n{made}{end}"
        with open(document, "w", encoding="utf-8") as f:
            f.write(text)
    elif document and not bad:
        for x in found:
            if x not in text:
                print(f"presses: not in {document}: {x}")
                bad += 1
    print(f"{len(found)} presses as KVPRESS.md says, by {version()}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
