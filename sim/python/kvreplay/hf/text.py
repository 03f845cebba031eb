# SPDX-License-Identifier: Apache-2.0
"""The command lines of the modules that run a Hugging Face model: a text as
its tokens, and failures as one sentence and an exit code of kvreplay (2 a
wrong command line, 3 a bad model, text or trace, 4 a missing package, memory or
disk, 130 interrupted). Needs neither torch nor transformers until a model is
loaded."""

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
# Options of programs that record: {name: help}.
NAME = {"name": "name of the model in the trace (default: MODEL)"}


def arguments(
    doc: str,
    *names: str,
    options: Mapping[str, str] = {},
    flags: Mapping[str, str] = {},
    **last: Any,
) -> argparse.Namespace:
    """The command line: texts by name, then texts and numbers that have a
    default; options are texts, None where not given; flags are given or not."""
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
    """What the program is called: of a package its name, not __main__.py; of
    kvreplay-record how it is typed, kvreplay record."""
    folder, name = os.path.split(sys.argv[0])
    name = os.path.basename(folder) if name == "__main__.py" else name
    return name.replace("kvreplay-", "kvreplay ")


def missing(*packages: str) -> None:
    """ImportError that says what to install, where one is missing."""
    lacks = [x for x in packages if importlib.util.find_spec(x) is None]
    if lacks:
        raise ImportError(
            f"needs {', '.join(lacks)}: pip install {' '.join(lacks)}"
        )


def packages_for(model: str) -> None:
    """ImportError where one is missing that loads this model. Called before
    torch is imported, whose threads then do not spin while they wait: on a busy
    machine that would be most of the processor time. The bar of reading a GGUF
    file is tqdm's own, which this alone stops; a download keeps its."""
    missing("numpy", "torch", "transformers")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if model.endswith(".gguf") and os.path.exists(model):
        missing("gguf")
        os.environ.setdefault("TQDM_DISABLE", "1")


def require(*packages: str) -> None:
    """Leaves the program where one is missing: 4 and a sentence."""
    code = run(lambda: missing(*packages))
    if code:
        sys.exit(code)


def reason(e: BaseException) -> str:
    """The sentence of an exception."""
    of = failure(e)
    return of[1] if of else str(e)


def failure(e: BaseException) -> tuple[int, str] | None:
    """The exit code of an exception and its sentence; None of what is none of
    ours, a fault of the program."""
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
    if isinstance(code, int):  # of the session; 6: refused
        return 3 if code == 6 else code, said
    # Of torch, by its name: it need not be there.
    lacks = "OutOfMemory" in type(e).__name__ or "allocate" in said
    return (4, said) if lacks and isinstance(e, RuntimeError) else None


def run(main: Callable[[], int | None], name: str | None = None) -> int:
    """main(), which returns an exit code or None; of its failure one line on
    standard error, and the code. name: what the line begins with, else
    program()."""
    try:
        return main() or 0
    except (Exception, KeyboardInterrupt) as e:
        known = failure(e)
        if not known:
            raise
    print(f"{name or program()}: {known[1]}", file=sys.stderr, flush=True)
    return known[0]


def check_folder(*paths: str) -> None:
    """Before anything is computed: is there a folder to write each into?"""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise ValueError(f"{path}: there is no folder {folder}; make it "
                             "first")
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder; name a file in it")


def folded(text: str) -> str:
    """A text without case, accents and compatible forms of characters."""
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(x for x in text if not unicodedata.combining(x))


def plain(text: str) -> str:
    """A text without what tokenizers may change and document: these, and
    blanks."""
    return "".join(folded(text).split())


@functools.lru_cache(None)
def say_once(sentence: str) -> None:
    """On standard error, behind the program's name."""
    print(f"{program()}: {sentence}", file=sys.stderr, flush=True)


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens that a tokenizer puts before and behind every text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    ids = tokenizer("a", add_special_tokens=True)["input_ids"]
    n = len(bare)
    for i in range(len(ids) - n + 1):
        if ids[i : i + n] == bare:
            return ids[:i], ids[i + n :]
    return [], []


def tokenized(tokenizer: Any, text: str, special: bool) -> list[int]:
    """The tokens of a text that goes on. special: with those that begin every
    text, if any do; once where the text begins with them itself, and without
    those that end every text."""
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
    """tokenized() of the text, which must come back from them: a folder without
    its tokenizer may load as one that loses what it is given. name: the
    model's, for sentences; size: tokens that the model knows."""
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
    """The model, its tokenizer, and a text as its tokens [1, n]; without a text
    None for both. more: as kvreplay.hf.load.load() takes it."""
    from .load import load

    model, tokenizer = load(name, tokenizer=text is not None, **more)
    if text is None:
        return model, None, None
    import torch

    size = model.get_input_embeddings().weight.shape[0]
    ids = encode(name, tokenizer, text, size)
    return model, tokenizer, torch.tensor([ids])


def go_on(model: Any, ids: Any, new: int) -> Any:
    """The ids [1, n] and `new` tokens that the model adds, greedily."""
    from .load import greedy

    return greedy(model, ids, new)


def read_text(path: str) -> str:
    """A file in UTF-8; ValueError, of one sentence, of another."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except UnicodeDecodeError as e:
        raise ValueError(
            f"{path}: not UTF-8 at byte {e.start}; give a text in UTF-8"
        ) from None
