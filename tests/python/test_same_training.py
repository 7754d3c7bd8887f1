"""50 steps of `kha train` and 50 of a Python loop over an inserted model: the same losses."""

import json
import math
import re
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F
from conftest import settings
from live_models import live_model

import knocking_heads as kh

STEPS, CONTEXT, ROWS, RATE = 50, 32, 4, 3e-3


def read_ids(path):
    """The ids of a token shard as include/kha/core/token_shard.h lays it out, 16 bits each."""
    data = Path(path).read_bytes()
    assert data[:8] == b"KHATOKEN" and data[-8:] == b"KHATOEND"
    tokens = int.from_bytes(data[-56:-48], "little")
    return torch.tensor(numpy.frombuffer(data, "<u2", tokens, 64).astype(numpy.int64))


def batches(kha, run):
    """The windows of every step, as `kha data show` names them."""
    shards = {}
    for step in range(STEPS):
        done = kha("data", "show", run, "--step", step)
        assert done.returncode == 0, done.stderr
        windows = re.findall(r"^row \d+: tokens (\d+) to (\d+) of (.+)$", done.stdout, re.M)
        assert len(windows) == ROWS
        rows = []
        for begin, end, path in windows:
            if path not in shards:
                shards[path] = read_ids(path)
            rows.append(shards[path][int(begin) : int(end) + 1])
        ids = torch.stack(rows)
        yield ids[:, :-1], ids[:, 1:]


def rate(step):
    """A linear warm-up over 5 % of the steps, then a cosine to a tenth."""
    warmup = STEPS // 20
    if step <= warmup:
        return RATE * step / warmup
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup))))


@pytest.mark.parametrize("setting, decay", [("kha-linear", "to_identity"), ("kha-mlp", "paper")])
def test_the_same_losses(kha, tmp_path, tiny_text, setting, decay):
    # Small weights, so that rounding does not grow.
    model = live_model(attention_bias=True)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.mul_(0.1)
    kh.insert(model, setting)
    model.save_pretrained(tmp_path / "start")
    words = settings(**{
        "run.folder": tmp_path, "run.name": "run", "data.paths": [tiny_text],
        "init.from": tmp_path / "start", "train.steps": STEPS, "train.context": CONTEXT,
        "train.batch": ROWS, "train.eval_every": 0, "train.save_every": 0, "optimizer.lr": RATE,
        "optimizer.knock_decay": decay, "data.boundary_targets": True, "train.precision": "fp32"})
    own = [value for value in words[1::2] if not value.startswith("model.")]
    done = kha("train", *[word for value in own for word in ("--set", value)])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    theirs = [entry["train/loss"] for entry in map(json.loads, lines) if "train/loss" in entry]

    optimizer = torch.optim.AdamW(kh.parameter_groups(model, 0.1, decay), lr=RATE, betas=(0.9, 0.95),
                                  eps=1e-8)
    ours = []
    for step, (inputs, targets) in enumerate(batches(kha, tmp_path / "run"), 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        logits = model(inputs, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ours.append(loss.item())

    assert len(theirs) == len(ours) == STEPS
    assert ours[-1] < ours[0] - 1  # it learns
    worst = max(abs(mine - other) for mine, other in zip(ours, theirs))
    assert abs(ours[0] - theirs[0]) < 2e-6
    assert worst < 5e-6, worst
    trained = kh.load(tmp_path / "run")
    for name, parameter in model.named_parameters():
        error = (parameter - trained.get_parameter(name)).abs().max().item()
        assert error < 1e-4, (name, error)
