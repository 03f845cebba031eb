# SPDX-License-Identifier: Apache-2.0
"""The presses in the table of traces/examples/KVPRESS.md: how each is tried,
and the specification of ours that does the same, or why there is none. Also
made-up weights for presses whose own exist only for some models."""

import numpy as np
import torch
from kvpress.presses.fastkvzip_press import FastKVzipGate
from kvpress.presses.kvzap_press import KVzapConfig, KVzapModel

SNAP = "window=16:pooling=avg"
FILE = "topk:score=file:scores={scores}"
CHUNK = "chunkkv:chunk=20:count=share"
MERGES = "a decisions file can only say which tokens are kept"  # its refusal
RANDOM = "random numbers, others in each run"
SAME_TEXT = "tokens of one text have one row before rotation in layer 0"
CLOSED = "tokens decoded after a compression feel it, and have other keys"
PROJECTED = "weighs values by the output projection, which no trace holds"

# Press, specification, budget ("same": as many per layer as the press kept),
# and why it differs, if it does.
ROWS = [
    ("AdaKVPress(SnapKVPress(0.5, 16, 7))",
     f"adakv:{SNAP}:safeguard=minimum", "ratio:0.5", ""),
    ("AdaKVPress(KeyDiffPress(0.5))",
     "adakv:score=keydiff:safeguard=minimum", "ratio:0.5", ""),
    ("AdaKVPress(ExpectedAttentionPress(0.5))",
     "adakv:score=expected:safeguard=minimum", "ratio:0.5", ""),
    ("AdaKVPress(CURPress(0.5))",
     "adakv:score=file:scores={scores}:safeguard=minimum", "ratio:0.5", ""),
    ("BlockPress(KnormPress(0.5))", "knorm:skip=0", "ratio:0.5", ""),
    ("CAMPress(StreamingLLMPress(), 2, 136)", "", "", MERGES),
    ("CapPress(0.5)", FILE, "ratio:0.5", ""),
    ("ChunkKVPress(SnapKVPress(0.5, 16, 7), 20)",
     f"{CHUNK}:{SNAP}", "137", ""),
    ("ChunkKVPress(KnormPress(0.5), 20)", f"{CHUNK}:score=knorm", "137", ""),
    ("ChunkKVPress(KnormPress(0.8), 20)", f"{CHUNK}:score=knorm", "39", ""),
    ("ChunkPress(KnormPress(0.5), 100)", "", "",
     "each 100 tokens by themselves"),
    ("CompactorPress(0.5)", FILE, "ratio:0.5", RANDOM),
    ("ComposedPress([KnormPress(0.5), KnormPress(0.5)])",
     "knorm:skip=0", "68", ""),
    ("CompressionRatioDecodingPress(KnormPress(), 2, "
     "target_compression_ratio=0.5)", "", "",
     "a target that grows with the tokens seen"),
    ("CriticalAdaKVPress(SnapKVPress(0.5, 16, 7))", "", "", PROJECTED),
    ("CriticalKVPress(SnapKVPress(0.5, 16, 7))", f"criticalkv:{SNAP}",
     "ratio:0.5", PROJECTED),
    ("CURPress(0.5)", FILE, "ratio:0.5", ""),
    ("DecodingPress(KnormPress(), 2, 136)",
     "topk:score=knorm:form=decode:every=2", "136", CLOSED),
    ("DMSPress(KnormPress(), -6.0)", "", "",
     "a threshold, and 128 tokens that it spares"),
    ("DuoAttentionPress(0.5)", "", "",
     "streaming heads keep 128 + 256 tokens, whatever the prompt"),
    ("EntropyGatedChunkKVPress(SnapKVPress(0.5, 16, 7))", "", "",
     "chunks in part, by the entropy of their scores"),
    ("ExpectedAttentionPress(0.5)", "expected", "ratio:0.5", ""),
    ("ExpectedAttentionPress(0.7)", "expected", "ratio:0.7", ""),
    ("ExpectedAttentionPress(0.5, use_covariance=False, use_vnorm=False)",
     "expected:covariance=no:vnorm=no", "ratio:0.5", ""),
    ("ExpectedAttentionStatsPress(0.5)", FILE, "ratio:0.5", ""),
    ("FastKVzipPress(0.3)", FILE + ":threshold={threshold}", "", ""),
    ("FinchPress(0.5)", "", "", "its rows match no trace"),
    ("KeyDiffPress(0.5)", "keydiff:block=0", "ratio:0.5", ""),
    ("KeyRerotationPress(SnapKVPress(0.5, 16, 7))",
     f"topk:score=snapkv:{SNAP}:reindex=yes", "ratio:0.5", SAME_TEXT),
    ("KeyRerotationPress(StreamingLLMPress(0.5))",
     "streamingllm:variant=prefill", "ratio:0.5",
     SAME_TEXT),
    ("KnormPress(0.5)", "knorm:skip=0", "ratio:0.5", ""),
    ("KVComposePress(True, 0.5)", "", "",
     "composes tokens of different heads"),
    ("KVgradPress(0.5)", FILE + ":threshold={threshold}", "", ""),
    ("KVzapPress(0.5)", FILE, "ratio:0.5", ""),
    ("KVzipPress(0.5)", FILE + ":threshold={threshold}", "", ""),
    ("KVzipPress(0.4, True)",
     "adakv:score=file:scores={scores}:alpha=0:safeguard=minimum",
     "164", ""),
    ("LagKVPress(0.5, lag_size=16)", "lagkv:lag=16", "ratio:0.5", ""),
    ("LagKVPress(0.5, lag_size=16, cross_scoring=True)",
     "lagkv:lag=16:cross=yes", "ratio:0.5", ""),
    ("LeverageScorePress(0.5)", FILE, "ratio:0.5", RANDOM),
    ("LUKVPress(compression_ratio=0.5)", "", "",
     "a budget a head, from a table that is published for some models"),
    ("MergingPress(KnormPress(0.5))", "", "", MERGES),
    ("NonCausalAttnPress(0.5)", FILE, "ratio:0.5", ""),
    ("ObservedAttentionPress(0.5)",
     "h2o:variant=prefill:recent=0:scale=seen", "ratio:0.5", ""),
    ("PerLayerCompressionPress(KnormPress(), [0.5, 0.6, 0.7, 0.8, 0.5, 0.5])",
     "knorm:skip=0", "same", ""),
    ("PrefillDecodingPress(KnormPress(0.5), "
     "DecodingPress(KnormPress(), 2, 136))",
     "topk:score=knorm:form=both:every=2", "136", CLOSED),
    ("PyramidKVPress(0.5, 16, 7)", f"snapkv:{SNAP}", "same", ""),
    ("QFilterPress(0.5)", FILE, "ratio:0.5", ""),
    ("RandomPress(0.5, 1)", FILE, "ratio:0.5", ""),
    ("RestoreKVPress(0.5)", "", "", "adapters, published for some models"),
    ("SimLayerKVPress(0.5, 1, 100)", "", "",
     "layers whole or by their ends, by a threshold"),
    ("SnapKVPress(0.5, 16, 7)", f"snapkv:{SNAP}", "ratio:0.5", ""),
    ("SnapKVPress(0.8, 32, 7)", "snapkv:window=32:pooling=avg", "ratio:0.8",
     ""),
    ("StreamingLLMPress(0.5)",
     "streamingllm:variant=prefill:positions=original", "ratio:0.5", ""),
    ("ThinKPress(0.5)", "", "", MERGES),
    ("TOVAPress(0.5)", "tova:variant=prefill:protect_newest=yes",
     "ratio:0.5", ""),
]  # fmt: skip


def drawn(*shape):
    """Weights from a fixed seed."""
    g = torch.Generator().manual_seed(7)
    return torch.randn(*shape, generator=g) / shape[-1] ** 0.5


def made_up(press, model):
    """Gives a press weights instead of a download. Returns whether it did."""
    c, name = model.config, type(press).__name__
    layers, heads, d = c.num_hidden_layers, c.num_key_value_heads, c.head_dim
    queries = c.num_attention_heads
    if name == "QFilterPress":
        press.q_filters = drawn(layers, heads, d)
    elif name == "KVzapPress":
        config = KVzapConfig(
            input_dim=c.hidden_size, output_dim=heads, n_modules=layers
        )
        press.kvzap_model = KVzapModel(config)
        for x in press.kvzap_model.parameters():
            x.data = drawn(*x.shape)
    elif name == "FastKVzipPress":
        press.gates = [
            FastKVzipGate(
                l, c.hidden_size, heads, queries // heads, torch.float32
            )
            for l in range(layers)
        ]
        for gate in press.gates:
            for x in gate.parameters():
                x.data = drawn(*x.shape).to(x.dtype)
    elif name == "ExpectedAttentionStatsPress":
        press.mu = drawn(layers, queries, d)
        half = drawn(layers, queries, d, d)
        press.cov = half @ half.transpose(2, 3)
    elif name == "DuoAttentionPress":
        press.sink_size, press.recent_size = 128, 256
        press.streaming_mask = drawn(layers, heads) > 0
    elif name == "LUKVPress":
        press._budget_curves = np.full((99, layers, heads), 0.5)
    else:
        return False
    press.post_init_from_model = lambda model: None
    return True
