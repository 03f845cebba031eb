# SPDX-License-Identifier: Apache-2.0
"""Finds the files that methods read. `kvreplay run` finds them in the folders
of KVREPLAY_ASSETS by a trace's model; a session needs their paths."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Dict, List, Optional, Sequence

from ..container import load

PLUS = r"(?<!\\)\+"  # between two methods
BESIDE = "scores"  # belongs to one trace, so the user always names it


def folders() -> List[str]:
    """The folders of KVREPLAY_ASSETS. A backslash escapes a colon in a name."""
    text = os.environ.get("KVREPLAY_ASSETS", "")
    found = re.findall(r"(?:\\.|[^:\\])+", text)
    return [re.sub(r"\\(.)", r"\1", x) for x in found]


def file_of(method: str, digest: Optional[str]) -> Optional[str]:
    """The model's first METHOD.*.safetensors."""
    for folder in folders():
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not re.fullmatch(re.escape(method) + r"\..*\.safetensors", name):
                continue
            path = os.path.abspath(os.path.join(folder, name))
            try:
                known = load(path)[0].get("model_digest", "")
            except (OSError, ValueError):
                continue
            if digest and digest in known.split():
                return path
    return None


def filled(
    method: str, params: Sequence[Dict[str, Any]], digest: Optional[str]
) -> str:
    """The method as typed, plus the path of the file that it would read.
    params: those of its first part, from `kvreplay methods`."""
    first, *others = re.split(PLUS, method)
    name, *given = re.split(r"(?<!\\):", first)
    keys = [x["name"] for x in params
            if x["kind"] == "file" and x["name"] != BESIDE]  # fmt: skip
    if not keys or any(x.partition("=")[0] in keys for x in given):
        return method
    path = file_of(name, digest)
    if path:
        path = re.sub(r"([\\:,+])", r"\\\1", path)
        first = f"{first}:{keys[0]}={path}"
    return "+".join([first, *others])


def code_of(method: str, typed: str) -> Optional[str]:
    """A row's code: the digest of the file that was found, if any was."""
    if typed == method:
        return None
    behind = typed[len(re.split(PLUS, method)[0]) :]
    path = re.findall(r"=((?:\\.|[^\\:,+])*)", behind)[0]
    with open(re.sub(r"\\(.)", r"\1", path), "rb") as f:
        return "file " + hashlib.sha256(f.read()).hexdigest()


def bare(spec: str) -> str:
    """A specification without folders of files: they differ by machine."""
    return re.sub(r"=(?:\\.|[^\\:,+])*/", "=", spec)
