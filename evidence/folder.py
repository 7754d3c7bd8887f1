"""What lies in the folder of one run: how far it came, its validation losses, its configuration."""

import json
import math
import tomllib

# What makes it the same measurement; paths, logging and retention do not.
COMPARED = {
    "run": ["seed"],
    "model": None, "knock": None, "optimizer": None, "schedule": None,
    "data": ["extensions", "validation_share", "split_seed", "boundary_targets", "tokenizer",
             "document_mask", "reset_positions", "weights"],
    "train": ["steps", "context", "batch", "accumulate", "precision", "device", "eval_every",
              "eval_tokens"],
}


def read_lines(path):
    """The whole lines of a metrics.jsonl; a half one belongs to a run that is writing."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1] if line]


def last_step(folder):
    lines = read_lines(folder / "metrics.jsonl")
    return lines[-1]["step"] if lines else 0


def validation_points(folder):
    """[tokens, loss] of each evaluation, a loss that is no number as NaN."""
    points = {}
    for line in read_lines(folder / "metrics.jsonl"):
        if "val/loss" in line:
            loss = line["val/loss"]
            points[line["tokens"]] = loss if isinstance(loss, float) else math.nan
    return [list(point) for point in sorted(points.items())]


def state_of(folder):
    """finished, diverged (a step was not finite), unfinished or missing."""
    if (folder / "summary.json").is_file():
        return "finished"
    if any(folder.glob("failed-step-*")):
        return "diverged"
    return "unfinished" if (folder / "metrics.jsonl").is_file() else "missing"


def flat(config):
    """{"train.steps": value} of the fields that are compared."""
    fields = {}
    for table, keys in COMPARED.items():
        for key, value in config.get(table, {}).items():
            if keys is None or key in keys:
                fields[f"{table}.{key}"] = value
    return fields


def changed(folder, wanted_toml):
    """Sentences about fields in which the run that is there differs from the one wanted."""
    path = folder / "config.toml"
    if not path.is_file():
        return []
    before, wanted = flat(tomllib.loads(path.read_text())), flat(tomllib.loads(wanted_toml))
    # A field that an older program did not know yet was off.
    return [f"{key}: {before.get(key)!r} there, {wanted.get(key)!r} wanted"
            for key in sorted(before.keys() | wanted.keys())
            if (before.get(key) or None) != (wanted.get(key) or None)]
