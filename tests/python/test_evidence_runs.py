"""The evidence runs themselves: resumed after any kill, refused when changed, stopped in time."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import TINY, toml_value
from cpp_tests import ROOT

from evidence import plan as plans
from evidence.__main__ import main
from evidence.runner import RunnerError, Where, best_rate, check_unchanged

PLAN = """
name = "small"
config = "configs/evidence.toml"
[sweep]
arms = ["baseline"]
rates = [1e-3, 4e-3]
steps = 20
seeds = [9]
[arms]
baseline = { set = ["knock.setting=baseline"] }
kha = { set = ["knock.setting=kha-linear"], rate_of = "baseline" }
[[stages]]
arms = ["baseline", "kha"]
seeds = [1, 2]
[[orderings]]
about = "kind"
lower = "kha"
higher = "baseline"
source = "table 1"
"""

# Stands for kha: prints the configuration it is given, or "trains" in no time; an arm of learning
# rate 4e-3 diverges, seed 66 is a failure.
STAND_IN = """#!{python}
import json, pathlib, sys, tomllib
sets = dict(text.split("=", 1) for word, text in zip(sys.argv, sys.argv[1:]) if word == "--set")
tables = {{}}
for key, value in {{**{defaults}, **sets}}.items():
    table, _, name = key.partition(".")
    bare = not value[0] in '"[0123456789'
    tables.setdefault(table, []).append(f'{{name}} = ' + (f'"{{value}}"' if bare else value))
text = "".join(f"[{{t}}]\\n" + "\\n".join(lines) + "\\n" for t, lines in tables.items())
if "--print-config" in sys.argv:
    print(text)
elif "--dry-run" not in sys.argv:
    values = {{key: tomllib.loads(text)[key.split(".")[0]][key.split(".")[1]]
              for key in ("run.folder", "run.name", "run.seed", "optimizer.lr", "train.steps")}}
    folder = pathlib.Path(values["run.folder"], values["run.name"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)
    if values["run.seed"] == 66:
        print("error: the disk is full")
        sys.exit(2)
    loss = 3 - 100 * values["optimizer.lr"]
    line = {{"step": values["train.steps"], "tokens": 1024, "val/loss": loss}}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\\n")
    if values["optimizer.lr"] == 4e-3:
        (folder / "failed-step-3.safetensors").touch()
        sys.exit(1)
    (folder / "summary.json").write_text('{{"of": {{"text": "f00"}}}}')
"""


DEFAULTS = {"train.steps": "100", "train.context": "8", "train.batch": "2", "train.accumulate": "1",
            "train.eval_every": "50", "train.eval_tokens": "64", "train.precision": "fp32",
            "train.device": "cpu", "run.seed": "1", "schedule.floor": "0.1",
            "model.num_hidden_layers": "2", "model.hidden_size": "32", "model.head_dim": "16",
            "model.num_attention_heads": "4", "model.num_key_value_heads": "2",
            "model.intermediate_size": "96"}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Writes the plan; returns a function that runs the program on it."""
    kha = tmp_path / "kha"
    kha.write_text(STAND_IN.format(python=sys.executable, defaults=DEFAULTS))
    kha.chmod(0o755)
    monkeypatch.setenv("KHA", str(kha))

    def run(*arguments, plan=PLAN):
        (tmp_path / "plan.toml").write_text(plan)
        return main(["--plan", str(tmp_path / "plan.toml"), "--runs", str(tmp_path / "runs"),
                     "--text", str(tmp_path), "--out", str(tmp_path / "out"), "--jobs", "2",
                     *arguments])

    return run


def where_of(folder):
    return Where(plans.read(folder / "plan.toml"), folder / "kha", str(folder), folder / "runs", [])


def test_a_rate_that_diverges_is_not_taken(stand_in, tmp_path, capsys):
    assert stand_in() == 0
    where = where_of(tmp_path)
    assert best_rate(where, where.plan.arms["kha"]) == 1e-3
    assert (tmp_path / "runs" / "kha-s2" / "summary.json").is_file()
    assert "baseline-s9-lr0.004: diverged" in capsys.readouterr().err


def test_a_rate_is_judged_by_all_seeds_of_the_sweep(stand_in, tmp_path):
    assert stand_in(plan=PLAN.replace("[9]", "[9, 10]").replace("4e-3", "2e-3")) == 0
    where = where_of(tmp_path)
    assert best_rate(where, where.plan.arms["kha"]) == 2e-3
    line = json.loads((tmp_path / "runs" / "baseline-s10-lr0.002" / "metrics.jsonl").read_text())
    worse = json.dumps({**line, "val/loss": 9.5}) + "\n"
    (tmp_path / "runs" / "baseline-s10-lr0.002" / "metrics.jsonl").write_text(worse)
    assert best_rate(where, where.plan.arms["kha"]) == 1e-3
    assert "| baseline | 2.9000 | **2.8000** |" in (tmp_path / "out" / "small.md").read_text()


def test_no_rate_while_a_run_of_the_sweep_is_open(stand_in, tmp_path):
    assert stand_in() == 0
    (tmp_path / "runs" / "baseline-s9-lr0.001" / "summary.json").unlink()
    where = where_of(tmp_path)
    assert best_rate(where, where.plan.arms["baseline"]) is None


def test_a_run_of_another_configuration_is_refused(stand_in, tmp_path, capsys):
    assert stand_in() == 0
    assert stand_in("--set", "train.batch=99") == 2
    said = capsys.readouterr().err
    assert "was made with another configuration" in said and "train.batch: 2 there, 99" in said
    assert "--runs DIR" in said
    assert stand_in("--set", "data.tokenizer=words") == 2
    assert "data.tokenizer: None there, 'words' wanted" in capsys.readouterr().err


def test_a_failing_run_stops_the_plan_with_its_own_words(stand_in, capsys):
    assert stand_in(plan=PLAN.replace("seeds = [1, 2]", "seeds = [66]")) == 2
    said = capsys.readouterr().err
    assert "baseline-s66 ended with code 2\nerror: the disk is full" in said and "next: see" in said


def test_all_rates_diverging_is_an_error(stand_in, capsys):
    assert stand_in(plan=PLAN.replace("[1e-3, 4e-3]", "[4e-3]")) == 2
    assert "no rate of the sweep of baseline ended with a number" in capsys.readouterr().err


def test_nothing_finished_makes_no_tables(stand_in, capsys):
    assert stand_in("--collect") == 2
    assert "is finished yet" in capsys.readouterr().err
    assert stand_in("--tables") == 2
    assert "--collect makes it" in capsys.readouterr().err


def test_the_list_shows_every_run(stand_in, capsys):
    assert stand_in("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and lines[0].split() == ["baseline-s9-lr0.001", "missing", "0", "of", "20"]
    assert lines[-1].split() == ["kha-s2", "missing", "0", "of", "100"]


def command(folder, text, runs, *arguments):
    """The real program on a tiny model."""
    (folder / "plan.toml").write_text(PLAN)
    fields = {**TINY, "train.steps": 300, "train.eval_every": 100, "train.save_every": 10,
              "data.extensions": [], "data.fingerprint": ""}
    sets = [w for k, v in fields.items() for w in ("--set", f"{k}={toml_value(v)}")]
    return [sys.executable, "-m", "evidence", "--plan", folder / "plan.toml", "--runs", runs,
            "--text", text, "--out", runs / "out", "--jobs", "2", *sets, *arguments]


def run_whole(folder, text, runs, *arguments):
    return subprocess.run(command(folder, text, runs, *arguments), cwd=ROOT, text=True,
                          capture_output=True)


def engines(runs):
    """Ids of processes that train into a folder."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline") as file:
                words = file.read()
        except OSError:
            continue
        if "train" in words and f'run.folder="{runs}"' in words:
            found.append(int(entry))
    return found


def wait_for(condition, what, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def losses(runs):
    entries = json.loads((runs / "out" / "small.json").read_text())["runs"]
    return {(e["arm"], e["seed"], e["rate"], e["sweep"]): e["points"] for e in entries}


def start(folder, text, runs):
    """A process of the plan that has a checkpoint of a run between the stages."""
    process = subprocess.Popen(command(folder, text, runs), cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    wait_for(lambda: list(runs.glob("*-s1/checkpoints/step-*")), "a checkpoint")
    return process


def unfinished(runs):
    return [path.parent for path in runs.glob("*/metrics.jsonl")
            if not (path.parent / "summary.json").exists()]


def test_a_plan_that_is_killed_ends_as_one_that_is_not(tmp_path, tiny_text, undisturbed):
    killed = tmp_path / "killed"
    process = start(tmp_path, tiny_text, killed)
    process.kill()
    process.wait(60)
    wait_for(lambda: not engines(killed), "the runs to end with the program")
    assert unfinished(killed), "the runs went on without the program"
    again = run_whole(tmp_path, tiny_text, killed)
    assert again.returncode == 0, again.stderr
    assert losses(killed) == undisturbed


def test_ctrl_c_saves_the_runs_and_writes_nothing(tmp_path, tiny_text):
    process = start(tmp_path, tiny_text, tmp_path / "runs")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT
    assert not engines(tmp_path / "runs") and not (tmp_path / "runs" / "out").exists()
    assert unfinished(tmp_path / "runs")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, tiny_text):
    """Losses of the plan in one go; its document and picture are looked at on the way."""
    folder = tmp_path_factory.mktemp("evidence")
    done = run_whole(folder, tiny_text, folder / "runs")
    assert done.returncode == 0, done.stderr
    assert "2 at a time" in done.stdout and "written: " in done.stdout
    out = folder / "runs" / "out"
    text = (out / "small.md").read_text()
    assert "kha < baseline" in text and "| kha |" in text
    assert (out / "small.png").read_bytes().startswith(b"\x89PNG")
    assert str(folder) not in text + (out / "small.json").read_text()
    (out / "small.md").unlink()
    assert run_whole(folder, tiny_text, folder / "runs", "--tables").returncode == 0
    assert (out / "small.md").read_text() == text
    return losses(folder / "runs")


def test_time_that_is_up_ends_the_runs(tmp_path, tiny_text):
    done = run_whole(tmp_path, tiny_text, tmp_path / "runs", "--minutes", "0.0001")
    assert done.returncode == 2 and "is finished yet" in done.stderr
    assert not engines(tmp_path / "runs")


def test_numbers_of_an_unfinished_line_are_not_read(tmp_path):
    from evidence import folder

    (tmp_path / "metrics.jsonl").write_text(
        '{"step":4,"tokens":512,"val/loss":2.5}\n{"step":8,"tokens":1024,"val/loss":null}\n{"step":9')
    (first, second) = folder.validation_points(tmp_path)
    assert first == [512, 2.5] and second[0] == 1024 and second[1] != second[1]
    assert folder.last_step(tmp_path) == 8 and folder.state_of(tmp_path) == "unfinished"
