# SPDX-License-Identifier: Apache-2.0
"""Makes presses from expressions, and explains kvpress's failures."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import kvpress
import transformers

from ..hf.model import need

Result = TypeVar("Result")


def make_press(text: str) -> Any:
    """The press of an expression of kvpress's names, calls and literals."""

    def value(x: ast.AST) -> Any:
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name):
            make: Any = getattr(kvpress, x.func.id, None)
            need(make, f"kvpress has no {x.func.id}")
            named = {y.arg or "": value(y.value) for y in x.keywords}
            return make(*map(value, x.args), **named)
        if isinstance(x, ast.List):
            return [value(y) for y in x.elts]
        return ast.literal_eval(x)

    try:
        return value(ast.parse(text, mode="eval").body)
    except (AssertionError, SyntaxError, TypeError, ValueError) as e:
        raise ValueError(
            f"{text}: {e}; write a press as in 'AdaKVPress(SnapKVPress(0.8))'"
        ) from None


def spelled(text: str) -> str:
    """The expression with each argument by name, and with kvpress's defaults
    for those that it lacks. Of calls and positional arguments."""

    def said(x: Any) -> str:
        if not isinstance(x, ast.Call):
            return ast.unparse(x) if isinstance(x, ast.AST) else repr(x)
        name = ast.unparse(x.func)
        own = inspect.signature(getattr(kvpress, name)).bind(*x.args)
        own.apply_defaults()
        given = (f"{y}={said(z)}" for y, z in own.arguments.items())
        return f"{name}({', '.join(given)})"

    return said(ast.parse(text, mode="eval").body)


def does_not_run(name: str, why: Exception) -> str:
    """A failure of kvpress's own, with the versions."""
    try:
        version = importlib.metadata.version("kvpress")
    except importlib.metadata.PackageNotFoundError:
        version = "of no version"
    return (
        f"{name} of kvpress {version} does not run on this model by "
        f"transformers {transformers.__version__} (kvpress 0.5.5 needs one "
        f"below 5.3): {type(why).__name__}: {why}"
    )


def tried(name: str, run: Callable[[str], Result]) -> Result:
    """run("sdpa"); or run("eager") if the press requires eager attention, to
    see probabilities. Failures of kvpress's own become one sentence."""
    try:
        return run("sdpa")
    except (OSError, ValueError):
        raise
    except Exception as e:
        need("eager" in str(e), does_not_run(name, e))
    try:
        return run("eager")
    except (OSError, ValueError):
        raise
    except Exception as e:
        raise ValueError(does_not_run(name, e)) from None
