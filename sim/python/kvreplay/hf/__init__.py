# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models: capture (a trace of one), session (its KV cache as a
kvreplay session), identity (which model it is); and what these share: load (a
model and what it adds to a prompt), model (the attention function), rope (the
rotation, proven), plain (what can be recorded), text (command lines, tokens).
Needs torch and transformers, but for text."""
