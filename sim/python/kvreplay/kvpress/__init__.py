# SPDX-License-Identifier: Apache-2.0
"""Connects kvreplay and kvpress.

    from kvreplay.kvpress import Press        our method as a press
    from kvreplay.kvpress import from_press   a press's decisions, as a file
    from kvreplay.kvpress import make_press   a press from an expression
    from kvreplay.kvpress import from_scorer  a scorer press's scores, as a file

    python -m kvreplay.kvpress --help         the last three as a program

All need kvpress, torch and transformers. traces/examples/KVPRESS.md lists the
presses."""

from importlib import import_module as _import
from typing import Any as _Any

_WHERE = {
    "Press": "press",
    "from_press": "decide",
    "make_press": "expression",
    "from_scorer": "scorer",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> _Any:
    """Loads a name on demand: `import kvreplay.kvpress` needs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import("." + _WHERE[name], __name__), name)
