# SPDX-License-Identifier: Apache-2.0
"""Options that commands share, and parsers of values. Needs only Python."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any, Callable, NoReturn


class Usage(Exception):
    """A wrong command line, in one sentence."""

    code = 2


class Parser(argparse.ArgumentParser):
    """Raises Usage instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; `{self.prog} --help` has the options")


def up_to(most: int, least: int = 1) -> Callable[[str], int]:
    """A parser of integers, for Parser."""

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
    """A parser of integers from `least` to below 10^9."""

    def read(text: str) -> int:
        n = int(text)
        if not least <= n < 10**9:
            raise ValueError
        return n

    read.__name__ = f"number of {least} or more"
    return read


def option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Makes argparse print read()'s own error message."""

    def get(text: str) -> Any:
        try:
            return read(text)
        except ValueError as e:
            raise argparse.ArgumentTypeError(str(e)) from None

    return get


def add_model(
    p: argparse.ArgumentParser, dtype: str, name: str, device: bool = True
) -> None:
    """Adds --dtype, --device (not if sessions attend, on the CPU), --name and
    --quiet. dtype: help for --dtype. name: what --name is used for."""
    add = p.add_argument
    add("--dtype", choices=["auto", "f32", "bf16", "f16"], default="auto",
        help=f"{dtype} (default: the model's own; f32 of a .gguf)")  # fmt: skip
    if device:
        add("--device", help="device such as cuda:0 (default: cpu)")
    add("--name", help=f"name of the model{name} (default: the name of its "
        "folder or file, or on the hub)")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress bar")


def say_as(name: str) -> Callable[..., None]:
    """print() to standard error, after the command's name."""
    return functools.partial(print, name + ":", file=sys.stderr, flush=True)
