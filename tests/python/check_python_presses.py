# SPDX-License-Identifier: Apache-2.0
"""Laws of decisions in Python: what kvpress's presses keep of a prompt."""
import json
import unittest

import numpy as np

from check_python import SMALL, Case, at, call
from kvreplay import decisions, trace


class Presses(Case):
    """Ranked in binary64 by kvpress at 8bb29b9: decisions of our
    methods to the token, at one budget and at one a layer."""

    @staticmethod
    def rows(t, layer, first):  # probabilities [heads, rows, prompt]
        p, q = t.prompt_len, np.float64(t.q(layer))
        k = np.float64(t.k(layer)).repeat(t.n_heads // t.n_kv_heads, 0)
        x = q[:, first:p] @ k[:, :p].swapaxes(1, 2) * float(t.scale)
        x[:, np.arange(p) > np.arange(first, p)[:, None]] = -np.inf
        x = np.exp(x - x.max(2, keepdims=True))
        return x / x.sum(2, keepdims=True)

    def tova(self, t, layer, _):
        s = self.rows(t, layer, t.prompt_len - 1)[:, 0, :-1].mean(0)
        return [np.append(s, s.max() + 1)] * t.n_kv_heads

    def observed(self, t, layer, _):
        seen = np.arange(t.prompt_len, 0, -1)
        s = self.rows(t, layer, 0).sum(1) / seen
        return s.reshape(t.n_kv_heads, -1, t.prompt_len).mean(1)

    def streaming(self, t, _, kept):
        s = np.ones(t.prompt_len)
        s[4:4 + t.prompt_len - kept] = 0
        return [s] * t.n_kv_heads

    def keydiff(self, t, layer, _):
        k = np.float64(t.k(layer))[:, :t.prompt_len]
        a = k / np.linalg.norm(k, axis=2, keepdims=True)
        a = a.mean(1, keepdims=True)
        return -(k * a).sum(2) / np.linalg.norm(k, axis=2) / np.linalg.norm(
            a, axis=2)

    def lagkv(self, t, layer, _):
        p, lag = t.prompt_len, 8
        end = 4 + (p - 4) // lag * lag
        score = np.ones((t.n_kv_heads, p))
        both = 0
        for x in t.k(layer), t.v(layer):
            x = np.float64(x)[:, 4:end].reshape(t.n_kv_heads, -1, lag,
                                                x.shape[2])
            lo, hi = (f(x[:, 1:], 2, keepdims=True) for f in (np.min, np.max))
            x = ((x[:, :-1] - lo) / (hi - lo)).std(3, ddof=1)
            x = np.exp(x - x.max(2, keepdims=True))
            both = both + x / x.sum(2, keepdims=True)
        rank = both.argsort(2).argsort(2) / lag
        score[:, 4:end - lag] = rank.reshape(t.n_kv_heads, -1)
        return score

    def expected(self, t, layer, _):
        p, d, g = t.prompt_len, t.q(layer).shape[2], t.n_kv_heads
        k, v = np.float64(t.k(layer))[:, :p], np.float64(t.v(layer))[:, :p]
        x = np.float64(t.q(layer)).reshape(g, -1, len(t.q(layer)[0]), d)
        turn = np.exp(1j * np.arange(p + 512)[:, None] *
                      np.float64(t.inv_freq))
        half = x[:, :, :p, :d // 2] + 1j * x[:, :, :p, d // 2:]
        half = half * turn[:p].conj()
        x = np.concatenate([half.real, half.imag], 3)[:, :, 4:]
        mean = turn[p:].mean(0)
        r = np.block([[np.diag(mean.real), -np.diag(mean.imag)],
                      [np.diag(mean.imag), np.diag(mean.real)]])
        m = x.mean(2)
        c = x - m[:, :, None]
        c = r @ (c.swapaxes(2, 3) @ c / (p - 4)) @ r.T
        keys = k[:, None, 4:]
        s = (keys @ (m @ r.T)[..., None])[..., 0] * float(t.scale)
        s += (keys @ c * keys).sum(3) * float(t.scale) ** 2 / 2
        s = np.exp(s - s.max(2, keepdims=True))
        s = (s / s.sum(2, keepdims=True)).mean(1)
        s *= np.linalg.norm(v[:, 4:], axis=2)
        return np.concatenate([np.full((g, 4), s.max() + 1), s], 1)

    def test_prompts_are_compressed_as_there(self):
        t = trace.read_trace(SMALL)
        for press, spec in (
                (self.tova, "tova:variant=prefill:protect_newest=yes"),
                (self.observed, "h2o:variant=prefill:recent=0:scale=seen"),
                (self.streaming,
                 "streamingllm:variant=prefill:positions=original"),
                (self.keydiff, "keydiff:block=0"),
                (self.lagkv, "lagkv:lag=8"),
                (self.expected, "expected")):
            for budgets in [34] * 4, [60, 23, 34, 20]:
                lists = {}
                for layer, n in zip(t.layers, budgets):
                    lanes = press(t, layer, n)
                    lists[layer] = {t.prompt_len: [
                        np.sort(np.argsort(-x, kind="stable")[:n])
                        for x in lanes]}
                out = at(f"{press.__name__}{budgets[0]}.safetensors")
                decisions.write_decisions(out, t, press.__name__, lists)
                theirs, ours = json.loads(call(
                    "KVREPLAY", "run", SMALL, "-q", "--format", "json", "-m",
                    f"replay:file={out},{spec}", "-b",
                    "/".join(map(str, budgets))))
                for what in "journal", "output":
                    self.assertEqual(theirs[what], ours[what], spec)


if __name__ == "__main__":
    unittest.main(verbosity=2)
