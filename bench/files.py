"""Model files: opening, reading, saving, and surgery beside a plain copy of as many bytes.

kha and the bare calls of the operating system stand in one C++ process, the `safetensors` package
in another, and all take turns. Ratios are of pairs; above 1 kha is faster.
"""

import json
import os
import shutil
import struct
import sys
import tempfile
from contextlib import ExitStack
from math import prod
from pathlib import Path
from statistics import median

from bench.child import Child
from bench.counts import build_dir
from bench.machine import ROOT
from bench.paired import paired_ratio, rotated

MB = 1 << 20
BYTES = {"F32": 4, "BF16": 2, "U8": 1}


def write_safetensors(path, tensors, holes=False):
    """`tensors`: (name, dtype, shape). Bytes that are finite numbers of any type, or a hole."""
    header, total = {}, 0
    for name, dtype, shape in tensors:
        begin, total = total, total + BYTES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, total]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = bytes(byte & 0xBF for byte in os.urandom(MB))  # no exponent is full of ones
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if holes:
            file.truncate(8 + len(text) + total)
        else:
            for begin in range(0, total, MB):
                file.write(block[:total - begin])
    return total


def model_tensors(case):
    yield "model.embed_tokens.weight", "BF16", [case.vocab, case.width]
    yield "model.norm.weight", "BF16", [case.width]
    queries, keys = case.heads * case.dim, case.kv_heads * case.dim
    shapes = {"self_attn.q_proj": [queries, case.width], "self_attn.k_proj": [keys, case.width],
              "self_attn.v_proj": [keys, case.width], "self_attn.o_proj": [case.width, queries],
              "self_attn.q_norm": [case.dim], "self_attn.k_norm": [case.dim],
              "mlp.gate_proj": [case.ffn, case.width], "mlp.up_proj": [case.ffn, case.width],
              "mlp.down_proj": [case.width, case.ffn], "input_layernorm": [case.width],
              "post_attention_layernorm": [case.width]}
    for layer in range(case.layers):
        for name, shape in shapes.items():
            yield f"model.layers.{layer}.{name}.weight", "BF16", shape


def write_model(folder, case):
    """A plain Qwen3 model of random numbers."""
    folder.mkdir()
    config = {"model_type": "qwen3", "hidden_size": case.width, "intermediate_size": case.ffn,
              "num_hidden_layers": case.layers, "num_attention_heads": case.heads,
              "num_key_value_heads": case.kv_heads, "head_dim": case.dim,
              "vocab_size": case.vocab, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
              "rope_theta": 1e6, "tie_word_embeddings": True, "attention_bias": False,
              "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", model_tensors(case))


class Contest:
    """Runs of several contenders in turns."""

    def __init__(self, folder, rounds, progress, children):
        self.folder, self.rounds, self.progress, self.children = folder, rounds, progress, children

    def ask(self, who, command):
        """A command's words may name `OUT`: a place where nothing is."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)
        return self.children[who].ask(command.replace("OUT", str(out)))

    def race(self, case, runs, against):
        """Rows of `runs`: {contender: (child, command)}; ratios are `against`'s time over theirs."""
        for who, command in runs.values():
            self.ask(who, command)
        answers = {name: [] for name in runs}
        for turn in range(self.rounds):
            for name in rotated(list(runs), turn):
                answers[name].append(self.ask(*runs[name]))
                self.progress.advance(f"{case}: {name}")
        base = [each["seconds"] for each in answers[against]]
        rows = []
        for name, made in answers.items():
            seconds = [each["seconds"] for each in made]
            rows.append({"case": case, "contender": name, "against": against, "seconds": seconds,
                         "median_s": median(seconds), "best_s": min(seconds),
                         "faults": median(each.get("faults", 0) for each in made),
                         "peak_bytes": max(each.get("peak_bytes", 0) for each in made),
                         "faster": vars(paired_ratio(base, seconds))})
        return rows


def race_opening(contest, case):
    small, large = contest.folder / "small.safetensors", contest.folder / "large.safetensors"
    for path, each in ((small, case.small_bytes), (large, case.large_bytes)):
        write_safetensors(path, [(f"layers.{i}.weight", "U8", [each // 100]) for i in range(100)],
                          holes=True)
    return contest.race(f"open {case.large_bytes / 1e9:g} GB beside {case.small_bytes / 1e6:g} MB", {
        "kha, small file": ("kha", f"open {small}"), "kha, large file": ("kha", f"open {large}"),
        "safetensors, large file": ("safetensors", f"open {large}")}, "kha, small file")


def race_reading(contest, case):
    many, one = contest.folder / "many.safetensors", contest.folder / "one.safetensors"
    size, count = case.read_bytes, case.read_tensors
    write_safetensors(many, [(f"model.layers.{i // 16}.mlp.experts.{i % 16}.up_proj.weight", "U8",
                              [size // count]) for i in range(count)])
    write_safetensors(one, [("model.embed_tokens.weight", "U8", [size // count * count])])
    return contest.race(f"read {size / 1e6:.0f} MB", {
        "kha, one tensor": ("kha", f"read {one} {size}"),
        f"kha, {count} tensors": ("kha", f"read {many} {size}"),
        "read calls": ("kha", f"read-plain {one} {one.stat().st_size}"),
        "safetensors, one tensor": ("safetensors", f"read {one}"),
        f"safetensors, {count} tensors": ("safetensors", f"read {many}")}, "kha, one tensor")


def race_saving(contest, case):
    count, size = case.saved_tensors, case.saved_bytes // case.saved_tensors
    return contest.race(f"save {count * size / 1e6:.0f} MB", {
        "write calls + fsync": ("kha", f"write-plain OUT {count * size}"),
        "kha": ("kha", f"save OUT {size} {count}"),
        "safetensors + fsync": ("safetensors", f"save OUT {size} {count}")}, "write calls + fsync")


def race_surgery(contest, case):
    plain, mapped = contest.folder / "plain", contest.folder / "mapped"
    write_model(plain, case)
    contest.children["kha"].ask(f"insert {plain} {mapped} {case.shard_bytes}")
    largest = max(file.stat().st_size for file in mapped.glob("*.safetensors"))
    rows = contest.race(f"surgery on {case.name}", {
        "copy: read + write + fsync": ("kha", f"copy {mapped} OUT"),
        "insert": ("kha", f"insert {plain} OUT {case.shard_bytes}"),
        "fold": ("kha", f"fold {mapped} OUT"),
        "export as stored": ("kha", f"export {mapped} OUT {case.shard_bytes} stored"),
        "export as F32": ("kha", f"export {mapped} OUT {case.shard_bytes} F32")},
        "copy: read + write + fsync")
    return [{**row, "shard_bytes": largest} for row in rows]


def measure(case, rounds, progress):
    """Rows of all races; the files lie in the build folder, on the disk that models would be on."""
    build_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build_dir()) as folder, ExitStack() as stack:
        children = {
            "kha": Child("kha", [str(build_dir() / "tests" / "kha_file_child")]),
            "safetensors": Child("safetensors", [sys.executable, "-m", "bench.files"], cwd=ROOT)}
        for child in children.values():
            stack.enter_context(child)
        contest = Contest(Path(folder), rounds, progress, children)
        return [row for race in (race_opening, race_reading, race_saving, race_surgery)
                for row in race(contest, case)]


def peer(words):
    """One command of the package: opening, reading each tensor, or saving with a sync."""
    import numpy
    from safetensors import safe_open
    from safetensors.numpy import save_file
    from time import perf_counter

    job, path, *numbers = words
    if job == "save":
        size, count = map(int, numbers)
        tensors = {f"model.layers.{i}.self_attn.q_proj.weight": numpy.ones(size // 4, "float32")
                   for i in range(count)}
    begin = perf_counter()
    if job == "save":
        save_file(tensors, path)
        with open(path) as file:
            os.fsync(file.fileno())
    else:
        with safe_open(path, "numpy") as file:
            for name in file.keys() if job == "read" else ():
                file.get_tensor(name)
    return {"seconds": perf_counter() - begin}


if __name__ == "__main__":
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(peer(line.split())), flush=True)
