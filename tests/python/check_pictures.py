# SPDX-License-Identifier: Apache-2.0
"""check_pictures.py FOLDER CSV PAGE METHOD...: which tokens survive, of one
trace, from what `kvreplay run --selections --views` wrote of each method to
FOLDER/METHOD and FOLDER/METHOD.views, against the files that kvreport exported
to CSV and what it drew on PAGE. Standard library only."""

import csv
import json
import re
import sys

BINS, MOMENTS = 24, 24


def kept(path):
    """{(layer, lane): [(step, tokens)]} and all tokens, prompt's."""
    lanes, prompt, last = {}, None, 0
    for line in open(path):
        x = json.loads(line)
        lane = lanes.setdefault((x["layer"], x["head"]), [])
        lane.append((x["step"], set(x["positions"])))
        prompt = min(prompt or x["step"], x["step"])
        last = max(last, x["step"])
    return lanes, prompt, last


def at(lane, step):
    """Stored after `step` tokens: the last compression, and the rest."""
    seen, tokens = max((x for x in lane if x[0] <= step), key=lambda x: x[0])
    return tokens | set(range(seen, step))


def stored(lanes, n, prompt, b, m):
    step = prompt + (n - prompt) * m // MOMENTS
    first, last = n * b // BINS, min(n * (b + 1) // BINS, step)
    if first >= last:
        return None
    return sum(
        sum(first <= t < last for t in at(x, step)) / (last - first)
        for x in lanes.values()
    ) / len(lanes)


def steps_shown(path, lanes):
    """{(layer, lane): {token: at how many steps some query head sees it}}"""
    lines = [json.loads(x) for x in open(path)]
    heads = 1 + max(x["head"] for x in lines)
    kv = 1 + max(lane for _, lane in lanes)
    sets = {}
    for x in lines:
        lane = sets.setdefault((x["layer"], x["head"] * kv // heads), {})
        for t in x["positions"]:
            lane.setdefault(t, set()).add(x["step"])
    return sets


def shown(sets, lanes, n, prompt, b):
    """The mean share of the steps since they entered; none: no step is."""
    tokens = [t for t in range(n * b // BINS, n * (b + 1) // BINS)]
    return sum(
        len(sets[x].get(t, ())) / (n - max(t, prompt)) / len(tokens)
        for x in lanes
        for t in tokens
    ) / len(lanes)


def alike(a, b, step):
    return sum(
        len(at(a[x], step) & at(b[x], step))
        / len(at(a[x], step) | at(b[x], step))
        for x in a
    ) / len(a)


def drawn(page, section, title):
    """What the map of that title is made of."""
    part = page[page.index(f'<h2 id="{section}">') :]
    part = part[part.index(f"<h3>{title}</h3>") :]
    return part[: part.index("</svg>")]


def shades(svg):
    """{(row, column): opacity}"""
    out = {}
    for opacity, path in re.findall(r'opacity="([\d.]+)" d="([^"]*)"', svg):
        for c, r, wide in re.findall(r"M(\d+),(\d+)\.5h(\d+)", path):
            for i in range(int(wide)):
                out[int(r), int(c) + i] = opacity
    return out


def near(a, b):
    return abs(float(a) - b) < 1e-9


def main():
    given, folder, path, *methods = sys.argv[1:]
    views, page, lanes, prompt, n = {}, open(path).read(), {}, 0, 0
    for m in methods:
        lanes[m], first, last = kept(f"{given}/{m}")
        views[m] = steps_shown(f"{given}/{m}.views", lanes[m])
        prompt, n = max(prompt, first), max(n, last)
    for m in methods:
        prompt = min(prompt, min(x[0] for x in next(iter(lanes[m].values()))))
    for row in csv.DictReader(open(f"{folder}/tokens.csv")):
        b, m = int(row["bin"]), int(row["moment"])
        want = stored(lanes[row["method"]], n, prompt, b, m)
        have = row["stored"]
        assert (want is None) == (have == ""), row
        assert want is None or near(have, want), (row, want)
        if m == 0:
            x = row["method"]
            want_shown = shown(views[x], lanes[x], n, prompt, b)
            assert near(row["shown"], want_shown), (row, want_shown)
        shade = shades(drawn(page, "tokens", row["method"])).get((b, m))
        if want is None:
            assert shade is None, row
        else:
            opacity = f"{round(20 * float(have)) * .85 / 20 + .03:.2f}"
            assert shade == opacity, (row, shade, opacity)
    numbers = {}
    for row in csv.DictReader(open(f"{folder}/overlap.csv")):
        a, b = lanes[row["method"]], lanes[row["other"]]
        for name, step in (("after_prompt", prompt), ("at_end", n)):
            assert near(row[name], alike(a, b, step)), (row, name)
            numbers.setdefault(name, []).append(f"{100 * float(row[name]):.0f}")
    for name, title in (
        ("after_prompt", "after the prompt"),
        ("at_end", "at the end"),
    ):
        svg = drawn(page, "overlap", title)
        have = re.findall(r'class="v mid"[^>]*>(\d+)<', svg)
        assert have == numbers[name] and len(have) == len(methods) ** 2, have


main()
