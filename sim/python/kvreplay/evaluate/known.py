# SPDX-License-Identifier: Apache-2.0
"""Remembers of a model what rows need, to avoid loading it: a file in
XDG_CACHE_HOME or ~/.cache. Its key is the model's files (device, inode, size,
times), the dtype, and the code that made it. Needs torch and transformers."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import time
from typing import List, NamedTuple, Optional

import torch
import transformers

from ..hf import identity
from .attend import Model


class Known(NamedTuple):
    """digest: of the weights; dtype: of the cache; size: of the vocabulary;
    most: positions, None if the model does not say."""

    digest: Optional[str]
    dtype: str
    size: int
    most: Optional[int]


def known_of(model: Model) -> Known:
    own = model.model
    config = own.config.get_text_config()
    return Known(
        identity.model_digest(own), model.shape["dtype"],
        own.get_input_embeddings().weight.shape[0],
        getattr(config, "max_position_embeddings", None))  # fmt: skip


def path_of(name: str, dtype: str) -> Optional[str]:
    """The file. None for a name on a hub, or if a file of the model is so young
    that another write could leave its time unchanged."""
    files = sorted(glob.glob(os.path.join(glob.escape(name), "*")))
    files = files or [name]
    seen: List[object] = [dtype, torch.__version__, transformers.__version__]
    try:
        for file in [identity.__file__, __file__, *files]:
            x = os.stat(file)
            if file in files and x.st_mtime > time.time() - 2:
                return None
            seen += [x.st_dev, x.st_ino, x.st_size, x.st_mtime_ns,
                     x.st_ctime_ns]  # fmt: skip
    except OSError:
        return None
    key = hashlib.sha256(json.dumps(seen).encode()).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "kvreplay", "models", key)


def recall(path: Optional[str]) -> Optional[Known]:
    """What the file says. None: load the model."""
    try:
        with open(path or "", encoding="utf-8") as f:
            return Known(*json.load(f))
    except (OSError, ValueError, TypeError):
        return None


def remember(path: Optional[str], known: Known) -> None:
    """Writes the file for recall(), if possible."""
    try:
        if path:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as f:
                json.dump(known, f)
            os.replace(f.name, path)
    except OSError:
        pass
