# SPDX-License-Identifier: Apache-2.0
"""The texts in items.py's contexts: a novel, and documentation, a history and
dictionaries in Debian 12's packages, which `apt-get download NAME=VERSION` puts
into ~/.cache/kvreplay/texts. A package must have the SHA-256 below, so that an
item is the same on every machine. Models may have read all of them in training;
what items ask about is drawn at random, except in `documentation`.

filler(name) is a text as paragraphs of ASCII sentences, in order. A missing or
another file is a ValueError."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import unicodedata
from typing import Callable, Iterator, NamedTuple

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP, "sim", "python"))

from kvreplay.evaluate.tasks import book  # noqa: E402

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
FOLDER = os.path.join(CACHE, "kvreplay", "texts")
Files = dict[str, str]  # text by the end of its path


class Package(NamedTuple):
    name: str
    version: str
    sha256: str
    wants: str  # a regular expression for paths in it


DEBIAN = {x.name: x for x in (
    Package("debian-history", "2.28",
        "ae364cdfd075bf6a08ca8f5105b44db7093e3b201c95d3b70a863b8849c6a082",
        r".*/project-history\.en\.txt\.gz"),
    Package("debian-policy", "4.6.2.0",
        "ef9d01b625c3b87c3a845c2cd1b66f1a16e9240b2b9e5bee53472a00e8457a39",
        r".*/debian-policy/policy\.txt\.gz"),
    Package("dict-foldoc", "20230119-1",
        "745cbedb55c2da609cc88ee0284e9d11a67a11ae3709daf7bad0e895ac3294c3",
        r".*/foldoc\.dict\.dz"),
    Package("dict-jargon", "4.4.7-3.1",
        "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
        r".*/jargon\.dict\.dz"),
    Package("wordnet-base", "1:3.0-37",
        "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
        r".*/wordnet/(data|index)\.noun"),
    Package("manpages-dev", "6.03-2",
        "96f55cb5e26231d5567c89b692bced63825a14a2d5bd18fdf16ea2ed44eb9838",
        r".*/man[23]/[^/]*\.gz"),
)}  # fmt: skip


def archive(x: Package) -> bytes:
    """A package's file, fetched if it is missing."""
    name = f"{x.name}_{x.version.replace(':', '%3a')}_all.deb"
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        os.makedirs(FOLDER, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", f"{x.name}={x.version}"],
                       cwd=FOLDER, check=False)  # fmt: skip
    if not os.path.exists(path):
        raise ValueError(f"{path}: is missing; save Debian 12's package "
                         f"{x.name} {x.version} there")  # fmt: skip
    with open(path, "rb") as f:
        raw = f.read()
    if hashlib.sha256(raw).hexdigest() != x.sha256:
        raise ValueError(f"{path}: its SHA-256 is not {x.sha256}; remove it")
    return raw


def data(raw: bytes) -> bytes:
    """data.tar.xz of a .deb: an ar archive with headers of 60 bytes."""
    at = 8
    while at < len(raw):
        n = int(raw[at + 48 : at + 58])
        if raw[at : at + 8] == b"data.tar":
            return raw[at + 60 : at + 60 + n]
        at += 60 + n + n % 2
    raise ValueError("a package without data.tar")


@functools.lru_cache(None)
def files(name: str) -> Files:
    """A package's wanted files, sorted by path."""
    x, found = DEBIAN[name], {}
    with tarfile.open(fileobj=io.BytesIO(data(archive(x)))) as tar:
        for member in tar:
            if member.isfile() and re.fullmatch(x.wants, member.name):
                f = tar.extractfile(member)
                raw = f.read() if f else b""
                if raw[:2] == b"\x1f\x8b":
                    raw = gzip.decompress(raw)
                found[member.name] = raw.decode("utf-8", "replace")
    return dict(sorted(found.items()))


def ascii_of(text: str) -> str:
    """The text in ASCII; letters lose their accents, the rest becomes ?."""
    for x, y in zip("“”‘’–—", "\"\"''--"):
        text = text.replace(x, y)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(x for x in text if not unicodedata.combining(x))
    return text.encode("ascii", "replace").decode()


def paragraphs(text: str) -> Iterator[str]:
    """Those that are prose: 15 words or more, none of them over 25 letters,
    and whole sentences."""
    for x in re.split(r"\n\s*\n", ascii_of(text)):
        x = re.sub(r"[{}]|\[\d+\]", "", " ".join(x.split()))
        if (len(x.split()) >= 15 and x.endswith(".") and x[0].isalnum()
                and not re.search(r"[<>|=@_?\\]|--|http|\S{26}", x)
                ):  # fmt: skip
            yield x


def only(name: str) -> list[str]:
    return [*paragraphs("\n\n".join(files(name).values()))]


def glosses() -> list[str]:
    """WordNet: "Entry: the act of entering.", in the order of its files."""
    found = []
    for line in path_of("data.noun").splitlines():
        x = re.match(r"\d+ \d\d n \S\S (\S+) .* \| ([^;\"]+)", line)
        if x and len(x[2].split()) >= 6 and x[1].isascii():
            found.append(f"{x[1].replace('_', ' ').capitalize()}: "
                         f"{x[2].strip()}.")  # fmt: skip
    return found


def path_of(end: str) -> str:
    """The text of the WordNet file whose path ends so."""
    (text,) = (y for x, y in files("wordnet-base").items() if x.endswith(end))
    return text


TEXTS: dict[str, Callable[[], list[str]]] = {
    "morris": lambda: book.read().splitlines(),
    "debian-history": lambda: only("debian-history"),
    "debian-policy": lambda: only("debian-policy"),
    "dict-foldoc": lambda: only("dict-foldoc"),
    "dict-jargon": lambda: only("dict-jargon"),
    "wordnet-base": glosses,
}  # manpages-dev is only in `documentation`


@functools.lru_cache(None)
def filler(name: str) -> tuple[tuple[str, ...], ...]:
    """A text's paragraphs, each as its sentences."""
    return tuple(tuple(re.split(r"(?<=[.!?]) +(?=[A-Z\"'])", x))
                 for x in TEXTS[name]())  # fmt: skip


@functools.lru_cache(None)
def functions() -> tuple[tuple[str, str], ...]:
    """C functions and their one-line descriptions, by manual page: those of
    three to six words that name no function."""
    found = {}
    for text in files("manpages-dev").values():
        x = re.search(r"\n\.SH NAME\n([a-z_0-9]+)[^\n]*? \\- ([^\n]+)\n", text)
        if (x and 3 <= len(x[2].split()) <= 6
                and re.fullmatch(r"[A-Za-z -]+", x[2])):  # fmt: skip
            found.setdefault(x[2].strip(), x[1])
    return tuple((y, x) for x, y in found.items())


@functools.lru_cache(None)
def nouns(file: int) -> tuple[str, ...]:
    """Common nouns whose first sense is in this file of WordNet's editors (5:
    animals, 8: bodies, ..): of one short word with one or two senses, and
    tagged in WordNet's corpus."""
    of = {x[:8]: int(x[9:11]) for x in path_of("data.noun").splitlines()
          if x[:8].isdigit()}  # fmt: skip
    found = []
    for line in path_of("index.noun").splitlines():
        x = line.split()
        if line[0].isalpha() and x[0].isalpha() and 2 < len(x[0]) < 9:
            senses = int(x[2])
            if (senses < 3 and int(x[-senses - 1])
                    and of[x[-senses]] == file):  # fmt: skip
                found.append(x[0])
    return tuple(found)
