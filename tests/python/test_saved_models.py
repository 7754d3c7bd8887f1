"""Folders of inserted models: kha opens them, transformers opens them, and the other way round."""

import json

import pytest
import torch
from conftest import settings
from live_models import FAMILIES, TOKENS, in_double, largest, live_model, logits, stir
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import knocking_heads as kh
from knocking_heads.saving import MODEL_FILES

SETTINGS = {"qwen3": "kha-mlp-qkv", "qwen3_moe": "kha-mlp", "llama": "kha-linear",
            "mistral": "kha-gate-v", "qwen2": "kha-linear"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """family -> (model, its folder)"""
    made = {}

    def get(family):
        if family not in made:
            folder = tmp_path_factory.mktemp("saved") / family
            model = stir(kh.insert(live_model(family), SETTINGS[family])).eval()
            model.save_pretrained(folder)
            made[family] = model, folder
        return made[family]

    return get


def engine_logits(kha, folder, scratch):
    """The engine's (float32, float64) logits of the first row."""
    file = scratch / "logits.safetensors"
    done = kha("logits", folder, "--ids", ",".join(map(str, TOKENS[0].tolist())), "--write", file)
    assert done.returncode == 0, done.stderr
    found = load_file(file)
    return found["logits"], found["logits_float64"]


@pytest.mark.parametrize("family", FAMILIES)
def test_kha_opens_what_transformers_saved(kha, tmp_path, saved, family):
    model, folder = saved(family)
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "kha" and config["auto_map"]["AutoConfig"]
    assert not list(folder.glob(".kha-*"))
    mine, exact = engine_logits(kha, folder, tmp_path)
    theirs, theirs_exact = (logits(each, TOKENS[:1])[0] for each in (model, in_double(model)))
    rounding = largest(mine, exact) + largest(theirs, theirs_exact)
    # Their norms compute in float32 whatever the model's type.
    assert largest(exact, theirs_exact) <= rounding + 1e-5
    assert largest(mine, theirs) <= 2 * rounding + 1e-5
    assert exact.std() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_auto_classes_open_it_with_its_model_file(saved, family):
    model, folder = saved(family)
    assert {file.name for file in MODEL_FILES.glob("*_kha.py")} <= {
        file.name for file in folder.iterdir()}
    opened, loading = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True,
                                                           output_loading_info=True)
    assert type(opened).__name__ == "KhaForCausalLM"
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert largest(logits(opened.eval()), logits(model)) < 1e-4
    assert torch.equal(opened.get_parameter("lm_head.weight"), model.lm_head.weight)


@pytest.mark.parametrize("family", FAMILIES)
def test_load_gives_the_same_model_again(saved, tmp_path, family):
    model, folder = saved(family)
    again = kh.load(folder)
    same = "llama" if family == "mistral" else family  # without a window they are one
    assert again.config.model_type == same and not again.training
    assert torch.equal(logits(again), logits(model))
    again.save_pretrained(tmp_path / "again")
    first, second = (load_file(each / "model.safetensors") for each in (folder, tmp_path / "again"))
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    if family != "mistral":
        configs = [json.loads((each / "config.json").read_text())
                   for each in (folder, tmp_path / "again")]
        assert configs[0] == configs[1]


@pytest.mark.parametrize("setting", ["kha-linear", "kha-mlp"])
def test_load_opens_what_kha_inserted_and_trained(kha, tmp_path, tiny_text, setting):
    live_model(dtype=torch.bfloat16).save_pretrained(tmp_path / "plain")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype="auto")
    done = kha("insert", tmp_path / "plain", tmp_path / "in", "--setting", setting, "--layers", "0,2",
               "--no-verify")
    assert done.returncode == 0, done.stderr
    inserted = kh.load(tmp_path / "in")
    assert inserted.dtype == torch.bfloat16
    assert torch.equal(logits(inserted), logits(plain))
    assert {name.split(".")[2] for name in inserted.state_dict() if "knock" in name} == {"0", "2"}
    words = settings(**{"run.folder": tmp_path, "run.name": "a", "data.paths": [tiny_text],
                        "init.from": tmp_path / "in", "train.precision": "fp32"})
    own = [value for value in words[1::2] if not value.startswith("model.")]
    done = kha("train", *[word for value in own for word in ("--set", value)])
    assert done.returncode == 0, done.stdout + done.stderr
    trained = kh.load(tmp_path / "a")
    mine, exact = engine_logits(kha, tmp_path / "a", tmp_path)
    assert largest(logits(trained, TOKENS[:1])[0], mine) <= 4 * largest(mine, exact) + 1e-5
    assert kh.report(trained).maps[0].figures.identity_distance > 0


def test_the_programs_take_a_saved_model(kha, tmp_path, saved, tiny_text):
    model, folder = saved("llama")
    kh.load(folder).save_pretrained(tmp_path / "again")
    done = kha("diff", folder, tmp_path / "again", "--limit", "0", "--text", tiny_text)
    assert done.returncode == 0, done.stdout + done.stderr
    words = settings(**{"run.folder": tmp_path, "run.name": "a", "data.paths": [tiny_text],
                        "init.from": folder, "train.steps": 2})
    own = [value for value in words[1::2] if not value.startswith("model.")]
    done = kha("train", *[word for value in own for word in ("--set", value)])
    assert done.returncode == 0, done.stdout + done.stderr
    done = kha("generate", tmp_path / "a", "--prompt", "the", "--max-tokens", 4, errors="replace")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_after_a_linear_fold_the_plain_model_is_saved(tmp_path, family):
    model = stir(kh.insert(live_model(family), "kha-linear")).eval()
    model.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model/config.json").read_text().count('"kha"') >= 2
    kh.fold(model)
    model.save_pretrained(tmp_path / "plain")
    config = json.loads((tmp_path / "plain/config.json").read_text())
    assert config["model_type"] == family and "kha" not in config
    plain, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "plain",
                                                          output_loading_info=True)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(logits(plain), logits(model))


def test_layers_that_differ_are_named(saved, tmp_path):
    model = kh.insert(live_model(), "kha-mlp")
    kh.insert(model, {"q": "linear"}, layers=[1])
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    described = json.loads((tmp_path / "model/config.json").read_text())["kha"]
    assert described == {"version": 1, "base": "qwen3", "attention": "gqa", "q": "none",
                         "k": "none", "v": "mlp", "layers": {"1": {"q": "linear"}}}
    assert (tmp_path / "model/model.safetensors.index.json").exists()
    again = kh.load(tmp_path / "model")
    assert torch.equal(logits(again), logits(model))
    model.save_pretrained(tmp_path / "model")  # over it, in one file
    assert [file.name for file in (tmp_path / "model").glob("*.safetensors*")] == ["model.safetensors"]


def windowed():
    return kh.insert(live_model("mistral", sliding_window=128), "kha-mlp")


def base_model():
    return kh.insert(live_model().model, "kha-mlp")


REFUSALS = {
    "window": (windowed, {}, ["sliding windows have no form", "found: 128"]),
    "feed-forward biases": (lambda: kh.insert(live_model("llama", mlp_bias=True), "kha-mlp"), {},
                            ["biases in the feed-forward"]),
    "no head": (base_model, {}, ["only causal language models", "Qwen3Model"]),
    "upload": (lambda: kh.insert(live_model(), "kha-mlp"), dict(push_to_hub=True),
               ["does not save with push_to_hub"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_has_no_form_is_refused_and_nothing_written(tmp_path, case):
    make, options, words = REFUSALS[case]
    with pytest.raises(kh.KhaError) as error:
        make().save_pretrained(tmp_path / "model", **options)
    for word in words:
        assert word in str(error.value)
    assert not (tmp_path / "model").exists()


def test_a_failed_save_leaves_the_old_model(saved, tmp_path, monkeypatch):
    model = kh.insert(live_model(), "kha-mlp")
    model.save_pretrained(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    stir(model)
    monkeypatch.setattr(type(model), "save_pretrained",
                        lambda self, folder, **_: (folder / "model.safetensors").write_bytes(b"x") // 0)
    with pytest.raises(ZeroDivisionError):
        model.save_pretrained(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_load_refuses_folders_that_are_none(tmp_path, saved):
    with pytest.raises(kh.KhaError, match="no config.json here"):
        kh.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(kh.KhaError, match="not JSON"):
        kh.load(tmp_path)
    _, folder = saved("qwen3")
    config = json.loads((folder / "config.json").read_text())
    config["kha"]["attention"] = "mla"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(kh.KhaError, match="attention mla on qwen3.*\n.*trust_remote_code"):
        kh.load(tmp_path)
    config["kha"]["attention"] = "gqa"
    config["kha"]["q"] = "none"
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(kh.KhaError, match="not of this model.*\n.*\n.*knock_q"):
        kh.load(tmp_path)


def test_only_this_saves_own_weights_go(tmp_path):
    model = kh.insert(live_model(), "kha-mlp")
    kept = ["model.bf16.safetensors", "model_backup.safetensors"]
    for name in [*kept, "model-00001-of-00002.safetensors"]:
        (tmp_path / name).write_bytes(b"of somebody")
    model.save_pretrained(tmp_path)
    names = {file.name for file in tmp_path.iterdir()}
    assert {*kept, "model.safetensors"} <= names
    assert "model-00001-of-00002.safetensors" not in names
    model.save_pretrained(tmp_path, variant="fp16")
    assert (tmp_path / "model.safetensors").exists() and (tmp_path / "model.fp16.safetensors").exists()


def test_a_model_folded_through_a_wrapper_is_saved_plain(tmp_path):
    model = kh.insert(live_model(), "kha-linear")
    kh.fold(torch.nn.ModuleList([model]))
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "qwen3"


def test_dense_layers_between_experts_have_no_form(tmp_path):
    model = kh.insert(live_model("qwen3_moe", mlp_only_layers=[1]), "kha-mlp")
    with pytest.raises(kh.KhaError, match="dense layers between layers of experts"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())
