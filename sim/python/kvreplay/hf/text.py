# SPDX-License-Identifier: Apache-2.0
"""Shared by commands that run a Hugging Face model: text as tokens, and
failures as one sentence and an exit code of kvreplay (2 wrong command line, 3
bad model, text or trace, 4 missing package, memory or disk, 130 interrupted).
Needs torch and transformers only to load a model."""

from __future__ import annotations

import argparse
import errno
import functools
import importlib.util
import os
import sys
import unicodedata
from typing import Any, Callable, Mapping

FULL = errno.ENOSPC, errno.EDQUOT, errno.ENOMEM
# Options of commands that record: {name: help}.
NAME = {"name": "name of the model in the trace (default: MODEL)"}


def arguments(
    doc: str,
    *names: str,
    options: Mapping[str, str] = {},
    flags: Mapping[str, str] = {},
    **last: Any,
) -> argparse.Namespace:
    """Parses the command line: positional texts by name, then `last` with
    defaults. options have a text, None if absent; flags are true or false."""
    p = argparse.ArgumentParser(
        prog=program(), description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    for name in names:
        p.add_argument(name)
    for name, default in last.items():
        kind = type(default)
        p.add_argument(name, nargs="?", type=kind, default=default)
    for name in options:
        p.add_argument("--" + name, help=options[name])
    for name in flags:
        p.add_argument("--" + name, action="store_true", help=flags[name])
    a = p.parse_args()
    for name, x in vars(a).items():
        if isinstance(x, int) and x < 0:
            p.error(f"{name} must be 0 or more, not {x}")
    return a


def program() -> str:
    """The program's name: a package's, not __main__.py; `kvreplay record`."""
    folder, name = os.path.split(sys.argv[0])
    name = os.path.basename(folder) if name == "__main__.py" else name
    return name.replace("kvreplay-", "kvreplay ")


def missing(*packages: str) -> None:
    """ImportError that says what to install, if a package is missing."""
    lacks = [x for x in packages if importlib.util.find_spec(x) is None]
    if lacks:
        raise ImportError(
            f"needs {', '.join(lacks)}: pip install {' '.join(lacks)}"
        )


def packages_for(model: str) -> None:
    """ImportError if a package that loads this model is missing. Call it before
    importing torch: then torch's threads do not spin while they wait, which on
    a busy machine would take most of the processor time. Also hides the
    progress bar for GGUF files, but not that of downloads."""
    missing("numpy", "torch", "transformers")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if model.endswith(".gguf") and os.path.exists(model):
        missing("gguf")
        os.environ.setdefault("TQDM_DISABLE", "1")


def require(*packages: str) -> None:
    """Exits with code 4 and a sentence if a package is missing."""
    code = run(lambda: missing(*packages))
    if code:
        sys.exit(code)


def reason(e: BaseException) -> str:
    """An exception's sentence."""
    of = failure(e)
    return of[1] if of else str(e)


def failure(e: BaseException) -> tuple[int, str] | None:
    """An exception's exit code and sentence; None for a bug in the program."""
    said = " ".join(str(e).split())
    if isinstance(e, KeyboardInterrupt):
        return 130, "interrupted; finished results are kept"
    if isinstance(e, (ImportError, MemoryError)):
        return 4, said or "not enough memory"
    if isinstance(e, OSError):
        if e.filename and e.strerror:
            said = f"{e.filename}: {e.strerror}"
        return 4 if e.errno in FULL else 3, said
    if type(e).__module__ == "sqlite3":
        return 4, said
    if isinstance(e, IndexError):
        return 3, f"{said}; does the model allow this many tokens?"
    if isinstance(e, (ValueError, NotImplementedError)):
        return 3, said
    code = getattr(e, "code", None)
    if isinstance(code, int):  # a SessionError; 6: refused
        return 3 if code == 6 else code, said
    # By name, because torch may not be installed.
    lacks = "OutOfMemory" in type(e).__name__ or "allocate" in said
    return (4, said) if lacks and isinstance(e, RuntimeError) else None


def run(main: Callable[[], int | None], name: str | None = None) -> int:
    """Runs main(), which returns an exit code or None. A failure prints one
    line, after name (default: program()), and returns its code."""
    try:
        return main() or 0
    except (Exception, KeyboardInterrupt) as e:
        known = failure(e)
        if not known:
            raise
    print(f"{name or program()}: {known[1]}", file=sys.stderr, flush=True)
    return known[0]


def check_folder(*paths: str) -> None:
    """ValueError if a file cannot be written there. Call it early."""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise ValueError(f"{path}: there is no folder {folder}; make it "
                             "first")
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder; name a file in it")


def folded(text: str) -> str:
    """A text without case, accents and compatibility forms."""
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(x for x in text if not unicodedata.combining(x))


def plain(text: str) -> str:
    """The folded text without blanks: what a tokenizer must preserve."""
    return "".join(folded(text).split())


@functools.lru_cache(None)
def say_once(sentence: str) -> None:
    """Prints to standard error, after the program's name."""
    print(f"{program()}: {sentence}", file=sys.stderr, flush=True)


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens that a tokenizer puts before and after every text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    ids = tokenizer("a", add_special_tokens=True)["input_ids"]
    n = len(bare)
    for i in range(len(ids) - n + 1):
        if ids[i : i + n] == bare:
            return ids[:i], ids[i + n :]
    return [], []


def tokenized(tokenizer: Any, text: str, special: bool) -> list[int]:
    """A text's tokens. special: with the tokens that begin every text, if any,
    but only once if the text already contains them. Never with those that end
    every text, because the text continues."""
    ids: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
    first, last = frame(tokenizer) if special else ([], [])
    if last and ids[-len(last) :] == last:
        ids = ids[: -len(last)]
        say_once(f"the tokenizer ends each text with {tokenizer.decode(last)}, "
                 "which is left out because the prompt goes on")  # fmt: skip
    if first and ids[: 2 * len(first)] == 2 * first:
        ids = ids[len(first) :]
        say_once(f"a prompt begins with {tokenizer.decode(first)}, and the "
                 "tokenizer adds it, too; one of the two is left out"
                 )  # fmt: skip
    return [*ids]


def encode(
    name: str, tokenizer: Any, text: str, size: int, special: bool = True
) -> list[int]:
    """tokenized(), after a check that the tokens decode to the text: a folder
    without its tokenizer can load as a tokenizer that loses text. name: the
    model's, for messages. size: its vocabulary."""
    bare = tokenizer(text, add_special_tokens=False)["input_ids"]
    want, back = plain(text), plain(tokenizer.decode(bare))
    if want != back:
        n = len(os.path.commonprefix([want, back]))
        raise ValueError(
            f"{name}: the tokenizer changes the text: {want[n:n + 20]!r} comes "
            f"back as {back[n:n + 20]!r}; give a model's folder with the "
            "tokenizer it was trained with"
        )
    ids = tokenized(tokenizer, text, special)
    if not ids:
        raise ValueError("the text has no token; give a longer one")
    if max(ids) >= size:
        raise ValueError(
            f"{name}: the tokenizer gives token {max(ids)}, but the model has "
            f"{size} tokens; give a model with its own tokenizer"
        )
    return ids


def load(name: str, text: str | None, **more: Any) -> tuple[Any, Any, Any]:
    """The model, its tokenizer, and the text's tokens [1, n]. Without a text
    the last two are None. more: for kvreplay.hf.load.load()."""
    from .load import load

    model, tokenizer = load(name, tokenizer=text is not None, **more)
    if text is None:
        return model, None, None
    import torch

    size = model.get_input_embeddings().weight.shape[0]
    ids = encode(name, tokenizer, text, size)
    return model, tokenizer, torch.tensor([ids])


def go_on(model: Any, ids: Any, new: int) -> Any:
    """Greedy generation: ids [1, n] followed by at most `new` tokens."""
    from .load import greedy

    return greedy(model, ids, new)


def read_text(path: str) -> str:
    """A file's text. ValueError if it is not UTF-8."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except UnicodeDecodeError as e:
        raise ValueError(
            f"{path}: not UTF-8 at byte {e.start}; give a text in UTF-8"
        ) from None
