# SPDX-License-Identifier: Apache-2.0
"""check_page.py PAGE MEAN.csv: the large figures of a page and their tables,
against `kvreport table --mean -f csv` of the same database. The measure that
ranks answers best comes first. Lines look different. Only lines that no other
beats have a name, and names do not overlap. Outliers are beyond the axis. Each
figure has a plot for phones. Tables are sorted. Standard library only."""

import csv
import html
import math
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
means = list(csv.DictReader(open(sys.argv[2], encoding="utf-8")))
for m in means:
    m["whole"] = m["traces"] == m["traces_all"]
has_needles = any(m["needle_share"] for m in means)

# --- the order of sections, and the sentence ---

# The answers of a model and their texts, or else the answer from traces; up to
# four figures; then the rest, folded.
ids = re.findall(r'<h2 id="(\w+)">', text)
folds = re.findall(r'<details class="fold"><summary><h2 id="(\w+)">', text)
answers = "answers right loglik ranks".split()
fidelity = ["worst_stored", "worst_read"]
fidelity += ["needle_stored", "needle_read"] if has_needles else []
fidelity += ["lse", "stored", "read"]
at = ids.index("more")
first = ids[:at]
want = ["answered", "texts"] if "answers" in ids else ["answer"]
want += [fidelity[0], *(["gap"] if "gap" in ids else [])]
assert first[:-2] == want, first
assert first[-2] == "worst_read", first
assert first[-1] in ("needles", "along"), first
assert not re.search("<b>0</b>", text), "a count of nothing"
assert ids[at + 1 :] == folds and folds[0] == "about", ids
rest = [x for x in answers + fidelity + ["along"]
        if x in ids and x not in first]  # fmt: skip
assert folds[1 : 1 + len(rest)] == rest, ids
assert all(x in ids for x in fidelity), ids
said = re.search(
    r'<h2 id="worst_stored">.*?</h2>.*?<p class="rank">(.*?)</p>', text, re.S)
said = html.unescape(said.group(1))
for words in "output_abs, max did so", "Kendall's tau-b", "needle has":
    assert words in " ".join(said.split()), said

# --- marks: one per line ---

legend = text[text.index('<ul class="legend">'):]
legend = re.findall(
    r'<li class="v\d+"><svg.*?class="k(\d) m" href="(.*?)" '
    r'transform="(.*?)".*?</svg>(.*?)</li>',
    legend[: legend.index("</ul>")], re.S)  # fmt: skip
looks = {html.unescape(name): look for *look, name in legend}
assert set(looks) == {m["method"] for m in means}
alike = len(looks) - len(set(map(tuple, looks.values())))
assert not alike, "two lines look alike"

# --- large figures ---

FIGURES = [("worst_stored", 0, "output_abs_max", "kr"),
           ("worst_read", 0, "output_abs_max", "share_read"),
           ("lse", 0, "lse_error", "kr"), ("lse", 1, "kl", "kr"),
           ("stored", 0, "output_error", "kr"),
           ("read", 0, "output_error", "share_read")]  # fmt: skip
if has_needles:
    FIGURES += [("needle_stored", 0, "needle_share", "kr"),
                ("needle_read", 0, "needle_share", "share_read")]  # fmt: skip
beyond = 0


def section(name):
    at = text.index(f'<h2 id="{name}">')
    return text[at : text.index("<h2", at + 4)]


def plot(body, kind):
    found = re.search(rf'<div class="{kind}">(<svg.*?</svg>)', body, re.S)
    return found.group(1)


def front(marks, more):
    """Names of the marks that no other beats."""
    sign = -1 if more else 1
    return {
        name
        for name, x, y in marks
        if not any(a <= x and sign * b <= sign * y and (a, b) != (x, y)
                   for _, a, b in marks)
    }  # fmt: skip


def check(name, number, column, across):
    global beyond
    body = section(name).split("<figure>")[1 + number]
    more = column == "needle_share"
    log = column in ("output_error", "output_abs_max")
    marks = []
    # Needles, and bytes in their figures, are over traces that have needles.
    most = max(int(m["needles"]) for m in means)
    every = all(int(m["traces_all"]) == most for m in means)
    for m in means:
        whole = int(m["needles"]) == most if more else m["whole"]
        if m[column] and m[across] and whole:
            y = float(m[column])
            marks.append((m["method"], float(m[across]), y))
    drawn = [m for m in marks if not log or m[2] > 0]
    for kind, widest in (("broad", 1080), ("narrow", 360)):
        svg = plot(body, kind)
        box = re.search(r'viewBox="([^"]*)"', svg).group(1)
        box = [float(x) for x in box.split()]
        assert box[2] <= widest, box
        places = re.findall(r'class="k\d m[^>]*translate\(([\d.]+) ([\d.]+)\)',
                            svg)  # fmt: skip
        assert len(places) == len(drawn), (name, len(places), len(drawn))
        assert all(0 < float(x) < box[2] for x, _ in places), places
        labels = [
            (float(x), float(y), html.unescape(label))
            for x, y, label in re.findall(
                r'<text class="k\d n v\d+" x="([\d.]+)" y="([\d.]+)">'
                r"(.*?)</text>", svg)]  # fmt: skip
        # The sign of a mean can hide errors: only if all have the same sign.
        if column != "lse_error" and (every or not more):
            best = front(drawn, more)
            assert {x[2] for x in labels} <= best, (name, labels, best)
        assert labels and len({x[2] for x in labels}) == len(labels)
        for i, a in enumerate(labels):
            assert a[0] > 0 and a[0] + 7 * len(a[2]) < box[2] + 1, a
            for b in labels[:i]:
                apart = (abs(a[1] - b[1]) >= 14
                         or a[0] + 7 * len(a[2]) <= b[0]
                         or b[0] + 7 * len(b[2]) <= a[0])  # fmt: skip
                assert apart, (name, a, b)
        ticks = re.findall(r'<text x="([\d.]+)"[^>]*class="t mid">([\d.]+)%',
                           svg)  # fmt: skip
        assert ticks and all(float(x) < box[2] for x, _ in ticks)
    told = re.search(r"Beyond the axis.*?: (.*?)\.</p>", body)
    if told:
        far = re.findall(r"(?:^|, )(.*?) \([^()]*\)", told.group(1))
        far = {html.unescape(x) for x in far}
        middle = sorted(abs(m[2]) for m in drawn)[len(drawn) // 2]
        assert far <= {m[0] for m in drawn if abs(m[2]) > 5 * middle}, far
        arrows = plot(body, "broad").count("v-11m-3,4l3,-4l3,4")
        assert arrows == len(told.group(1).split("), ")), (arrows, told)
        beyond += 1
    table = re.search(r"<tbody>(.*?)</table>", body, re.S)
    if across == "kr":
        rows = [[html.unescape(re.sub("<.*?>", "", x)).strip() for x in
                 re.split(r"<td[^>]*>", r)[1:]]
                for r in table.group(1).split("<tr")[1:]]  # fmt: skip
        assert len(rows) == len(means)
        by = {(m["method"], m["asked"]): m for m in means}
        order = []
        for r in rows:
            m = by[r[0], "" if r[2] == "–" else r[2]]
            size = abs(float(m[column])) if m[column] else math.inf
            order.append((not m["whole"], -size if more and m[column]
                          else size))  # fmt: skip
            assert r[1] == "–" or math.isclose(
                float(r[1].split()[0]), float(m[column]), rel_tol=1e-3), r
        assert order == sorted(order), (name, order)


for figure in FIGURES:
    check(*figure)
print(beyond)
