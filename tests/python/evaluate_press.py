# SPDX-License-Identifier: Apache-2.0
"""`kvreplay evaluate --kvpress` with the bundled model, if kvpress is
installed. Methods that decide like kvpress's press have the same tokens in
their cache and the same answers. kvpress's bytes are those of its tensors. An
impossible press is one sentence and does not stop the rest. evaluate_press.py
KVTRACE KVREPLAY FOLDER TINY; needs torch and transformers."""

import importlib.util

import torch
from shared import ASKED, MODEL, at, evaluate, lines

from kvreplay.evaluate import command, press
from kvreplay.evaluate.attend import Model
from kvreplay.evaluate.dense import Dense
from kvreplay.evaluate.press import DEFAULTS, PREFIX, Presses, expression
from kvreplay.evaluate.press import ratio
from kvreplay.evaluate.table import table
from kvreplay.evaluate.together import Together
from kvreplay.hf.load import load

# Our methods, with parameters that decide like kvpress's presses.
SAME = [
    "snapkv:window=16:pooling=avg",
    "tova:variant=prefill:protect_newest=yes",
    "streamingllm:variant=prefill:positions=original",
    "knorm:skip=0",
    "keydiff:block=0",
    "expected",
    "chunkkv:pooling=avg:count=share:window=8",
    "adakv:pooling=avg:safeguard=minimum:window=8",
    "h2o:variant=prefill:recent=0:scale=seen",
]
OTHER = "criticalkv:window=8", "pyramidkv:window=8:beta=2"
OPTIONS = "--new", "8", "--dtype", "f32", "--kvpress"
BUDGET = "50%"


def check_same(rows):
    """Answers, likelihoods and divergences agree; so do bytes, minus positions,
    which a cache with gaps must store and kvpress does not."""
    dense = rows["asked", 0, "dense", None]["values"]
    for name in SAME:
        a, b = (rows["asked", 0, x + name, BUDGET] for x in ("", PREFIX))
        x, y = a["values"], b["values"]
        assert b["status"] == "ok" and b["code"].startswith("kvpress "), b
        assert a["answer_digest"] == b["answer_digest"], (name, x, y)
        for z in "exact", "agree":
            assert x[z] == y[z], (name, z)
        for z in "kl", "loglik_token", "ppl.all":
            assert abs(x[z] - y[z]) < 1e-3 * max(1, abs(y[z])), (name, z, x, y)
        assert y["kl"] > 0.01 + dense["kl"], (name, y)
        if name.startswith("adakv"):  # kvpress hides rows but frees none
            assert y["bytes.end"] == dense["bytes.end"], name
        else:
            apart = x["bytes.mean"] / y["bytes.mean"]
            assert 1 < apart < 1.03, (name, apart)


def check_other(rows):
    """Methods that decide differently are there, too, and differ."""
    for name in OTHER:
        a, b = (rows["asked", 0, x + name, BUDGET] for x in ("", PREFIX))
        assert a["status"] == b["status"] == "ok", (a, b)
        assert abs(a["values"]["kl"] - b["values"]["kl"]) > 1e-4, name


def check_kept(rows, ids):
    """A cache has the tokens of a session's lane, except where the scores of
    two tokens are closer than binary32 rounds. That happens in one of 108 lanes
    (knorm, norms of 7.17306488 and 7.17306466)."""
    model = Model(load(MODEL, "f32")[0])
    together, presses = Together(model, 1), Presses(model)
    with model.attending():
        dense, other = Dense(model), dict.fromkeys(SAME, 0)
        dense.feed(ids)
        for name in SAME:
            a, b = (rows["asked", 0, x + name, BUDGET] for x in ("", PREFIX))
            (ours,) = together.open([a["spec"]], dense, len(ids) + 1)
            (x,) = presses.open([b["spec"]], dense, 0)
            for l in range(model.n):
                k = dense.rows(l)[1]
                got = x.cache.layers[l].keys[0]
                gone = x.hidden[l] or ((), (), ())
                for g, lane in enumerate(got):
                    out = {int(i) for h, i in zip(*gone[1:]) if h == g}
                    left = [y for i, y in enumerate(lane) if i not in out]
                    want = ours.session.lane(l, g)[0]
                    apart = torch.stack(left)[:, None] - k[g]
                    kept = apart.norm(dim=-1).argmin(1).tolist()
                    assert len({*kept}) == len(want), (name, l, g)
                    other[name] += len({*kept} ^ {*map(int, want)})
            ours.close()
        assert sum(other.values()) <= 2, other
        # Layers with different numbers of rows: tokens fed at once and one by
        # one agree, and a fork leaves its origin unchanged.
        spec = rows["asked", 0, PREFIX + OTHER[1], BUDGET]["spec"]
        (x,) = presses.open([spec], dense, 0)
        assert len({y.keys.shape[2] for y in x.cache.layers}) > 1, spec
        y, z = presses.fork([x, x])
        once = presses.feed([y], [ids[:3]])[0]
        each = [presses.feed([z], [[t]])[0, 0] for t in ids[:3]]
        assert torch.equal(once, torch.stack(each)) and y.sizes == z.sizes
        assert len(x.sizes) == 1 and x.seen == len(ids)
    together.close()
    presses.close()


def check_ratio():
    """kvpress keeps as many as requested; the press states its parameters."""
    for prompt in 1, 7, 68, 273, 1023, 1024, 131072:
        for kept in {1, prompt // 4, prompt // 2, prompt - 1, prompt} - {0}:
            r = ratio(prompt, kept)
            assert 0 <= r < 1 and int(prompt * (1 - r)) == kept, (prompt, kept)
    assert ratio(1024, 256) == 0.75 and ratio(8, 9) == 0
    params = dict(budget=8, lag=4, cross="yes", sinks=2)
    assert expression("lagkv", params, 16) == "LagKVPress(0.5, 2, 4, True)"
    assert expression("lagkv", params, 16, True) == "LagKVPress(0.5)"


def check_defaults(rows):
    """A press by kvpress's defaults, whatever our parameters; its row has them
    all by name. The table says which press ran."""
    names = SAME[0], SAME[6]
    got, _ = evaluate(*OPTIONS, "--kvpress-defaults", "-m", ",".join(names),
                      "-b", BUDGET)  # fmt: skip
    specs = [got["asked", 0, DEFAULTS + x, BUDGET]["spec"] for x in names]
    chunks = f"ChunkKVPress(press={SNAP}, chunk_length=20)"
    assert specs == [SNAP, chunks], specs
    own, all_by = (x["asked", 0, y + names[0], BUDGET] for x, y in (
        (rows, PREFIX), (got, DEFAULTS)))  # fmt: skip
    assert got["asked", 0, PREFIX + names[0], BUDGET] == own, own
    assert own["values"]["kl"] != all_by["values"]["kl"], own
    text = table([*got.values(), dict(own, spec="X")])
    for x in (f"\n{DEFAULTS}{names[0]} ({own['code']}): {SNAP}\n",
              f"\n{PREFIX}{names[0]} ({own['code']}): {own['spec']}, and 1 "):
        assert text.count(x) == 1, text


SNAP = "SnapKVPress(compression_ratio=0.5, window_size=64, kernel_size=5)"


def check_bad():
    """A budget longer than the prompt, a score or parameters that no press has.
    Without kvpress our rows exist and the code is 4."""
    whole, score, other = "snapkv", "chunkkv:score=expected", "random"
    press.PRESSES[other] = "RandomPress({r}, {seed}, 3)"
    rows, said = evaluate(*OPTIONS, "-m", f"{whole},{score},{other}",
                          "-b", "400", code=3)  # fmt: skip
    dense = rows["asked", 0, "dense", None]
    at_400, refused, failed = (rows["asked", 0, PREFIX + x, "400"]
                               for x in (whole, score, other))  # fmt: skip
    for z in "bytes.mean", "bytes.end", "exact", "agree":
        assert at_400["values"][z] == dense["values"][z], (z, at_400)
    assert abs(at_400["values"]["kl"]) < 1e-6 and at_400["budget"] == "68"
    assert refused["status"] == "refused", rows
    assert "cannot have score=expected; choose snapkv, h2o" in said, said
    assert failed["status"] == "failed", rows
    assert "RandomPress(0.0, 1, 3): " in failed["reason"], failed

    def missing(*names):
        raise ImportError(f"needs {names[0]}: pip install {names[0]}")

    own, command.missing = command.missing, missing
    rows, said = evaluate(*OPTIONS, "-m", "snapkv", "-b", BUDGET, code=4)
    command.missing = own
    assert {x[2] for x in rows} == {"dense", "snapkv"}, rows
    assert "--kvpress needs kvpress: pip install kvpress" in said, said


def check_database(rows):
    """A press's rows are stored and found; they need ours for the budget."""
    words = *OPTIONS, "-m", SAME[0], "-b", BUDGET, "--db", at("press.db")
    first, said = evaluate(*words)
    assert "3 to compute" in said, said
    again, said = evaluate(*words)
    assert "3 rows exist, 0 to compute" in said, said
    name = "asked", 0, PREFIX + SAME[0], BUDGET
    assert again[name]["values"] == first[name]["values"]
    for x in "spec", "answer_digest", "budget":
        assert again[name][x] == first[name][x] == rows[name][x], x
    _, said = evaluate(*words, "--again")
    assert "3 to compute" in said, said


if importlib.util.find_spec("kvpress") is None:
    print("evaluate: kvpress is not installed")
    raise SystemExit(0)
torch.set_num_threads(2)
lines(ASKED)
ROWS, _ = evaluate(*OPTIONS, "-m", ",".join([*SAME, *OTHER]), "-b", BUDGET)
IDS = load(MODEL, "f32")[1](ASKED["prompt"])["input_ids"]
IDS = IDS[: ROWS["asked", 0, "dense", None]["prompt_len"]]
check_same(ROWS)
check_other(ROWS)
check_kept(ROWS, IDS)
check_ratio()
check_bad()
check_database(ROWS)
check_defaults(ROWS)
print("evaluate: kvpress beside, the bundled model")
