"""The model file computes what the engine computes: every attention system, map, mixture of experts
and kind of rotary scaling; and kha's own commands write folders that it runs."""

import json
import shutil

import pytest
import torch
from hf_models import IDS, write_model
from model_file_models import (AUTO_MAP, CODE, KINDS, LEGAL, PARTS, SIGMOID, SIZES, SOFTMAX,
                               description, engine, logits, their_model, write_folder)
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")

    def make(system, experts=False):
        folder = root / f"{system}{'-experts' if experts else ''}"
        return folder if folder.exists() else write_folder(folder, description(system, experts))

    return make


def check_logits(folder, ours, scale=1.0):
    exact = ours["logits_float64"]
    assert exact.std() > 0.5  # random weights say something
    assert (logits(their_model(folder)) - exact).abs().max() < 1e-9 * scale
    rounding = (ours["logits"] - exact).abs().max()
    theirs = logits(their_model(folder, torch.float32)) - exact
    assert theirs.abs().max() <= 3 * rounding + 1e-6


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize("system", PARTS)
def test_logits_are_those_of_the_engine(kha, folder_of, tmp_path, system, experts):
    folder = folder_of(system, experts)
    check_logits(folder, engine(kha, folder, tmp_path))


def test_what_is_legal_is_what_kha_declares(kha, folder_of):
    result = kha("inspect", "--legality", "--json")
    assert result.returncode == 0, result.stderr
    declared = {each["attention"]: each for each in json.loads(result.stdout)["systems"]}
    assert declared.keys() == LEGAL.keys()
    for system, legal in LEGAL.items():
        places = {place["slot"]: place["legal"] for place in declared[system]["places"]}
        for slot, kinds in zip("qkv", legal):
            assert {"none", *places[slot]} == set(kinds), (system, slot)
    base = json.loads((folder_of("gqa") / "config.json").read_text()) | {"num_hidden_layers": 1}
    config_class = type(AutoConfig.from_pretrained(folder_of("gqa"), trust_remote_code=True))
    for system, legal in LEGAL.items():
        for slot, kinds in zip("qkv", legal):
            for kind in KINDS:
                own = base | {"kha": {"attention": system, slot: kind, **PARTS[system]}}
                if kind in kinds:
                    config_class(**own)
                else:
                    with pytest.raises(ValueError, match=f"may not stand on {slot} of {system}"):
                        config_class(**own)


@pytest.mark.parametrize("changes, words", [
    ({"kha": {"attention": "gqaa"}}, "unknown attention 'gqaa'"),
    ({"kha": {"version": 2}}, "newer kha"),
    ({"kha": {"v": "mpl"}}, "a map 'mpl'"),
    ({"hidden_act": "gelu"}, "only 'silu'"),
])
def test_what_the_model_file_does_not_compute_is_refused(folder_of, changes, words):
    folder = folder_of("gqa")
    config_class = type(AutoConfig.from_pretrained(folder, trust_remote_code=True))
    with pytest.raises(ValueError, match=words):
        config_class(**json.loads((folder / "config.json").read_text()) | changes)


LOGIT_SCALE = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64, mscale=1.0,
                   mscale_all_dim=1.0)
FAMILIES = {
    "llama": (dict(base="llama", v="mlp"), {}),
    "qwen2": (dict(base="qwen2", q="mlp", v="linear"), dict(attention_bias=True)),
    "interleaved without maps": (dict(rotary_layout="interleaved"), {}),
    "linear scaling": (dict(v="gate"), dict(rope_scaling=dict(rope_type="linear", factor=4.0))),
    "llama3 scaling": (dict(v="mlp"), dict(rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64))),
    "yarn scaling": (dict(k="mlp"), dict(rope_scaling=dict(
        rope_type="yarn", factor=8.0, original_max_position_embeddings=64))),
    "a part of each head turned": (dict(q="linear", k="mlp", rope_head_dim=4), {}),
    "a part of each head turned, interleaved, experts": (
        dict(base="glm4_moe", rope_head_dim=6, rotary_layout="interleaved"),
        SIGMOID | dict(partial_rotary_factor=0.75)),
    "groups by the sum of two": (dict(base="glm4_moe", v="mlp"), SIGMOID | dict(
        n_routed_experts=12, num_experts_per_tok=3, n_group=4, topk_group=2)),
    "groups by the largest": (dict(base="qwen3_moe", v="mlp"), SOFTMAX | dict(
        num_experts=9, n_group=3, topk_group=1, mlp_only_layers=[0])),
    "groups in latent attention": (
        dict(base="glm4_moe", attention="mla", **PARTS["mla"]), SIGMOID | dict(
            num_key_value_heads=6, n_routed_experts=8, n_group=4, topk_group=1)),
    "a scale of the logits": (dict(attention="mla", k="linear", **PARTS["mla"]), dict(
        num_key_value_heads=6, rope_scaling=LOGIT_SCALE)),
    "a scale of the logits of latent heads": (
        dict(attention="gla", v="linear", **PARTS["gla"]), dict(
            num_key_value_heads=6, rope_scaling=LOGIT_SCALE | dict(mscale=0.7))),
    "a logit scale that others leave out": (dict(v="mlp"), dict(rope_scaling=LOGIT_SCALE)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_groups_of_experts_and_rotary_scaling(kha, tmp_path, family):
    own, changes = FAMILIES[family]
    config = {**SIZES, **changes, "num_hidden_layers": 2, "kha": own, "model_type": "kha",
              "auto_map": AUTO_MAP}
    folder = write_folder(tmp_path / "model", config)
    check_logits(folder, engine(kha, folder, tmp_path))


SCALING = {
    "default": {},
    "linear": dict(factor=4.0),
    "llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64),
    "yarn": dict(factor=8.0, original_max_position_embeddings=64),
    "yarn by mscale": dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64,
                           mscale=0.7, mscale_all_dim=0.4, truncate=False),
    "dynamic": dict(factor=2.0),
    "longrope": dict(short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.5, 2.0, 3.0, 4.0],
                     original_max_position_embeddings=64),
}


@pytest.mark.parametrize("positions", [40, 600])
@pytest.mark.parametrize("name", SCALING)
def test_frequencies_are_those_of_transformers(folder_of, name, positions):
    rope = {"rope_type": name, "rope_theta": 5000.0, **SCALING[name]}
    config = description("gqa") | {"rope_parameters": rope, "rope_theta": 5000.0}
    config_class = type(AutoConfig.from_pretrained(folder_of("gqa"), trust_remote_code=True))
    opened = config_class(**config)
    model = AutoModelForCausalLM.from_config(opened, trust_remote_code=True)
    places = torch.arange(positions).unsqueeze(0)
    cos, sin = model.model.rotary_emb(torch.zeros(1), places)
    amplitude, frequencies = 1.0, 5000.0 ** -(torch.arange(0, 8, 2) / 8)
    if name != "default":
        made = ROPE_INIT_FUNCTIONS[rope["rope_type"]]
        frequencies, amplitude = made(opened, "cpu", seq_len=positions)
    angles = places[0, :, None].float() * frequencies
    assert torch.allclose(cos[0], torch.cat((angles, angles), -1).cos() * amplitude, atol=2e-4)
    assert torch.allclose(sin[0], torch.cat((angles, angles), -1).sin() * amplitude, atol=2e-4)


@pytest.mark.parametrize("given", [
    {}, dict(rope_theta=500), dict(rope_scaling=dict(type="linear", factor=2.0)),
    dict(rope_theta=5e5, rope_scaling=dict(rope_type="yarn", type="linear", factor=2.0)),
    dict(rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=7.0), rope_theta=5.0,
         rope_scaling=dict(type="yarn", factor=2.0)),
    dict(rope_scaling=None, rope_parameters=dict(type="linear", factor=3.0))])
def test_the_package_reads_and_names_what_the_model_file_does(folder_of, given):
    """The model file stands alone in model folders, so both say it; they say the same."""
    import sys

    from knocking_heads import description

    opened = AutoConfig.from_pretrained(folder_of("gqa"), trust_remote_code=True)
    code = sys.modules[type(opened).__module__]
    assert description.AUTO_MAP == code.AUTO_MAP == AUTO_MAP
    theirs = code.one_spelling(given.get("rope_theta", 10000.0), given.get("rope_scaling"),
                               given.get("rope_parameters"))
    assert description._rotary(given) == theirs


def test_a_cache_of_other_frequencies_is_refused(tmp_path):
    config = {**SIZES, "max_position_embeddings": 64, "num_hidden_layers": 1, "kha": {"v": "mlp"},
              "rope_scaling": dict(rope_type="dynamic", factor=2.0), "model_type": "kha",
              "auto_map": AUTO_MAP}
    model = their_model(write_folder(tmp_path / "model", config))
    with torch.no_grad():
        cache = model(torch.tensor([IDS[:60]]), use_cache=True).past_key_values
        model(torch.tensor([IDS[60:64]]), past_key_values=cache)
        with pytest.raises(ValueError, match="pass use_cache=False"):
            model(torch.tensor([IDS[64:65]]), past_key_values=cache)


def test_maps_run_in_the_operators_where_they_are(ops, folder_of):
    folder = folder_of("gqa")
    fast, composed = their_model(folder, operators=True), their_model(folder)
    assert (fast.maps_run_by, composed.maps_run_by) == ("torch.ops.kha", "torch")
    assert (logits(fast) - logits(composed)).abs().max() < 1e-10


# What kha itself writes.


def export(kha, folder, out, *arguments):
    result = kha("export", folder, out, "--to", "hf", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_an_mlp_model_is_exported_with_its_model_file(kha, tmp_path):
    tensors = write_model(tmp_path / "in", maps={"v": "mlp", "q": "linear"})
    (tmp_path / "in/tokenizer.json").write_text("{}")
    (tmp_path / "in/modeling_old.py").write_text("")
    text = export(kha, tmp_path / "in", tmp_path / "out")
    assert "the mlp map on v of layer 0 does not fold away" in text
    assert "trust_remote_code=True" in text and "not taken along: modeling_old.py" in text
    out = tmp_path / "out"
    names = {path.name for path in CODE.glob("*_kha.py")}
    assert {path.name for path in out.iterdir()} == names | {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    for name in names:
        assert (out / name).read_bytes() == (CODE / name).read_bytes()
    written = load_file(out / "model.safetensors")
    assert written.keys() == tensors.keys()
    assert all(torch.equal(written[name], value) for name, value in tensors.items())
    assert json.loads((out / "config.json").read_text())["auto_map"] == AUTO_MAP
    check_logits(out, engine(kha, tmp_path / "in", tmp_path))


def test_an_export_is_verified_by_the_model_file(kha, folder_of, tmp_path):
    (tmp_path / "text.txt").write_bytes(bytes(IDS))
    shutil.copytree(folder_of("gla"), tmp_path / "in")
    for file in (tmp_path / "in").glob("*.py"):
        file.unlink()
    found = json.loads(export(kha, tmp_path / "in", tmp_path / "out", "--dtype", "bfloat16",
                              "--shard-size", "50KB", "--verify", "--text", tmp_path / "text.txt",
                              "--json"))
    assert found["trust_remote_code"] and "in no public architecture" in found["why_model_file"]
    assert found["files"] > 1 and found["dtype"] == "bfloat16"
    assert found["verification"]["class"] == "KhaForCausalLM" and found["verification"]["equal"]


def test_linear_maps_fold_unless_they_are_to_be_kept(kha, tmp_path):
    write_model(tmp_path / "in", maps={"v": "linear"})
    assert "a plain model" in export(kha, tmp_path / "in", tmp_path / "plain")
    assert not list((tmp_path / "plain").glob("*.py"))
    kept = export(kha, tmp_path / "in", tmp_path / "kept", "--keep-maps")
    assert "because its maps were to be kept" in kept and "folded" not in kept
    assert "model.layers.0.self_attn.knock_v.weight" in load_file(tmp_path / "kept/model.safetensors")
    check_logits(tmp_path / "kept", engine(kha, tmp_path / "in", tmp_path))
    refused = kha("export", tmp_path / "in", tmp_path / "a.gguf", "--to", "gguf", "--keep-maps")
    assert refused.returncode == 2 and "llama.cpp has no maps to keep" in refused.stderr
    write_model(tmp_path / "bare")
    assert "a plain model" in export(kha, tmp_path / "bare", tmp_path / "same", "--keep-maps")


def test_an_inserted_model_opens_there_with_the_same_logits(kha, tmp_path):
    write_model(tmp_path / "in")
    (tmp_path / "in/modeling_old.py").write_text("")
    result = kha("insert", tmp_path / "in", tmp_path / "out", "--setting", "kha-mlp-qkv",
                 "--no-verify")
    assert result.returncode == 0 and "not taken along: modeling_old.py" in result.stdout
    # In float32: Qwen3's norms of a float64 model are no wider.
    before = AutoModelForCausalLM.from_pretrained(tmp_path / "in").eval()
    assert torch.equal(logits(before), logits(their_model(tmp_path / "out", torch.float32)))
    after = their_model(tmp_path / "out")
    assert after.config.knock(2, "k") == "mlp"
    again = kha("fold", tmp_path / "out", "--to", tmp_path / "folded", "--no-verify")
    assert again.returncode == 0, again.stderr
    folded = their_model(tmp_path / "folded")
    assert folded.config.knock(2, "v") == "gate"
    assert (logits(after) - logits(folded)).abs().max() < 1e-9


def test_code_of_the_model_file_stays_behind_where_a_fold_leaves_a_plain_model(kha, tmp_path):
    write_model(tmp_path / "in")
    kha("insert", tmp_path / "in", tmp_path / "out", "--setting", "kha-linear", "--no-verify")
    assert list((tmp_path / "out").glob("*.py"))
    result = kha("fold", tmp_path / "out", "--to", tmp_path / "plain", "--no-verify")
    assert result.returncode == 0, result.stderr
    assert not list((tmp_path / "plain").glob("*.py"))
    assert "auto_map" not in json.loads((tmp_path / "plain/config.json").read_text())
