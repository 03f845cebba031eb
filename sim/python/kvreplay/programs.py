# SPDX-License-Identifier: Apache-2.0
"""Finds the programs, the library and the headers, and is the console command
kvreplay, kvtrace or kvreport. A wheel has them in native/ of the package;
`pip install -e .` has them in native/ of its build. A package in the source
tree has none and uses the programs on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
if not os.path.isdir(FOLDER):
    try:
        from kvreplay_editable import FOLDER  # type: ignore # pip install -e
    except ImportError:
        pass


def library() -> str | None:
    """The path of the wheel's library; None without a wheel."""
    path = os.path.join(FOLDER, "lib", "libkvreplay.so.0")
    return path if os.path.exists(path) else None


def beside() -> str | None:
    """The library of the kvreplay on the PATH, built or installed, or None."""
    folder = os.path.dirname(shutil.which("kvreplay") or "")
    for near in ".libs", os.path.join("..", "lib"):
        path = os.path.join(folder, near, "libkvreplay.so.0")
        if folder and os.path.exists(path):
            return path
    return None


def find(name: str) -> str | None:
    """The path of a program: the wheel's, else on the PATH, else None."""
    path = os.path.join(FOLDER, "bin", name)
    return path if os.access(path, os.X_OK) else shutil.which(name)


def program(name: str) -> str:
    """The path of a program, or its bare name if not found."""
    return find(name) or name


def called(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program. ImportError if it is missing."""
    try:
        return subprocess.run(
            [program(words[0]), *words[1:]], text=True, capture_output=True,
            stdin=subprocess.DEVNULL)  # fmt: skip
    except FileNotFoundError:
        raise ImportError(
            f"no program {words[0]}; install kvreplay's wheel, or put "
            "kvreplay's folder on the PATH"
        ) from None


def version() -> str:
    """By configure.ac in a source tree, else by the program, or "unknown"."""
    said = ""
    tree = os.path.join(os.path.dirname(__file__), "../../../configure.ac")
    if os.path.exists(tree):
        with open(tree, encoding="utf-8") as f:
            said = f.read()
    elif find("kvreplay"):
        said = called("kvreplay", "--version").stdout
    found = re.search(r"\bkvreplay[],[ ]+(\d[^]\s]*)", said)
    return found[1] if found else "unknown"


def main(own: str | None = None) -> int:
    """Replaces this process by the program own, by default the wheel's with the
    name of sys.argv[0], with the same arguments. Adds our folder to the PATH:
    the program finds kvreplay-record and others there even if no environment is
    activated. Returns an exit code, and only if the program cannot start."""
    beside, name = os.path.split(os.path.abspath(sys.argv[0]))
    own = own or os.path.join(FOLDER, "bin", name)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if beside not in path:
        os.environ["PATH"] = os.pathsep.join([*path, beside])
    try:
        os.execv(own, [own, *sys.argv[1:]])
    except OSError as e:
        print(f"{name}: {own}: {e.strerror}; install kvreplay's wheel for this "
              "machine again", file=sys.stderr)
    return 4
