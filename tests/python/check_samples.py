# SPDX-License-Identifier: Apache-2.0
"""check_samples.py FOLDER TEXTS: the samples in FOLDER (kvreport export
--samples) have the keys, hashes and names that lm-evaluation-harness 0.4.13
writes with --log_samples (evaluator.py, loggers/evaluation_tracker.py,
utils.py), and the answers of TEXTS (table --texts -f jsonl), each once."""

import hashlib
import json
import math
import re
import sys
from pathlib import Path

FOLDER, TEXTS = Path(sys.argv[1]), Path(sys.argv[2])
KEYS = set("doc_id doc target arguments resps filtered_resps filter metrics "
           "doc_hash prompt_hash target_hash".split())  # fmt: skip


def hash_string(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def rows(path):
    return [json.loads(x) for x in path.read_text("utf-8").split("\n")[:-1]]


def sanitized(name):
    """Their sanitize_model_name."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def check_sample(x):
    assert set(x) == KEYS | set(x["metrics"]), x
    doc = json.dumps(x["doc"], indent=2, ensure_ascii=False)
    assert x["doc_hash"] == hash_string(doc), doc
    (args,) = x["arguments"].values()
    assert list(args) == ["arg_0", "arg_1"] and "until" in args["arg_1"], args
    assert x["prompt_hash"] == hash_string(args["arg_0"])
    assert x["target_hash"] == hash_string(x["target"])
    assert args["arg_0"] == x["doc"]["question"], x
    assert x["target"] == x["doc"]["answer"] and x["filter"] == "none", x
    assert x["resps"] == [x["filtered_resps"]], x
    assert x["exact_match"] == float(x["filtered_resps"] == [x["target"]]), x
    assert isinstance(x["contains"], float), x


def check_results(folder, files):
    (path,) = folder.glob("results_*.json")
    found = json.loads(path.read_text("utf-8"))
    name = found["model_name"]
    assert folder.name in (sanitized(name), found["model_name_sanitized"])
    assert folder.name.startswith(sanitized(name)), (folder, name)
    for task, samples in files.items():
        means = {x: y for x, y in found["results"].items()
                 if sanitized(x) == task}  # fmt: skip
        ((task, means),) = means.items()
        for metric in samples[0]["metrics"]:
            mean = sum(x[metric] for x in samples) / len(samples)
            assert math.isclose(means[metric + ",none"], mean), (path, metric)
            assert found["higher_is_better"][task][metric] is True
        assert means["sample_len"] == len(samples)
        counts = found["n-samples"][task]
        assert counts == {"original": 4, "effective": len(samples)}, counts
        assert task in found["versions"] and task in found["n-shot"]
    return name


def main():
    wanted, dates, ids, equal = {}, set(), {}, 0
    for x in rows(TEXTS):
        if x["status"] == "ok" and None not in (x["said"], x["exact"]):
            name = x["model"], x["method"], x["asked"]
            wanted[",".join(y for y in name if y), x["request_digest"]] = x
    stored = len(wanted)
    for folder in FOLDER.iterdir():
        files = {}
        for path in folder.iterdir():
            kind, rest = path.stem.split("_", 1)  # their get_file_task_name
            dates.add(rest.rpartition("_")[2])
            if kind == "samples":
                files[rest.rpartition("_")[0]] = rows(path)
        name = check_results(folder, files)
        for samples in files.values():
            order = [x["doc_id"] for x in samples]
            assert order == sorted(set(order)), order
        for x in sum(files.values(), []):
            check_sample(x)
            doc, row = x["doc"], wanted.pop((name, x["doc"]["request_digest"]))
            assert x["resps"] == [[row["said"]]], (x, row)
            assert x["contains"] == row["exact"], (x, row)
            for ours, theirs in zip(
                "question_text reference item question context".split(),
                "question answer item number context".split(),
            ):
                assert doc[theirs] == row[ours], (ours, x, row)
            key = row["task"], x["doc_id"]
            assert ids.setdefault(key, x["doc_hash"]) == x["doc_hash"]
            equal += x["exact_match"] > 0
    assert not wanted and stored > 20 and equal, (wanted, stored, equal)
    assert sorted(ids) == [(t, i) for t in ("needle", "wo/rds")
                           for i in range(4)], ids  # fmt: skip
    assert len(dates) == 1 and ":" not in min(dates), dates


main()
