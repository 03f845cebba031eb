# SPDX-License-Identifier: Apache-2.0
"""check_samples.py FOLDER TEXTS: the samples in FOLDER (kvreport export
--samples) have the keys, hashes and names that lm-evaluation-harness 0.4.13
writes with --log_samples (evaluator.py, utils.py), and the answers of TEXTS
(table --texts -f jsonl), each once."""

import hashlib
import json
import math
import re
import sys
from pathlib import Path

METRICS = ["contains", "exact_match"]


def digest(text):
    """Their hash_string."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def rows(path):
    return [json.loads(x) for x in path.read_text("utf-8").split("\n")[:-1]]


def sanitized(name):
    """Their sanitize_model_name."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def check_sample(x, row):
    names = "question_text reference item question context request_digest"
    keys = "question answer item number context request_digest".split()
    doc = dict(zip(keys, (row[name] for name in names.split())))
    (args,) = x["arguments"].values()
    same = float(row["said"] == row["reference"])
    assert list(args) == ["arg_0", "arg_1"] and "until" in args["arg_1"], args
    wanted = dict(
        doc_id=x["doc_id"], doc=doc, target=doc["answer"],
        arguments={"gen_args_0": args}, resps=[[row["said"]]],
        filtered_resps=[row["said"]], filter="none", metrics=METRICS,
        doc_hash=digest(json.dumps(doc, indent=2, ensure_ascii=False)),
        prompt_hash=digest(args["arg_0"]), target_hash=digest(doc["answer"]),
        contains=row["exact"], exact_match=same)  # fmt: skip
    assert x == wanted and args["arg_0"] == doc["question"], (x, wanted)
    return same


def check_results(folder, files):
    (path,) = folder.glob("results_*.json")
    found = json.loads(path.read_text("utf-8"))
    name = found["model_name"]
    assert folder.name == found["model_name_sanitized"], folder
    assert folder.name.startswith(sanitized(name)), (folder, name)
    assert {sanitized(x) for x in found["results"]} == set(files), files
    for task, means in found["results"].items():
        samples = files[sanitized(task)]
        order = [x["doc_id"] for x in samples]
        assert order == sorted(set(order)), order
        for metric in METRICS:
            mean = sum(x[metric] for x in samples) / len(samples)
            assert math.isclose(means[metric + ",none"], mean), (path, metric)
            assert found["higher_is_better"][task][metric] is True
        counts = {"original": 4, "effective": means["sample_len"]}
        assert found["n-samples"][task] == counts, counts
        assert means["sample_len"] == len(samples)
        assert task in found["versions"] and task in found["n-shot"]
    return name


wanted, dates, ids, equal = {}, set(), {}, 0
for row in rows(Path(sys.argv[2])):
    if row["status"] == "ok" and None not in (row["said"], row["exact"]):
        name = filter(None, (row["model"], row["method"], row["asked"]))
        wanted[",".join(name), row["request_digest"]] = row
stored = len(wanted)
for folder in Path(sys.argv[1]).iterdir():
    files = {}
    for path in folder.iterdir():
        kind, rest = path.stem.split("_", 1)  # their get_file_task_name
        dates.add(rest.rpartition("_")[2])
        if kind == "samples":
            files[rest.rpartition("_")[0]] = rows(path)
    name = check_results(folder, files)
    for x in sum(files.values(), []):
        row = wanted.pop((name, x["doc"]["request_digest"]))
        equal += check_sample(x, row)
        key = row["task"], x["doc_id"]
        assert ids.setdefault(key, x["doc_hash"]) == x["doc_hash"], key
assert not wanted and stored > 20 and equal, (wanted, stored, equal)
assert sorted(ids) == [(t, i) for t in ("needle", "wo/rds") for i in range(4)]
assert len(dates) == 1 and ":" not in min(dates), dates
