"""Training as a user meets it: runs, resumes, kills, signals, broken settings."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import BIN, settings

SETTINGS = ["baseline", "kha-linear", "kha-linear-v", "kha-mlp", "kha-mlp-qkv", "kha-gate-v"]


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run):
    return {line["step"]: line["train/loss"] for line in metrics(run) if "train/loss" in line}


def model_bytes(run):
    latest = run / "checkpoints" / "latest"
    return [(latest / name).read_bytes() for name in ("model.safetensors", "trainer/optimizer.safetensors")]


def test_a_run_is_whole_on_disk(tiny_run):
    latest = tiny_run / "checkpoints" / "latest"
    assert os.readlink(latest) == "step-00000008"
    names = {str(path.relative_to(latest)) for path in latest.rglob("*") if path.is_file()}
    assert names == {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "model.safetensors", "MANIFEST.json",
        "trainer/state.json", "trainer/config.toml", "trainer/optimizer.safetensors",
    }
    assert json.loads((latest / "config.json").read_text())["kha"]["v"] == "mlp"
    assert (tiny_run / "config.toml").exists()


def test_metrics_have_every_step_and_the_maps(tiny_run):
    assert sorted(losses(tiny_run)) == list(range(1, 9))
    validation = [line for line in metrics(tiny_run) if "val/loss" in line]
    assert [line["step"] for line in validation] == [4, 8]
    assert validation[-1]["val/bits_per_byte"] > 0
    distances = validation[-1]["kha/identity_distance"]
    assert set(distances) == {f"{layer}.v.{m}" for layer in (0, 1) for m in ("up", "gate", "down")}
    assert all(value > 0 for value in distances.values())


def test_it_learns(train, tmp_path):
    train(tmp_path, run__name="a", train__steps=60, optimizer__lr=0.01, train__save_every=0, train__eval_every=0)
    run = losses(tmp_path / "a")
    assert run[1] > 5.0 and run[60] < 3.0


PACKED = {"data__document_mask": True, "data__reset_positions": True}


@pytest.mark.parametrize("setting, packing", [*((s, {}) for s in SETTINGS), ("kha-mlp", PACKED)])
def test_2n_steps_are_n_and_a_kill_and_n(train, tmp_path, setting, packing):
    common = dict(knock__setting=setting, train__steps=8, train__save_every=4, optimizer__lr=0.01,
                  train__accumulate=2, **packing)
    train(tmp_path, run__name="straight", **common)
    killed = train(tmp_path, run__name="broken", check=False, **common,
                   env={"KHA_FAIL_POINT": "step-6"})
    assert killed.returncode == 86
    assert os.readlink(tmp_path / "broken/checkpoints/latest") == "step-00000004"
    resumed = train(tmp_path, run__name="broken", **common)
    assert "continues from" in resumed.stdout and "(4 of 8 steps)" in resumed.stdout
    assert model_bytes(tmp_path / "broken") == model_bytes(tmp_path / "straight")
    assert losses(tmp_path / "broken") == losses(tmp_path / "straight")


def test_masks_and_positions_of_documents_change_the_loss_each(train, tmp_path):
    seen = []
    for mask in (False, True):
        for reset in (False, True):
            name = f"{mask}{reset}"
            train(tmp_path, run__name=name, train__steps=2, train__eval_every=0,
                  data__document_mask=mask, data__reset_positions=reset, train__context=128)
            seen.append(losses(tmp_path / name)[2])
    assert len({round(loss, 6) for loss in seen}) >= 3, seen  # masked, the reset is rounding alone


def test_after_a_resume_the_step_column_rises_strictly(train, tmp_path):
    train(tmp_path, run__name="a", check=False, env={"KHA_FAIL_POINT": "step-7"})
    train(tmp_path, run__name="a")
    steps = [line["step"] for line in metrics(tmp_path / "a") if "train/loss" in line]
    assert steps == list(range(1, 9))
    aside = (tmp_path / "a/metrics.after-step-4.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in aside] == [5, 6]


@pytest.mark.parametrize("point", ["before-manifest", "after-manifest", "before-latest"])
def test_a_kill_while_saving_leaves_a_loadable_checkpoint(train, kha, tmp_path, point):
    train(tmp_path, run__name="a", train__steps=4)
    killed = train(tmp_path, run__name="a", train__steps=8, check=False, env={"KHA_FAIL_POINT": point})
    assert killed.returncode == 86
    assert kha("inspect", tmp_path / "a").returncode == 0
    resumed = train(tmp_path, run__name="a", train__steps=8)
    expected = "complete already" if point == "before-latest" else "continues from"
    assert expected in resumed.stdout
    assert os.readlink(tmp_path / "a/checkpoints/latest") == "step-00000008"


def start(tiny_text, folder, **changes):
    given = {"run.folder": folder, "run.name": "a", "data.paths": [tiny_text]}
    given.update({key.replace("__", "."): value for key, value in changes.items()})
    return subprocess.Popen([str(BIN / "kha"), "train", *settings(**given)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_step(folder, step, seconds=60):
    path = folder / "a" / "metrics.jsonl"
    end = time.time() + seconds
    while time.time() < end:
        if path.exists() and f'"step":{step},' in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"no step {step} within {seconds} s")


@pytest.mark.parametrize("name, code", [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_saves_and_leaves(tiny_text, tmp_path, name, code):
    process = start(tiny_text, tmp_path, train__steps=1000000, train__save_every=0, train__eval_every=0)
    wait_for_step(tmp_path, 3)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert "stopped by a signal at step" in out and "the same command goes on from there" in out
    state = json.loads((tmp_path / "a/checkpoints/latest/trainer/state.json").read_text())
    assert state["step"] >= 3
    assert max(losses(tmp_path / "a")) == state["step"]


def test_kills_at_any_moment_leave_a_checkpoint_to_go_on_from(tiny_text, train, tmp_path):
    for delay in (0.0, 0.03, 0.07, 0.12, 0.2):
        process = start(tiny_text, tmp_path, train__steps=1000000, train__save_every=1, train__eval_every=0)
        before = max(losses(tmp_path / "a"), default=0) if (tmp_path / "a/metrics.jsonl").exists() else 0
        wait_for_step(tmp_path, before + 2)
        time.sleep(delay)
        process.kill()
        process.communicate()
    result = train(tmp_path, run__name="a", train__steps=1, check=False, train__save_every=1, train__eval_every=0)
    assert "continues from" in result.stdout, result.stdout + result.stderr
    assert not list((tmp_path / "a/checkpoints").glob(".*partial"))


def test_a_second_process_in_the_same_run_is_refused(tiny_text, train, tmp_path):
    process = start(tiny_text, tmp_path, train__steps=1000000, train__save_every=0, train__eval_every=0)
    try:
        wait_for_step(tmp_path, 1)
        result = train(tmp_path, run__name="a", check=False)
        assert result.returncode == 2
        assert "another process is training in this run's folder" in result.stderr
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("changes, words", [
    (dict(model__hidden_size=48), ["model.hidden_size: 32 -> 48"]),
    (dict(run__seed=2), ["run.seed: 1 -> 2"]),
    (dict(train__batch=2), ["train.batch: 4 -> 2"]),
    (dict(knock__setting="baseline"), ["knock.setting"]),
])
def test_a_resume_refuses_changes_that_make_another_run(train, tmp_path, changes, words):
    train(tmp_path, run__name="a", train__steps=2)
    result = train(tmp_path, run__name="a", check=False, **{"train__steps": 4, **changes})
    assert result.returncode == 2
    for word in ["these changes would make another run", "--set run.name=", *words]:
        assert word in result.stderr


def test_a_resume_prints_allowed_changes(train, tmp_path):
    train(tmp_path, run__name="a", train__steps=2)
    result = train(tmp_path, run__name="a", train__steps=3, optimizer__lr=0.005)
    assert "changed: train.steps: 2 -> 3" in result.stdout
    assert "changed: optimizer.lr: 0.001 -> 0.005" in result.stdout


def test_resume_none_does_not_train_over_a_run(train, tmp_path):
    train(tmp_path, run__name="a", train__steps=2)
    result = train(tmp_path, "--resume", "none", run__name="a", check=False)
    assert result.returncode == 2 and "--resume none would train over them" in result.stderr


def test_resume_from_a_named_step(train, tmp_path):
    train(tmp_path, run__name="a")
    result = train(tmp_path, "--resume", tmp_path / "a/checkpoints/step-00000004", run__name="a")
    assert "(4 of 8 steps)" in result.stdout
    assert sorted(losses(tmp_path / "a")) == list(range(1, 9))


def test_a_damaged_checkpoint_is_passed_over_and_named(train, tmp_path):
    train(tmp_path, run__name="a")
    newest = tmp_path / "a/checkpoints/step-00000008/model.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    result = train(tmp_path, run__name="a")
    line = next(line for line in result.stdout.splitlines() if line.startswith("passed over step-00000008"))
    assert "model.safetensors" in line and "checksum" in line
    assert "(4 of 8 steps)" in result.stdout


def test_a_complete_run_is_said_to_be_complete(train, tmp_path):
    train(tmp_path, run__name="a")
    before = model_bytes(tmp_path / "a")
    result = train(tmp_path, run__name="a")
    assert "complete already" in result.stdout
    assert model_bytes(tmp_path / "a") == before


def test_a_loss_that_is_not_finite_stops_with_its_batch(train, tmp_path):
    result = train(tmp_path, run__name="a", optimizer__lr=100, optimizer__clip=0,
                   model__initializer_range=9.0, optimizer__weight_decay=10, train__steps=200,
                   check=False, train__eval_every=0)
    assert result.returncode == 1, result.stdout[-800:]
    assert "is not finite; no weight was changed" in result.stderr
    saved = list((tmp_path / "a").glob("failed-step-*.safetensors"))
    assert len(saved) == 1 and str(saved[0]) in result.stderr
    from safetensors import safe_open

    with safe_open(saved[0], "pt") as file:
        assert file.get_tensor("inputs.0").shape == (4, 32)


def test_frozen_groups_do_not_move_and_maps_alone_train(train, tmp_path):
    from safetensors.torch import load_file

    frozen = {f"optimizer__groups__{g}__freeze": True for g in ("embedding", "matrices", "norms")}
    train(tmp_path, run__name="base", train__steps=1)
    train(tmp_path, run__name="a", train__steps=4, **frozen)
    start_weights = load_file(tmp_path / "base/checkpoints/latest/model.safetensors")
    end_weights = load_file(tmp_path / "a/checkpoints/latest/model.safetensors")
    train(tmp_path, run__name="zero", train__steps=0)
    zero = load_file(tmp_path / "zero/checkpoints/latest/model.safetensors")
    assert set(start_weights) == set(end_weights)
    for name, value in end_weights.items():
        assert value.equal(zero[name]) == ("knock" not in name), name


def test_everything_frozen_is_refused(train, tmp_path):
    frozen = {f"optimizer__groups__{g}__freeze": True for g in ("embedding", "matrices", "norms", "knock")}
    result = train(tmp_path, run__name="a", check=False, **frozen)
    assert result.returncode == 2 and "every group is frozen" in result.stderr


def test_init_from_adds_maps_and_keeps_momenta_by_name(train, tmp_path):
    from safetensors.torch import load_file

    train(tmp_path, run__name="base", knock__setting="baseline")
    base = tmp_path / "base/checkpoints/latest"
    result = train(tmp_path, run__name="more", knock__setting="kha-mlp", init__from=base,
                   init__optimizer=True, train__steps=0)
    assert "6 of maps added" in result.stdout
    assert "6 start fresh: model.layers.0.self_attn.knock_v.up.weight" in result.stdout
    more = tmp_path / "more/checkpoints/latest"
    old, new = (load_file(folder / "trainer/optimizer.safetensors") for folder in (base, more))
    assert all(new[name].equal(value) for name, value in old.items())
    assert not new["mean.model.layers.0.self_attn.knock_v.up.weight"].any()
    old, new = (load_file(folder / "model.safetensors") for folder in (base, more))
    assert all(new[name].equal(value) for name, value in old.items())


def test_init_from_keeps_the_models_maps_and_never_drops_one(train, tmp_path):
    train(tmp_path, run__name="base", knock__setting="kha-linear", train__steps=2)
    kept = train(tmp_path, run__name="kept", init__from=tmp_path / "base", train__steps=2)
    assert "model: kha-linear" in kept.stdout and "0 of maps added" in kept.stdout
    again = train(tmp_path / "kept", "--set", "train.steps=3", check=False, command="train",
                  run__name="kept", init__from=tmp_path / "base", run__folder=tmp_path, train__steps=3)
    assert "continues from" in again.stdout, again.stderr
    config = (tmp_path / "kept/config.toml").read_text()
    assert 'setting = "kha-linear"' in config
    refused = train(tmp_path, run__name="c", init__from=tmp_path / "base", knock__setting="kha-mlp", check=False)
    assert refused.returncode == 2
    assert "would drop a map that the model has" in refused.stderr and "layer 0, q: linear" in refused.stderr


def test_a_run_goes_on_from_its_own_written_configuration(train, kha, tmp_path):
    train(tmp_path, run__name="base", knock__setting="kha-linear", train__steps=2)
    train(tmp_path, run__name="a", init__from=tmp_path / "base", train__steps=2)
    again = kha("train", tmp_path / "a", "--set", "train.steps=3")
    assert again.returncode == 0, again.stderr
    assert "(2 of 3 steps)" in again.stdout


def test_init_from_another_shape_is_refused(train, tmp_path):
    train(tmp_path, run__name="base", train__steps=1)
    result = train(tmp_path, run__name="b", init__from=tmp_path / "base", model__hidden_size=64, check=False)
    assert result.returncode == 2
    assert "`model.hidden_size` differs from the model that the run starts from" in result.stderr


@pytest.mark.parametrize("decay, moves", [("paper", True), ("none", False), ("to_identity", False)])
def test_decay_of_the_maps_without_gradients(train, tmp_path, decay, moves):
    """Zero gradients (no target counts is not possible here: a rate so small that only decay acts)."""
    from safetensors.torch import load_file

    result = train(tmp_path, run__name="a", optimizer__knock_decay=decay, optimizer__lr=1.0,
                   optimizer__eps=1.0, optimizer__clip=1e-9, optimizer__weight_decay=0.1,
                   schedule__kind="constant", schedule__warmup_steps=0, train__steps=5)
    up = load_file(tmp_path / "a/checkpoints/latest/model.safetensors")[
        "model.layers.0.self_attn.knock_v.up.weight"]
    diagonal = up.diagonal().mean().item()
    assert (abs(diagonal - 1) > 0.1) == moves, diagonal
    word = {"paper": "to zero", "none": "to nothing", "to_identity": "to identity"}[decay]
    assert any("group knock" in line and word in line for line in result.stdout.splitlines())


def test_bf16_keeps_float32_masters_that_move(train, tmp_path):
    from safetensors.torch import load_file

    result = train(tmp_path, run__name="a", train__precision="bf16", optimizer__lr=6e-4,
                   schedule__kind="constant", schedule__warmup_steps=0, train__steps=20,
                   train__eval_every=0, optimizer__knock_decay="none")
    weights = load_file(tmp_path / "a/checkpoints/latest/model.safetensors")
    up = weights["model.layers.0.self_attn.knock_v.up.weight"]
    assert str(up.dtype) == "torch.float32" and not up.diagonal().eq(1).any()
    assert "precision bf16" in result.stdout
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    slow = "avx512_bf16" not in flags and "amx_bf16" not in flags
    assert ("some 80 times slower than fp32" in result.stdout) == slow
    auto = train(tmp_path, run__name="auto", train__precision="auto", train__steps=1)
    assert ("precision fp32" in auto.stdout) == slow


def test_dry_run_and_print_config_change_nothing(train, kha, tmp_path):
    dry = train(tmp_path, "--dry-run", run__name="a")
    assert "plan: 8 steps of 128 tokens" in dry.stdout
    assert not (tmp_path / "a").exists()
    printed = kha("train", "--print-config", *settings(train__steps=77))
    assert "steps = 77  # optimiser steps" in printed.stdout
    again = tmp_path / "again.toml"
    again.write_text(printed.stdout)
    assert kha("train", again, "--print-config").stdout == printed.stdout


@pytest.mark.parametrize("arguments, words", [
    (["--set", "model.hiden_size=3"], ["unknown key `model.hiden_size`", "did you mean `model.hidden_size`"]),
    (["--set", "train.steps=many"], ["`train.steps` has the wrong type", "a whole number"]),
    (["--set", "train.batch=0"], ["`train.batch` is out of range"]),
    (["--set", "knock.setting=kha-mpl"], ["`kha-mpl` is not a value", "did you mean `kha-mlp`"]),
    (["--set", "train.device=cuda"], ["device = \"cuda\""]),
    (["no-such-file.toml"], ["cannot read the run's configuration", "no-such-file.toml"]),
    (["--bogus"], ["--bogus", "kha train --help"]),
    (["--set", "data.paths=[]"], ["the run has no text", "data.paths"]),
    (["--set", 'data.paths=["/nowhere/at/all"]'], ["/nowhere/at/all"]),
])
def test_bad_input_is_a_sentence(train, tmp_path, arguments, words):
    if "device" in arguments[-1]:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a CUDA device")
    result = train(tmp_path, *arguments, run__name="a", check=False)
    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr


def test_text_that_does_not_fill_a_window_is_refused_at_start(train, tmp_path):
    result = train(tmp_path, run__name="a", train__context=4096, check=False)
    assert result.returncode == 2
    assert "validation" in result.stderr and "4097" in result.stderr


def test_a_read_only_folder_is_a_sentence(train, tmp_path):
    result = train("/proc/kha-runs", run__name="a", data__cache=tmp_path, check=False)
    assert result.returncode == 2
    assert "cannot make the run's folder" in result.stderr and "--set run.folder=DIR" in result.stderr


def small_disk(tmp_path, megabytes):
    """A file system of its own, where mounting is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
                             capture_output=True)
    return folder if mounted.returncode == 0 else None


def test_a_full_disk_loses_nothing(train, kha, tmp_path):
    disk = small_disk(tmp_path, 3)
    if disk is None:
        pytest.skip("mounting a small file system needs root")
    try:
        changes = dict(run__name="a", data__cache=tmp_path / "cache", model__hidden_size=96,
                       model__intermediate_size=192, train__keep_last=5, train__save_every=1, train__steps=6)
        result = train(disk, check=False, **changes)
        assert result.returncode == 2, result.stdout[-500:]
        assert "disk" in result.stderr or "space" in result.stderr
        assert kha("inspect", disk / "a").returncode == 0
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert "continues from" in train(disk, **changes).stdout
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("kind", ["cosine", "constant", "wsd"])
def test_the_rate_is_a_function_of_the_step(train, tmp_path, kind):
    common = dict(train__steps=20, schedule__kind=kind, schedule__warmup_steps=4, train__save_every=5)
    train(tmp_path, run__name="a", check=False, env={"KHA_FAIL_POINT": "step-8"}, **common)
    train(tmp_path, run__name="a", **common)
    train(tmp_path, run__name="b", **common)
    rates = [{line["step"]: line["lr"] for line in metrics(tmp_path / name) if "lr" in line} for name in "ab"]
    assert rates[0] == rates[1]
    assert rates[0][2] == pytest.approx(0.0005) and rates[0][4] == pytest.approx(0.001)
    assert rates[0][20] == pytest.approx(0.001 if kind == "constant" else 0.0001)


def test_single_layers_can_have_other_maps(train, kha, tmp_path):
    from safetensors.torch import load_file

    train(tmp_path, "--set", 'knock.layers.1.v="none"', "--set", 'knock.layers.1.q="linear"',
          run__name="a", train__steps=2)
    latest = tmp_path / "a/checkpoints/latest"
    assert json.loads((latest / "config.json").read_text())["kha"]["layers"] == {"1": {"q": "linear", "v": "none"}}
    maps = {name for name in load_file(latest / "model.safetensors") if "knock" in name}
    assert maps == {"model.layers.1.self_attn.knock_q.weight"} | {
        f"model.layers.0.self_attn.knock_v.{m}.weight" for m in ("up", "gate", "down")}
    assert "continues from" in train(tmp_path, "--set", 'knock.layers.1.v="none"',
                                     "--set", 'knock.layers.1.q="linear"', run__name="a", train__steps=3).stdout
    refused = train(tmp_path, run__name="a", train__steps=4, check=False)
    assert refused.returncode == 2 and "knock.layers" in refused.stderr


def test_a_random_start_moves_only_the_maps(train, tmp_path):
    from safetensors.torch import load_file

    weights = {}
    for start in ("identity", "random"):
        train(tmp_path, run__name=start, knock__start=start, train__steps=0)
        weights[start] = load_file(tmp_path / start / "checkpoints/latest/model.safetensors")
    for name, value in weights["identity"].items():
        assert value.equal(weights["random"][name]) == ("knock" not in name), name
    spread = weights["random"]["model.layers.0.self_attn.knock_v.up.weight"].std().item()
    assert 0.01 < spread < 0.03  # the model's own initializer_range, 0.02


def test_a_signal_during_the_last_save_loses_nothing(tiny_text, tmp_path):
    process = start(tiny_text, tmp_path, train__steps=1, train__save_every=0, train__eval_every=0,
                    model__hidden_size=512, model__intermediate_size=2048)
    checkpoints = tmp_path / "a" / "checkpoints"
    end = time.time() + 60
    while time.time() < end and not list(checkpoints.glob(".step-*.partial")) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (143, 0), out + err  # 0: the save was done before the signal came
    state = json.loads((checkpoints / "latest/trainer/state.json").read_text())
    assert state["step"] == 1
