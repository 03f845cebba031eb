# SPDX-License-Identifier: Apache-2.0
"""`kvreplay capacity`: check_capacity.py, with the program in KVREPLAY.

Compares the bytes of a request by the config.json of each kind of model with
numbers worked out by hand. Each understood key changes something, each ignored
key nothing, and unknown keys are refused by name. Also checks users and speeds
for made-up bytes; the roofline of models with published weights; the median and
range of traces; and dense by Python against dense by a replay."""

import json
import os
import subprocess
import sys
import tempfile

from kvreplay.capacity import config, keys, node, rows
from kvreplay.capacity.model import Cache, Model, Stored, Weights, of_table
from kvreplay.claims import runs

OF = "num_hidden_layers", "num_attention_heads", "num_key_value_heads"
C, O = 8192, 2
T = C + O
BAD = []


def check(what, good, said=""):
    if not good:
        print(f"FAILED: {what}: {said}", file=sys.stderr)
        BAD.append(what)


def made(layers, heads, kv=None, **more):
    """A config; keys with None are left out."""
    found = dict(zip(OF, (layers, heads, kv)), **more)
    return {k: x for k, x in found.items() if x is not None}


def model(of):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(of, f)
        return config.read(folder, "m")


def refused(of):
    try:
        model(of)
    except ValueError as e:
        return str(e)
    return ""


def block(n):
    return dict(attention=dict(n_heads_in_group=n, no_op=n is None,
                               replace_with_linear=False))  # fmt: skip


# --- one config of each kind, and its bytes -------------------------------

OSS = made(24, 64, 8, model_type="gpt_oss", head_dim=64, sliding_window=128,
           hidden_size=2880, intermediate_size=2880, vocab_size=201088,
           num_local_experts=32, num_experts_per_tok=4, layer_types=[
               "sliding_attention", "full_attention"] * 12)  # fmt: skip
LITE = made(27, 16, 16, model_type="deepseek_v2", hidden_size=2048,
            intermediate_size=10944, vocab_size=102400, kv_lora_rank=512,
            qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
            n_routed_experts=64, num_experts_per_tok=6, n_shared_experts=2,
            moe_intermediate_size=1408, first_k_dense_replace=1)  # fmt: skip
DEEP = {**LITE, **made(61, 128, 128, model_type="deepseek_v3"),
        "hidden_size": 7168, "q_lora_rank": 1536, "intermediate_size": 18432,
        "vocab_size": 129280, "n_routed_experts": 256,
        "num_experts_per_tok": 8, "n_shared_experts": 1,
        "moe_intermediate_size": 2048, "first_k_dense_replace": 3}
NEXT = made(48, 16, 2, model_type="qwen3_next", head_dim=256,
            hidden_size=2048, full_attention_interval=4,
            linear_num_key_heads=16, linear_num_value_heads=32,
            linear_key_head_dim=128, linear_value_head_dim=128,
            linear_conv_kernel_dim=4, mamba_ssm_dtype="float32")  # fmt: skip
HYBRID = made(40, 32, 8, model_type="granitemoehybrid", hidden_size=4096,
              layer_types=["mamba"] * 36 + ["attention"] * 4,
              mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128,
              mamba_n_groups=1, mamba_d_conv=4)  # fmt: skip
SCOUT = made(48, 40, 8, model_type="llama4_text", head_dim=128,
             attention_chunk_size=C)  # fmt: skip
SLIDE = ["sliding_attention"] * 4 + ["full_attention"]
# Name, config, bytes of a user after C + O tokens, bytes of states.
HELD = [
    ("llama", made(32, 32, 8, model_type="llama", hidden_size=4096),
     32 * 8 * 256 * 2 * T, 0),
    ("gpt-oss", OSS, 12 * 8 * 128 * 2 * (T + 127), 0),
    *((x, {"model_type": "internvl_chat", x: OSS},
       12 * 8 * 128 * 2 * (T + 127), 0)
      for x in ("text_config", "llm_config", "language_config")),
    ("deepseek-v2-lite", LITE, 27 * 576 * 2 * T, 0),
    ("deepseek-v3", DEEP, 575808768, 0),
    ("minicpm3", made(62, 40, 40, model_type="minicpm3", hidden_size=2560,
                      kv_lora_rank=256, q_lora_rank=768, qk_nope_head_dim=64,
                      qk_rope_head_dim=32, v_head_dim=64),
     62 * 288 * 2 * T, 0),
    ("gemma-3n", made(30, 8, 2, model_type="gemma3n_text", head_dim=256,
                      sliding_window=512, num_kv_shared_layers=10,
                      layer_types=SLIDE * 6),
     2 * 512 * 2 * (4 * T + 16 * 511), 0),
    ("gemma-4", made(10, 8, 4, model_type="gemma4_text", head_dim=256,
                     global_head_dim=512, sliding_window=512,
                     num_global_key_value_heads=2, attention_k_eq_v=True,
                     layer_types=SLIDE * 2),
     2 * 2 * 1024 * 2 * T + 8 * 4 * 512 * 2 * 511, 0),
    ("a layer's own", made(2, 8, 4, head_dim=64,
                           per_layer_config={"1": dict(head_dim=128)}),
     4 * (128 + 256) * 2 * T, 0),
    ("deci", made(4, 32, hidden_size=4096,
                  num_key_value_heads_per_layer=[4, 4, 2, 1]),
     11 * 256 * 2 * T, 0),
    ("nemotron-nas", made(4, 64, hidden_size=8192, block_configs=[
        block(8), block(4), block(None),
        dict(attention=dict(replace_with_linear=True))]),
     (8 + 16) * 256 * 2 * T, 0),
    # After 8,194 tokens the third chunk has 2.
    ("llama 4", made(8, 40, 8, model_type="llama4_text", head_dim=128,
                     attention_chunk_size=4096),
     8 * 256 * 2 * (2 * T + 6 * 2), 0),
    ("qwen3-next", NEXT, 12 * 2 * 512 * 2 * T,
     36 * (32 * 128 * 128 * 4 + 8192 * 4 * 2)),
    ("granite-4", HYBRID, 4 * 8 * 256 * 2 * T,
     36 * (128 * 64 * 128 * 4 + (128 * 64 + 256) * 4 * 2)),
    ("falcon-h1", made(36, 12, 2, model_type="falcon_h1", head_dim=128,
                       hidden_size=2048, mamba_d_ssm=3072, mamba_n_heads=48,
                       mamba_d_head=64, mamba_d_state=256, mamba_d_conv=4,
                       mamba_n_groups=1),
     36 * 2 * 256 * 2 * T,
     36 * (3072 * 256 * 4 + (3072 + 512) * 4 * 2)),
    ("jamba", made(32, 32, 8, model_type="jamba", hidden_size=4096,
                   attn_layer_period=8, attn_layer_offset=4,
                   mamba_d_state=16, mamba_d_conv=4, mamba_expand=2),
     4 * 8 * 256 * 2 * T, 28 * (8192 * 16 * 4 + 8192 * 4 * 2)),
    ("nemotron-h", made(4, 32, 8, head_dim=128, hidden_size=4096,
                        hybrid_override_pattern="M-M*", mamba_num_heads=128,
                        mamba_head_dim=64, ssm_state_size=128, n_groups=8,
                        conv_kernel=4, mamba_ssm_cache_dtype="bfloat16"),
     8 * 256 * 2 * T,
     2 * (8192 * 128 * 2 + (8192 + 2048) * 4 * 2)),
    ("lfm2", made(16, 32, 8, model_type="lfm2", hidden_size=2048,
                  full_attn_idxs=[2, 5, 8, 10, 12, 14], conv_L_cache=3),
     6 * 8 * 128 * 2 * T, 10 * 2048 * 3 * 2),
    ("falcon", dict(model_type="falcon", n_layer=32, n_head=71, n_head_kv=71,
                    hidden_size=4544), 32 * 128 * 2 * T, 0),
    ("new falcon", dict(model_type="falcon", n_layer=2, n_head=128,
                        n_head_kv=8, hidden_size=8192,
                        new_decoder_architecture=True),
     2 * 8 * 128 * 2 * T, 0),
    ("glm", dict(num_layers=2, n_heads=32, num_kv_heads=4, kv_channels=128),
     2 * 4 * 256 * 2 * T, 0),
    ("mpt", dict(n_layers=2, num_heads=32, d_model=4096, dtype="float32"),
     2 * 32 * 256 * 4 * T, 0),
    ("qwen2", made(4, 28, 4, model_type="qwen2", hidden_size=3584,
                   use_sliding_window=True, sliding_window=4096,
                   max_window_layers=3), 4 * 256 * 2 * (3 * T + 4095), 0),
    ("qwen2.5", made(4, 28, 4, model_type="qwen2", hidden_size=3584,
                     use_sliding_window=False, sliding_window=4096,
                     max_window_layers=3), 4 * 4 * 256 * 2 * T, 0),
    ("mistral", made(2, 32, 8, model_type="mistral", hidden_size=4096,
                     sliding_window=4096), 2 * 8 * 256 * 2 * 4095, 0),
    *((x, {**made(4, 8, 4, head_dim=256, sliding_window=64), x: 4},
       4 * 512 * 2 * (T + 3 * 63), 0)
      for x in ("sliding_window_pattern", "_sliding_window_pattern")),
    # Omitted keys have transformers' defaults; null means none.
    *((x, made(5, 8, 4, model_type=x, head_dim=64, global_head_dim=64,
               num_kv_shared_layers=0, layer_types=SLIDE),
       4 * 128 * 2 * (T + 4 * (n - 1)), 0) for x, n in (
           ("gemma2", 4096), ("gemma3_text", 4096), ("gemma3n_text", 512),
           ("gemma4_text", 512), ("gpt_oss", 128))),
    ("gemma2 of full layers", {**made(5, 8, 4, model_type="gemma2"),
                               "sliding_window": None},
     5 * 4 * 512 * 2 * T, 0),
    ("llama 4 without a size", made(8, 40, 8, model_type="llama4_text"),
     8 * 256 * 2 * (2 * T + 6 * 2), 0),
    ("llama 4 of full layers", {**made(8, 40, 8, model_type="llama4_text"),
                                "attention_chunk_size": None},
     8 * 8 * 256 * 2 * T, 0),
]  # fmt: skip


def held():
    for name, of, kept, state in HELD:
        try:
            m = model(of)
        except ValueError as e:
            check(name, False, str(e))
            continue
        got = m.dense(C, O, 1)
        check(name, (got.bytes, m.state) == (kept, state),
              f"{got.bytes} and {m.state}, not {kept} and {state}")
    # Each rank holds the whole latent, but an eighth of the heads.
    x = model(LITE).dense(C, O, 16)
    check("a latent's ranks", (x.fullest, x.of) == (1, 1), x)
    x = model(HELD[0][1]).dense(C, O, 8)
    check("ranks of heads", (x.fullest, x.of) == (1, 8), x)
    # The first token after a full chunk frees it, so the peak is before it.
    x = model(SCOUT)
    for c, chunks in (C, 1), (C + 1, 1), (2 * C + 1, 2):
        got = x.dense(c, O, 1).peak
        check(f"full chunks, {c}", got == 4096 * C * (12 * chunks + 36), got)
    # Of the 10 layers that share a cache, 2 see all tokens and 8 a window.
    x = model(HELD[8][1]).dense(C, O, 1)
    check("read by sharers", x.read == 2048 * (
        (4 + 2) * (C + 1.5) + (16 + 8) * 512), x.read)  # fmt: skip


def other(value):
    """Another value for a key."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [other(x) for x in value]
    if isinstance(value, int):
        return 2 * value
    return "float16" if value == "float32" else "float32"


def changes(of):
    """Keys for which another value is refused or gives another model."""
    found, said = set(), model(of)
    for key in of:
        if key in ("block_configs", "model_type"):
            continue
        try:
            if model({**of, key: other(of[key])}) == said:
                continue
        except (ValueError, ZeroDivisionError):
            pass
        found.add(key)
    return found


def each_key():
    seen = set()
    for name, of, _, _ in HELD:
        if name not in ("text_config", "llm_config", "language_config"):
            seen |= changes(of)
    nas = [dict(x[1]) for x in HELD if x[0] == "nemotron-nas"][0]
    less = {**nas, "block_configs": [block(16), *nas["block_configs"][1:]]}
    if model(less) != model(nas):
        seen.add("n_heads_in_group")
    check("keys without effect", not keys.READ - seen, keys.READ - seen)
    plain = HELD[0][1]
    for key in sorted(keys.IGNORED):
        check(key, model({**plain, key: 7}) == model(plain))
    for key in sorted(keys.REFUSED) + [f"my_{x}_size" for x in keys.NAMES]:
        said = refused({**plain, key: 7})
        check(key, f"{key} may change what a cache holds" in said, said)
        check(key, not refused({**plain, key: None}))
        check(key, key in refused({**plain, "inner": [{key: 7}]}))
    check("a tower's", not refused({**plain, "vision_config": {"my_head": 7}}))
    for x, of in WRAPPED.items():
        check(x, not refused({**of, "text_config": plain}),
              refused({**of, "text_config": plain}))  # fmt: skip
        check(x, "my_kv_size" in refused(
            {**of, "text_config": plain, "my_kv_size": 7}))  # fmt: skip
    for what, of, said in [
            ("no list", {**OSS, "layer_types": ["full_attention"]},
             "layer_types must be a list of 24 layers"),
            ("a window's layers", made(2, 8, head_dim=8, sliding_window=8),
             "has a sliding_window but no layer_types"),
            ("a type", made(1, 8, head_dim=8, layer_types=["recurrent"]),
             "layers of type recurrent"),
            ("nothing", {}, "has no num_hidden_layers"),
            ("heads", made(1, 8, 3, head_dim=8), "do not divide by 3"),
            ("recurrent layers", {**NEXT, "linear_num_key_heads": None},
             "what its recurrent layers keep is unknown"),
            ("experts", {**OSS, "num_experts_per_tok": 33},
             "num_experts_per_tok is 33, of 32 experts"),
            ("twice", made(2, 8, model_type="longcat_flash", head_dim=8),
             "attends twice"),
            ("a number", made(1, 8, 0, head_dim=8), "must be a whole number")]:
        check(what, said in refused(of), refused(of))


# Keys of published models with several towers, besides the language model.
WRAPPED = {
    "internvl": dict(
        downsample_ratio=.5, dynamic_image_size=True, force_image_size=448,
        max_dynamic_patch=12, min_dynamic_patch=1, pad2square=False,
        ps_version="v2", select_layer=-1, template="internvl2_5",
        use_backbone_lora=0, use_llm_lora=0, use_thumbnail=True,
        vision_config=dict(num_attention_heads=16)),
    "gemma 3": dict(
        boi_token_index=255999, eoi_token_index=256000,
        image_token_index=262144, initializer_range=.02,
        mm_tokens_per_image=256, vision_config=dict(num_attention_heads=16)),
    "llama 4": dict(
        boi_token_index=200080, eoi_token_index=200081,
        image_token_index=200092, tie_word_embeddings=False,
        vision_config=dict(num_attention_heads=16)),
}  # fmt: skip


# --- users, and tokens/s --------------------------------------------------

ONE = Model("m", 1, 1, "F16", [Cache(0, 1, 1, 1, 0)])


def at(gpu, gpus, tp, weights, m=ONE, users=0, percent=90):
    return node.Node(node.gpus()[gpu], gpus, tp, percent, weights, users, m,
                     1024, 128)  # fmt: skip


def stored(n, peak=None, read=0.0, fullest=1, of=1, attended=0.0):
    return Stored(n, peak or n, n, peak or n, read, attended, fullest, of)


def users():
    n = at("made-80g", 4, 2, 24 * 10**9)  # 60e9 bytes per device
    big = 20 * 10**9
    check("room", n.room() == 60 * 10**9, n.room())
    for what, x, fits in [
            ("flat", stored(big, of=2), 12),
            # the fuller of two ranks has 3/4: 15e9 per user, not the mean
            ("fullest", stored(big, fullest=3, of=4), 8),
            # 12.5e9 more for the user in prefill: 47.5e9 / 10e9
            ("drops", stored(big, 45 * 10**9, of=2), 8)]:
        check(what, n.fit(x, x.bytes, x.peak) == fits)
    x = stored(big, of=2)
    # 5e9 bytes of state on each rank: 60e9 / 15e9
    wide = n._replace(model=ONE._replace(state=10 * 10**9))
    check("state", wide.fit(x, x.bytes, x.peak) == 8)
    full = n._replace(weights=200 * 10**9)
    check("nobody", full.fit(x, x.bytes, x.peak) == 0)
    m = ONE._replace(weights=Weights(3350000000, 3350000000))
    n = at("made-80g", 2, 1, 6700000000, m)
    # 2 ms for weights, 1 ms for each cache: two of four users per device
    speed, binds = n.speed(stored(1, read=3.35e9), 4)
    check("speed", abs(speed - 1000) < 1e-6 and binds == "weights", speed)
    check("cache", n.speed(stored(1, read=3.35e9), 6)[1] == "cache")
    check("reads", n.speed(stored(1)._replace(read=None), 4) == (None, "-"))
    check("none", n.speed(stored(1), 0) == (0.0, "-"))
    many = n._replace(model=m._replace(
        caches=[Cache(0, 1, 1, 1, 10**9)]))  # fmt: skip
    check("sums", many.speed(stored(1, attended=1e6), 4)[1] == "arithmetic")
    # the state is read like a cache: 2 ms for weights, 1 ms for the state
    state = n._replace(model=m._replace(state=3350000000))
    check("state's reads", abs(state.speed(stored(1), 2)[0] - 2 / .003) < 1e-6)


# Weights, and weights that a token is multiplied with, as published.
COUNTED = [
    ("qwen2.5-7b", made(28, 28, 4, model_type="qwen2", hidden_size=3584,
                        intermediate_size=18944, vocab_size=152064),
     7615616512, 7070619136),
    ("qwen3-30b-a3b", made(48, 32, 4, model_type="qwen3_moe", head_dim=128,
                           hidden_size=2048, intermediate_size=6144,
                           moe_intermediate_size=768, num_experts=128,
                           num_experts_per_tok=8, vocab_size=151936),
     30532122624, 3041867776),
    ("mixtral-8x7b", made(32, 32, 8, model_type="mixtral", hidden_size=4096,
                          intermediate_size=14336, num_local_experts=8,
                          num_experts_per_tok=2, vocab_size=32000),
     46702792704, 12748853248),
    ("gpt-oss-20b", OSS, 20914757184, 3608307264),
    ("deepseek-v2-lite", LITE, 15706484224, 2451435008),
    ("deepseek-v3", DEEP, 671026419200, 36625618432),
]  # fmt: skip


def rooflines():
    # 80 weights in 8 experts, 10 others, 10 in a looked-up embedding
    w = Weights(100, 30, 10, 8, 2)
    check("one token's experts", w.read(1) == 10 + 20, w.read(1))
    check("two users'", w.read(2) == 10 + 10 * 8 * (1 - .75**2), w.read(2))
    for name, of, whole, active in COUNTED:
        got = model(of).weights
        check(name, got[:2] == (whole, active), got)
    # Models with encoders for images or sound have unknown weights.
    for x in "vision_config", "audio_config":
        got = model({"text_config": OSS, x: dict(depth=2)}).weights
        check(x, got == Weights(), got)
        check(x, model({"text_config": OSS, x: None}).weights.all)
    # Weights given in bytes: an embedding is not read; experts are unknown.
    llama = made(1, 8, head_dim=8, hidden_size=64, vocab_size=1000)
    for of, read in [(llama, 10**9 - 128000),
                     ({**llama, "tie_word_embeddings": True}, 10**9),
                     ({**llama, "num_experts": 4}, None)]:
        got = at("h200", 1, 1, 10**9, model(of)).read(1)
        check("weights by bytes", got == read, got)
    # 3350 / (15.14 + 0.16) and 4800 / (7.22 + 0.03), GB of weights and cache;
    # one user runs on one device, however many there are
    for name, gpu, n, speed in (("qwen3-8b", "h100-80g", "1", 219),
                                ("gpt-oss-20b", "h200", "1", 662),
                                ("gpt-oss-20b", "h200", "8", 662)):
        row, = json.loads(said(
            "capacity", "-M", name, "-g", gpu, "-c", "1024", "-o", "128",
            "--users", "1", "--gpus", n, "--tp", "1", "-m", "dense", "-f",
            "json"))  # fmt: skip
        check(name, round(row["at"]["tokens_per_s"]) == speed, row)


def said(*words):
    return subprocess.run([os.environ["KVREPLAY"], *words], text=True,
                          capture_output=True, check=False).stdout


def measured():
    """The median and the range of 20 traces, and of one trace."""
    n = at("made-80g", 1, 1, 10**9)
    found = [stored(1000 + i)._asdict() for i in range(20)]
    x = dict(method="x", budget="", named=1, measured=found)
    r = rows.row(n, x)
    got = [y.stored.bytes for y in (r.low, r.at, r.high)]
    check("the middle", got == [1001, 1009, 1017] and r.traces == 20, got)
    r = rows.row(n, {**x, "measured": found[:1]})
    check("one trace", r.high.stored.bytes == 1000 and not r.why)
    r = rows.row(n, {**x, "lengths": stored(7, read=None)._asdict()})
    check("reads alone", (r.at.stored.bytes, r.reads, r.traces) == (7, 20, 0))


def as_replayed():
    """Dense by arithmetic agrees with a replay of lengths."""
    for name in "gpt-oss-20b", "gemma-3-12b", "tiny":
        for c, o, tp in (300, 50, 1), (100, 60, 2), (1020, 8, 4):
            found = json.loads(said(
                "lengths", "-M", name, "-c", str(c), "-o", str(o), "--tp",
                str(tp), "-m", "dense"))  # fmt: skip
            x = Stored(**found["rows"][0]["lengths"])
            y = of_table(name, found["model"]).dense(c, o, tp)
            check(f"{name}, {c} + {o}", x[:5] == y[:5] and
                  x.fullest * y.of == y.fullest * x.of, (x, y))  # fmt: skip


def elsewhere():
    """Files in the user's folder are not run, and a folder without config.json
    does not hide a model with its name."""
    asked = ("kvreplay", "capacity", "-M", "tiny", "-w", "1e9", "-g", "l40",
             "-c", "64", "-m", "dense")  # fmt: skip
    was = os.getcwd()
    os.environ["PATH"] = ":".join([os.path.dirname(os.environ["KVREPLAY"]),
                                   os.environ["PATH"]])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "json.py"), "w") as f:
            f.write("raise SystemExit('json.py of the folder')")
        os.mkdir(os.path.join(folder, "tiny"))
        os.chdir(folder)
        try:
            check("a folder's json.py", "tiny, 64 +" in said(*asked[1:]))
            check("of claims", "tiny, 64 +" in runs.said(asked)[0])
        except RuntimeError as e:
            check("of claims", False, e)
        os.chdir(was)


for do in (held, each_key, users, rooflines, measured, as_replayed,
           elsewhere):  # fmt: skip
    do()
sys.exit(1 if BAD else 0)
