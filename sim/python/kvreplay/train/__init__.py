# SPDX-License-Identifier: Apache-2.0
"""Makes the weights or tables that a method reads, from recorded traces.

    kvreplay train deltakv rec/*.safetensors \\
        -o assets/deltakv.my_model.safetensors --hold-out other.safetensors
    kvreplay train deltakv:compressor=gelu:stride=20 rec/*.safetensors \\
        -o w.safetensors --steps 20000

Learns from recorded traces of one model what a method reads from a file. Traces
of the same request should not be among those that results are reported on.

deltakv and less are learned by gradients and need torch; the others need one
pass and numpy. While gradients are followed FILE.training holds what is needed
to go on: a command that was interrupted or killed goes on when it is repeated,
and ends with the same weights as one that was not (same machine, same number of
threads). Weights are not the same on every machine.

Exit codes: 0 done, 2 wrong usage, 3 a bad trace, 4 no memory, disk or package,
130 interrupted.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay train`; returns its exit code."""
    from .traces import main

    return main(argv)
