"""Runs and comparisons as kha writes them, made up with known losses, maps and heads."""

import json
import math
import random
from pathlib import Path

import numpy
from safetensors.numpy import save_file

LAYERS, DIM = 3, 8
TOKENS = 2048  # a step
MATRICES = {
    "baseline": {},
    "kha-linear": {slot: {"T": ""} for slot in "qkv"},
    "kha-mlp": {"v": {"up": "up.", "gate": "gate.", "down": "down."}},
    "kha-gate-v": {"v": {"gate": "gate."}},
}


def matrices_of(setting: str) -> dict:
    return MATRICES.get(setting, MATRICES["kha-mlp"])


def loss_at(step: int, steps: int) -> float:
    return 1.5 + 4.0 * math.exp(-6.0 * step / steps)


def observed(setting: str, share: float) -> dict:
    """What the maps and heads have become when `share` of the run is done."""
    distance, condition, heads = {}, {}, {}
    for layer in range(LAYERS):
        for slot in "qkv":
            if slot in matrices_of(setting):
                heads[f"{layer}.{slot}.before"] = 0.2
            heads[f"{layer}.{slot}.after"] = 0.2 + 0.1 * share * layer
            for name in matrices_of(setting).get(slot, {}):
                distance[f"{layer}.{slot}.{name}"] = 0.1 * share * (layer + 1)
                condition[f"{layer}.{slot}.{name}"] = 1 + 10 * share * layer
    maps = {"kha/identity_distance": distance, "kha/condition": condition} if distance else {}
    return {**maps, "heads/similarity": heads}


def documents_at(step: int, loss: float, steps: int, shift: float, noise: random.Random) -> dict:
    """20 documents of 50 targets whose losses scatter; their mean is `loss`."""
    scatter = [noise.gauss(0, 0.02 + abs(shift) * 0.2) for _ in range(20)]
    mean = sum(scatter) / 20
    return {str(i): [50 * (loss + x - mean), 50] for i, x in enumerate(scatter)}


def write_lines(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_checkpoint(folder: Path, setting: str, step: int) -> None:
    tensors = {"model.embed_tokens.weight": numpy.zeros((10, 4), numpy.float32)}
    for layer in range(LAYERS):
        for slot, names in matrices_of(setting).items():
            for name, inner in names.items():
                start = 0.0 if name == "gate" else 1.0
                matrix = start * numpy.eye(DIM, dtype=numpy.float32)
                matrix[0, 1] += 0.25 * (layer + 1)  # output 0 takes of input 1
                key = f"model.layers.{layer}.self_attn.knock_{slot}.{inner}weight"
                tensors[key] = matrix
    place = folder / "checkpoints" / f"step-{step:08}"
    place.mkdir(parents=True)
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    (folder / "checkpoints" / "latest").symlink_to(place.name)


def write_heads(folder: Path, setting: str, step: int) -> None:
    slots = []
    for layer in range(LAYERS):
        for slot, heads in (("q", 4), ("k", 2), ("v", 2)):
            mean = [[1.0 if i == j else 0.2 for j in range(heads)] for i in range(heads)]
            entry = {"layer": layer, "slot": slot, "heads": heads}
            if slot in matrices_of(setting):
                entry["before"] = {"similarity": 0.2, "mean": mean}
            entry["after"] = {"similarity": 0.3, "mean": mean}
            slots.append(entry)
    content = {"version": 1, "step": step, "tokens": step * TOKENS, "positions": 512, "slots": slots}
    (folder / "heads.json").write_text(json.dumps(content))


def write_run(folder: Path, setting="kha-mlp", shift=0.0, seed=1, steps=200, done=None, every=2,
              whole=True) -> float:  # fmt: skip
    """A run that lies `shift` above the baseline's loss; returns its last validation loss."""
    folder.mkdir(parents=True)
    noise, done = random.Random(f"{setting} {seed}"), done or steps
    lines = [{"step": 0, "tokens": 0, "run/command": "kha compare demo.toml --set compare.seeds=3",
              "run/commit": "0123abcdef", "run/cpu": "Made-up CPU"}]  # fmt: skip
    documents, last = [], None
    for step in range(1, done + 1):
        at = {"step": step, "tokens": step * TOKENS}
        loss = loss_at(step, steps) + shift * step / steps
        if step % every == 0:
            lines.append({**at, "train/loss": loss + noise.gauss(0, 0.05), "lr": 1e-3 * step / steps,
                          "grad_norm": 0.5 + noise.random(), "tps": 9000 + 100 * noise.random(),
                          "memory": 4e8})  # fmt: skip
        if step % (steps // 10) == 0:
            last = loss + 0.02
            lines.append({**at, "val/loss": last, "val/bits_per_byte": last / math.log(2),
                          **(observed(setting, step / steps) if whole else {})})  # fmt: skip
            documents.append({**at, "documents": documents_at(step, last, steps, shift, noise)})
    write_lines(folder / "metrics.jsonl", lines)
    (folder / "config.toml").write_text(f"[train]\nsteps = {steps}\n")
    if whole:
        write_lines(folder / "documents.jsonl", documents)
        write_heads(folder, setting, done)
        write_checkpoint(folder, setting, done)
    if done == steps:
        write_summary(folder, steps, last, documents[-1]["documents"], whole)
    return last


def write_summary(folder: Path, steps: int, loss: float, documents: dict, whole: bool) -> None:
    counts = {"parameters": 1000, "knock_parameters": 100, "flops_per_token": 2040.0,
              "knock_flops_per_token": 40.0} if whole else {}  # fmt: skip
    validation = {"loss": loss, "bits_per_byte": loss / math.log(2), "documents": documents}
    content = {"of": {"step": steps}, **counts, "tokens_per_second": 9050.0, "peak_bytes": 4.1e8,
               "validation": validation}  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(content))


def write_comparison(folder: Path, shifts: dict[str, list[float]], steps=200, interval=None,
                     finished=True, whole=True) -> Path:  # fmt: skip
    """Arms with a shift for each seed; the first setting is the reference.

    `interval` is (low, high) for every setting beside the reference, else what the shifts give.
    """
    arms, losses = [], {}
    seeds = len(next(iter(shifts.values())))
    settings = json.dumps(list(shifts))
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"[compare]\nsettings = {settings}\nseeds = {seeds}\n")
    for setting, values in shifts.items():
        for seed, shift in enumerate(values, 1):
            run = f"arms/{setting}-s{seed}"
            loss = write_run(folder / run, setting, shift, seed, steps, whole=whole)
            losses[setting, seed] = loss
            maps = 0 if setting == "baseline" else 100
            arms.append({"setting": setting, "seed": seed, "run": run, "val_loss": loss,
                         "bits_per_byte": loss / math.log(2), "parameters": 1000 + maps,
                         "knock_parameters": maps, "flops_per_token": 2000.0 + maps,
                         "knock_flops_per_token": float(maps), "tokens_per_second": 9050.0,
                         "peak_bytes": 4.1e8})  # fmt: skip
    reference, *others = shifts
    differences = []
    for setting in others:
        mean = sum(losses[setting, s] - losses[reference, s] for s in range(1, seeds + 1)) / seeds
        low, high = interval or (mean - 0.01, mean + 0.01)
        kind = "seeds" if seeds > 1 else "documents"
        differences.append({"setting": setting, "mean": mean, "low": low, "high": high, "kind": kind})
    if finished:
        content = {"version": 1, "reference": reference, "arms": arms, "differences": differences}
        (folder / "compare.json").write_text(json.dumps(content))
    return folder
