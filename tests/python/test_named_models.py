"""The paper's models by name: their small relatives train, on the command line and from a file."""

import json
import math
import re

import pytest
from conftest import bytes_of

RUN = ["--set", "train.steps=2", "--set", "train.batch=2", "--set", "train.context=64", "--set", "train.log_every=1",
       "--set", "train.eval_tokens=256", "--set", "train.threads=1", "--set", "run.report=false",
       "--set", "data.validation_share=0.3", "--set", "run.name=a"]  # fmt: skip


def train(kha, text, folder, *arguments):
    result = kha("train", *RUN, *arguments, "--set", f'data.paths=["{text}"]', "--set", f'run.folder="{folder}"')
    assert result.returncode == 0, result.stderr
    return result.stdout, [json.loads(line) for line in (folder / "a/metrics.jsonl").read_text().splitlines()]


SMALL = {"dense-0.61b": 6, "dense-1.68b": 6, "dense-3.94b": 9, "moe-2.3b": 3, "moe-6.6b": 6, "moe-14.6b": 8,
         "moe-6.1b": 6, "moe-6.6b-mha": 6, "moe-6.6b-gqa8": 6, "moe-6.6b-mqa": 6}  # layers


def test_these_are_all_small_relatives(kha):
    listed = re.findall(r"^  (\S+)-small ", kha("plan", "--list").stdout, re.M)
    assert listed == list(SMALL)


@pytest.mark.parametrize("relative", SMALL)
def test_a_small_relative_trains_as_planned_resumes_and_opens(kha, tiny_text, tmp_path, relative):
    name = f"{relative}-small"
    said, lines = train(kha, tiny_text, tmp_path, name, "--set", "train.steps=6", "--set", "train.batch=4", "--profile")
    assert f"model.preset {name}: for two cores" in said
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert losses[0] == pytest.approx(math.log(257), abs=0.3) and losses[-1] < losses[0]
    written = (tmp_path / "a/config.toml").read_text()
    assert f'preset = "{name}"' in written and f"\nnum_hidden_layers = {SMALL[relative]} " in written

    shape = ["--set", "train.batch=4", "--set", "train.context=64"]
    plan = json.loads(kha("plan", name, *shape, "--json").stdout)
    counted = re.search(r"allocator: .+? in use, (.+?) at most", said)[1]
    assert plan["step_memory"]["peak"] == pytest.approx(bytes_of(counted), rel=0.05)

    again = kha("train", tmp_path / "a", "--set", "train.steps=7", "--set", f'run.folder="{tmp_path}"')
    assert again.returncode == 0, again.stderr
    steps = [json.loads(line)["step"] for line in (tmp_path / "a/steps.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 8))
    opened = kha("inspect", tmp_path / "a/checkpoints/latest")
    assert opened.returncode == 0, opened.stderr
    assert f"{plan['parameters']['total']:,}" in opened.stdout


def test_a_file_names_a_model_and_a_scaled_recipe(kha, tiny_text, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('[model]\npreset = "moe-2.3b-small"\nnum_hidden_layers = 2\n'
                      '[train]\nscale_from = "exploratory"\ntokens = 1e6\n')
    said, _ = train(kha, tiny_text, tmp_path, config)
    rate = re.search(r"train.scale_from exploratory: .* lr ([\d.e-]+), 2 steps", said)[1]
    written = (tmp_path / "a/config.toml").read_text()
    assert f"lr = {rate} " in written and "num_hidden_layers = 2 " in written and "hidden_size = 144 " in written
    again = kha("train", tmp_path / "a", "--set", f'run.folder="{tmp_path}"')
    assert again.returncode == 0 and "complete already" in again.stdout
