# SPDX-License-Identifier: Apache-2.0
"""check_figures.py DB CSV PAGE: the figures of formats, pages and attention, as
tests/check_figures.sh made them: of each, the numbers that are drawn on PAGE,
and where, are those of the files that kvreport exported to CSV, and these are
means of rows of DB, asked here in other words. Standard library only."""

import json
import math
import re

from figures import db, near, rows, section, straight

# --- what the tables say ---

runs = []
for r in db.execute(
    "SELECT r.*, t.name, t.n_tokens, a.target, m.mean AS error FROM ran r"
    " JOIN trace t USING (identity) JOIN ask a USING (run_id)"
    " JOIN metric m ON m.run_id = r.run_id AND m.part = 0"
    " AND m.measure = 'output_error'"
):
    runs.append({**dict(r), "p": json.loads(r["params"])})


def mean(column, **like):
    """Of both traces, of the runs that have all these; p_x: a parameter."""
    found = [
        r
        for r in runs
        if all(
            (r["p"].get(k[2:].replace("__", ".")) if k[:2] == "p_" else r[k])
            == v
            for k, v in like.items()
        )
    ]
    assert len(found) == 2, f"{len(found)} runs of {like}"
    assert {r["name"] for r in found} == {"synth_1", "synth_2"}
    return sum(r[column] for r in found) / 2


def coded(column, method, target, k, v):
    if (method, k, v) in (("dense", "int4", "int2"), ("dense", "int2", "int4")):
        return mean(column, method="quant", p_k=k, p_v=v)
    return mean(column, method=f"{method}+quant", target=target,
                p_quant__k=k, p_quant__v=v)


# --- bits for keys against bits for values ---

mirrors = rows("mirrors")
assert [(r["method"], r["asked"], r["pair"], r["mirror"]) for r in mirrors] == [
    ("dense", "", "K8V4", "K4V8"),
    ("dense", "", "K4V2", "K2V4"),
    ("window", "60%", "K4V2", "K2V4"),
    ("window", "30%", "K4V2", "K2V4"),
], mirrors
for r in mirrors:
    at = (r["method"], r["asked"])
    for error, bytes_, k, v in (("output_error", "kr", "more", "less"),
                                ("mirror_error", "mirror_kr", "less", "more")):
        near(float(r[error]), coded("error", *at, r[k], r[v]), "mirrors")
        near(float(r[bytes_]), coded("kr", *at, r[k], r[v]), "mirrors")
drawn = section("mirrors")
marks = []
for x, tip in re.findall(
    r"translate\(([\d.]+) [^>]*><title>(.*?)</title>", drawn
):
    name, value = re.match(r"(.*): output error (\S+) at", tip).groups()
    marks.append((name, float(value), float(x)))
# The budget of the pictures is the least that most lines have.
shown = [r for r in mirrors if r["asked"] in ("", "30%")]
want = [
    (f"{r['method']} {r[pair]}", float(f"{float(r[error]):.3g}"))
    for r in shown
    for pair, error in (("pair", "output_error"), ("mirror", "mirror_error"))
]
assert sorted(m[:2] for m in marks) == sorted(want), (marks, want)
straight([(math.log(m[1]), m[2]) for m in marks], "mirrors", 1.5)
for r in shown:
    note = f"{float(r['output_error']):.3g}, {float(r['mirror_error']):.3g}<"
    assert note in drawn, note

# --- fewer bits, fewer tokens, or both; tokens by head, layer or static ---


def panels(name, view, x, y):
    """Marks of each panel, as their tips say, and where they are."""
    drawn = section(name)
    found = {}
    for title, body in re.findall(r"<h3>(.*?)</h3>(.*?)</svg>", drawn, re.S):
        found[title] = [
            (tip, float(a), float(b))
            for a, b, tip in re.findall(
                r"translate\(([\d.]+) ([\d.]+)\)[^>]*><title>(.*?)</title>",
                body,
            )
        ]
    for title, marks in found.items():
        here = [r for r in view if r[view[0]["panel"]] == title]
        assert len(marks) == len(here), f"{name}: {len(marks)} of {len(here)}"
        for r in here:
            tip = r["tip"]
            assert [m for m in marks if m[0] == tip], f"{name}: no '{tip}'"
            r["at"] = [m[1:] for m in marks if m[0] == tip][0]
    drawn = [r for r in view if "at" in r]
    assert drawn, f"{name}: nothing drawn"
    straight([(x(r), r["at"][0]) for r in drawn], f"{name}, across")
    straight([(y(r), r["at"][1]) for r in drawn], f"{name}, up")
    return found


def at(r):
    return f" at {r['asked']}" if r["asked"] else ""


pruning = rows("pruning")
assert sorted((r["method"], r["series"], r["asked"]) for r in pruning) == [
    ("window", "8 bit", ""),
    ("window", "both", "30%"), ("window", "both", "60%"),
    ("window", "fewer tokens", "30%"), ("window", "fewer tokens", "60%"),
], pruning
for r in pruning:
    for column, of in (("output_error", "error"), ("kr", "kr")):
        if r["series"] == "fewer tokens":
            other = mean(of, method="window", target=r["asked"])
        else:
            base = "dense" if r["series"] == "8 bit" else "window"
            other = coded(of, base, r["asked"], "int8", "int8")
        near(float(r[column]), other, f"pruning {r['series']}")
    r["panel"] = "method"
    r["tip"] = (f"{r['series']}{at(r)}; output error: "
                f"{float(r['output_error']):.6g}; bytes stored, share of "
                f"dense: {100 * float(r['kr']):.3g}%")
panels("pruning", pruning, lambda r: math.log(float(r["kr"])),
       lambda r: math.log(float(r["output_error"])))

sparsity = rows("sparsity")
assert [(r["alike"], r["sparsity"]) for r in sparsity] == [
    ("variant=code high=k8v4 low=k4v2", s)
    for s in ("head", "head", "layer", "static")
], sparsity
for r in sparsity:
    like = {"method": "leankv", "p_variant": "code"}
    like["p_sparsity"] = r["sparsity"]
    if r["sparsity"] == "head":
        like["p_alpha_l"] = float(re.search(r"alpha_l=(\S+)", r["method"])[1])
    near(float(r["output_error"]), mean("error", **like), "sparsity")
    near(float(r["dropped"]), 1 - mean("kept", **like) / 152, "sparsity")
    r["panel"] = "alike"
    r["tip"] = (f"{r['sparsity']}; output error: "
                f"{float(r['output_error']):.6g}; tokens dropped: "
                f"{100 * float(r['dropped']):.3g}%")
panels("sparsity", sparsity, lambda r: float(r["dropped"]),
       lambda r: math.log(float(r["output_error"])))

# --- codes alone, and everything ---

KINDS = ("payload", "metadata", "columns", "side", "slack")
charged = {(r["method"], r["asked"]): r for r in rows("charged")}
held = {}
for r in runs:
    for kind, n in db.execute(
        "SELECT kind, bytes FROM held WHERE run_id = ? AND total",
        (r["run_id"],),
    ):
        held[r["run_id"], kind] = n
dense = {r["name"]: held[r["run_id"], "payload"] for r in runs
         if r["method"] == "dense"}
for method, target in (("dense", ""), ("window", "30%"), ("window", "60%")):
    for kind in KINDS:
        share = sum(
            held[r["run_id"], kind] / dense[r["name"]]
            for r in runs if (r["method"], r["target"]) == (method, target)
        ) / 2
        column = "codes" if kind == "payload" else kind
        near(float(charged[method, target][column]), share, "charged")
unified = dict(db.execute(
    "SELECT run_id, bytes_end FROM layout WHERE layout = 'unified'").fetchall())
for method, target in (("dense", ""), ("window", "30%")):
    share = sum(unified[r["run_id"]] / dense[r["name"]] for r in runs
                if (r["method"], r["target"]) == (method, target)) / 2
    near(float(charged[method, target]["unified"]), share, "unified pages")
assert all(not r["unified"] for r in charged.values()
           if "static" in r["method"] or "paper" in r["method"])
drawn = section("charged")
marks = [(float(share), float(x)) for x, share in re.findall(
    r"translate\(([\d.]+) [^>]*><title>[^<]*, in unified pages: (\S+)% of",
    drawn)]
assert len(marks) == sum(bool(r["unified"]) for k, r in charged.items()
                         if k[1] != "60%")
straight(marks, "unified pages", 1)
bars = re.findall(
    r'd="M([\d.]+),[\d.]+H([\d.]+)v\S*"><title>(.*?), ([^,]*(?:, [^:]*)?): '
    r"(\S+)% of dense", drawn)
assert bars
straight([(float(share), float(b) - float(a)) for a, b, _, _, share in bars],
         "charged", 1)
for (method, asked), r in charged.items():
    if asked == "60%":
        continue
    parts = [100 * float(r[k]) for k in ("codes",) + KINDS[1:]]
    near(sum(parts), 100 * float(r["everything"]), "charged")
    assert f">{parts[0]:.1f}%, all {sum(parts):.1f}%<" in drawn, (method, parts)
    here = [float(b[4]) for b in bars if b[2] == method[:76]]
    parts = [x for x in parts if x > 0]
    assert len(here) == len(parts) and all(
        math.isclose(a, b, rel_tol=.006) for a, b in zip(here, parts)
    ), (method, here)

# --- pages over time ---

paged = rows("paged")
assert {r["layout"] for r in paged} == {"unified", "pages:16"}
names = {r["run_id"]: (r["name"], r["method"], r["target"]) for r in runs}
pages = {}
for r in db.execute("SELECT * FROM layout_step"):
    name = names[r["run_id"]]
    if r["layout"] not in ("unified", "pages:16"):
        continue
    if name[1] in ("dense", "window") and name[2] in ("", "30%"):
        pages[r["layout"], name[0], name[1], str(r["step"])] = str(r["pages"])
mine = {(r["layout"], r["trace"], r["method"], r["step"]): r["pages"]
        for r in paged if r["method"] in ("dense", "window")}
assert mine == pages, "paged differs from layout_step"
drawn = section("paged")
for panel in {r["panel"] for r in paged}:
    body = drawn.split(f"<h3>{panel}</h3>")[1].split("</svg>")[0]
    lines = [[float(y) for y in re.findall(r",([\d.]+)", d)]
             for d in re.findall(r'class="k\d l[^"]*" d="(M[^"]*)"', body)]
    series = {}
    for r in paged:
        if r["panel"] == panel:
            series.setdefault(r["method"], []).append(float(r["pages"]))
    assert len(lines) == len(series), panel
    straight([(n, y) for name, line in zip(sorted(series), lines)
              for n, y in zip(series[name], line)], panel)
    assert body.count("<title>") == len(series), panel

# --- regular indices ---

utilised = rows("utilised")
assert {r["layout"] for r in utilised} == {"base", "hs:max", "ha:max"}
laid = {}
for r in db.execute("SELECT * FROM layout WHERE lanes"):
    laid.setdefault((r["layout"], *names[r["run_id"]][1:]), []).append(r)
for r in utilised:
    found = laid.get((r["layout"], r["method"], r["asked"]))
    if found and len(found) == 2:
        near(float(r["utilisation"]), sum(
            x["kept_steps"] / x["lanes"] / x["fullest_steps"]
            for x in found) / 2, "utilisation")
        near(float(r["used"]), sum(
            2 * x["kept_steps"] / (x["pages_mean"] * 41) for x in found) / 2,
             "slots used")
        if r["layout"] == "ha:max":
            near(float(r["used"]), float(r["utilisation"]), "ha:max")
drawn = section("utilised")
shown = [r for r in utilised if r["asked"] != "60%"]
marks = [(float(share), float(x)) for x, share in re.findall(
    r"translate\(([\d.]+) [^>]*><title>[^<]*: (\S+)% of slots used", drawn)]
assert len(marks) == len(shown)
straight(marks, "slots used", 1)
bars = re.findall(
    r'd="M([\d.]+),[\d.]+H([\d.]+)v\S*"><title>[^<]*: utilisation (\S+)%',
    drawn)
assert len(bars) == len({(r["method"], r["asked"]) for r in shown})
straight([(float(share), float(b) - float(a)) for a, b, share in bars]
         + [(0, 0)], "utilisation", 1)
rewritten = rows("rewritten")
held = {(r["run_id"], r["layout"], r["step"]): r["bytes"]
        for r in db.execute("SELECT * FROM layout_step")}
mine = {(*names[k[0]][:2], k[1], str(k[2])): str(v) for k, v in held.items()
        if names[k[0]][2] in ("", "30%")}
for r in rewritten:
    if r["method"] in ("dense", "window"):
        key = (r["trace"], r["method"], r["layout"], r["step"])
        assert mine[key] == r["bytes"], key
paid = {(*names[r["run_id"]][:2], r["layout"]):
        str(max(r["rewritten"], 112) + r["break_even"])
        for r in db.execute("SELECT * FROM layout WHERE break_even NOTNULL")
        if names[r["run_id"]][1:] == ("window", "30%")}
assert len(paid) == 4
assert paid == {(r["trace"], r["method"], r["layout"]): r["step"]
                for r in rewritten
                if "paid" in r["series"] and r["method"] == "window"}
drawn = section("rewritten")
for panel in {r["panel"] for r in rewritten}:
    if f"<h3>{panel}</h3>" not in drawn:
        continue  # there are more cells than are drawn
    body = drawn.split(f"<h3>{panel}</h3>")[1].split("</svg>")[0]
    assert body.count("<title>") == len(
        {r["series"] for r in rewritten if r["panel"] == panel}), panel

# --- what heads attend to ---

critical = {(r["layer"], r["head"]): r for r in rows("critical")}
assert len(critical) == 2 * (2 + 1)
drawn = section("critical")
numbers, places = [], []
for (layer, head), r in critical.items():
    one = [
        (sum(x["critical"] for x in of) / sum(x["rows"] for x in of),
         sum(x["critical"] for x in of) / sum(x["seen"] for x in of))
        for of in (
            [x for x in db.execute(
                "SELECT * FROM attention JOIN trace USING (identity)"
                " WHERE name = ? AND layer = ?", (name, layer))
             if head in ("-1", str(x["head"]))]
            for name in ("synth_1", "synth_2"))
    ]
    for i, column in enumerate(("tokens", "share")):
        a, b = one[0][i], one[1][i]
        near(float(r[column]), (a + b) / 2, "critical")
        deviation = "deviation" if i == 0 else "share_deviation"
        near(float(r[deviation]), abs(a - b) / math.sqrt(2), "its deviation")
    if head == "-1":
        note = (f">{100 * float(r['share']):.1f} ± "
                f"{100 * float(r['share_deviation']):.1f}%, "
                f"{float(r['tokens']):.1f} ± {float(r['deviation']):.1f} "
                "tokens<")
        assert note in drawn, note
        at = re.search(r'translate\(([\d.]+) [^>]*><title>layer ' + layer,
                       drawn)
        places.append((float(r["share"]), float(at[1])))
    else:
        numbers.append((r["share"], r["share_deviation"]))
straight(places, "critical")
shown = re.findall(r'class="v mid"[^>]*>([^<]*)<', drawn)
want = [f"{100 * float(x[i]):.0f}" for i in (0, 1) for x in numbers]
assert shown == want, (shown, want)

decades = rows("decades")
for r in decades:
    n = db.execute(
        "SELECT sum(value) FROM figure WHERE figure = 'attention.class' AND"
        " layer = ? AND x = ? AND y = ?",
        (r["layer"], r["score"], r["norm"])).fetchone()[0]
    near(float(r["tokens"]), n, "decades")
assert sum(int(r["tokens"]) for r in decades) == db.execute(
    "SELECT sum(tokens) FROM attention").fetchone()[0]
drawn = section("decades")
for layer in ("0", "1"):
    here = [r for r in decades if r["layer"] == layer]
    spans = []
    for side in ("score", "norm"):
        sums = {}
        for r in here:
            c = int(r[side])
            sums[c] = sums.get(c, 0) + int(r["tokens"])
        low, high, total = 0, 0, sum(sums.values())
        for c in sorted(sums):
            low, high = high, high + sums[c]
            if high > 0.01 * total:
                first = c
                break
        below = 0
        for c in sorted(sums):
            if below < 0.99 * total:
                last = c
            below += sums[c]
        spans.append((last - first + 1) / 3)
    title = (f"layer {layer}: scores over {spans[0]:.1f} powers of ten, norms "
             f"over {spans[1]:.1f}")
    assert f"<h3>{title}</h3>" in drawn, title
    squares = sum(int(n) for n in re.findall(
        r"h(\d+)", "".join(re.findall(
            r'class="h"[^>]* d="([^"]*)"',
            drawn.split(title + "</h3>")[1].split("</svg>")[0]))))
    assert squares == len(here), f"layer {layer}: {squares} of {len(here)}"
