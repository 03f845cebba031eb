# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models: capture (a trace of one), session (its KV cache as a
kvreplay session), identity (which model it is); and what the two share: model
(the attention function and the rotation), plain (what can be recorded), text
(command lines, tokens). Needs torch and transformers, but for text."""
