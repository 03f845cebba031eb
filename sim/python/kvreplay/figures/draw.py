# SPDX-License-Identifier: Apache-2.0
"""Draws a command's figures as SVG files, with matplotlib. Each row of FIGURES
makes one: title, axes, and a function that yields a trace's points, (panel,
line, x, y), or for a map (panel, row, column, share).
Traces of one shape share a panel. A point is the mean over traces, each with
the same weight, with the standard deviation over traces to each side.
Histograms, spectra and strides show three layers: those at a quarter, half and
three quarters of the recorded ones. The database has all."""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List,
                    NamedTuple, Tuple)

import numpy as np

from .attention import NORMS, SCORES
from .residuals import CODINGS, SPACES
from .selection import BINS

if TYPE_CHECKING:
    from .command import Rows, Store

    Points = Iterator[Tuple[str, Any, float, float]]

KINDS = {"raw": "as it is", "nearest": "without the nearest",
         "random": "without a random one",
         "references": "without the mean of 4 references", "z": "latent z"}
MOST = 24  # panels in a figure


class Look(NamedTuple):
    """A trace: its name, row and figures."""

    name: str
    trace: sqlite3.Row
    rows: Rows
    files: List[sqlite3.Row]  # rows of table compressor

    @property
    def layers(self) -> List[int]:
        return sorted({x[0] for x in self.rows})

    @property
    def some(self) -> List[int]:
        n = len(self.layers)
        return [self.layers[i] for i in sorted({n // 4, n // 2, 3 * n // 4})]

    @property
    def shape(self) -> str:
        return (f"{len(self.layers)} layers, {self.trace['n_kv_heads']} KV "
                f"heads of {self.trace['d']}")

    def at(self, layer: int, *more: str) -> str:
        return ", ".join([self.shape, f"layer {layer}", *more])


class Figure(NamedTuple):
    title: str
    across: str
    up: str
    points: Callable[[Look], Points]
    log: str = ""  # which axes are logarithmic: x, y, xy
    map: bool = False
    zeros: bool = False  # a point missing in a trace counts as 0


# --- attention ---

def critical(t: Look) -> Points:
    of = {x: t.rows.of(f"attention.{x}") for x in ("critical", "seen")}
    for l in t.layers:
        few, seen = (sum(v for (m, *_), v in of[x].items() if m == l)
                     for x in of)
        if seen:
            yield t.shape, "mean of KV heads", l, few / seen


def heads(t: Look) -> Points:
    seen = t.rows.of("attention.seen")
    for at, few in t.rows.of("attention.critical").items():
        if seen[at]:
            yield t.shape, at[0], at[1], few / seen[at]


def decades(t: Look) -> Points:
    n = len(t.layers)
    for l in {t.layers[i] for i in (0, n // 2, n - 1)}:
        sums: Dict[Tuple[int, int], int] = {}
        for (m, _, a, b), v in t.rows.of("attention.class").items():
            if m == l:
                sums[b, a] = sums.get((b, a), 0) + v
        most = np.log1p(max(sums.values(), default=1))
        for (b, a), v in sums.items():
            yield t.at(l), b, a, float(np.log1p(v) / most)


# --- residuals ---

def nearest(t: Look) -> Points:
    for s, how in SPACES.items():
        n = t.rows.of("nearest.tokens", s)
        for name, what in ("far", "far"), ("close", "cosine above 0.9"):
            for at, v in t.rows.of(f"nearest.{name}", s).items():
                yield t.shape, f"{what}: {how}", at[0], v / n[at]
    for at, v in t.rows.of("nearest.chance", "k").items():
        yield t.shape, "far: any earlier token", at[0], v


def classes(name: str, place: Callable[[int], float]) -> Callable[[Look],
                                                                  Points]:
    """A histogram, in shares of its total."""
    def points(t: Look) -> Points:
        for s, how in SPACES.items():
            for kind, what in KINDS.items():
                of = t.rows.of(f"class.{name}", s, kind)
                for l in t.some:
                    here = {x: v for (m, _, x, _), v in of.items() if m == l}
                    for x, v in here.items():
                        share = v / sum(here.values())
                        if name in ("distance", "cosine"):
                            yield t.at(l), how, place(x), share
                        else:
                            yield t.at(l, how), what, place(x), share
    return points


def residuals(t: Look) -> Points:
    for s, how in SPACES.items():
        for kind in [*KINDS][:-1]:
            for at, v in t.rows.of("residual.share", s, kind).items():
                yield f"{t.shape}, {how}", KINDS[kind], at[0], v


def spectra(t: Look) -> Points:
    for s, how in SPACES.items():
        for kind, what in KINDS.items():
            for (l, _, x, _), v in t.rows.of("spectrum.total", s, kind).items():
                if l in t.some:
                    yield t.at(l, how), what, x, v


def sizes(t: Look) -> Points:
    of = t.rows.of("latent.size", "kv", "z")
    for l in t.some:
        here = {x: np.frombuffer(v, "<i4") for (m, _, x, _), v in of.items()
                if m == l}
        most = max((v.max() for v in here.values()), default=1)
        for token, v in here.items():
            for i, x in enumerate(v):
                yield (f"{t.name}, layer {l}, up to {most / 1000:.2f}", token,
                       i, float(x / max(most, 1)))


def strides(t: Look) -> Points:
    for s in "1", "5", "10", "20", "40":
        for k in "1", "2", "4", "8":
            for at, v in t.rows.of("missed", s, k, -1).items():
                if at[0] in t.some:
                    yield (t.at(at[0]), "all earlier tokens" if s == "1" else
                           f"stride {s}", int(k), v)


def positions(t: Look) -> Points:
    for (l, _, c, _), v in t.rows.of("missed", "10", "4").items():
        if c >= 0:
            yield t.shape, f"layer {l}", 2.0**c, v


def parts(t: Look, file: sqlite3.Row) -> Iterator[Tuple[str, Dict[Any, Any]]]:
    """The error of tokens rebuilt by a file, in the ways that it learned. A
    file trained without references is not used with them."""
    alone = file["learned"] == "none"
    none = t.rows.of("rebuilt", file["digest"], "none")
    if not none:
        return  # not computed for this trace
    if not alone:
        yield "DeltaKV", t.rows.of("rebuilt", file["digest"], "nearest")
    yield "without references" + ", learned with" * (not alone), none
    own = t.rows.of("missed", "10", "4")
    own.update(((l, h, -1, y), v) for (l, h, _, y), v in t.rows.of(
        "residual.share", "kv", "references").items())
    yield "without compressor", own


def widths(dial: str, other: str) -> Callable[[Look], Points]:
    """Errors over one width of compressors. A line fixes the other width."""
    def points(t: Look) -> Points:
        for f in t.files:
            rest = f"{f['kind']}, {other} {f[other]}"
            pieces = f", pieces of {f['length']}" if f["length"] else ""
            for part, of in parts(t, f):
                for (_, _, c, _), v in of.items():
                    if c < 0:
                        yield (t.shape + pieces, f"{rest}: {part}", f[dial], v)
    return points


def rebuilt(t: Look) -> Points:
    for f in t.files:
        panel = f"{t.shape}, {f['file']}, latent {f['latent']}" + (
            f", pieces of {f['length']}" if f["length"] else "")
        for part, of in parts(t, f):
            for (_, _, c, _), v in of.items():
                if c >= 0:
                    yield panel, part, 2.0**c, v


def entropies(t: Look) -> Points:
    for part in "kv":
        for coding, what in CODINGS.items():
            for at, v in t.rows.of("entropy.bits", part, coding).items():
                yield t.shape, f"{part.upper()}, {what}", at[0], v


# --- selection ---

def selected(t: Look) -> Iterator[Tuple[str, Dict[Any, Any]]]:
    yield "attention itself", t.rows.of("selection.before", "vanilla")
    for adapter in "snapkv", "rkv":
        for name, how in ("before", "as it is"), ("after", "calibrated"):
            yield f"{adapter}, {how}", t.rows.of(f"selection.{name}", adapter)


def collapse(t: Look) -> Points:
    for label, of in selected(t):
        for (_, _, token, p), v in of.items():
            if p == 90:
                yield f"{t.name}, P{p}", label, token, v


def temperatures(t: Look) -> Points:
    for adapter in "snapkv", "rkv":
        for (_, _, token, p), v in t.rows.of("selection.temperature",
                                             adapter).items():
            yield f"{t.name}, P{p}", adapter, token, v


def densities(t: Look) -> Points:
    lse: Dict[int, List[float]] = {}
    for (_, _, token, _), v in t.rows.of("selection.lse").items():
        lse.setdefault(token, []).append(v)
    for label, of in selected(t):
        for (_, _, token, p), v in of.items():
            if p == 60:
                yield (f"{t.name}, P60", label, statistics.fmean(lse[token]), v)


def stacked(t: Look) -> Points:
    n = t.trace["n_tokens"]
    edges = (np.arange(BINS + 1) * n + BINS - 1) // BINS
    for adapter in "vanilla", "snapkv", "rkv":
        sums: Dict[Tuple[int, int], Any] = {}
        for (_, _, token, p), v in t.rows.of("selection.map", adapter).items():
            sums[token, p] = sums.get((token, p), 0) + np.frombuffer(v, "<i4")
        for token in sorted({x for x, _ in sums}):
            seen = np.diff(np.minimum(edges, token + 1)) * (
                len(t.layers) * t.trace["n_kv_heads"])
            for part, v in (("P60", sums[token, 60]), ("P90 - P60",
                            sums[token, 90] - sums[token, 60])):
                for i in np.flatnonzero(seen > 0):
                    yield (f"{t.name}, {adapter}, {part}", token, int(i),
                           float(np.sqrt(v[i] / seen[i])))


def shares(t: Look) -> Points:
    for adapter in "vanilla", "snapkv", "rkv":
        of = t.rows.of("selection.after", adapter)
        for (l, h, token, p), v in of.items():
            less = of[l, h, token, 60] if p == 90 else 0
            part = "P90 - P60" if p == 90 else "P60"
            yield (f"{t.name}, {adapter}, {part}", l, h,
                   (v - less) / (token + 1))


LAYER, SHARE, MISSED = "layer", "tokens", "squares missed"
FIGURES = {"attention": {
    "critical": Figure("Tokens for 95 % of the mass by layer", LAYER,
                       "tokens, share of those seen", critical),
    "heads": Figure("Tokens that heads cannot do without", "KV head", LAYER,
                    heads, map=True),
    "decades": Figure("Scores beside norms of values (thirds of a power of "
                      "ten; shade: log of tokens)", "score", "norm of v",
                      decades, "xy", map=True),
}, "residuals": {
    "nearest": Figure("How far back the nearest token is", LAYER, SHARE,
                      nearest),
    "distances": Figure("Distances to the nearest token", "tokens back", SHARE,
                        classes("distance", lambda c: 2.0**c), "x", zeros=True),
    "cosines": Figure("Cosines with the nearest token", "cosine", SHARE,
                      classes("cosine", lambda c: (c + .5) / 20), zeros=True),
    "residuals": Figure("What is left of a token", LAYER, "squares left",
                        residuals),
    "spectra": Figure("Spectra of tokens and residuals", "directions",
                      "squares", spectra, "x"),
    "norms": Figure("Norms of tokens and residuals", "norm, as a power of two",
                    SHARE, classes("norm", lambda c: (c + .5) / 4),
                    zeros=True),
    "elements": Figure("Elements of tokens and residuals", "element, in root "
                       "mean squares of raw ones", "elements",
                       classes("value", lambda c: (c + .5) / 8), zeros=True),
    "sizes": Figure("Latent vectors by token and element", "part of z",
                    "token", sizes, map=True),
    "strides": Figure("References: how many, how dense", "references, k",
                      MISSED, strides, "x"),
    "positions": Figure("References by position", "position", MISSED,
                        positions, "x"),
    "latent": Figure("Compressors: how wide latents are", "elements of a "
                     "latent vector", MISSED, widths("latent", "hidden")),
    "hidden": Figure("Compressors: how many hidden units", "hidden units",
                     MISSED, widths("hidden", "latent")),
    "rebuilt": Figure("Rebuilt tokens by position", "position", MISSED,
                      rebuilt, "x"),
    "entropies": Figure("Entropy of coded keys and values", LAYER,
                        "bits an element", entropies),
}, "selection": {
    "collapse": Figure("Tokens that a share of the probability selects",
                       "token of the row", "tokens", collapse, "y"),
    "temperatures": Figure("Temperatures", "token of the row", "temperature",
                           temperatures, "y"),
    "densities": Figure("Log-sum-exp and tokens selected", "log-sum-exp of the "
                        "logits, nats", "tokens", densities, "y"),
    "stacked": Figure("Selection maps of all KV heads (square roots of shares)",
                      "64th of the trace", "token of the row", stacked,
                      map=True),
    "shares": Figure("Share of tokens selected by head", "KV head", LAYER,
                     shares, map=True),
}}


# --- pictures ---

Lines = Dict[str, Dict[Any, Dict[float, Tuple[float, float]]]]


def averaged(f: Figure, traces: List[Look]) -> Lines:
    """{panel: {line: {x: (mean, deviation)}}}, over traces."""
    found: Dict[str, Dict[Any, Dict[float, List[float]]]] = {}
    of: Dict[str, int] = {}
    for t in traces:
        own: Dict[Tuple[str, Any, float], List[float]] = {}
        for panel, line, x, y in f.points(t):
            own.setdefault((panel, line, x), []).append(y)
        for panel in {x[0] for x in own}:
            of[panel] = of.get(panel, 0) + 1
        for (panel, line, x), y in own.items():
            found.setdefault(panel, {}).setdefault(line, {}).setdefault(
                x, []).append(statistics.fmean(y))
    out: Lines = {}
    for panel, lines in found.items():
        for line, xs in lines.items():
            for x, y in xs.items():
                y += [0.0] * (of[panel] - len(y)) * f.zeros
                out.setdefault(panel, {}).setdefault(line, {})[x] = (
                    statistics.fmean(y),
                    statistics.stdev(y) if len(y) > 1 else 0)
    return out


def draw_map(ax: Any, f: Figure, lines: Dict[Any, Dict[float, Tuple[
        float, float]]]) -> None:
    rows = sorted(lines)
    columns = sorted({x for line in lines.values() for x in line})
    if f.log:
        rows, columns = ([*range(int(x[0]), int(x[-1]) + 1)]
                         for x in (rows, columns))
    grid = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        for j, x in enumerate(columns):
            grid[i, j] = lines.get(row, {}).get(x, (np.nan,))[0]
    ax.imshow(grid, aspect="auto", origin="lower" if f.log else "upper",
              cmap="Blues", interpolation="none")
    for axis, names in (ax.xaxis, columns), (ax.yaxis, rows):
        at = range(0, len(names), len(names) // 8 + 1)
        axis.set_ticks(list(at), [f"{names[i]:g}" for i in at])


def draw_lines(ax: Any, f: Figure, lines: Dict[Any, Dict[float, Tuple[
        float, float]]]) -> None:
    for line in sorted(lines):
        xs = sorted(lines[line])
        y, off = zip(*(lines[line][x] for x in xs))
        ax.errorbar(xs, y, off if any(off) else None, label=line, marker=".",
                    linewidth=1)
    for axis in f.log:
        getattr(ax, f"set_{axis}scale")("log")
    ax.legend(fontsize=6)


def draw(path: str, f: Figure, panels: Lines) -> None:
    from matplotlib.figure import Figure as Sheet

    names = sorted(panels)[:MOST]
    wide = min(3, len(names))
    high = -(-len(names) // wide)
    sheet = Sheet((5 * wide, 3.5 * high + 0.4), layout="constrained")
    axes = sheet.subplots(high, wide, squeeze=False).ravel()
    for ax, name in zip(axes, names):
        (draw_map if f.map else draw_lines)(ax, f, panels[name])
        ax.set_title(name, fontsize=8)
        ax.set_xlabel(f.across, fontsize=7)
        ax.set_ylabel(f.up, fontsize=7)
        ax.tick_params(labelsize=6)
    for ax in axes[len(names):]:
        ax.remove()
    sheet.suptitle(f.title, fontsize=10)
    sheet.savefig(path, metadata={"Date": None})


def looks(store: Store, command: str, traces: Dict[str, str]) -> List[Look]:
    store.db.row_factory = sqlite3.Row
    files = store.db.execute("SELECT * FROM compressor").fetchall()
    return [Look(name, store.db.execute(
        "SELECT * FROM trace WHERE identity = ?", (x,)).fetchone(),
        store.find(x, command), files) for x, name in traces.items()]


def figures(store: Store, command: str, traces: Dict[str, str],
            folder: str) -> None:
    """Draws a command's figures of traces {identity: name} into a folder.
    Without matplotlib it prints why not."""
    try:
        import matplotlib
    except ImportError:
        print(f"kvreplay {command}: no pictures without matplotlib: pip "
              "install matplotlib", file=sys.stderr)
        return
    if "text.parse_math" in matplotlib.rcParams:  # a name can contain $
        matplotlib.rcParams["text.parse_math"] = False
    matplotlib.rcParams["svg.hashsalt"] = "kvreplay"  # reproducible files
    found = looks(store, command, traces)
    os.makedirs(folder, exist_ok=True)
    for name, f in FIGURES[command].items():
        panels = averaged(f, found)
        if f.points.__qualname__.startswith("widths"):
            panels = {p: {k: v for k, v in x.items() if len(v) > 1}
                      for p, x in panels.items()}
        panels = {p: x for p, x in panels.items() if x}
        if panels:
            draw(os.path.join(folder, name + ".svg"), f, panels)
