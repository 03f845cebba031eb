# SPDX-License-Identifier: Apache-2.0
"""The generator of kvreport's resamples, again."""

MASK = (1 << 64) - 1


def splitmix(state):
    """Numbers of 64 bits."""
    while True:
        state = state + 0x9E3779B97F4A7C15 & MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        yield z ^ z >> 31
