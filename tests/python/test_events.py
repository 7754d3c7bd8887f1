"""TensorBoard events of a run, read back with the tensorboard package."""

import json
import os
import time

import numpy
import pytest


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def logged(run):
    """{tag: {step: value}} of metrics.jsonl's numbers; what a line says first of a step counts."""
    found = {}
    for line in metrics(run):
        for key, value in line.items():
            inner = value.items() if isinstance(value, dict) else [(None, value)]
            for name, number in inner:
                numeric = isinstance(number, (int, float)) and key != "step"
                if numeric and not key.startswith("run/"):
                    tag = key if name is None else f"{key}/{name}"
                    found.setdefault(tag, {}).setdefault(line["step"], number)
    return found


def shown(run):
    """{tag: [(step, value)]} as TensorBoard reads the folder."""
    from tensorboard.backend.event_processing import event_accumulator as accumulators

    reader = accumulators.EventAccumulator(str(run / "tb"), size_guidance={"tensors": 0})
    reader.Reload()
    scalars = {tag: reader.Scalars(tag) for tag in reader.Tags()["scalars"]}
    tensors = {tag: reader.Tensors(tag) for tag in reader.Tags()["tensors"]}
    found = {tag: [(e.step, e.value) for e in events] for tag, events in scalars.items()}
    for tag, events in tensors.items():
        found[tag] = [(e.step, float(e.tensor_proto.float_val[0])) for e in events]
    times = [e.wall_time for events in [*scalars.values(), *tensors.values()] for e in events]
    assert all(time.time() - 3600 < t <= time.time() + 1 for t in times)
    return found


def assert_equal_to_metrics(run):
    expected, found = logged(run), shown(run)
    assert set(found) == set(expected)
    for tag, events in found.items():
        steps = [step for step, _ in events]
        assert steps == sorted(set(steps)), f"{tag}: {steps}"
        assert steps == sorted(expected[tag]), tag
        for step, value in events:
            assert numpy.float32(value) == numpy.float32(expected[tag][step]), (tag, step)


def test_every_number_of_a_run_is_there(tiny_run):
    assert len(list((tiny_run / "tb").iterdir())) == 1
    found = shown(tiny_run)
    assert [step for step, _ in found["train/loss"]] == list(range(1, 9))
    assert [step for step, _ in found["val/loss"]] == [4, 8]
    assert "kha/identity_distance/0.v.up" in found and "heads/similarity/1.v.after" in found
    assert "run/threads" not in found
    assert_equal_to_metrics(tiny_run)


def test_after_a_kill_and_a_resume_no_step_is_there_twice(train, tmp_path):
    for point in ("step-6", "step-7"):
        train(tmp_path, run__name="a", check=False, env={"KHA_FAIL_POINT": point})
    train(tmp_path, run__name="a")
    assert len(list((tmp_path / "a/tb").iterdir())) == 3
    assert [step for step, _ in shown(tmp_path / "a")["train/loss"]] == list(range(1, 9))
    assert_equal_to_metrics(tmp_path / "a")


def test_going_on_from_an_earlier_checkpoint_drops_what_came_later(train, tmp_path):
    train(tmp_path, run__name="a", train__steps=12, train__keep_last=5)
    train(tmp_path, "--resume", tmp_path / "a/checkpoints/step-00000004", run__name="a",
          train__steps=10, train__keep_last=5)
    assert [step for step, _ in shown(tmp_path / "a")["train/loss"]] == list(range(1, 11))
    assert_equal_to_metrics(tmp_path / "a")


def test_events_change_no_bit_of_the_run_and_can_be_left_out(train, tiny_run, tmp_path):
    train(tmp_path, run__name="a", train__tensorboard=False)
    assert not (tmp_path / "a/tb").exists()
    weights = [(run / "checkpoints/latest/model.safetensors").read_bytes()
               for run in (tiny_run, tmp_path / "a")]
    assert weights[0] == weights[1]


def test_a_run_that_is_complete_gets_no_new_file(train, tmp_path):
    train(tmp_path, run__name="a")
    before = os.listdir(tmp_path / "a/tb")
    train(tmp_path, run__name="a")
    assert os.listdir(tmp_path / "a/tb") == before


# What the maps and the heads have become.


def test_heads_are_watched_at_evaluations_and_in_a_file(tiny_run):
    lines = [line for line in metrics(tiny_run) if "heads/similarity" in line]
    assert [line["step"] for line in lines] == [4, 8]
    names = {f"{layer}.{slot}.after" for layer in (0, 1) for slot in "qkv"}
    assert set(lines[0]["heads/similarity"]) == names | {"0.v.before", "1.v.before"}
    heads = json.loads((tiny_run / "heads.json").read_text())
    assert heads["step"] == 8 and 0 < heads["positions"] <= 512
    by_place = {(slot["layer"], slot["slot"]): slot for slot in heads["slots"]}
    assert len(by_place) == 6 and by_place[0, "q"]["heads"] == 4 and by_place[1, "v"]["heads"] == 2
    for (layer, slot), entry in by_place.items():
        for when in ("before", "after"):
            if when in entry:
                key = f"{layer}.{slot}.{when}"
                assert lines[-1]["heads/similarity"][key] == entry[when]["similarity"]
                mean = numpy.array(entry[when]["mean"])
                assert numpy.allclose(mean, mean.T) and numpy.allclose(mean.diagonal(), 1)
                off = abs(mean - numpy.eye(len(mean))).sum() / (len(mean) * (len(mean) - 1))
                assert off <= entry[when]["similarity"] + 1e-12


def test_checkpoints_without_an_evaluation_log_the_maps(train, tmp_path):
    train(tmp_path, run__name="a", train__eval_every=0, train__save_every=3)
    assert [line["step"] for line in metrics(tmp_path / "a") if "kha/condition" in line] == [3, 6, 8]


def test_documents_of_each_evaluation_add_up_to_its_loss(tiny_run):
    lines = [json.loads(line) for line in (tiny_run / "documents.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["val/loss"] for line in metrics(tiny_run) if "val/loss" in line}
    assert [line["step"] for line in lines] == [4, 8]
    for line in lines:
        nats, targets = numpy.array(list(line["documents"].values())).sum(0)
        assert nats / targets == pytest.approx(losses[line["step"]], rel=1e-12)


def test_the_first_line_says_what_made_the_run(tiny_run):
    first = metrics(tiny_run)[0]
    assert first["run/command"].startswith("kha train --set")
    assert first["run/commit"] and first["run/cpu"]
