"""The paper's models by name: their small relatives train, on the command line and from a file."""

import json
import math
import re

import pytest

RUN = ["--set", "train.steps=2", "--set", "train.batch=2", "--set", "train.context=64", "--set", "train.log_every=1",
       "--set", "train.eval_tokens=256", "--set", "train.threads=1", "--set", "run.report=false",
       "--set", "data.validation_share=0.3", "--set", "run.name=a"]  # fmt: skip


def train(kha, text, folder, *arguments):
    result = kha("train", *arguments, *RUN, "--set", f'data.paths=["{text}"]', "--set", f'run.folder="{folder}"')
    assert result.returncode == 0, result.stderr
    return result.stdout, [json.loads(line) for line in (folder / "a/metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["dense-0.61b-small", "moe-2.3b-small"])
def test_a_small_relative_trains(kha, tiny_text, tmp_path, name):
    said, lines = train(kha, tiny_text, tmp_path, name)
    assert f"model.preset {name}: for two cores" in said
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert losses[0] == pytest.approx(math.log(257), abs=0.3) and losses[1] < losses[0]
    written = (tmp_path / "a/config.toml").read_text()
    assert f'preset = "{name}"' in written and re.search(r"^num_hidden_layers = [36] ", written, re.M)


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
