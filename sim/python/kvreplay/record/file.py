# SPDX-License-Identifier: Apache-2.0
"""Removes the unfinished files of killed recorders. container.Writer names them
ID.safetensors.PID.part."""

from __future__ import annotations

import os
import re

PART = re.compile(r"\.safetensors\.(\d+)\.part$")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def sweep(folder: str) -> None:
    """Keeps the files of processes that still run."""
    for name in os.listdir(folder):
        found = PART.search(name)
        if found and not alive(int(found[1])):
            os.unlink(os.path.join(folder, name))
