# SPDX-License-Identifier: Apache-2.0
"""KV-cache compression methods, measured on recorded attention.

    kvreplay.trace      traces: read_trace, write_trace, Trace
    kvreplay.decisions  what a method of yours kept: write_decisions
    kvreplay.base       decisions as one store of all lanes follows them
    kvreplay.scores     scores of tokens that methods read: write_scores
    kvreplay.results    rows and means of a database: read_results, summary
    kvreplay.session    a method fed token by token: Session
    kvreplay.grade      a kernel's decisions and outputs graded: grade
    kvreplay.record     traces of a Hugging Face model: `kvreplay record`
    kvreplay.train      what methods read: `kvreplay train`, `train-hf`
    kvreplay.evaluate   does it still answer? `kvreplay evaluate`
    kvreplay.claims     do papers' claims hold? `kvreplay claims`
    kvreplay.capacity   users of a node: `kvreplay capacity`
    kvreplay.figures    figures about traces: `kvreplay attention`, ..
    kvreplay.prefill    how sparsely a prompt is read: `kvtrace prefill`
    kvreplay.hf         hf.capture: of your tokens; hf.session: generates
    kvreplay.kvpress    kvpress both ways: Press, from_press, from_scorer
    kvreplay.container  any file in safetensors: load, save
    kvreplay.binding    C's session as ctypes sees it, for kvreplay.session
    kvreplay.programs   where programs, library and headers lie
    kvreplay.need       how bad input is refused: one sentence

What is decided, measured and hashed is C's: the library's and `kvreplay`'s,
`kvtrace`'s, `kvreport`'s. numpy, torch and others are loaded by what needs
them. help("kvreplay.trace") and so on say more.
"""


def __getattr__(name: str) -> str:
    if name == "__version__":
        from .programs import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
