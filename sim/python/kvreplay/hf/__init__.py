# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models: capture (records a trace), session (a kvreplay session
as the KV cache), identity (which model is it?). They share load (loads models
and generates), model (the attention function), rope (finds the rotation), plain
(what can be recorded), and text (command lines, tokens). All but text and
options need torch and transformers."""
