"""What a run costs and how it says so: memory that stays, the ceiling, the profile."""

import json
import re

import pytest
from test_train import losses, metrics, model_bytes


# Tensors of some hundred kB, which the system's allocator gives back to the kernel at every step.
WIDE = dict(model__hidden_size=64, model__intermediate_size=192, train__context=256, train__batch=8,
            train__save_every=0, train__eval_every=0, train__steps=12)


def test_memory_stays_with_the_process_between_steps(train, tmp_path):
    train(tmp_path, run__name="a", **WIDE)
    faults = [line["faults"] for line in metrics(tmp_path / "a") if "faults" in line]
    assert max(faults[3:]) < 1000, faults
    assert sum(faults[8:]) <= sum(faults[4:8]) + 100, faults


def test_the_allocator_touches_no_number(train, tmp_path):
    caching = train(tmp_path, run__name="caching", **WIDE)
    system = train(tmp_path, run__name="system", train__allocator="system", **WIDE)
    assert "allocator caching" in caching.stdout and "allocator system" in system.stdout
    assert losses(tmp_path / "caching") == losses(tmp_path / "system")
    assert model_bytes(tmp_path / "caching") == model_bytes(tmp_path / "system")
    resumed = train(tmp_path, run__name="system", **{**WIDE, "train__steps": 13})
    assert "changed: train.allocator" not in resumed.stdout


def test_the_environment_chooses_where_the_run_does_not(train, tmp_path):
    env = {"KHA_ALLOCATOR": "system"}
    named = train(tmp_path, run__name="a", train__steps=1, env=env)
    given = train(tmp_path, run__name="b", train__steps=1, env=env, train__allocator="caching")
    assert "allocator system" in named.stdout and "allocator caching" in given.stdout


def test_figures_are_held_against_a_measured_ceiling(train, tmp_path):
    result = train(tmp_path, run__name="a")
    line = next(line for line in result.stdout.splitlines() if line.startswith("ceiling: "))
    assert "GFLOP/s (fp32 multiply-adds in registers" in line and "1 thread)" in line
    assert "(MFU " in result.stdout
    start, *rest = metrics(tmp_path / "a")
    assert start["step"] == 0 and start["run/threads"] == 1 and start["run/allocator"] == "caching"
    ceiling = start["run/ceiling_gflops"]
    steps = [line for line in rest if "train/loss" in line]
    assert all(line["mfu"] == pytest.approx(line["gflops"] / ceiling) for line in steps)
    assert all(0 < line["mfu"] <= 1 for line in steps)
    summary = json.loads((tmp_path / "a/summary.json").read_text())
    assert 0 < summary["mfu"] <= 1


def test_no_ceiling_is_claimed_for_another_precision(train, tmp_path):
    result = train(tmp_path, run__name="a", train__precision="bf16", train__steps=1)
    assert "ceiling: not known for this device and precision; MFU is left out" in result.stdout
    assert "MFU " not in result.stdout.split("MFU is left out")[1]
    assert not any("mfu" in line for line in metrics(tmp_path / "a"))


def table_of(text):
    """Name -> forward and backward milliseconds of the profile's parts, and the share of the sum."""
    rows = [re.match(r"(.{30}) *([\d.]+|-) +([\d.]+|-) +([\d.]+) %", line) for line in text.splitlines()]
    return {row[1].strip(): [0 if cell == "-" else float(cell) for cell in row.groups()[1:]]
            for row in rows if row}


def test_a_profile_shows_where_a_step_goes_and_changes_no_number(train, tmp_path):
    plain = train(tmp_path, run__name="plain", knock__setting="kha-mlp", **WIDE)
    result = train(tmp_path, "--profile", "--profile-steps", 4, run__name="a", knock__setting="kha-mlp", **WIDE)
    assert losses(tmp_path / "a") == losses(tmp_path / "plain")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "plain")
    text = (tmp_path / "a/profile.txt").read_text()
    assert text in result.stdout and "profile of steps 4 to 7" in text and "profile of steps" not in plain.stdout
    parts = table_of(text)
    both = ["attention projections", "knock maps", "attention core", "feed-forward",
            "norms, rotation, residuals"]
    for name in both:
        assert parts[name][0] > 0 and parts[name][1] > 0, name
    # The head makes its gradient beside its loss, from the same logits.
    assert parts["head and loss"][0] > 0 and parts["head and loss"][1] == 0
    assert parts["optimiser"][0] > 0 and {"data", "embedding", "norm and clipping"} <= set(parts)
    assert 97 <= parts["all"][2] <= 100.1
    for words in ("aten::mm", "minor faults of each step: ", "0 requests to the system"):
        assert words in text
    assert "trace: " in result.stdout and "https://ui.perfetto.dev" in result.stdout


def test_a_profiles_trace_is_one_that_trace_viewers_read(train, tmp_path):
    train(tmp_path, "--profile", run__name="a")
    trace = json.loads((tmp_path / "a/trace.json").read_text())
    assert trace["displayTimeUnit"] == "ms"
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= set(event) for event in complete)
    assert {event["cat"] for event in complete} == {"part", "operator", "backward"}
    assert sum(event["name"] == "rest of the step" for event in complete) == 3
    # Events of a thread lie side by side or within each other, as a viewer stacks them.
    stacks = {}
    for event in sorted(complete, key=lambda event: (event["ts"], -event["dur"])):
        stack = stacks.setdefault(event["tid"], [])
        while stack and stack[-1] <= event["ts"] + 1e-6:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1] + 1e-3
        stack.append(event["ts"] + event["dur"])


def test_a_profile_needs_enough_steps(train, tmp_path):
    result = train(tmp_path, "--profile-steps", 9, run__name="a", check=False)
    assert result.returncode == 2
    for words in ("too few steps left to profile", "12: 3 to warm up, 9 to record", "train.steps=12"):
        assert words in result.stderr
