# SPDX-License-Identifier: Apache-2.0
"""The open loop: writes a request's trace to a temporary file and replays it by
`kvreplay run`, which finds budgets of equal bytes and measures what attention
lost. Needs torch and the program."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..container import Writer
from ..record.file import alive
from ..record.plan import Plan, texts
from ..record.request import Request
from ..train.hf import OWN
from .asks import Ask, kvreplay, said
from .attend import Model
from .dense import Dense
from .item import Question

FOLDER = "kvreplay-evaluate-"


def advised(reason: str) -> str:
    """A refusal by `kvreplay run` in words for a user without a trace: about a
    missing file it says what makes it, and nothing of the temporary folder."""
    found = re.fullmatch(
        r"(no file of (\S+) .*?: )there is no .*?, (none in .*)", reason)
    if not found:
        return reason
    begin, method, end = found.groups()
    by = "train-hf" if method in OWN else "train"
    return f"{begin}{end}; `kvreplay {by} {method}` makes one"


class Traces:
    """A folder until close(). Also removes those of killed processes."""

    def __init__(self) -> None:
        for name in os.listdir(tempfile.gettempdir()):
            found = re.match(FOLDER + r"(\d+)-", name)
            if found and not alive(int(found[1])):
                path = os.path.join(tempfile.gettempdir(), name)
                shutil.rmtree(path, ignore_errors=True)
        self.folder = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
        self.path = os.path.join(self.folder, "request.safetensors")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(
        self, model: Model, dense: Dense, prompt_len: int, question: Question,
        metadata: Dict[str, Any],
    ) -> None:  # fmt: skip
        """The trace of what `dense` was fed; needles if it has the answer."""
        n = dense.seen
        start = n - len(question.answer)
        answers = [
            dict(start=start, end=n, source_start=a, source_end=b)
            for a, b in question.spans if question.answer
        ]  # fmt: skip
        request = Request(None, dense.tokens, prompt_len, answers)
        plan = Plan(model.layers, [*range(model.n)], request, None, False, False
                    )  # fmt: skip
        plan.rope = plan.rope._replace(channels=None)  # already reordered
        plan.metadata.update(metadata, answers=answers or None)
        file = Writer(self.path, texts(plan.metadata), plan.shapes)
        try:
            for l in range(model.n):
                plan.put(file, l, dict(zip("qkv", dense.rows(l)),
                                       sinks=model.layers.sinks.get(l)))
            plan.finish(file, request)
            file.finish()
        finally:
            file.leave()

    def run(
        self, methods: Sequence[str], budgets: Sequence[str], jobs: int
    ) -> List[Dict[str, Any]]:
        """A row for each method and budget, a method's budgets in sequence.
        ValueError if `kvreplay run` fails or gives fewer."""
        words = ["-f", "jsonl", "-q", "-j", str(jobs), "-m", ",".join(methods)]
        words += ["-b", ",".join(budgets)] if budgets else []
        done = kvreplay("run", self.path, *words)
        rows = [json.loads(x) for x in done.stdout.splitlines()]
        for row in rows:
            row["reason"] = advised(row["reason"] or "")
        if len(rows) != len(methods) * max(1, len(budgets)):
            if done.returncode:
                raise ValueError(said(done))
            raise ValueError(
                f"{len(methods)} methods at {max(1, len(budgets))} budgets are "
                f"{len(rows)} cells, because two of {','.join(methods)} are "
                "the same; leave one out"
            )
        return rows

    def asked(
        self, asks: Sequence[Ask], typed: Mapping[str, str], jobs: int
    ) -> List[Tuple[Ask, Dict[str, Any]]]:
        """Each with its row. typed: how to write a method, if different.
        Methods with the same budgets share a run, to share search trials."""
        each: Dict[Tuple[str, bool], List[Ask]] = {}
        for x in asks:
            each.setdefault((x.method, x.target is None), []).append(x)
        together: Dict[Tuple[str, ...], Dict[str, List[Ask]]] = {}
        for (method, _), some in each.items():
            targets = tuple(x.target for x in some if x.target is not None)
            together.setdefault(targets, {})[method] = some
        found: List[Tuple[Ask, Dict[str, Any]]] = []
        for targets, methods in together.items():
            names = [typed.get(x, x) for x in methods]
            rows = self.run(names, targets, jobs)
            found += zip([x for some in methods.values() for x in some], rows)
        return found
