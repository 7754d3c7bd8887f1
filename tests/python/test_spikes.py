"""Loss spikes in runs and reports: what `kha inspect run` finds, and what a policy does of them."""

import csv
import importlib
import json
import os
import random
import re
import subprocess
import sys
from math import comb
from pathlib import Path

import pytest
from made_runs import loss_at, write_comparison, write_lines, write_run

PROGRAM = Path(__file__).resolve().parents[2] / "python/knocking_heads/report.py"
sys.path.insert(0, str(PROGRAM.parent))
spikes = importlib.import_module("run_report.spikes")


def write_steps(run: Path, steps: int, at=(), seed=1, height=1.0):
    """A quiet loss of every step, `height` above it at the steps `at`."""
    noise = random.Random(seed)
    lines = [
        {"step": step, "grad_norm": 0.5 + 0.01 * noise.random(),
         "loss": loss_at(step, steps) + noise.gauss(0, 0.01) + (height if step in at else 0)}
        for step in range(1, steps + 1)
    ]  # fmt: skip
    write_lines(run / "steps.jsonl", lines)


def inspect(kha, *runs):
    result = kha("inspect", "run", *runs, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_inspect_run_finds_the_events_of_every_step(kha, tmp_path):
    write_run(tmp_path / "a", steps=1500)
    write_steps(tmp_path / "a", 1500, at=(900, 1200))
    found = inspect(kha, tmp_path / "a")["runs"][0]
    assert found["series"] == {"file": "steps.jsonl", "steps": 1500, "stride": 1}
    assert [event["first"] for event in found["spikes"]["events"]] == [900, 1200]
    assert found["spikes"]["warmup_steps"] == 75
    assert found["spikes"]["events_after_warmup"] == 2
    assert found["spikes"]["steps_after_warmup"] == 1425
    assert found["spikes"]["loss"]["olmo_core_spikes"] == 2
    text = kha("inspect", "run", tmp_path / "a").stdout
    assert "step 900: 0.9" in text and "2 in 1425 judged behind the warm-up of 75" in text
    assert "step 1500 of 1500" in text and "kha compare demo.toml" in text


def test_inspect_run_says_that_an_older_run_has_logged_steps_only(kha, tmp_path):
    write_run(tmp_path / "a", steps=400, every=2)
    found = inspect(kha, tmp_path / "a")["runs"][0]
    assert found["series"]["file"] == "metrics.jsonl" and found["series"]["stride"] == 2
    assert found["spikes"]["loss"]["olmo2_score"] is None
    assert "of every 2th step" in kha("inspect", "run", tmp_path / "a").stdout


def test_inspect_run_tests_runs_against_the_first(kha, tmp_path):
    for name, at in (("a", range(300, 1200, 100)), ("b", (500,))):
        write_run(tmp_path / name, steps=1500)
        write_steps(tmp_path / name, 1500, at=at, height=6.0)
    test, = inspect(kha, tmp_path / "a", tmp_path / "b")["tests"]
    assert test["p"] == pytest.approx(2 * (1 + comb(10, 1)) / 2**10)
    assert test["p"] == pytest.approx(spikes.exact_test(1, 9, 1425, 1425))
    assert "p = 0.0215" in kha("inspect", "run", tmp_path / "a", tmp_path / "b").stdout


def test_the_statistics_of_the_report():
    assert spikes.exact_test(1, 1, 100, 300) == pytest.approx(7 / 16)
    assert spikes.exact_test(0, 0, 5, 5) == 1.0
    assert spikes.poisson_interval(0) == (0.0, 3.0)
    low, high = spikes.poisson_interval(10)  # tables: 4.795 to 18.39
    assert low == pytest.approx(4.7954, abs=1e-3) and high == pytest.approx(18.3904, abs=1e-3)


@pytest.fixture(scope="module")
def duel(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("spikes") / "duel",
                              {"baseline": [0.0, 0.0], "kha-mlp": [0.0, 0.0]}, steps=600)  # fmt: skip
    for seed, at in ((1, (300, 350, 400, 450)), (2, (310, 360, 410, 460))):
        write_steps(folder / f"arms/baseline-s{seed}", 600, at, seed, height=6.0)
        write_steps(folder / f"arms/kha-mlp-s{seed}", 600, (), seed)
    done = subprocess.run([sys.executable, "-P", str(PROGRAM), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_report_counts_and_tests_the_arms(duel):
    baseline, mlp = csv.DictReader((duel / "report/spikes.csv").open())
    assert (baseline["events"], baseline["runs"], mlp["events"]) == ("8", "2", "0")
    assert baseline["steps judged"] == mlp["steps judged"] == str(2 * (600 - 50))
    assert float(mlp["exact test p"]) == pytest.approx(2 / 2**8)
    assert mlp["against"] == "baseline" and baseline["exact test p"] == ""
    assert float(baseline["mean height (nats)"]) == pytest.approx(6.0, abs=0.2)
    svg = (duel / "report/spikes.svg").read_text()
    assert "8 in 1,100 steps" in svg and "0 in 1,100 steps, p = 0.0078" in svg
    assert 'id="spikes"' in (duel / "report.html").read_text()


def test_the_loss_curve_has_a_mark_for_each_event(duel):
    assert (duel / "report/loss.svg").read_text().count('id="spike"') == 8


def test_runs_that_are_too_short_say_why_nothing_is_shown(tmp_path):
    folder = write_run_folder(tmp_path)
    page = (folder / "report.html").read_text()
    assert "have logged too few behind the warm-up" in page
    assert not (folder / "report/spikes.csv").exists()


def write_run_folder(tmp_path):
    write_run(tmp_path / "a", steps=40)
    subprocess.run([sys.executable, "-P", str(PROGRAM), str(tmp_path / "a")], check=True, capture_output=True)
    return tmp_path / "a"


def test_a_call_without_runs_points_to_its_own_help(kha):
    result = kha("inspect", "run")
    assert result.returncode == 2 and "next:     kha inspect run --help" in result.stderr
    assert "next:     kha plan --help" in kha("plan", "--nonsense").stderr


# What the trainer does.


@pytest.fixture(scope="module")
def text_with_noise(tmp_path_factory):
    """The same words in every document but one, whose noise one or two batches of an epoch meet."""
    folder = tmp_path_factory.mktemp("noise")
    line = "the heads of a layer share one small map and knock on each other in the dark, " * 4
    for number in range(250):
        (folder / f"document{number:03}.txt").write_text(line + "\n")
    noise = random.Random(5)
    (folder / "document125a.txt").write_text("".join(chr(noise.randrange(33, 126)) for _ in range(50)))
    return folder


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def actions(run):
    return [line for line in metrics(run) if "spike/action" in line]


def every_step(run):
    return {line["step"]: line["loss"] for line in map(json.loads, (run / "steps.jsonl").read_text().splitlines())}


def model_bytes(run):
    latest = run / "checkpoints" / "latest"
    return [(latest / name).read_bytes() for name in ("model.safetensors", "trainer/optimizer.safetensors")]


@pytest.fixture(scope="module")
def spiky(train, text_with_noise):
    """Trains 320 steps over the text with the noise."""

    def run(folder, name, policy, **changes):
        common = dict(data__paths=[text_with_noise], data__validation_share=0.02, train__steps=320,
                      train__batch=4, train__context=64, optimizer__lr=0.01, train__eval_every=0,
                      train__save_every=50, train__log_every=10, train__keep_last=20)
        return train(folder, run__name=name, train__spike=policy, **{**common, **changes})

    return run


@pytest.fixture(scope="module")
def noted(spiky, tmp_path_factory):
    folder = tmp_path_factory.mktemp("noted")
    return folder / "a", spiky(folder, "a", "note")


def test_a_spike_is_noted_and_the_run_goes_on(noted, kha):
    run, result = noted
    first = actions(run)[0]
    assert first["spike/action"] == "note" and first["spike/left_out"] == 0
    assert first["spike/at"] == first["step"] > 128
    assert f"spike at step {first['step']}: " in result.stdout and "of the 128 steps before" in result.stdout
    assert sorted(every_step(run)) == list(range(1, 321))
    found = inspect(kha, run)["runs"][0]
    assert found["actions"][0]["at"] == first["step"]
    assert json.loads((run / "summary.json").read_text())["spikes"] == found["spikes"]


def test_the_logged_lines_count_the_events(noted, kha):
    run, _ = noted
    logged = [line["spikes"] for line in metrics(run) if "spikes" in line]
    assert logged == sorted(logged)
    assert logged[-1] == len(inspect(kha, run)["runs"][0]["spikes"]["events"])


def test_going_back_makes_no_evaluation_and_no_checkpoint_again(noted, spiky, tmp_path):
    spiky(tmp_path, "a", "back", train__eval_every=50)
    run = tmp_path / "a"
    evaluated = [line["step"] for line in metrics(run) if "val/loss" in line]
    assert evaluated == sorted(set(evaluated)) and {50, 100, 150, 200} <= set(evaluated)
    documents = [json.loads(line)["step"] for line in (run / "documents.jsonl").read_text().splitlines()]
    assert documents == sorted(set(documents))


def test_skip_leaves_the_batch_out_and_nothing_else(noted, spiky, tmp_path):
    spiky(tmp_path, "a", "skip")
    run, at = tmp_path / "a", actions(noted[0])[0]["step"]
    assert actions(run)[0]["spike/action"] == "skip" and actions(run)[0]["step"] == at
    mine, others = every_step(run), every_step(noted[0])
    assert [mine[s] for s in range(1, at + 1)] == [others[s] for s in range(1, at + 1)]
    assert mine[at + 1] != others[at + 1]
    # The moments have seen one step less for each batch that was left out.
    from safetensors import safe_open

    skipped = sum(line["spike/action"] == "skip" for line in actions(run))
    with safe_open(run / "checkpoints/latest/trainer/optimizer.safetensors", "pt") as file:
        assert file.get_tensor("steps.model.norm.weight").item() == 320 - skipped


def test_back_returns_to_the_checkpoint_with_the_data_moved_on(noted, spiky, tmp_path):
    result = spiky(tmp_path, "a", "back")
    run = tmp_path / "a"
    back = next(line for line in actions(run) if line["spike/action"] == "back")
    at, to = back["spike/at"], back["step"]
    assert to == (at - 1) // 50 * 50 and back["spike/left_out"] == at - to
    assert f"back to step {to}, {at - to} batches are left out" in result.stdout
    assert sorted(every_step(run)) == list(range(1, 321)), "the step column rises strictly"
    mine, others = every_step(run), every_step(noted[0])
    assert all(mine[s] == others[s] for s in range(1, to + 1))
    assert mine[to + 1] != others[to + 1]
    state = json.loads((run / "checkpoints/latest/trainer/state.json").read_text())
    left_out = [line["spike/left_out"] for line in actions(run)][-1]
    assert state["batches_left_out"] == left_out
    assert state["data"]["step"] == 320 + left_out and state["data"]["sequence_index"] == 4 * (320 + left_out)
    aside = run / f"steps.after-step-{to}.jsonl"
    assert [json.loads(line)["step"] for line in aside.read_text().splitlines()][: at - to - 1] == list(range(to + 1, at))


@pytest.mark.parametrize("policy, behind", [("back", 2), ("back", 60), ("skip", 2)])
def test_a_resume_behind_a_spike_gives_the_same_bits(noted, spiky, tmp_path, policy, behind):
    """Killed before the next checkpoint, and after it."""
    stop = actions(noted[0])[0]["step"] + behind
    spiky(tmp_path, "straight", policy)
    killed = spiky(tmp_path, "broken", policy, check=False, env={"KHA_FAIL_POINT": f"step-{stop}"})
    assert killed.returncode == 86
    resumed = spiky(tmp_path, "broken", policy)
    assert "continues from" in resumed.stdout
    if policy == "back":
        assert "batches ahead, left out when it went back" in resumed.stdout
    assert model_bytes(tmp_path / "broken") == model_bytes(tmp_path / "straight")
    assert every_step(tmp_path / "broken") == every_step(tmp_path / "straight")
    assert [line["spike/at"] for line in actions(tmp_path / "broken")] == [
        line["spike/at"] for line in actions(tmp_path / "straight")]


def test_back_has_a_checkpoint_from_the_start(train, tmp_path):
    train(tmp_path, run__name="a", train__spike="back", train__steps=1, train__save_every=0, train__keep_last=5)
    assert "step-00000000" in os.listdir(tmp_path / "a/checkpoints")


BROKEN = dict(optimizer__lr=100, optimizer__clip=0, model__initializer_range=9.0, optimizer__weight_decay=10,
              train__steps=200, train__eval_every=0, check=False)


def test_weights_that_are_broken_end_a_run_that_skips(train, tmp_path):
    result = train(tmp_path, run__name="a", train__spike="skip", **BROKEN)
    assert result.returncode == 1, result.stdout[-800:]
    assert "is not finite; no weight was changed" in result.stderr
    last = actions(tmp_path / "a")[-8:]
    assert len(last) == 8 and all(None in (line["spike/loss"], line["spike/grad_norm"]) for line in last)


def test_a_run_that_cannot_do_better_stops_going_back(train, tmp_path):
    result = train(tmp_path, run__name="a", train__spike="back", **{**BROKEN, "train__save_every": 0})
    assert result.returncode == 1, result.stdout[-800:]
    assert "went back to step 0 3 times and spiked again" in result.stderr
    assert "--set train.spike=skip" in result.stderr


def test_the_limit_of_returns_holds_over_restarts(train, tmp_path):
    """The same command again goes back no more; another rate is another run of luck."""
    given = {**BROKEN, "train__save_every": 0}
    train(tmp_path, run__name="a", train__spike="back", **given)
    for _ in range(2):
        again = train(tmp_path, run__name="a", train__spike="back", **given)
        assert again.returncode == 1 and "went back to step 0 3 times and spiked again" in again.stderr
    done = [line["spike/action"] for line in actions(tmp_path / "a")]
    assert done.count("back") == 3 and done[-1] == "stop"
    train(tmp_path, run__name="a", train__spike="back", **{**given, "optimizer__lr": 99})
    assert [line["spike/action"] for line in actions(tmp_path / "a")].count("back") == 6


def test_the_limit_of_steps_that_are_not_finite_holds_over_a_kill(train, tmp_path):
    given = {**BROKEN, "train__save_every": 1, "train__keep_last": 3}
    straight = train(tmp_path, run__name="straight", train__spike="skip", **given)
    stopped = re.search(r"step (\d+) is not finite", straight.stderr)[1]
    at = int(stopped) - 3
    killed = train(tmp_path, run__name="broken", train__spike="skip", env={"KHA_FAIL_POINT": f"step-{at}"}, **given)
    assert killed.returncode == 86
    again = train(tmp_path, run__name="broken", train__spike="skip", **given)
    assert f"step {stopped} is not finite" in again.stderr
    assert actions(tmp_path / "broken")[-1]["spike/action"] == "stop"


def test_the_report_says_that_an_arm_saw_other_data(spiky, tmp_path):
    spiky(tmp_path, "a", "skip")
    subprocess.run([sys.executable, "-P", str(PROGRAM), str(tmp_path / "a")], check=True, capture_output=True)
    assert "its spike policy left out" in (tmp_path / "a/report.html").read_text()
