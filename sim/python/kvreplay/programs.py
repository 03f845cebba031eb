# SPDX-License-Identifier: Apache-2.0
"""Where the wheel's programs, library and headers lie: the console commands
kvreplay, kvtrace and kvreport, which this module becomes, and `python -m
kvreplay`, which prints the folder. A package that was not built into a wheel,
such as the one in the source tree, has none of them."""

import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


def library():
    """The path of the wheel's library, None where there is no wheel."""
    path = os.path.join(FOLDER, "lib", "libkvreplay.so.0")
    return path if os.path.exists(path) else None


def main():
    """The program that sys.argv[0] is called like, in the place of this
    process, with the same arguments. Further commands that lie beside it
    (kvreplay-record) are found from there, too, where no environment was
    activated. Returns, with an exit code, only where it cannot be started."""
    beside, name = os.path.split(os.path.abspath(sys.argv[0]))
    program = os.path.join(FOLDER, "bin", name)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if beside not in path:
        os.environ["PATH"] = os.pathsep.join([*path, beside])
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as e:
        print(f"{name}: {program}: {e.strerror}: install the wheel of kvreplay "
              "for this machine again", file=sys.stderr)
    return 4
