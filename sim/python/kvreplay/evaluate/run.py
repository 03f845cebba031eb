# SPDX-License-Identifier: Apache-2.0
"""Makes a command line's items, looks them up, computes the missing rows and
shows all. Needs torch and transformers."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import transformers

from ..binding import SessionError
from ..binding import load as library
from ..hf.load import ends_of, limits, load, load_tokenizer, name_of
from ..hf.model import need
from ..hf.text import reason
from ..record.progress import clock
from .asks import Ask, head_of
from .assets import code_of, filled
from .attend import Model
from .driver import Codes, Driver, named
from .item import Item, item_of
from .known import Known, known_of, path_of, recall, remember
from .plan import plan
from .press import Presses, beside, code, is_press
from .store import TEXTS, Memory, Store
from .table import grouped, needless, table
from .tasks import TASKS, make, options_of

Row = Dict[str, Any]
Work = List[Tuple[Item, Dict[int, List[Ask]]]]


def processor() -> str:
    """The name of this machine's processor."""
    found, path = None, "/proc/cpuinfo"
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
        found = re.search(r"^model name\s*:(.*)", f.read(), re.M)
    return found[1].strip() if found else (
        platform.processor() or platform.machine())  # fmt: skip


def items_of(
    a: argparse.Namespace, name: str, tokenizer: Any, known: Known,
    say: Callable[..., None],
) -> Tuple[List[Item], int]:  # fmt: skip
    """The items, and how many tasks or items are impossible."""
    size, most = known.size, known.most
    found: List[Item] = []
    bad: List[ValueError] = []

    def made(make: Callable[..., Any], *words: Any) -> Any:
        """What it makes; nothing and a sentence if it cannot."""
        try:
            return make(*words)
        except ValueError as e:
            bad.append(e)
            say(str(e))
            return []

    for task in a.tasks:
        of, options = options_of(task)
        known = TASKS[of].options
        if a.depth is not None and "depth" in known and "depth" not in options:
            task = f"{task}:depth={a.depth:g}"
        found += made(make, task, tokenizer, a.seed, a.items, a.length, name,
                      size)  # fmt: skip
    for x in a.prompts:
        file = re.sub(r":\d+$", "", os.path.basename(x.where))
        found += made(lambda *y: [item_of(*y)], file, name, tokenizer, x, size)
    if a.new:
        found = [x.__class__(**{**vars(x), "new": a.new}) for x in found]
    part = found[a.shard[0] - 1 :: a.shard[1]]
    return [x for x in part if made(x.check, most) is None], len(bad)


class Evaluation:
    """Rows of the items: stored and computed ones."""

    def __init__(
        self, a: argparse.Namespace, store: Any, named: Row, codes: Codes,
        say: Callable[..., None],
    ) -> None:  # fmt: skip
        """named: the part of a row's key that all share: model, platform."""
        self.a, self.store, self.say = a, store, say
        self.named, self.codes = named, codes
        self.rows: List[Row] = []
        self.bad = self.differs = 0

    def missing(self, item: Item) -> Dict[int, List[Ask]]:
        """What to compute for each question. Stored rows go to self.rows."""
        found: Dict[int, List[Ask]] = {}
        for n in range(len(item.questions)):
            for ask in self.a.asks:
                asked = {**self.named, **named(item, n, ask, self.codes)}
                row = self.store.find(asked)
                if row and not self.a.again:
                    self.rows.append(self.shown(row))
                else:
                    found.setdefault(n, []).append(ask)
        return found

    def shown(self, row: Row) -> Row:
        """The row, without texts if they are private."""
        return {**row, **dict.fromkeys(TEXTS if self.a.no_texts else ())}

    def put(self, row: Row) -> None:
        row = self.shown({**self.named, **row})
        self.rows.append(row)
        try:
            self.store.put(row)
        except SessionError as e:
            if e.code != 1:
                raise
            self.differs += 1
            self.say(f"{row['item']}, {row['method']}: {e}")

    def item(
        self, driver: Driver, item: Item, asked: Dict[int, List[Ask]]
    ) -> int:
        """Computes and stores an item's rows; returns how many."""
        n = 0
        try:
            for row in driver.item(item, asked):
                self.put(row)
                n += 1
        except (ValueError, IndexError, NotImplementedError) as e:
            self.bad += 1
            self.say(f"{item.id}: {reason(e)}")
        return n

    def look(self, items: List[Item]) -> Work:
        """Looks up all rows; returns what to compute."""
        work = [(x, y) for x in items if (y := self.missing(x))]
        cells = sum(len(x) for _, y in work for x in y.values())
        if not self.a.quiet or self.a.dry_run:
            self.say(f"{len(items)} items, {len(self.rows)} rows exist, "
                     f"{cells} to compute")  # fmt: skip
        return [] if self.a.dry_run else work

    def compute(self, driver: Driver, work: Work) -> None:
        left = sum(len(x.prompt) for x, _ in work)
        began, seen = time.monotonic(), 0
        for i, (item, asked) in enumerate(work):
            since = time.monotonic()
            n = self.item(driver, item, asked)
            seen += len(item.prompt)
            now = time.monotonic()
            if not self.a.quiet:
                rest = (now - began) / seen * (left - seen)
                self.say(f"{item.id}: {len(item.prompt):,} tokens, {n} rows, "
                         f"{clock(now - since)}; {i + 1} of {len(work)}, "
                         f"{clock(rest)} left")  # fmt: skip


def refusals(rows: List[Row], say: Callable[..., None]) -> int:
    """Prints why methods and budgets were refused, failed or lack a number,
    each reason once. Returns how many methods have no row at any budget."""
    why: Dict[str, List[str]] = {}
    lost: Dict[str, bool] = {}
    for (method, target), some in grouped(rows).items():
        bad = [x for x in some if x["reason"]]
        lost[method] = lost.get(method, True) and all(
            x["status"] != "ok" for x in some)
        if bad:
            share = f" ({len(bad)} of {len(some)} rows)"
            why.setdefault(bad[0]["reason"], []).append(
                f"{method} {target}".strip() + share * (len(bad) < len(some)))
    for text, names in why.items():
        say(f"{', '.join(names)}: {text}")
    return sum(lost.values())


def opened(a: argparse.Namespace) -> Any:
    """A Store or Memory. Checks the versions of library and database before a
    model is loaded; but call it after importing torch, whose numbers change if
    an OpenMP runtime is loaded before its own. A dry run creates no file."""
    if a.db and (not a.dry_run or os.path.exists(a.db)):
        return Store(a.db)
    library(None)
    return Memory()


def evaluate(a: argparse.Namespace, say: Callable[..., None]) -> int:
    """Returns the exit code."""
    with contextlib.closing(opened(a)) as store:
        return with_store(a, store, say)


def loaded(
    a: argparse.Namespace, path: Optional[str]
) -> Tuple[Model, Any, Known]:
    """The model, its tokenizer and Known. path: path_of() before loading."""
    own, tokenizer = load(a.model, a.dtype)
    model = Model(own)
    known = known_of(model)
    remember(path, known)
    return model, tokenizer, known


def with_store(
    a: argparse.Namespace, store: Any, say: Callable[..., None]
) -> int:
    """Returns the exit code. Loads the model only if needed: its digest finds
    stored rows."""
    threads = a.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    path = path_of(a.model, a.dtype)
    model, known = None, recall(path)
    if a.dry_run and not known and isinstance(store, Memory):
        known = Known(None, "", *limits(a.model))
    if known:
        tokenizer = load_tokenizer(a.model)
    else:
        model, tokenizer, known = loaded(a, path)
    name = a.name or name_of(a.model)
    items, bad = items_of(a, name, tokenizer, known, say)
    asked = dict(
        model=name, model_digest=known.digest, platform=dict(
            torch=torch.__version__, transformers=transformers.__version__,
            processor=processor(), threads=threads,
            dtype=known.dtype))  # fmt: skip
    typed = {x.method: filled(x.method, a.known.params(head_of(x.method)[0]),
                              known.digest) for x in a.asks}  # fmt: skip
    codes = {y: code_of(y, z) for y, z in typed.items()}
    if a.kvpress:
        a.asks = beside(a.asks, a.kvpress)
        codes.update((y.method, code()) for y in a.asks if is_press(y))
    x = Evaluation(a, store, asked, codes, say)
    work = x.look(items)
    if work:
        if not model:
            model, _, found = loaded(a, path)
            need(found == known, f"{a.model}: its files changed while it was "
                 "loaded; repeat the command")  # fmt: skip
        metadata = dict(model=name, model_digest=known.digest)
        with contextlib.closing(
            Driver(model, tokenizer, ends_of(model.model), threads, metadata,
                   typed, codes, presses=Presses(model) if a.kvpress else None)
        ) as driver:
            x.compute(driver, work)
    if a.dry_run:
        for line in plan(items, a.asks):
            say(line)
        return 3 if bad else 0
    if a.format == "jsonl":
        for row in x.rows:
            print(json.dumps(row))
    else:
        place = {(y.method, y.target): i for i, y in enumerate(a.asks)}
        print(table(sorted(x.rows, key=lambda y: place[
            y["method"], y["target"]])), end="")  # fmt: skip
    sys.stdout.flush()
    lost = refusals(x.rows, say)
    if not a.quiet and (more := needless(x.rows)):
        say(more)
    every = "all" in a.methods.split(",")
    if bad or x.bad or lost and not every:
        return 3
    return 1 if x.differs else 0
