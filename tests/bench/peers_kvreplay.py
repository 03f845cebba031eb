# SPDX-License-Identifier: Apache-2.0
"""kvreplay as a process under the clock, for tests/bench/peers.py: the trace of
the geometry of Llama-3.1-8B, processor time of a run, and of one part of it as
the difference of two runs:

    decoding under dense    the whole run, less one whose prompt is as long but
                            for the last token: one step is left
    the prompt of a method  the run with one step left, less dense's, which
                            looks at nothing of a prompt
"""
import os
import subprocess

LAYERS = "8,24"  # of the model, as in replays.py


class Replay:
    def __init__(self, build, folder):
        self.program = os.path.join(build, "sim/kvreplay")
        self.kvtrace = os.path.join(build, "traces/kvtrace")
        self.folder = folder
        for x in self.program, self.kvtrace:
            if not os.access(x, os.X_OK):
                raise SystemExit(f"peers: {x} is not there: build first, and "
                                 "give the top folder of the build")

    def synth(self, prompt, tokens):
        path = os.path.join(self.folder, "trace.safetensors")
        said = subprocess.run(
            [self.kvtrace, "synth", "--like", "llama-3.1-8b", "--record",
             LAYERS, "--tokens", str(tokens), "--prompt-len", str(prompt),
             "--out", path, "--quiet"], capture_output=True, text=True)
        if said.returncode:
            raise SystemExit(f"peers: {said.stderr.strip()}")
        return path

    def run(self, trace, method, *more):
        """Seconds of the processor, user and system, of one run."""
        words = [self.program, "run", trace, "-m", method, "-j", "1", "-q",
                 "-f", "jsonl", *more]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"peers: {' '.join(words)} ended with code "
                             f"{process.returncode}")
        return use.ru_utime + use.ru_stime

    def decoding(self, trace, tokens):
        last = "--prompt-len", str(tokens - 1)
        return self.run(trace, "dense") - self.run(trace, "dense", *last)

    def prompt(self, trace, tokens, method, budget):
        last = "--prompt-len", str(tokens - 1)
        return self.run(trace, method, "-b", str(budget), *last) - self.run(
            trace, "dense", *last)

    def outputs(self, trace, method):
        """{layer: attention outputs [heads, steps, d_v]}, float32."""
        from kvreplay.container import array, load, widen

        path = os.path.join(self.folder, "outputs.safetensors")
        self.run(trace, method, "--outputs", path)
        return {int(name.split(".")[1]): widen(array(x))
                for name, x in load(path)[1].items() if name.endswith(".o")}

    def kept(self, trace, method, budget, *more):
        """{layer: [tokens a KV head]} right after the prompt."""
        from kvreplay.decisions import read_decisions

        folder = os.path.join(self.folder, "decisions")
        self.run(trace, method, "-b", str(budget), "--decisions", folder, *more)
        [name] = os.listdir(folder)
        path = os.path.join(folder, name)
        lists = read_decisions(path)["lists"]
        os.unlink(path)
        return {l: x[min(x)] for l, x in lists.items()}
