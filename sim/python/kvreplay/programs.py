# SPDX-License-Identifier: Apache-2.0
"""Where the wheel's programs, library and headers lie: the console commands
kvreplay, kvtrace and kvreport, which this module becomes: native/ of the
package, or of the build that `pip install -e .` made. The package as it lies
in the source tree has none of them, and takes the programs of the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
if not os.path.isdir(FOLDER):
    try:
        from kvreplay_editable import FOLDER  # type: ignore # of pip install -e
    except ImportError:
        pass


def library() -> str | None:
    """The path of the wheel's library, None where there is no wheel."""
    path = os.path.join(FOLDER, "lib", "libkvreplay.so.0")
    return path if os.path.exists(path) else None


def beside() -> str | None:
    """The path of the library of the program kvreplay on the PATH: of its
    build, or of where it was installed. None where neither is there."""
    folder = os.path.dirname(shutil.which("kvreplay") or "")
    for near in ".libs", os.path.join("..", "lib"):
        path = os.path.join(folder, near, "libkvreplay.so.0")
        if folder and os.path.exists(path):
            return path
    return None


def find(name: str) -> str | None:
    """The path of a program: the wheel's, else of the PATH; None: nowhere."""
    path = os.path.join(FOLDER, "bin", name)
    return path if os.access(path, os.X_OK) else shutil.which(name)


def program(name: str) -> str:
    """The same, else the name alone."""
    return find(name) or name


def called(*words: str) -> subprocess.CompletedProcess[str]:
    """What one of the programs answers. ImportError where there is none."""
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
    """kvreplay.__version__: what configure.ac says of the source tree that this
    lies in, else what the program says; "unknown" where neither is there."""
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
    """The program own, else the wheel's that sys.argv[0] is called like, in the
    place of this process, with the same arguments. Further commands that lie
    beside it (kvreplay-record) are found from there, too, where no environment
    was activated. Returns, with an exit code, only where it cannot be started.
    """
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
