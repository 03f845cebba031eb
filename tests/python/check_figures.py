# SPDX-License-Identifier: Apache-2.0
"""check_figures.py FILE DB: gives the runs in DB the numbers in FILE, from
which means and shares can be worked out by hand.
check_figures.py FILE DB CSV PAGE: compares what kvreport made of that DB with
FILE: the views exported to the folder CSV, and the figures in PAGE. Standard
library only.

FILE has these lines. A line that begins with a space continues the previous
one. # begins a comment.
  run N SPEC            The two runs whose specification matches SPEC (* stands
                        for any text) have the number N: an output error of N,
                        N % of dense's bytes stored, N % of the tokens dropped.
                        Values are 25 % smaller on the first trace and 25 %
                        larger on the second, so that the mean is N.
  set SQL               Another change. n(run_id) is the number of a run;
                        floats(X, N) is a column of N floats X.
  view NAME [COLUMN=REGEX]..: COLUMN..
                        The lines below are the view's rows whose columns match,
                        with these columns. A number can be a fraction.
  page NAME squares TITLE
                        The lines below are the numbers in that map.
  page NAME shades TITLE
                        Below: ROW COLUMN OPACITY of some of its squares.
  page NAME places ACROSS UP
  page NAME bars N
  page NAME lines       The lines below are the figure's tooltips, in any order;
                        without lines they are not compared. ACROSS, UP and N
                        say which number in its tooltip gives a mark's place or
                        a bar's length: 2 is the second, 2log its logarithm, -
                        none. Lines follow the rows of the view.
  says NAME             The figure contains the lines below it."""

import csv
import html
import math
import re
import sqlite3
import struct
import sys


def read(path):
    """[(kind, words, [line])]"""
    blocks = []
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        kind = line.split(" ", 1)[0]
        if kind in ("run", "set", "view", "page", "says"):
            blocks.append((kind, line[len(kind) + 1:], []))
        elif line[:1] == " " and blocks[-1][2]:
            blocks[-1][2][-1] += line
        elif line[:1] == " ":
            blocks[-1] = (*blocks[-1][:1], blocks[-1][1] + line, [])
        elif line and not line.startswith("#"):
            blocks[-1][2].append(line)
    return blocks


def give(db, blocks):
    numbers = {}
    for kind, words, more in blocks:
        if kind != "run":
            continue
        n, spec = words.split()
        found = db.execute("SELECT run_id FROM run WHERE spec GLOB ?",
                           (spec,)).fetchall()
        assert len(found) == 2, f"run {words}: {len(found)} runs"
        numbers |= {i: int(n) for i, in found}
    of = dict(db.execute("SELECT run_id, iif(name LIKE '%1', .75, 1.25) FROM"
                         " run JOIN trace USING (identity)").fetchall())
    db.create_function("n", 1, numbers.get)
    db.create_function("x", 1, lambda i: numbers[i] * of[i])
    db.create_function("floats", 2, lambda x, n: struct.pack(f"<{n}f",
                                                             *[x] * n))
    db.executescript("""
    UPDATE metric SET mean = x(run_id) WHERE n(run_id) NOTNULL AND part = 0
      AND measure = 'output_error';
    UPDATE scalar SET value = x(run_id) / 100 WHERE n(run_id) NOTNULL
      AND name IN ('kr', 'cr');
    UPDATE scalar SET value = (1 - x(run_id) / 100) * (SELECT n_tokens FROM
      trace JOIN run USING (identity) WHERE run_id = scalar.run_id)
      WHERE n(run_id) NOTNULL AND name = 'kept';""")
    for kind, words, more in blocks:
        if kind == "set":
            db.executescript("\n".join([words, *more]))
    db.commit()


def same(got, want):
    try:
        a, *b = want.split("/")
        number = float(a) / float(b[0] if b else 1)
        return math.isclose(float(got), number, rel_tol=1e-9, abs_tol=1e-12)
    except ValueError:
        return got == want


def check_view(folder, words, want):
    where, columns = words.split(":")
    name, *where = where.split()
    where = [x.split("=", 1) for x in where]
    with open(f"{folder}/{name}.csv", encoding="utf-8") as f:
        got = [[r[c] for c in columns.split()] for r in csv.DictReader(f)
               if all(re.fullmatch(v, r[k]) for k, v in where)]
    want = [[x.strip() for x in r.split("|")] for r in want]
    for i in range(max(len(got), len(want))):
        a, b = got[i:i + 1], want[i:i + 1]
        assert a and b and all(map(same, a[0], b[0])), \
            f"view {words}, row {i + 1}: {a}, expected {b}"


# --- the page ---


def figure(page, name):
    found = re.search(rf'<h2 id="{name}">.*?</figure>', page, re.S)
    assert found, f"no figure {name}"
    return html.unescape(found.group(0))


def straight(pairs, what, by=1.5):
    """Places are a linear function of their numbers, not constant."""
    pairs = sorted(pairs)
    (x0, y0), (x1, y1) = pairs[0], pairs[-1]
    assert x1 > x0 and y1 != y0, f"{what}: one place"
    for x, y in pairs:
        at = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        assert abs(at - y) < by, f"{what}: {x} at {y}, not {at}"


def number(tip, which):
    """The which-th number in a tooltip after its name; `1log`: its log."""
    of = re.split("[:;]", tip, maxsplit=1)[1]
    of = re.findall(r"(?<= )-?[\d.]+(?:e-\d+)?(?=%|;| |$)", of)
    x = float(of[int(which[0]) - 1])
    return math.log(x) if which[1:] == "log" else x


def check_places(panel, name, across, up):
    marks = re.findall(
        r"translate\(([\d.]+) ([\d.]+)\)[^>]*><title>(.*?)</title>", panel)
    assert marks, f"page {name}: no marks"
    for i, which in (0, across), (1, up):
        if which != "-":
            straight([(number(m[2], which), float(m[i])) for m in marks],
                     f"page {name}")


def check_bars(panel, name, which):
    """Bars are as long as their numbers, and follow each other in a row."""
    bars = re.findall(
        r'd="M([\d.]+),([\d.]+)H([\d.]+)v\S*"><title>(.*?)</title>', panel)
    straight([(number(tip, which), float(b) - float(a))
              for a, _, b, tip in bars] + [(0, 0)], f"page {name}", 1)
    rows = {}
    for a, y, b, _ in bars:
        assert rows.get(y, a) == a, f"page {name}: a bar begins at {a}"
        rows[y] = b


def check_lines(folder, name, panel, body):
    """A panel's lines go through the rows of the view."""
    with open(f"{folder}/{name}.csv", encoding="utf-8") as f:
        rows = [r for r in csv.DictReader(f) if r["panel"] == panel]
    series = {}
    for r in rows:
        series.setdefault(r["method"], []).append(float(r["pages"]))
    lines = [[float(y) for y in re.findall(r",([\d.]+)", d)]
             for d in re.findall(r'class="k\d l[^"]*" d="(M[^"]*)"', body)]
    assert len(lines) == len(series), f"{name}, {panel}: {len(lines)} lines"
    straight([(n, y) for x, line in zip(sorted(series), lines)
              for n, y in zip(series[x], line)], f"{name}, {panel}", 0.11)


def check_squares(panel, name, want):
    """A map's numbers, row by row."""
    got = re.findall(r'class="v mid"[^>]*>([^<]*)<', panel)
    assert got == " ".join(want).split(), f"{name}: {got}, expected {want}"


def check_shades(panel, name, want):
    """ROW COLUMN OPACITY of squares; -: no square."""
    shades = {}
    for opacity, path in re.findall(r'opacity="([\d.]+)" d="([^"]*)"', panel):
        for c, r, wide in re.findall(r"M(\d+),(\d+)\.5h(\d+)", path):
            for i in range(int(wide)):
                shades[r, str(int(c) + i)] = opacity
    for r, c, opacity in map(str.split, want):
        got = shades.get((r, c), "-")
        assert got == opacity, f"{name}, square {r} {c}: {got}"


def check_page(page, folder, words, want):
    name, *how = words.split()
    drawn = figure(page, name)
    if how[0] in ("squares", "shades"):
        title = " ".join(how[1:])
        of = re.search(f"<h3>{title}</h3>(.*?)</svg>", drawn, re.S)
        check = check_squares if how[0] == "squares" else check_shades
        check(of[1] if of else "", words, want)
        return
    tips = re.findall("<title>(.*?)</title>", drawn)
    if want:
        assert sorted(tips) == sorted(want), \
            f"page {name}: {sorted(tips)}, expected {sorted(want)}"
    panels = re.findall("(?:<h3>([^<]*)</h3>.*?)?(<svg.*?</svg>)", drawn, re.S)
    for title, panel in (x for x in panels if "<title>" in x[1]):
        if how[0] == "bars":
            check_bars(panel, name, how[1])
        elif how[0] == "lines":
            check_lines(folder, name, title, panel)
        else:
            check_places(panel, name, *how[1:])


def main(path, name, folder=None, page=None):
    blocks = read(path)
    if not folder:
        give(sqlite3.connect(name), blocks)
        return
    with open(page, encoding="utf-8") as f:
        text = f.read()
    for kind, words, more in blocks:
        if kind == "view":
            check_view(folder, words, more)
        for line in more if kind == "says" else ():
            assert line in figure(text, words), f"says {words}: no {line}"
        if kind == "page":
            check_page(text, folder, words, more)


main(*sys.argv[1:])
