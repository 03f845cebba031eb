# SPDX-License-Identifier: Apache-2.0
"""answers_rows.py DATABASE: four answers of two methods to two questions, one
of them long, one refused, for check_evidence.sh."""
import sys

from kvreplay.evaluate.store import Store

with Store(sys.argv[1]) as store:
    for item, digest in ("n.0", "ab"), ("n.1", "ac"):
        for method, right in ("dense", 1), ("h2o", 0):
            refused = item == "n.1" and method == "h2o"
            store.put(dict(
                model="made-up", model_digest="ef" * 32,
                task="needle.after.jsonl", item=item, question=0,
                request_digest=digest * 32, prompt_len=10, tokens=20,
                method=method, basis=None if right else "mean",
                target=None if right else "mean:25%", context=digest * 8,
                asked="Who?", reference="caf\u00e9", spec=method,
                budget=None if right else "3",
                status="refused" if refused else "ok",
                reason="the smallest takes 30 %, more" if refused else "",
                platform=dict(torch="2.15", transformers="5.24", threads=1,
                              processor="x", dtype="bfloat16"),
                said=None if refused else "caf\u00e9\n" + "x" * 300,
                said_tokens=None if refused else [1, 2],
                answer_digest=None if refused else "cd" * 32,
                values={} if refused else {
                    "exact": right, "kl": 0.3, "loglik_token": -0.333333,
                    "bytes.mean": 123456789, "open.kl.mean": 3.5e-10,
                    "open.kl.count": 7, "agree": 2},
            ))  # fmt: skip
