# SPDX-License-Identifier: Apache-2.0
"""Options of the package's commands, and how their texts are read. Needs Python
alone."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any, Callable, NoReturn


class Usage(Exception):
    """A command line that is wrong, in one sentence."""

    code = 2


class Parser(argparse.ArgumentParser):
    """One that raises Usage in place of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; `{self.prog} --help` has the options")


def up_to(most: int, least: int = 1) -> Callable[[str], int]:
    """A reader of whole numbers, for Parser."""

    def read(text: str) -> int:
        try:
            if least <= int(text) <= most:
                return int(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {least} to {most}, not {text}")

    return read


def whole(least: int) -> Callable[[str], int]:
    """A reader of whole numbers."""

    def read(text: str) -> int:
        n = int(text)
        if not least <= n < 10**9:
            raise ValueError
        return n

    read.__name__ = f"number of {least} or more"
    return read


def option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """What a reader of an option's text refuses, in its own words."""

    def get(text: str) -> Any:
        try:
            return read(text)
        except ValueError as e:
            raise argparse.ArgumentTypeError(str(e)) from None

    return get


def add_model(
    p: argparse.ArgumentParser, dtype: str, name: str, device: bool = True
) -> None:
    """--dtype, --device (where sessions on the CPU do not attend), --name and
    --quiet. dtype: the help of the first; name: where the name is used."""
    add = p.add_argument
    add("--dtype", choices=["auto", "f32", "bf16", "f16"], default="auto",
        help=f"{dtype} (default: the model's own; f32 of a .gguf)")  # fmt: skip
    if device:
        add("--device", help="of the model, such as cuda:0 (default: cpu)")
    add("--name", help=f"name of the model{name} (default: the name of its "
        "folder or file, or on the hub)")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress bar")


def say_as(name: str) -> Callable[..., None]:
    """print() on standard error, behind the command's name."""
    return functools.partial(print, name + ":", file=sys.stderr, flush=True)
