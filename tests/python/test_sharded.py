"""Sharded training: FSDP2 and DDP over two gloo processes, and the worked example."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "fsdp2"
HERE = Path(__file__).resolve().parent


def torchrun(processes, *command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={processes}", *map(str, command)],
        capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def two(state):
    results = state / "two.json"
    torchrun(2, HERE / "sharded_worker.py", EXAMPLE, results, state)
    return json.loads(results.read_text())


@pytest.mark.parametrize("how", ["sharded", "replicated"])
@pytest.mark.parametrize("setting", ["linear", "linear on activations", "mlp", "gate"])
def test_losses_are_those_of_one_process(two, how, setting):
    alone, shared = two[how][setting]
    assert len(alone) == 6 and alone[-1] < alone[0]
    assert shared == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("setting", ["linear", "linear on activations", "mlp", "gate"])
def test_no_saved_tensor_keeps_a_whole_weight_alive(two, setting):
    kept = two["kept"][setting]
    assert kept["saved"] > 20, "the hooks saw nothing"
    assert kept["whole"] == []


def test_value_that_is_not_finite_on_one_process_stops_the_step_on_all(two):
    poisoned = two["poisoned"]
    assert poisoned["taken"] == [False, False] and poisoned["unchanged"] == [True, True]
    assert poisoned["next taken"] == [True, True] and poisoned["loss"] < 100


def test_disjoint_experts_do_not_wait_for_each_other(two):
    assert two["experts"]["experts"] == [[0, 1], [2, 3]], "the routing was not disjoint"
    assert two["experts"]["seconds"] < 60


def test_maps_filled_after_sharding_are_the_identity(two):
    assert len(two["started"]) == 2 * 9 and all(two["started"].values()), two["started"]


def test_slices_follow_the_global_rank(two):
    first, second = two["slices"]["first ids"]
    assert not set(first) & set(second)
    assert "two processes have the same first batch" in two["slices"]["refused"]


@pytest.mark.parametrize("processes", [1, 3])
def test_state_is_read_by_another_number_of_processes(two, state, tmp_path, processes):
    results = tmp_path / "read.json"
    torchrun(processes, HERE / "sharded_worker.py", EXAMPLE, results, state)
    read = json.loads(results.read_text())
    assert read["step"] == 1 and read["missing"] == [] and len(read["same"]) == two["saved"]["tensors"]
    assert all(read["same"].values())
    assert read["next losses"] == pytest.approx(two["saved"]["next losses"], rel=1e-9)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text((Path(json.__file__).parent / "decoder.py").read_text())
    return path


def run_example(text, to, checkpoint, *more):
    return torchrun(2, EXAMPLE / "train.py", "--tiny", "--text", text, "--to", to, "--steps", 4,
                    "--batch", 2, "--length", 48, "--checkpoint", checkpoint, "--every", 2, *more)


def test_example_ends_with_a_plain_model_and_goes_on_after_a_stop(text, tmp_path):
    straight = run_example(text, tmp_path / "a", tmp_path / "ca")
    assert "2 processes on cpu" in straight and "step 4/4" in straight
    assert "knock_v: linear folded" in straight and f"written: {tmp_path / 'a'}" in straight
    stopped = tmp_path / "cb"
    shutil.copytree(tmp_path / "ca" / "step-00000002", stopped / "step-00000002")
    (stopped / "latest").write_text("step-00000002")
    again = run_example(text, tmp_path / "b", stopped)
    assert "from step 2" in again and "step 2/4" not in again
    a, b = ((tmp_path / at / "model.safetensors").read_bytes() for at in "ab")
    assert a == b
    assert json.loads((tmp_path / "a" / "config.json").read_text())["model_type"] == "qwen3"


def test_example_keeps_what_does_not_fold(text, tmp_path):
    said = run_example(text, tmp_path / "a", tmp_path / "c", "--setting", "kha-mlp")
    assert "mlp became gate" in said
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["model_type"] == "kha" and config["kha"]["v"] == "gate"
