# SPDX-License-Identifier: Apache-2.0
"""`kvreplay evaluate` with the bundled model. dense is the model itself, and so
is an evicting method whose budget is everything. A row does not depend on the
other methods. A run can be continued; shards add up to the whole. An error is
one sentence and does not stop the rest. evaluate_hf.py KVTRACE KVREPLAY FOLDER
TINY; needs torch and transformers."""

import contextlib
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import hf_models
import torch
from shared import ASKED, LINES, MODEL, MORE, PROMPTS, at, evaluate, lines
from shared import record, trace

from kvreplay import binding
from kvreplay.evaluate import attend, driver, replay, run
from kvreplay.evaluate.asks import Ask
from kvreplay.evaluate.item import Item, Question
from kvreplay.evaluate.measures import answer_digest
from kvreplay.evaluate.store import TEXTS
from kvreplay.hf.load import greedy, load
from kvreplay.record.tokens import decode
from kvreplay.results import read_evaluations


def values(rows, method, target=None):
    return {x[:2]: y["values"] for x, y in rows.items()
            if x[2:] == (method, target)}  # fmt: skip


def check_dense(rows):
    """dense gives the model's greedy answer, which is right, to the token."""
    model, tokens = load(MODEL, "f32")
    for x in LINES:
        ids = tokens(x["prompt"], return_tensors="pt")["input_ids"]
        new = greedy(model, ids, 8)[0, ids.shape[1] :].tolist()
        ends = [i for i, y in enumerate(new) if y == 257]
        if "answer" in x and ends:
            new = new[: ends[0] + 1]
        row = rows[x["id"], 0, "dense", None]
        assert row["answer_digest"] == answer_digest(new), (x["id"], new)
        got = row["values"]
        assert abs(got["kl"]) < 1e-9 and got["agree"] == len(new), got
        assert "answer" not in x or got["exact"] == 1
        assert row["prompt_len"] == ids.shape[1]
    asked = rows["asked", 0, "dense", None]
    assert asked["values"]["exact"] == 1, asked
    # All tokens of prompt, question and answer but the last, in 6 layers.
    assert asked["values"]["bytes.end"] % (6 * 2 * 128 * 4) == 0


def check_texts(rows):
    """Rows have the texts of question, right answer and answer, also in the
    database. --no-texts: only the name of the context."""
    words = *OPTIONS, "-m", "snapkv", "-b", "12%"
    private, _ = evaluate(*words, "--no-texts", "--db", at("texts.db"))
    again, _ = evaluate(*words, "--again", "--db", at("texts.db"))
    evaluate(*words, "--db", at("texts.db"))
    hidden, _ = evaluate(*words, "--no-texts", "--db", at("texts.db"))
    stored = {(x["item"], x["question"], x["method"], x["target"] or None): x
              for x in read_evaluations(at("texts.db"))}  # fmt: skip
    name = hashlib.sha256(MORE.encode()).hexdigest()[:16]
    answers = {x["id"]: x.get("answer") for x in [*LINES, ASKED]}
    for key, x in again.items():
        assert x["context"] == (name if key[0] == "asked" else ""), x
        assert x["asked"] == ("what is CD34?" if x["context"] else None), x
        assert x["reference"] == answers[key[0]], x
        assert answer_digest(x["said_tokens"]) == x["answer_digest"], x
        assert bytes(y for y in x["said_tokens"] if y < 256).decode(
            errors="replace") == x["said"], x  # fmt: skip
        for y in TEXTS:
            assert private[key][y] is hidden[key][y] is None, (y, private)
            assert rows[key][y] == x[y] == stored[key][y], (y, x, stored[key])
        assert private[key]["context"] == x["context"] == stored[key]["context"]
    said = again["asked", 0, "dense", None]["said"]
    assert said.startswith("27365;"), said


def check_one_file():
    """A context and its questions, for `record` and for `evaluate`: the trace's
    context is what is compressed, and both judge the model's answer alike."""
    ask = dict(context=MORE, question="what is CD34?", answer="27365")
    lines(dict(ask, id="right"), dict(ask, id="wrong", answer="40291"),
          dict(ask, id="in", place="inside"), dict(ask, id="no", answer="9"))
    said = record("both", "--max-new", "8")
    got = "does not give the marked answer, '{}', but '27365"
    for answer, times in ("40291", 1), ("9", 1), ("27365", 0):
        assert said.count(got.format(answer)) == times, said
    rows, _ = evaluate(*OPTIONS, "-m", "dense")
    assert len({x["context"] for x in rows.values()}) == 1, rows
    for name, by in dict(right="model", wrong="user", no="user").items():
        t, row = trace("both", name), rows[name, 0, "dense", None]
        assert t.metadata["answer_by"] == by, (name, t.metadata)
        assert row["values"]["exact"] == (by == "model"), row
        assert [x["role"] for x in t.segments] == [
            "context", "question", "answer"], t.segments  # fmt: skip
        assert t.segments[0]["end"] == row["prompt_len"] < t.prompt_len
        assert row["asked"] == "what is CD34?", row
        assert len(t.answers) == (name != "no"), t.answers
    t, row = trace("both", "in"), rows["in", 0, "dense", None]
    assert t.prompt_len == row["prompt_len"] and row["values"]["exact"], row


def check_full(rows):
    """With a budget of the whole prompt a method's values are dense's, to the
    bit. A budget of an eighth changes them."""
    for name, dense in values(rows, "dense").items():
        full = values(rows, "snapkv", "100%")[name]
        for x in "exact", "loglik_token", "kl", "agree", "bytes.mean":
            assert full.get(x) == dense.get(x), (name, x, full, dense)
        answered = {"exact", "loglik_token"} & {*dense}
        assert len(answered) == 2 * (name[0] != "three"), (name, dense)
        less = values(rows, "snapkv", "12%")[name]
        assert less["kl"] > dense["kl"] + 1e-6, (name, less)
        assert less["bytes.mean"] < dense["bytes.mean"] / 2
        # The open-loop numbers of the same cell.
        assert less["open.output_error.mean"] > 0.01
        assert dense["open.output_error.mean"] < 1e-6
    assert "open.needle_share" in values(rows, "snapkv", "12%")["asked", 0]


def check_alone(rows):
    """A method's numbers are the same, to the bit, alone and with others."""
    alone, _ = evaluate(*OPTIONS, "-m", "snapkv", "-b", "12%")
    for name, x in values(alone, "snapkv", "12%").items():
        assert x == values(rows, "snapkv", "12%")[name], name


def check_refused(rows):
    """A method that cannot run leaves a row with the reason, and code 3."""
    for name in {x[0] for x in rows}:
        row = rows[name, 0, "quest", "mean:3%"]
        assert row["status"] == "refused" and "the smallest" in row["reason"]
        assert not row["values"]


def check_files():
    """A missing file: where it could be, what makes it; not where we looked."""
    rows, said = evaluate(*OPTIONS, "-m", "less,palu+int8", "-b", "25%", code=3)
    for name, key, by in ("less", "less:weights=", "train-hf less"), (
        "palu+int8", "palu:bases=", "train palu"):  # fmt: skip
        why = {x["reason"] for x in rows.values() if x["method"] == name}
        assert why == {
            f"no file of {name.split('+')[0]} for this model: none in the "
            f"folders of KVREPLAY_ASSETS, and {key} names none; `kvreplay {by}`"
            " makes one"}, why  # fmt: skip
        assert said.count(*why) == 1, said


def check_variants():
    """Windows, a cap on logits, learned sinks: dense is the model itself, and
    bytes equal those in open loop, which found the budget."""
    tokens = hf_models.IDS[0].tolist()
    for name, config in (
        ("Mistral", {}),
        ("Gemma2", dict(head_dim=16)),
        ("Gemma3Text", dict(head_dim=16, sliding_window_pattern=2)),
        ("GptOss", dict(head_dim=16, num_local_experts=4)),
    ):
        own = hf_models.model(name, sliding_window=24, **config)
        d = driver.Driver(attend.Model(own), None, [], 2, dict(model=name))
        question = Question(tuple(tokens[48:52]), tuple(tokens[52:]), ())
        item = Item("x", "t", tuple(tokens[:48]), (question,), 6)
        asks = [Ask("dense"), Ask("snapkv:windowed=compress", "prompt", "25%")]
        driver.decode = lambda *_: ""
        rows = [*d.item(item, {0: asks})]
        d.close()
        full, less = (x["values"] for x in rows)
        assert abs(full["kl"]) < 1e-9 and full["agree"] == 6, (name, full)
        assert abs(full["ppl.all"]) < 1e-3, (name, full)
        assert less["kl"] > 1e-9, (name, less)
        for x in full, less:
            assert x["bytes.mean"] == x["open.bytes.mean"], (name, x)
    check_logits(item, asks)
    driver.decode = decode


def check_logits(item, asks):
    """The log-likelihood is the mean over the answer's tokens, without those
    with logits of -inf. A row says which number is not finite."""
    own, (question,) = hf_models.model("Llama"), item.questions

    def rows(first):
        """Rows if tokens from `first` on have logits of -inf."""
        def never(module, args, out):
            out.logits[..., first:] = -torch.inf

        hook = own.register_forward_hook(never)
        d = driver.Driver(attend.Model(own), None, [], 2, dict(model="x"))
        found = [*d.item(item, {0: asks})]
        d.close()
        hook.remove()
        return found

    n = len(question.answer)
    ids = torch.tensor([item.prompt + question.tokens + question.answer])
    with torch.no_grad():
        x = own(ids).logits[0, -n - 1 : -1, :122].double().log_softmax(-1)
    want = float(x.gather(1, ids[0, -n:, None]).mean())
    full, less = rows(122)
    assert abs(full["values"]["loglik_token"] - want) < 1e-6, (full, want)
    assert abs(full["values"]["kl"]) < 1e-9 < less["values"]["kl"], (full, less)
    assert not full["reason"] and not less["reason"]
    for row in rows(100):  # the answer has such tokens
        assert row["status"] == "ok" and "kl" in row["values"], row
        assert "loglik_token" not in row["values"], row
        assert row["reason"].startswith("no loglik_token, ppl.all, "), row
    p, q = torch.randn(2, 3, 9)
    more = torch.full((3, 2), -torch.inf)
    a, b = (torch.cat([x, more], 1) for x in (p, q))
    assert torch.allclose(driver.divergences(a, b), driver.divergences(p, q))
    far = driver.perplexities(torch.zeros(2), torch.full((2,), -800.0))
    assert far == {"ppl.all": torch.inf, "ppl.0": torch.inf}, far


def check_database():
    """Stored rows are not computed again; --again agrees; so do shards."""
    words = *OPTIONS, "-m", "h2o", "-b", "25%"
    evaluate(*words, "--db", at("whole.db"), "-n")
    assert not os.path.exists(at("whole.db"))
    whole, said = evaluate(*words, "--db", at("whole.db"))
    assert "0 rows exist" in said, said

    def never(*_):
        raise AssertionError("computed again")

    item, driver.Driver.item = driver.Driver.item, never
    evaluate(*words, "--db", at("whole.db"))
    driver.Driver.item = item
    check_known(words, whole)
    _, said = evaluate(*words, "--db", at("whole.db"), "--again")
    assert "8 to compute" in said
    parts = {}
    for i in "12":
        rows, _ = evaluate(*words, "--shard", i + "/2", "--db", at("s.%.db"))
        assert os.path.exists(at(f"s.{i}-of-2.db")) and rows
        assert not {*rows} & {*parts}
        parts.update(rows)
    assert {x: y["values"] for x, y in parts.items()} == {
        x: y["values"] for x, y in whole.items()}  # fmt: skip
    # A number that differs now is reported, with code 1.
    old = driver.divergences
    driver.divergences = lambda *x: old(*x) + 1
    _, said = evaluate(*words, "--db", at("whole.db"), "--again", code=1)
    driver.divergences = old
    assert "kl" in said, said


def check_known(words, whole):
    """If all rows exist, the model is not loaded; unless its files changed, are
    in another folder, or are new."""
    folder, words = at("known"), (*words, "--name", "model")
    shutil.copytree(MODEL, folder)
    for x in os.listdir(folder):
        os.utime(os.path.join(folder, x), (1, 1))
    loads, load = [], run.load

    def counted(*words):
        loads.append(words)
        return load(*words)

    run.load = counted
    for i in 1, 1:
        got, said = evaluate(*words, "--db", at("whole.db"), model=folder)
        assert "8 rows exist, 0 to compute" in said, said
        assert {x: y["values"] for x, y in got.items()} == {
            x: y["values"] for x, y in whole.items()}  # fmt: skip
        assert len(loads) == i, loads
    os.utime(os.path.join(folder, "config.json"), (2, 2))
    evaluate(*words, "--db", at("whole.db"), model=folder)
    assert len(loads) == 2, loads
    evaluate(*words, model=folder)  # something is to be computed
    assert len(loads) == 3, loads
    run.load = load


def asked(path, sql):
    """A query's number, of a database in use; 0 before it has the table."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        try:
            return db.execute(sql).fetchone()[0]
        except sqlite3.OperationalError:
            return 0


STALLS = """
import sys, time
from kvreplay.evaluate import main, store
put, n = store.Store.put, []
def stalls(*words):
    n.append(put(*words))
    while len(n) == 4:  # until it is killed
        time.sleep(1)
store.Store.put = stalls
main(sys.argv[1:])
"""


def check_killed():
    """A process killed by SIGKILL loses none of its rows. Repeated, the command
    computes only the others, and all are as in one run."""
    words = (*OPTIONS, "-m", "h2o", "-b", "12%,25%,50%", "--db",
             at("killed.db"))  # fmt: skip
    rows = "SELECT count(*) FROM evaluation"
    child = subprocess.Popen(
        [sys.executable, "-c", STALLS, MODEL, "--prompts", PROMPTS,
         "--threads", "2", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while child.poll() is None and asked(at("killed.db"), rows) < 4:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    there = asked(at("killed.db"), rows)
    again, said = evaluate(*words)
    left = len(again) - there
    assert there == 4 and left > 0, (there, left)
    assert f" {there} rows exist, {left} to compute" in said, said
    assert 1 == asked(at("killed.db"), "SELECT max(n) FROM (SELECT count(*) AS "
                      "n FROM evaluator GROUP BY evaluation_id)")  # fmt: skip
    whole, _ = evaluate(*words[:-2])
    assert again.keys() == whole.keys()
    for x in whole:
        for y in "values", "answer_digest", "spec", "status":
            assert again[x][y] == whole[x][y], (x, y)
    left = [x for x in os.listdir(replay.tempfile.gettempdir())
            if x.startswith(f"{replay.FOLDER}{child.pid}-")]  # fmt: skip
    assert not left, left


def check_early():
    """Another version of library or database: an error before models load.
    What would be computed needs no model."""
    def never(*_, **__):
        raise AssertionError("loaded")

    with open(at("other.db"), "w") as f:
        f.write("no database")
    old, run.load = run.load, never
    _, said = evaluate("--db", at("other.db"), code=3)
    assert "other.db" in said, said
    abi, binding.ABI = binding.ABI, 0
    for words in (), ("--db", at("new.db")):
        _, said = evaluate(*words, code=2)
        assert "use the same version of both" in said, said
    binding.ABI = abi
    recall, run.recall = run.recall, lambda _: None
    for words in (), ("--db", at("new.db")):
        rows, said = evaluate("--plan", "-m", "h2o", "-b", "25%", *words)
        assert "4 items, 0 rows exist, 8 to compute" in said and not rows, said
        assert "3 contexts (3 questions with a right answer) are too" in said
    run.load, run.recall = old, recall
    assert not os.path.exists(at("new.db"))


def check_bad():
    """One sentence and its code; the rest continues."""
    rows, said = evaluate(
        *OPTIONS, "-m", "dense", tasks=("--tasks", "kv", "--items", "1",
        "--length", "4000"), code=3)  # fmt: skip
    assert "limit of 2048" in said and not rows, said
    lines(LINES[0], dict(id="chat", messages=[dict(role="user", content="x")]))
    rows, said = evaluate(*OPTIONS, "-m", "dense", code=3)
    assert "no chat template" in said and {x[0] for x in rows} == {"one"}
    for words, code, text in (
        (["-m", "h3o"], 2, "did you mean h2o"),
        (["-m", "h2o", "-b", "20x"], 2, "budget 20x"),
        (["-m", "h2o", "-b", "64/32"], 2, "one budget for all layers"),
        (["-m", "dense", "--db", at("no", "r.db")], 3, "no folder"),
    ):
        _, said = evaluate(*words, code=code)
        assert text in said and said.count("\n") == 1, said
    left = [x for x in os.listdir(replay.tempfile.gettempdir())
            if x.startswith(f"{replay.FOLDER}{os.getpid()}-")]  # fmt: skip
    assert not left, left


OPTIONS = "--new", "8", "--dtype", "f32"
torch.set_num_threads(2)
lines(*LINES, ASKED)
ROWS, _ = evaluate(*OPTIONS, "-m", "snapkv,kivi", "-b", "100%,12%")
check_dense(ROWS)
check_texts(ROWS)
check_full(ROWS)
check_alone(ROWS)
check_refused(evaluate(*OPTIONS, "-m", "quest", "-b", "mean:3%", code=3)[0])
check_files()
check_variants()
check_database()
check_killed()
check_early()
check_bad()
check_one_file()
print("evaluate: the bundled model")
