# SPDX-License-Identifier: Apache-2.0
"""kvpress's own evaluation, evaluation/evaluate.py of its repository, with
methods of ours in its table of presses.

    press_evaluate.py EVALUATION MODEL FOLDER

EVALUATION: that folder of a checkout, which is left as it is; MODEL: a folder
or a hub's name; FOLDER: results, and the data, for evaluate.py reads a folder
simonjegou/ruler under where it is run in the place of the one on the hub: made
up here, in RULER's form, two numbers hidden in a text and a question for each.
Runs evaluate.py once a press and prints what it says of each. Exit 1 where a
method of ours answers another thing than the press that KVPRESS.md calls equal
to it, or fails. Needs kvpress, what evaluation/ imports besides (datasets,
fire, rouge, nltk, bert_score, fuzzywuzzy, jieba), and no network.
"""

import csv
import json
import os
import random
import subprocess
import sys

RATIO = 0.5
# kvpress's name, that of ours beside it (None: nothing is equal), how it is
# made, and the data: decode=True takes one question a prompt.
PAIRS = [
    ("snapkv", "Press('snapkv', window=64, kernel=5, pooling='avg')", "two"),
    ("knorm", "Press('knorm', skip=0)", "two"),
    ("tova", "Press('tova', variant='prefill', protect_newest=True)", "two"),
    (None, "Press('kivi', bits=4)", "two"),
    (None, "Press('adakv', window=64, kernel=5, pooling='avg')", "two"),
    (None, "Press('quest', page=16, skip=0, decode=True)", "one"),
    (None, "Press('h2o', decode=True)", "one"),
]
THEIRS = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
made = sys.argv.pop(1)
from evaluate_registry import PRESS_REGISTRY
from kvreplay.kvpress import Press
if made:
    PRESS_REGISTRY["kvreplay"] = eval(made)
runpy.run_path(sys.path[0] + "/evaluate.py", run_name="__main__")
"""
WORDS = (
    "river stone window garden letter bridge market winter candle harbour "
    "engine meadow ladder copper signal forest village mirror basket thunder"
).split()


def prose(r, sentences):
    for _ in range(sentences):
        a, b, c = r.sample(WORDS, 3)
        yield f"The {a} stood beside the {b} until the {c} was gone."


def rows(questions, contexts=4, sentences=24):
    """Lines of RULER's form."""
    for i in range(contexts):
        r = random.Random(f"press_evaluate {i}")
        text, asked = [*prose(r, sentences)], r.sample(WORDS, 2)
        numbers = [str(r.randrange(10**4, 10**5)) for _ in asked]
        for key, number in zip(asked, numbers):
            at = r.randrange(len(text))
            text.insert(at, f"The special number of the {key} is {number}.")
        for key, number in [*zip(asked, numbers)][:questions]:
            yield {
                "context": "Remember the special numbers in this text.\n"
                + " ".join(text) + "\n",
                "question": f"What is the special number of the {key}?\n",
                "answer_prefix": "Answer: the special number is ",
                "answer": [number],
                "task": "niah_single",
                "max_new_tokens": 12,
            }  # fmt: skip


def write_data(folder):
    for name, questions in ("one", 1), ("two", 2):
        where = os.path.join(folder, "simonjegou", "ruler", name)
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, "test.jsonl"), "w") as f:
            f.writelines(json.dumps(x) + "\n" for x in rows(questions))


def evaluate(evaluation, model, folder, name, made, data):
    """Answers, and metrics, of a run of evaluate.py."""
    n = len(os.listdir(folder))
    out = os.path.join(folder, f"{name or 'kvreplay'}.{n}")
    x = subprocess.run(
        [sys.executable, "-c", THEIRS, evaluation, made or "",
         "--dataset", "ruler", "--data_dir", data, "--model", model,
         "--press_name", name or "kvreplay", "--device", "cpu",
         "--compression_ratio", str(RATIO), "--output_dir", out,
         "--config_file", "/none"],
        cwd=folder, capture_output=True, text=True,
        env=dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1"),
    )  # fmt: skip
    if x.returncode:
        sys.exit(f"evaluate.py with {made or name}: {x.stderr[-2000:]}")
    (found,) = os.listdir(out)
    with open(os.path.join(out, found, "predictions.csv"), newline="") as f:
        said = {
            (y["question"], y["answer"]): y["predicted_answer"]
            for y in csv.DictReader(f)
        }
    with open(os.path.join(out, found, "metrics.json")) as f:
        return said, json.load(f)


def main(evaluation, model, folder):
    evaluation, folder = os.path.abspath(evaluation), os.path.abspath(folder)
    wrong = 0
    if os.path.isdir(model):
        model = os.path.abspath(model)
    os.makedirs(folder, exist_ok=True)
    write_data(folder)
    for name, made, data in [("no_press", None, "two"), *PAIRS]:
        got = []
        for n, m in [(name, None)] * bool(name) + [(None, made)] * bool(made):
            said, metrics = evaluate(evaluation, model, folder, n, m, data)
            got.append(said)
            line = f"{m or n}: {len(said)} answers, {json.dumps(metrics)}"
            print(line, flush=True)
        same = all(x == got[0] for x in got)
        wrong += not same
        if len(got) > 1:
            print("  the same answers" if same else "  OTHER answers")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
