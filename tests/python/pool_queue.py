# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a pool, again: from the words of
sim/layout/docs/TOGETHER.md, in whole numbers of our own, for methods whose
tokens follow from lengths.

usage: pool_queue.py KVREPLAY TRACE
"""

import itertools
import json
import math
import subprocess
import sys

from splitmix import MASK, splitmix

PROMPT, TOKENS, LAYERS, LANES, ROW = 250, 305, 4, 4, 64  # a row: 32 halves
HEADS, REQUESTS = LAYERS * LANES, 7
FAULTS = []


def up(x, to):
    return -(-x // to)


def arrivals(seed, every):
    """splitmix64 of its own first number and the request's; -log of 23 bits and
    a half, rounded to 2^-16."""
    first = next(splitmix(seed))
    now, steps = 0, [0]
    for i in range(1, REQUESTS):
        bits = next(splitmix(first + i & MASK)) >> 41
        now += every * round(-math.log((2 * bits + 1) / 2**24) * 65536)
        steps.append(now >> 16)
    return steps


class Bytes:
    """slots (pages of one token) and pages of n tokens, K and V apart."""

    unit = 1

    def __init__(self, n, budget):
        self.n, self.budget = n, budget

    def lane(self, seen, first):
        return 2 * ROW * self.n * (up(seen, self.n) - first // self.n)

    def gone(self, seen):
        return max(seen - self.budget, 0)

    def keeps(self, seen):
        return HEADS * self.lane(seen, self.gone(seen))

    def needs(self, seen, entered):
        """Layers compress one after another: one holds what entered."""
        before = self.lane(seen, self.gone(seen - entered) * (seen > PROMPT))
        lane = self.lane(seen, self.gone(seen))
        return self.keeps(seen) + LANES * max(before - lane, 0)

    def payload(self, seen):
        return HEADS * 2 * ROW * min(seen, self.budget)

    def table(self, seen):
        entries = min(seen, self.budget) if self.n == 1 else up(seen, self.n)
        return 4 * 2 * HEADS * entries

    def comes_back(self, seen):
        """As much as it ever held until then."""
        return max(self.needs(s, 1 if s > PROMPT else PROMPT)
                   for s in range(PROMPT, seen + 1))


class Pages:
    """Unified pages, one precision: raw rows, with a score and a position."""

    def __init__(self, page, budget):
        self.unit, self.budget = page, budget
        self.of_page = max(n for n in range(page) if self.size(n) <= page)

    @staticmethod
    def size(n):
        k, v = up(n * ROW, 32) * 32, up(2 * up(n, 2) * ROW, 32) * 32
        return up(k, 128) * 128 + v + 8 * n

    def keeps(self, seen):
        return HEADS * up(min(seen, self.budget), self.of_page)

    def needs(self, seen, entered):
        return HEADS * up(seen, self.of_page) if entered > 1 else \
            self.keeps(seen)

    def payload(self, seen):
        return HEADS * (2 * ROW + 8) * min(seen, self.budget)

    def table(self, seen):
        return None

    def comes_back(self, seen):
        return HEADS * up(seen, self.of_page)


class Request:
    def __init__(self, place, arrives):
        self.place, self.arrives = place, arrives
        self.seen, self.held, self.peak = 0, 0, 0
        self.admitted = self.first = self.ends = None
        self.waited = self.put_back = 0
        self.served = -1

    def next(self):
        return self.seen + 1 if self.seen else PROMPT

    def over(self):
        return self.seen == TOKENS

    def serve(self, store, step):
        self.seen = self.next()
        self.held = store.keeps(self.seen)
        self.served = step
        if self.admitted is None:
            self.admitted = self.first = step


class Pool:
    def __init__(self, store, capacity, steps, stay):
        self.store, self.capacity, self.stay = store, capacity, stay
        self.todo = [Request(i, s) for i, s in enumerate(steps)]
        self.all, self.running, self.queue = list(self.todo), [], []
        self.steps = self.held = self.peak = self.ran = self.waiting = 0
        self.unused = self.tables = 0

    def used(self):
        return sum(r.held for r in self.running)

    def note(self):
        self.peak = max(self.peak, self.used())

    def decode(self, step):
        """All that run ask at once; the last is put back while some lack."""
        asking, back = list(self.running), False
        while asking:
            spare, lacking, granted = self.capacity - self.used(), [], []
            for r in asking:
                goal = self.store.needs(r.next(), 1)
                take = max(goal - r.held, 0)
                if take > spare:
                    lacking.append(r)
                    continue
                spare -= take
                r.held += take
                granted.append(r)
            self.note()
            for r in granted:
                r.serve(self.store, step)
            if lacking:
                last = self.running.pop()
                last.held, last.put_back, back = 0, last.put_back + 1, True
                self.queue.insert(0, last)
                lacking = [r for r in lacking if r is not last]
            asking = lacking
        return back

    def fits(self, new):
        """The peak of the sum: what all hold that run, and the first that
        waits, at each of its steps. This step's others have theirs."""
        return all(
            sum(self.store.needs(r.seen + k, 1) for r in self.running
                if r not in new and r.seen + k <= TOKENS) +
            (len(new) + 1) * self.store.needs(PROMPT + k, 1 if k else PROMPT)
            <= self.capacity for k in range(1, TOKENS - PROMPT + 1))

    def admit(self, step):
        new = []
        while self.queue:
            r = self.queue[0]
            goal = self.store.comes_back(r.next())
            if (goal > self.capacity - self.used() or
                    self.stay and self.running and not self.fits(new)):
                break
            r.held = goal
            self.running.append(self.queue.pop(0))
            new.append(r)
        self.note()
        self.look()
        for r in new:
            r.serve(self.store, step)

    def look(self):
        for r in self.running:
            r.peak = max(r.peak, r.held)

    def step(self, step):
        for r in [r for r in self.running if r.over()]:
            r.ends, r.held = step, 0
            self.running.remove(r)
        while self.todo and self.todo[0].arrives <= step:
            self.queue.append(self.todo.pop(0))
        if not self.decode(step):
            self.admit(step)
        served = [r for r in self.all if r.served == step]
        if not served:
            return
        self.look()
        idle = [r for r in self.queue if r.served != step]
        for r in idle:
            r.waited += 1
        self.steps += 1
        self.ran += len(served)
        self.waiting += len(idle)
        self.held += self.used()
        self.unused += self.used() * self.store.unit - sum(
            self.store.payload(r.seen) for r in self.running)
        tables = [self.store.table(r.seen) for r in self.running]
        if None not in tables:
            self.tables = max(self.tables, sum(tables))

    def run(self):
        step = 0
        while self.todo or self.queue or self.running:
            self.step(step)
            step += 1


def must(what, ours, theirs):
    if ours != theirs:
        FAULTS.append(f"{what}: {ours} by hand, {theirs} of kvreplay")


def compare(name, pool, rows):
    of = rows[0]["together"]["pool"]
    for key, ours in (("steps", pool.steps), ("held", pool.held),
                      ("peak", pool.peak), ("running", pool.ran),
                      ("waiting", pool.waiting), ("unused", pool.unused),
                      ("map_peak", pool.tables or of["map_peak"])):
        must(f"{name}, pool, {key}", ours, of[key])
    for r, row in zip(pool.all, rows):
        of = row["together"]
        for key in ("arrives", "admitted", "first", "waited", "put_back",
                    "ends"):
            must(f"{name}, request {r.place + 1}, {key}", getattr(r, key),
                 of[key])
        must(f"{name}, request {r.place + 1}, pages_peak", r.peak,
             of["pages_peak"])
        must(f"{name}, request {r.place + 1}, refused", None, of["refused"])


def ask(kvreplay, trace, method, layout, pool, admit):
    out = subprocess.run(
        [kvreplay, "run", *[trace] * REQUESTS, "-q", "-p", str(PROMPT), "-m",
         method, "-f", "jsonl", "-b", "60", "--together", "--wait", "--admit",
         admit, "--arrive", "poisson:9:7", "--pool", str(pool), "-l", layout],
        check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def main(kvreplay, trace):
    waited, put_back = {}, {}
    for admit, (method, budget, pools) in itertools.product(
            ("room", "peak"), (("dense", TOKENS, (1300000, 1700000, 1700000)),
                               ("window", 60, (700000, 700000, 700000)))):
        for layout, pool in zip(("unified", "slots", "pages:16"), pools):
            rows = ask(kvreplay, trace, method, layout, pool, admit)
            page = rows[0]["together"]["pool"]["page"]
            store = (Pages(page, budget) if layout == "unified" else
                     Bytes(1 if layout == "slots" else 16, budget))
            ours = Pool(store, pool // store.unit, arrivals(7, 9),
                        admit == "peak")
            ours.run()
            compare(f"{method}, {layout}, {admit}", ours, rows)
            waited[admit] = waited.get(admit, 0) + ours.waiting
            put_back[admit] = put_back.get(admit, 0) + sum(
                r.put_back for r in ours.all)
    if not all(waited.values()) or not put_back["room"] or put_back["peak"]:
        FAULTS.append(f"waits {waited}, put back {put_back}: some is not asked")
    for fault in FAULTS:
        print(fault)
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
