# SPDX-License-Identifier: Apache-2.0
"""Trains a method's weights or tables on recorded traces.

    kvreplay train deltakv rec/*.safetensors \\
        -o assets/deltakv.my_model.safetensors --hold-out other.safetensors
    kvreplay train deltakv:compressor=gelu:stride=20 rec/*.safetensors \\
        -o w.safetensors --steps 20000

All traces must be of one model. Do not train on traces of requests that you
report results on.

deltakv and less follow gradients and need torch. The others need one pass, and
numpy. During training FILE.training has the state: repeat an interrupted or
killed command to continue it. On the same machine, with as many threads, it
ends with the same weights as an uninterrupted one. Other machines may give
other weights.

Exit codes: 0 done, 2 wrong usage, 3 a bad trace, 4 no memory, disk or package,
130 interrupted.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """`kvreplay train`; returns its exit code."""
    from .traces import main

    return main(argv)
