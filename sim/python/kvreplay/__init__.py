# SPDX-License-Identifier: Apache-2.0
"""KV-cache compression methods, measured on recorded attention.

    kvreplay.trace      traces: read_trace, write_trace, Trace
    kvreplay.decisions  what a method of yours kept: write_decisions
    kvreplay.base       decisions with one set of tokens for all lanes
    kvreplay.scores     token scores for methods to read: write_scores
    kvreplay.results    rows and means of a database: read_results, summary
    kvreplay.session    a method that you feed token by token: Session
    kvreplay.grade      grades the decisions and outputs of a kernel: grade
    kvreplay.record     traces of a Hugging Face model: `kvreplay record`
    kvreplay.train      weights for methods: `kvreplay train`, `train-hf`
    kvreplay.evaluate   does it still answer? `kvreplay evaluate`
    kvreplay.claims     do the papers' claims hold? `kvreplay claims`
    kvreplay.capacity   users of a node: `kvreplay capacity`
    kvreplay.figures    figures about traces: `kvreplay attention`, ..
    kvreplay.prefill    sparsity of a prompt's attention: `kvtrace prefill`
    kvreplay.hf         hf.capture: traces of tokens; hf.session: generates
    kvreplay.kvpress    kvpress both ways: Press, from_press, from_scorer
    kvreplay.container  safetensors files: load, save
    kvreplay.binding    the C session through ctypes, for kvreplay.session
    kvreplay.programs   paths of programs, library and headers
    kvreplay.need       refuses bad input in one sentence

The C library and programs make all decisions, measures and hashes. A module
loads numpy, torch and others only if it needs them. For more, type
help("kvreplay.trace") and so on.
"""


def __getattr__(name: str) -> str:
    if name == "__version__":
        from .programs import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
