"""kha insert: maps that change nothing yet, in checkpoints of several families."""

import json

import pytest
import torch
from conftest import settings
from hf_models import IDS, LATENT, our_logits, their_model, write_model
from safetensors.torch import load_file
from test_reading import MODELS, save


def insert(kha, folder, out, text, setting="kha-linear", *more):
    return kha("insert", folder, out, "--setting", setting, "--text", text, *more)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_bytes(bytes(IDS * 3))
    return file


@pytest.mark.parametrize("family, setting", [
    ("llama", "kha-linear"), ("llama, one KV head, tied, biases, another epsilon", "kha-mlp-qkv"),
    ("qwen2, mha", "kha-mlp"), ("qwen3, yarn", "kha-gate-v"), ("deepseek", "kha-linear")])
def test_not_one_bit_of_the_logits_changes(kha, tmp_path, text, family, setting):
    save(*MODELS[family], tmp_path / "in")
    result = insert(kha, tmp_path / "in", tmp_path / "out", text, setting)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "largest logit difference 0 in float32" in result.stdout
    before, after = (our_logits(kha, tmp_path / each, tmp_path)[0] for each in ("in", "out"))
    assert torch.equal(before, after)
    old, new = (load_file(tmp_path / each / "model.safetensors") for each in ("in", "out"))
    for name, value in old.items():
        if name != "lm_head.weight" or name in new:
            assert torch.equal(value, new.pop(name)), name
    assert new and all(".knock_" in name for name in new)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["model_type"] == "kha" and config["kha"]["v"] != "none"


def test_maps_have_the_type_of_their_projection(kha, tmp_path, text):
    write_model(tmp_path / "in", dtype=torch.bfloat16, torch_dtype="bfloat16")
    result = insert(kha, tmp_path / "in", tmp_path / "out", text, "kha-mlp", "--layers", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    maps = {name: value for name, value in load_file(tmp_path / "out/model.safetensors").items()
            if "knock" in name}
    prefix = "model.layers.1.self_attn.knock_v."
    assert maps.keys() == {prefix + part for part in ("up.weight", "gate.weight", "down.weight")}
    assert all(value.dtype == torch.bfloat16 for value in maps.values())
    assert torch.equal(maps[prefix + "up.weight"].float(), torch.eye(8))
    assert not maps[prefix + "gate.weight"].any()
    assert json.loads((tmp_path / "out/config.json").read_text())["kha"]["layers"]["1"] == {"v": "mlp"}


def test_further_layers_can_follow(kha, tmp_path, text):
    write_model(tmp_path / "in")
    assert insert(kha, tmp_path / "in", tmp_path / "a", text, "kha-mlp", "--layers", "0").returncode == 0
    result = insert(kha, tmp_path / "a", tmp_path / "b", text, "kha-linear-v", "--layers", "1,2")
    assert result.returncode == 0, result.stdout + result.stderr
    again = insert(kha, tmp_path / "a", tmp_path / "c", text, "kha-linear")
    assert again.returncode == 2 and "layer 0 has a map on v already" in again.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("arguments, words", [
    (["--setting", "baseline"], "nothing to insert"),
    (["--setting", "kha-linaer"], "did you mean `kha-linear`"),
    (["--setting", "kha-linear", "--layers", "3"], "the model has no such layer"),
])
def test_wrong_requests_are_said(kha, tmp_path, arguments, words):
    write_model(tmp_path / "in")
    result = kha("insert", tmp_path / "in", tmp_path / "out", *arguments)
    assert result.returncode == 2 and words in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_map_that_latent_attention_cannot_have_is_refused_with_the_reason(kha, tmp_path):
    write_model(tmp_path / "in", maps=LATENT)
    result = kha("insert", tmp_path / "in", tmp_path / "out", "--setting", "kha-mlp")
    assert result.returncode == 2 and "may not stand on v of mla" in result.stderr
    assert "only a linear map commutes" in result.stderr


def test_a_difference_is_exit_code_1(kha, tmp_path, text):
    """The proof can fail: a map that is not the identity is found."""
    write_model(tmp_path / "in")
    assert insert(kha, tmp_path / "in", tmp_path / "out", text).returncode == 0
    from safetensors.torch import save_file

    tensors = load_file(tmp_path / "out/model.safetensors")
    tensors["model.layers.2.self_attn.knock_q.weight"][0, 1] = 1e-3
    save_file(tensors, tmp_path / "out/model.safetensors")
    result = kha("diff", tmp_path / "in", tmp_path / "out", "--limit", "0", "--text", text)
    assert result.returncode == 1 and "NOT EQUAL" in result.stdout


@pytest.mark.parametrize("family", ["llama", "deepseek"])
def test_it_trains_on_and_folds_back_into_the_family(kha, tmp_path, text, tiny_text, family):
    sizes = MODELS[family][1] | dict(initializer_range=0.1)
    save(MODELS[family][0], sizes, tmp_path / "in")
    assert insert(kha, tmp_path / "in", tmp_path / "out", text).returncode == 0
    words = settings(**{"run.folder": tmp_path, "run.name": "a", "data.paths": [tiny_text],
                        "init.from": tmp_path / "out"})
    own = [value for value in words[1::2] if not value.startswith("model.")]  # the model has a shape
    result = kha("train", *[word for value in own for word in ("--set", value)])
    assert result.returncode == 0, result.stdout + result.stderr
    result = kha("export", tmp_path / "a", tmp_path / "hf", "--to", "hf", "--verify", "--text", text)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "folded on the way: 9 linear maps" in result.stdout
    trained = load_file(next((tmp_path / "a/checkpoints").glob("step-*")) / "model.safetensors")
    moved = [name for name, value in trained.items()
             if "knock" in name and not torch.equal(value, torch.eye(len(value)))]
    assert len(moved) == 9


KEYS = ["qwen3, one KV head, biases", "llama", "qwen2, mha", "qwen3 moe",
        "glm4 moe, biases, no norms", "deepseek"]


@pytest.mark.parametrize("family", KEYS)
def test_a_folded_model_has_the_keys_of_its_class(kha, tmp_path, text, family):
    """With norms of heads where the class has them and without where not, no tensor more or less."""
    save(*MODELS[family], tmp_path / "in")
    before = load_file(tmp_path / "in/model.safetensors")
    assert any("q_norm" in name for name in before) == ("qwen3" in family)
    assert insert(kha, tmp_path / "in", tmp_path / "out", text).returncode == 0
    result = kha("export", tmp_path / "out", tmp_path / "folded", "--to", "hf")
    assert result.returncode == 0, result.stdout + result.stderr
    after = load_file(tmp_path / "folded/model.safetensors")
    assert after.keys() == before.keys()
    assert {name: value.shape for name, value in after.items()} == {
        name: value.shape for name, value in before.items()}
    assert their_model(tmp_path / "folded") is not None  # every key read, none made up


def test_a_tensor_that_is_not_known_is_never_dropped(kha, tmp_path, text):
    write_model(tmp_path / "in")
    from safetensors.torch import save_file

    tensors = load_file(tmp_path / "in/model.safetensors")
    tensors["model.layers.0.self_attn.extra.weight"] = torch.ones(2)
    save_file(tensors, tmp_path / "in/model.safetensors")
    for command in (["insert", tmp_path / "in", tmp_path / "out", "--setting", "kha-mlp"],
                    ["export", tmp_path / "in", tmp_path / "out", "--to", "hf"],
                    ["convert", tmp_path / "in", tmp_path / "out", "--kv-heads", 1]):
        result = kha(*command)
        assert result.returncode == 2 and "self_attn.extra.weight" in result.stderr, result.stderr
        assert not (tmp_path / "out").exists()
