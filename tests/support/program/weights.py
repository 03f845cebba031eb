# SPDX-License-Identifier: Apache-2.0
"""weights.py FILE HIDDEN LATENT [none]: a compressor of deltakv of seeded
numbers, for K and V of 256 numbers in layers 0 and 1, as `kvreplay train` would
call it; none: one without references. Standard library only."""

import json
import random
import struct
import sys

path, hidden, latent = sys.argv[1], *map(int, sys.argv[2:4])
head = {"__metadata__": dict(
    format="kvreplay-deltakv", compressor="swiglu", hidden=str(hidden),
    latent=str(latent), trained_length="512", trained_sinks="8",
    **(dict(trained_references="none") if sys.argv[4:] else
       dict(trained_stride="10", trained_k="4")))}
data, draw = b"", random.Random(latent)
for layer in 0, 1:
    for name, *shape in (("compress.in", 2 * hidden, 256),
                         ("compress.out", latent, hidden),
                         ("decompress.out", 256, latent)):
        n, at = shape[0] * shape[1], len(data)
        data += struct.pack(f"<{n}e", *(draw.gauss(0, 0.02) for _ in range(n)))
        head[f"layers.{layer}.{name}.weight"] = dict(
            dtype="F16", shape=shape, data_offsets=[at, len(data)])
text = json.dumps(head).encode()
text += b" " * (-(8 + len(text)) % 64)
with open(path, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
