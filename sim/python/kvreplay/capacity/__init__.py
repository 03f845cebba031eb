# SPDX-License-Identifier: Apache-2.0
"""Counts how many users a node of GPUs serves, by the bytes of each method.

    kvreplay capacity -M llama-3.1-70b -g h100-80g --gpus 8 -c 131072 \\
        -m dense,snapkv,streamingllm -b 20%,4096
    kvreplay capacity -M ./config.json -w fp8 -g l40 -c 32768 \\
        -m dense,snapkv,tova -b 20% --db runs.db

MODEL is listed by `kvtrace plan --help`, or is the config.json of another
model. A config.json counts as an engine serves it: latent attention stores one
latent per token, layers that share K and V share one cache, windows and chunks
store no more than they see, and recurrent layers have a state of fixed size (GB
state). An unknown key that may change a cache is refused by name. If not all
layers have the same KV heads, only dense is counted.

If lengths decide what a method stores, capacity replays lengths; the bytes are
exactly those of a run. If data decides, rows of --db give shares of dense, and
these are applied to the model; without rows the line says that it needs traces.
At 131,072 tokens quant and kivi take minutes and rkv hours, so name methods
instead of all.

GB a user: bytes after a compression, at the decode step with the most. in
prefill: the most at any time, including the prompt before its compression, one
layer after another. users: floor((percent x memory - weights / tp - (prefill -
steady)) / (steady + state)) on the fullest rank, so that one user at a time can
be in its prefill. codes: the same for K and V or their codes alone, without
columns, side memory and tables. Activations get only what --percent leaves.

GB a step: bytes read and scanned by one user's decode step. tokens/s is a
roofline, an upper bound for every engine. A step reads the weights that its
users need once, and every user's cache and state, at full memory bandwidth; or
it computes at the full BF16 speed, whichever takes longer; binds says which. N
users, each routed to k of E experts, need E (1 - (1 - k/E)^N) experts; one user
needs k. An input embedding that is only looked up is not read. Communication,
launches and scheduling are not counted. tokens/s is - if queries decide what is
read, or if the experts' weights are not known.

Exit codes: 0 done; 2 wrong usage, or no method has numbers; 3 a bad file, or a
named method has no numbers; 4 no memory, disk or program; 130 interrupted.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """`kvreplay capacity`; returns its exit code."""
    from .command import main

    return main(argv)
