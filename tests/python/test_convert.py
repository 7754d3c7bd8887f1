"""`kha convert`: other numbers of KV heads, what that does to the loss, training on."""

import json
import os

import numpy
import pytest
from safetensors.numpy import load_file


@pytest.fixture(scope="module")
def four_heads(train, tmp_path_factory):
    """A tiny trained multi-head model with KHA-MLP on every slot."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder, run__name="mha", train__steps=40, optimizer__lr=0.01, knock__setting="kha-mlp-qkv",
          model__num_key_value_heads=4)
    return folder / "mha"


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def pooled(kha, four_heads, tiny_text, tmp_path_factory):
    out = tmp_path_factory.mktemp("pooled") / "gqa"
    result = kha("convert", four_heads, out, "--kv-heads", 2, "--text", tiny_text)
    assert result.returncode == 0, result.stderr
    return out, result.stdout


def test_heads_of_a_group_become_their_mean(four_heads, pooled):
    before, after = weights(four_heads / "checkpoints/latest"), weights(pooled[0])
    assert before.keys() == after.keys()
    for name, old in before.items():
        if "k_proj" in name or "v_proj" in name:
            mean = old.reshape(2, 2, 16, 32).astype(numpy.float64).mean(axis=1).reshape(32, 32)
            assert numpy.array_equal(after[name], mean.astype(numpy.float32)), name
        else:
            assert numpy.array_equal(after[name], old), name
    assert json.loads((pooled[0] / "config.json").read_text())["num_key_value_heads"] == 2
    assert (pooled[0] / "tokenizer.json").read_bytes() == (four_heads / "checkpoints/latest/tokenizer.json").read_bytes()


def test_the_losses_printed_are_those_of_eval(kha, four_heads, pooled, tiny_text):
    out, text = pooled
    before, after = (json.loads(kha("eval", model, tiny_text, "--json").stdout)["loss"] for model in (four_heads, out))
    assert abs(after - before) > 1e-5  # a mean of trained heads is another model
    assert f"loss {before:.4f} before, {after:.4f} after: {after - before:+.4f} nats a token" in text
    assert "4 KV heads to 2, each the mean of 2, in 2 layers" in text
    assert "cache 128 to 64 elements a token and layer" in text
    assert "expect a higher loss, and train on" in text


def test_the_next_command_trains_on(kha, train, pooled, tmp_path):
    out, text = pooled
    line = next(line for line in text.splitlines() if line.startswith("next: "))
    assert f"kha train --set init.from={out}" in line
    words = line.removeprefix("next: kha ").replace("'", "").replace("NAME", "on").split()
    more = {"run.folder": tmp_path, "train.steps": 6, "train.context": 32, "train.batch": 4, "run.report": "false",
            "data.validation_share": 0.3}
    result = kha(*words, *(word for key, value in more.items() for word in ("--set", f"{key}={value}")))
    assert result.returncode == 0, result.stderr
    model = json.loads((tmp_path / "on/checkpoints/latest/config.json").read_text())
    assert model["num_key_value_heads"] == 2 and model["kha"]["v"] == "mlp"


def test_more_heads_are_the_same_model_and_proved(kha, pooled, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "mha", "--kv-heads", 4)
    assert result.returncode == 0, result.stderr
    assert "verified: both models give the same logits" in result.stdout
    assert "loss not measured: --text FILE" in result.stdout
    back = kha("convert", tmp_path / "mha", tmp_path / "back", "--kv-heads", 2, "--json")
    figures = json.loads(back.stdout)
    assert figures["exact"] is False and figures["verification"] == "not_asked"
    assert (tmp_path / "back/model.safetensors").read_bytes() == (pooled[0] / "model.safetensors").read_bytes()


def test_json_has_what_is_printed(kha, pooled, tiny_text, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "mha", "--kv-heads", 4, "--text", tiny_text, "--json")
    figures = json.loads(result.stdout)
    assert figures["exact"] is True and figures["verification"] == "equal"
    assert figures["before"]["kv_heads"] == 2 and figures["after"]["kv_heads"] == 4
    assert figures["before"]["loss"] == pytest.approx(figures["after"]["loss"], abs=1e-5)
    assert figures["after"]["cache_elements"] == 2 * figures["before"]["cache_elements"]


def test_a_limit_that_is_no_number_writes_nothing(kha, pooled, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "mha", "--kv-heads", 4, "--limit", "banana")
    assert result.returncode == 2 and "--limit" in result.stderr and "banana" in result.stderr
    assert not (tmp_path / "mha").exists()


def test_a_difference_above_the_limit_is_exit_code_1(kha, pooled, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "mha", "--kv-heads", 4, "--limit", "-1")
    assert result.returncode in (1, 2) and "THE CONVERTED MODEL IS NOT VERIFIED" in result.stderr


def test_a_killed_conversion_leaves_nothing_under_the_name(kha, four_heads, tmp_path):
    words = ["convert", four_heads, tmp_path / "out", "--kv-heads", 1]
    killed = kha(*words, env={**os.environ, "KHA_FAIL_POINT": "new-folder-written"})
    assert killed.returncode == 86 and not (tmp_path / "out").exists()
    assert kha(*words).returncode == 0 and (tmp_path / "out/config.json").exists()


@pytest.mark.parametrize("number, words", [
    (3, ["cannot be converted to 3 KV heads", "one of 1, 4", "4 query heads, 2 KV heads"]),
    (2, ["nothing to convert: the model has 2 KV heads already"]),
])
def test_numbers_that_do_not_fit_are_sentences(kha, pooled, tmp_path, number, words):
    result = kha("convert", pooled[0], tmp_path / "out", "--kv-heads", number)
    assert result.returncode == 2 and not (tmp_path / "out").exists()
    for word in words:
        assert word in result.stderr


def test_without_a_kind_it_says_which_there_are(kha, pooled, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "out")
    assert result.returncode == 2 and "--kv-heads N" in result.stderr


def test_other_systems_are_refused(kha, train, tmp_path):
    train(tmp_path, run__name="gta", train__steps=1, model__attention="gta", model__rope_head_dim=8)
    result = kha("convert", tmp_path / "gta", tmp_path / "out", "--kv-heads", 1)
    assert result.returncode == 2 and "the KV heads of attention `gta` cannot be converted" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_not_there_is_named(kha, pooled, tmp_path):
    result = kha("convert", pooled[0], tmp_path / "out", "--kv-heads", 1, "--text", tmp_path / "none.txt")
    assert result.returncode == 2 and "none.txt" in result.stderr


def test_help_lists_it(kha):
    assert "convert" in kha("--help").stdout and "--kv-heads" in kha("convert", "--help").stdout


def test_another_rotary_layout_is_the_same_model(kha, four_heads, tmp_path):
    turned, back = tmp_path / "turned", tmp_path / "back"
    result = kha("convert", four_heads, turned, "--rotary", "interleaved")
    assert result.returncode == 0, result.stderr
    assert "rotary layout half_split to interleaved" in result.stdout
    assert "same logits" in result.stdout
    assert json.loads((turned / "config.json").read_text())["kha"]["rotary_layout"] == "interleaved"
    words = ["--prompt", "the heads", "--max-tokens", 30, "--temperature", 0, "--json"]
    before, after = (json.loads(kha("generate", model, *words).stdout) for model in (four_heads, turned))
    assert before["ids"] == after["ids"] and "rotary" in after["ran"] and "rotary" not in before["ran"]
    assert kha("convert", turned, back, "--rotary", "half_split").returncode == 0
    old, new = weights(four_heads / "checkpoints/latest"), weights(back)
    assert all(numpy.array_equal(old[name], new[name]) for name in old) and old.keys() == new.keys()
    again = kha("convert", turned, tmp_path / "no", "--rotary", "interleaved")
    assert again.returncode == 2 and "interleaved already" in again.stderr and not (tmp_path / "no").exists()
    both = kha("convert", turned, tmp_path / "no", "--rotary", "half_split", "--kv-heads", 2)
    assert both.returncode == 2 and "--kv-heads" in both.stderr
