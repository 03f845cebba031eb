# SPDX-License-Identifier: Apache-2.0
"""The prose of the tasks: *News from Nowhere* by William Morris, 1890, edition
of 1908, in the public domain. It has 77,100 words by one author, which models
hardly know by heart.

The package does not contain it. The first task that needs it downloads David
Price's transcription, number 3261 of Project Gutenberg, into XDG_CACHE_HOME or
~/.cache. A machine without a network needs the file there. The text must have
the digest below, so that a task is the same on every machine.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import urllib.request

URL = (
    "https://raw.githubusercontent.com/GITenberg/News-from-Nowhere--Or-An-"
    "Epoch-of-Rest--13-Being-Some-Chapters-from-a-Utopian-Romance_3261/"
    "79bd67b0ae225cd64f7bbc25c0449850b3131069/3261.txt"
)
SHA256 = "5eb0fb1174b0e07b967038beb3a58e842d801be941dff6912001b9875d43f0ca"
# Left out: chapter names, verses (indented), inscriptions, footnotes, and one
# unfinished line.
LEFT_OUT = re.compile(r"CHAPTER|\s|.*And yet--$|\*|.*\{\d\}", re.DOTALL)


def path() -> str:
    """Where the downloaded file is."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "kvreplay", "3261.txt")


def prepared(raw: bytes) -> str:
    """The book alone, one paragraph per line. ValueError: another text."""
    text = raw.decode("ascii", "replace").replace("\r\n", "\n")
    text = text[text.find("CHAPTER I:") : text.find("FOOTNOTES:")]
    lines = [" ".join(x.split()).replace("_", "") + "\n"
             for x in re.split(r"\n\n+", text)
             if x and not LEFT_OUT.match(x)]  # fmt: skip
    book = "".join(lines)
    if hashlib.sha256(book.encode()).hexdigest() != SHA256:
        raise ValueError(f"not the text of {URL}")
    return book


def download() -> bytes:
    """Downloads the file into the cache. ImportError if that fails."""
    try:
        with urllib.request.urlopen(URL, timeout=60) as f:
            raw: bytes = f.read()
    except (OSError, http.client.HTTPException) as e:
        raise ImportError(
            f"the text for tasks is missing, and its download failed ({e}); "
            f"save {URL} as {path()}"
        ) from None
    prepared(raw)
    part = f"{path()}.{os.getpid()}"
    os.makedirs(os.path.dirname(part), exist_ok=True)
    with open(part, "wb") as out:
        out.write(raw)
    os.replace(part, path())
    return raw


def read() -> str:
    """The book's text."""
    try:
        with open(path(), "rb") as f:
            raw = f.read()
    except FileNotFoundError:
        raw = download()
    try:
        return prepared(raw)
    except ValueError as e:
        raise ValueError(f"{path()}: {e}; remove it") from None
