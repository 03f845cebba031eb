# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay evaluate`. Checks options and files before it
imports torch and loads a model."""

from __future__ import annotations

import argparse
import re
from typing import Any, List, Optional, Tuple

from . import __doc__ as DOC
from ..hf.options import add_model, option, say_as, whole
from ..hf.text import check_folder, missing, packages_for, run
from ..record.prompts import read_prompts
from .asks import DEFAULTS, PREFIX, Methods
from .tasks import NAMES, options_of

NAME = "kvreplay evaluate"


def shard(text: str) -> Tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not found or int(found[1]) > int(found[2]):
        raise ValueError(f"must be a shard such as 1/4, up to 4/4, not {text}")
    return int(found[1]), int(found[2])


def tasks(text: str) -> List[str]:
    found: List[str] = []
    for x in text.split(","):
        found += NAMES if x == "all" else [x]
    for x in found:
        options_of(x)
    return [*dict.fromkeys(found)]


def depth(text: str) -> float:
    try:
        if not 0 <= float(text) <= 1:
            raise ValueError
    except ValueError:
        raise ValueError(f"must be a number from 0 to 1, not {text}") from None
    return float(text)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog=NAME, description=DOC, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = p.add_argument
    add("model", metavar="MODEL", help="folder, hub name or .gguf file")
    add("--tasks", type=option(tasks), metavar="LIST",
        help="tasks made from a seed: " + ", ".join(NAMES) + ", or all "
        "(default: niah_single_2, a needle in prose)")  # fmt: skip
    add("--prompts", metavar="FILE", help="your own questions, as JSON "
        "lines of `kvreplay record` with messages and answer")  # fmt: skip
    add("--items", type=whole(1), default=10, metavar="N",
        help="questions per task (default: 10)")  # fmt: skip
    add("--length", type=whole(16), default=1024, metavar="N",
        help="tokens of a prompt (default: 1024)")  # fmt: skip
    add("--depth", type=option(depth), metavar="X", help="position of the "
        "answer in the prompt, 0 to 1 (default: several in turn)")  # fmt: skip
    add("--seed", type=whole(0), default=1, metavar="N",
        help="seed of the tasks (default: 1)")  # fmt: skip
    add("-m", "--methods", default="dense", metavar="SPEC,...",
        help="as for `kvreplay run`: snapkv,quest:page=16,snapkv+int4, or all"
        )  # fmt: skip
    add("-b", "--budget", metavar="LIST", help="as for `kvreplay run`: 20%%, "
        "512, mean:25%%, end:25%%, read:25%%")  # fmt: skip
    add("--kvpress", action="append_const", const=PREFIX, help="also run "
        "kvpress's press of the same name, with as many entries and the same "
        f"parameters: {PREFIX}snapkv")  # fmt: skip
    add("--kvpress-defaults", action="append_const", const=DEFAULTS,
        dest="kvpress", help="the same, with kvpress's own default parameters: "
        f"{DEFAULTS}snapkv")  # fmt: skip
    add("--new", type=whole(1), metavar="N", help="generate at most N "
        "tokens (default: the task's)")  # fmt: skip
    add("-d", "--db", metavar="FILE", help="store rows in an SQLite "
        "database. Rows that it has are not computed again")  # fmt: skip
    add("--no-texts", action="store_true", help="neither store nor print texts "
        "and tokens of questions and answers")  # fmt: skip
    add("--again", action="store_true", help="compute stored rows again, and "
        "compare")  # fmt: skip
    add("--shard", type=option(shard), default=(1, 1), metavar="I/N",
        help="only items I, I + N, ..; %% in the name after --db becomes "
        "2-of-4")  # fmt: skip
    add("--threads", type=whole(1), metavar="N",
        help="threads (default: one per processor)")  # fmt: skip
    add("-f", "--format", choices=["table", "jsonl"], default="table",
        help="format of the output (default: table)")  # fmt: skip
    add("-n", "--dry-run", "--plan", action="store_true", help="compute "
        "nothing, but print what would be, and which differences between "
        "methods so many contexts can detect")  # fmt: skip
    add_model(p, "number type of the model and its cache", "", device=False)
    return p


def database(text: Optional[str], shard: Tuple[int, int]) -> Optional[str]:
    """The name of a shard's database, as for `kvreplay run --shard`."""
    own = "{}-of-{}".format(*shard)
    return text and re.sub("%%?", lambda x: own if x[0] == "%" else "%", text)


def go(a: argparse.Namespace, say: Any) -> int:
    a.prompts = read_prompts(a.prompts) if a.prompts else []
    a.tasks = a.tasks or ([] if a.prompts else ["niah_single_2"])
    a.db = database(a.db, a.shard)
    if a.db:
        check_folder(a.db)
    a.known = Methods()
    a.asks = a.known.asks(a.methods, a.budget)
    packages_for(a.model)
    lacks = ""
    try:
        missing(*["kvpress"] * bool(a.kvpress))
    except ImportError as e:
        lacks, a.kvpress = f"--kvpress {e}", None
        say(lacks)
    from .run import evaluate

    return evaluate(a, say) or (4 if lacks else 0)


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    a = parser().parse_args(argv)
    return run(lambda: go(a, say_as(NAME)), NAME)
