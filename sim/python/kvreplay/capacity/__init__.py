# SPDX-License-Identifier: Apache-2.0
"""How many users a node of GPUs serves, by the bytes that each method holds.

    kvreplay capacity -M llama-3.1-70b -g h100-80g --gpus 8 -c 131072 \\
        -m dense,snapkv,streamingllm -b 20%,4096
    kvreplay capacity -M ./config.json -w fp8 -g l40 -c 32768 \\
        -m dense,snapkv,tova -b 20% --db runs.db

MODEL is a name of the table of `kvtrace plan --help`, or the config.json of any
other model. A config.json is read as an engine serves it: latent attention
keeps one latent a token, layers that share K and V keep one cache, windows and
chunks no more than they see, and recurrent layers a state of fixed size, which
has a column of its own (GB state). A key that may change a cache and is not
known is refused by name. Where layers are not lanes of the same KV heads only
dense is counted.

Where lengths decide what a method stores, lengths are replayed, and the bytes
are those of a run, to the byte. Where data decides, rows of --db give shares of
dense, which are taken to the model; without rows the line says that it needs
traces. The prompt of every layer is read: at 131,072 tokens quant and kivi,
which code each row, take minutes, and rkv, which compares all keys with all,
hours: name methods in place of all.

GB a user: after a compression, at the decode step with most; in prefill: the
most at any time, the prompt before it is compressed included, one layer after
another. Users: floor((percent x memory - weights / tp - (prefill - steady)) /
(steady + state)) on the fullest rank, so that one user at a time may be in its
prefill; codes: the same of K and V or their codes alone, without columns, side
memory and tables. No memory is set aside for activations but what --percent
leaves.

GB a step: bytes read and scanned by one user's decode step. tokens/s is a
roofline: a step reads the weights that its users need once, and every user's
cache and state, at the memory's full bandwidth, or computes at the device's
full BF16 speed, whichever takes longer; binds says which. Of E experts, N users
that are each sent to k need E (1 - (1 - k/E)^N), which for one user is k. An
input embedding that is only looked up is not read. No communication, launch or
scheduling is counted: it is what no engine can be above. It is - where queries
decide what is read, or nothing says which weights are experts'.

Exit codes: 0 done; 2 wrong usage, or no method has numbers; 3 a bad file, or a
method that was named has no numbers; 4 no memory, disk or program; 130
interrupted.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay capacity`; returns its exit code."""
    from .command import main

    return main(argv)
