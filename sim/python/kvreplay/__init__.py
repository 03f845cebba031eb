# SPDX-License-Identifier: Apache-2.0
"""KV-cache compression methods, measured on recorded attention.

    from kvreplay.trace import read_trace      q, k, v of a request, numpy
    from kvreplay.decisions import write_decisions   a method of your own
    from kvreplay.results import read_results  rows of a database, dicts
    from kvreplay.session import Session       a method fed token by token
    kvreplay.record     traces of a Hugging Face model: `kvreplay record`
    from kvreplay.hf.capture import capture    the same, of tokens of yours
    from kvreplay.hf.session import SessionCache   a model on a session
    from kvreplay.kvpress import from_press    a press of kvpress, measured
    from kvreplay.container import load        any file in safetensors

Decisions, measures, database and digests are the C library's and its three
programs' (`kvreplay`, `kvtrace`, `kvreport`): Python records, drives and
binds. results needs nothing but Python, the others numpy; kvreplay.hf needs
torch and transformers, kvreplay.kvpress kvpress too. `import kvreplay`
loads none of them. help() of a module says the rest.
"""
