"""kha export: what transformers makes of the folder, and what is refused."""

import json
import shutil
import subprocess

import pytest
import torch
from conftest import BIN
from hf_models import (IDS, LATENT, SIGMOID, SOFTMAX, check_parity, distance, our_logits,
                       their_logits, their_model, write_model)
from safetensors import safe_open
from safetensors.torch import load_file, save_file

LINEAR = {"q": "linear", "k": "linear", "v": "linear"}
GROUPED = {
    "plain": {},
    "linear maps": dict(maps=LINEAR),
    "one KV head, biases, untied, linear maps": dict(
        maps=LINEAR, num_key_value_heads=1, attention_bias=True, tie_word_embeddings=False),
    "mha, another epsilon": dict(num_key_value_heads=6, rms_norm_eps=1e-5),
}
LATENTS = {
    "no query latent": {},
    "query latent": dict(maps=dict(query_latent=28)),
    "untied, linear maps": dict(maps=LINEAR, tie_word_embeddings=False),
    "query latent, linear maps": dict(maps=dict(LINEAR, query_latent=28)),
    "query latent, another epsilon": dict(maps=dict(query_latent=28), rms_norm_eps=1e-2),
    "no query latent, another epsilon, untied": dict(rms_norm_eps=1e-3, tie_word_embeddings=False),
}


ROUTED = {
    "tied, linear maps": dict(maps=LINEAR | {"base": "glm4_moe"}),
    "untied, one KV head, every layer": dict(
        maps={"base": "glm4_moe"}, tie_word_embeddings=False, num_key_value_heads=1,
        first_k_dense_replace=0),
    "groups, scaled, not normalised": dict(
        maps={"base": "glm4_moe"}, n_group=3, topk_group=2, routed_scaling_factor=2.5,
        norm_topk_prob=False),
    "interleaved": dict(maps={"base": "glm4_moe", "rotary_layout": "interleaved"}),
    "biases but on o": dict(maps={"base": "glm4_moe", "output_bias": False}, attention_bias=True),
    "no norms": dict(maps={"base": "glm4_moe"}, use_qk_norm=False),
    "half of each head turned, interleaved": dict(
        maps=LINEAR | {"base": "glm4_moe", "rope_head_dim": 4, "rotary_layout": "interleaved"}),
}
ROUTED_LATENTS = {
    "sigmoid": ("V3", dict(maps={"base": "glm4_moe"}, **SIGMOID)),
    "sigmoid, shared, groups, maps": ("V3", dict(
        maps=LINEAR | {"base": "glm4_moe", "query_latent": 28, "value_head_dim": 10},
        **SIGMOID | dict(n_shared_experts=2, n_group=3, topk_group=2, routed_scaling_factor=2.5))),
    "softmax": ("V2", dict(maps={"base": "qwen3_moe"}, hidden_size=48, **SOFTMAX)),
    "softmax, shared, groups": ("V2", dict(
        maps={"base": "qwen3_moe", "query_latent": 28}, hidden_size=48,
        **SOFTMAX | dict(n_shared_experts=1, n_group=2, topk_group=1, routed_scaling_factor=2.0))),
}


def export(kha, folder, out, *arguments):
    return kha("export", folder, out, "--to", "hf", *arguments)


def exported(kha, tmp_path, *arguments, **model):
    write_model(tmp_path / "in", **model)
    result = export(kha, tmp_path / "in", tmp_path / "out", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("shape", GROUPED)
def test_grouped_query_attention_is_qwen3(kha, tmp_path, shape):
    text = exported(kha, tmp_path, **GROUPED[shape])
    assert "Qwen3ForCausalLM" in text
    assert ("folded on the way: 9 linear maps" in text) == ("maps" in GROUPED[shape])
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)


@pytest.mark.parametrize("shape", LATENTS)
def test_latent_attention_is_deepseek_v3(kha, tmp_path, shape):
    model = dict(LATENTS[shape])
    model["maps"] = LATENT | model.get("maps", {})
    text = exported(kha, tmp_path, **model)
    assert "DeepseekV3ForCausalLM" in text
    assert ("rows in front of the latents' norms scaled" in text) == ("epsilon" in shape)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["rope_interleave"] is True and "kha" not in config and "head_dim" not in config
    assert config["q_lora_rank"] == model["maps"].get("query_latent")
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)


@pytest.mark.parametrize("shape", ROUTED)
def test_a_sigmoid_router_is_glm4_moe_with_a_shared_expert_of_zeros(kha, tmp_path, shape):
    text = exported(kha, tmp_path, **SIGMOID | ROUTED[shape])
    assert "Glm4MoeForCausalLM" in text and "a shared expert of zeros in" in text
    assert ("written again as lm_head.weight" in text) == ("untied" not in shape)
    assert "vLLM: names, shapes and keys checked against its loader's rules; not executed" in text
    config = json.loads((tmp_path / "out/config.json").read_text())
    share = 0.5 if "half" in shape else 1.0
    expected = dict(n_shared_experts=1, tie_word_embeddings=False, partial_rotary_factor=share,
                    num_nextn_predict_layers=0, head_dim=8, rope_scaling=None,
                    use_qk_norm=shape != "no norms",
                    first_k_dense_replace=ROUTED[shape].get("first_k_dense_replace", 1),
                    n_group=ROUTED[shape].get("n_group", 1),
                    topk_group=ROUTED[shape].get("topk_group", 1))
    assert {key: config[key] for key in expected} == expected and "kha" not in config
    assert config["rope_parameters"]["partial_rotary_factor"] == share
    tensors = load_file(tmp_path / "out/model.safetensors")
    if "untied" not in shape:
        assert torch.equal(tensors["lm_head.weight"], tensors["model.embed_tokens.weight"])
    for name, value in tensors.items():
        assert ("shared_experts" in name) == (not value.any()), name
        if name.endswith("e_score_correction_bias"):
            # Shifted where nothing but other experts is beside them: closed groups are 0 somewhere.
            own = load_file(tmp_path / "in/model.safetensors")[name]
            shift = 0 if ROUTED[shape].get("n_group", 1) > 1 else own.double().mean()
            assert value.dtype == torch.float32
            assert torch.allclose(value.double(), own.double() - shift, rtol=0, atol=1e-6)
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)
    check_parity(kha, tmp_path / "out", tmp_path / "out", tmp_path)


def test_selection_biases_stay_float32_in_a_narrow_model(kha, tmp_path):
    exported(kha, tmp_path, "--dtype", "bfloat16", maps={"base": "glm4_moe"}, **SIGMOID)
    for name, value in load_file(tmp_path / "out/model.safetensors").items():
        expected = torch.float32 if name.endswith("e_score_correction_bias") else torch.bfloat16
        assert value.dtype == expected, name


@pytest.mark.parametrize("shape", ROUTED_LATENTS)
def test_latent_attention_with_experts_is_deepseek(kha, tmp_path, shape):
    version, model = ROUTED_LATENTS[shape]
    text = exported(kha, tmp_path, **model | {"maps": LATENT | model["maps"]})
    assert f"Deepseek{version}ForCausalLM" in text
    assert "checked against its loader's rules; not executed" in text
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["scoring_func"] == ("sigmoid" if version == "V3" else "softmax")
    assert config["first_k_dense_replace"] == 1 and "kha" not in config
    assert config["topk_method"] == ("noaux_tc" if version == "V3" else
                                     "group_limited_greedy" if "groups" in shape else "greedy")
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)
    check_parity(kha, tmp_path / "out", tmp_path / "out", tmp_path)


def test_routers_that_no_class_has_are_said(kha, tmp_path):
    shared = SOFTMAX | dict(n_shared_experts=1)
    write_model(tmp_path / "shared", maps={"base": "qwen3_moe"}, **shared)
    result = export(kha, tmp_path / "shared", tmp_path / "out")
    assert result.returncode == 0 and "a kha model with its model file, because" in result.stdout
    assert "Qwen3Moe, has no shared experts" in result.stdout
    normalised = SOFTMAX | dict(norm_topk_prob=True)
    write_model(tmp_path / "latent", maps=LATENT | {"base": "qwen3_moe"}, **normalised)
    result = export(kha, tmp_path / "latent", tmp_path / "latent-out")
    assert result.returncode == 0 and "DeepseekV2 never normalises" in result.stdout
    for folder in ("out", "latent-out"):
        assert json.loads((tmp_path / folder / "config.json").read_text())["model_type"] == "kha"


def test_the_order_of_rotary_rows_and_the_epsilon_matter(kha, tmp_path):
    """The parity above can fail: without either change it is another model."""
    exported(kha, tmp_path, maps=LATENT | {"query_latent": 28}, rms_norm_eps=1e-2)
    ours = our_logits(kha, tmp_path / "in", tmp_path)[0]
    assert distance(ours, their_logits(tmp_path / "out")) < 1e-4
    config = json.loads((tmp_path / "out/config.json").read_text())
    for key, value in (("rope_interleave", False), ("rms_norm_eps", 1e-6)):
        (tmp_path / "out/config.json").write_text(json.dumps(config | {key: value}))
        assert distance(ours, their_logits(tmp_path / "out")) > 1e-2
    tensors = load_file(tmp_path / "in/model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, tmp_path / "out/model.safetensors", metadata={"format": "pt"})
    (tmp_path / "out/config.json").write_text(json.dumps(config))
    assert distance(ours, their_logits(tmp_path / "out")) > 1e-2


def test_generation_with_the_cache_there(kha, tmp_path):
    exported(kha, tmp_path, maps=LATENT)
    model = their_model(tmp_path / "out")
    model.generation_config.eos_token_id = None
    prompt = torch.tensor([IDS[:20]])
    theirs = model.generate(prompt, max_new_tokens=30, do_sample=False)[0].tolist()
    logits = our_logits(kha, tmp_path / "in", tmp_path, theirs[:-1])[0]
    assert logits[19:].argmax(-1).tolist() == theirs[20:]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_another_type_rounds_every_tensor_once(kha, tmp_path, dtype):
    tensors = write_model(tmp_path / "in", maps=LATENT)
    assert export(kha, tmp_path / "in", tmp_path / "out", "--dtype", dtype).returncode == 0
    found = load_file(tmp_path / "out/model.safetensors")
    assert found.keys() == tensors.keys() | {"lm_head.weight"}
    assert torch.equal(found["lm_head.weight"], found.pop("model.embed_tokens.weight"))
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    for name, value in found.items():
        assert value.dtype == getattr(torch, dtype), name
        if "q_proj" not in name and "kv_a_proj" not in name:  # rotary rows elsewhere
            assert torch.equal(value, tensors[name].to(value.dtype)), name
    assert json.loads((tmp_path / "out/config.json").read_text())["torch_dtype"] == dtype
    rounded = distance(our_logits(kha, tmp_path / "in", tmp_path)[0], their_logits(tmp_path / "out"))
    assert 1e-4 < rounded < 5  # of 8 bits in every weight


def test_double_precision_is_rounded_once(kha, tmp_path):
    """Through float32 this value would go up to the even neighbour; it lies below the middle."""
    write_model(tmp_path / "in")
    tensors = load_file(tmp_path / "in/model.safetensors")
    value = 1 + 2**-8 - 2**-40
    tensors["model.norm.weight"] = torch.full((40,), value, dtype=torch.float64)
    save_file(tensors, tmp_path / "in/model.safetensors")
    assert export(kha, tmp_path / "in", tmp_path / "out", "--dtype", "bfloat16").returncode == 0
    assert load_file(tmp_path / "out/model.safetensors")["model.norm.weight"].unique().item() == 1.0


def test_shards_have_an_index_and_open_on_both_sides(kha, tmp_path):
    text = exported(kha, tmp_path, "--shard-size", "20KB", maps=LINEAR)
    out = tmp_path / "out"
    index = json.loads((out / "model.safetensors.index.json").read_text())
    shards = sorted(set(index["weight_map"].values()))
    count = len(shards)
    assert count > 5 and f"in {count} files" in text
    assert shards == [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]
    total = 0
    for shard in shards:
        with safe_open(out / shard, "pt") as file:
            sizes = [file.get_tensor(name).nbytes for name in file.keys()]
            assert file.metadata()["format"] == "pt"
            assert {index["weight_map"][name] for name in file.keys()} == {shard}
        assert sum(sizes) <= 20_000 or len(sizes) == 1
        total += sum(sizes)
    assert index["metadata"]["total_size"] == total
    assert not (out / "model.safetensors").exists()
    check_parity(kha, tmp_path / "in", out, tmp_path)
    check_parity(kha, out, out, tmp_path)


def test_the_tokenizer_goes_along_and_code_and_old_weights_do_not(kha, tmp_path):
    write_model(tmp_path / "in", maps=LINEAR)
    for name in ("tokenizer.json", "tokenizer_config.json", "LICENSE", "modeling_kha.py",
                 "pytorch_model.bin", "generation_config.json"):
        (tmp_path / "in" / name).write_text('{"eos_token_id": 256}')
    result = export(kha, tmp_path / "in", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    for name in ("modeling_kha.py", "pytorch_model.bin"):
        assert f"not taken along: {name}" in result.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "config.json", "generation_config.json", "LICENSE", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json"}


def test_a_models_code_is_left_behind_in_one_line(kha, tmp_path):
    write_model(tmp_path / "in", maps=LINEAR)
    for name in ("attention_kha.py", "modeling_kha.py", "pytorch_model.bin"):
        (tmp_path / "in" / name).write_text("")
    for command, where in (("fold", ["--to", tmp_path / "folded", "--no-verify"]),
                           ("export", [tmp_path / "out", "--to", "hf"])):
        done = kha(command, tmp_path / "in", *where)
        assert done.returncode == 0, done.stderr
        lines = [line.strip() for line in done.stdout.splitlines() if "not taken along" in line]
        assert lines == ["not taken along: attention_kha.py, modeling_kha.py",
                         "not taken along: pytorch_model.bin"]


def test_values_that_the_type_cannot_hold_are_refused(kha, tmp_path):
    write_model(tmp_path / "in")
    tensors = load_file(tmp_path / "in/model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    for value, words in ((1e5, "too large for this type"),
                         (float("nan"), "not finite before it is rounded")):
        tensors[name][3, 4] = value
        save_file(tensors, tmp_path / "in/model.safetensors")
        result = export(kha, tmp_path / "in", tmp_path / "out", "--dtype", "float16")
        assert result.returncode == 2 and f"{name} would not be finite" in result.stderr
        assert words in result.stderr, result.stderr
        assert not (tmp_path / "out").exists()


def test_an_existing_folder_and_another_kind_are_refused(kha, tmp_path):
    write_model(tmp_path / "in")
    (tmp_path / "out").mkdir()
    result = export(kha, tmp_path / "in", tmp_path / "out")
    assert result.returncode == 2 and "exists already" in result.stderr
    result = kha("export", tmp_path / "in", tmp_path / "new", "--to", "onnx")
    assert result.returncode == 2 and "hf: a folder that transformers opens" in result.stderr
    result = export(kha, tmp_path / "in", tmp_path / "new", "--dtype", "int3")
    assert result.returncode == 2 and "bfloat16" in result.stderr


def text_file(tmp_path):
    (tmp_path / "text.txt").write_bytes(bytes(IDS))
    return tmp_path / "text.txt"


def test_verify_states_the_difference(kha, tmp_path):
    write_model(tmp_path / "in", maps=LATENT | LINEAR)
    result = export(kha, tmp_path / "in", tmp_path / "out", "--verify", "--text", text_file(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "verified in DeepseekV3ForCausalLM transformers" in result.stdout
    assert "greedy continuations of 24 tokens agree" in result.stdout
    assert "equal to rounding" in result.stdout
    result = export(kha, tmp_path / "in", tmp_path / "narrow", "--dtype", "bfloat16", "--verify",
                    "--text", text_file(tmp_path), "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)["verification"]
    assert found["equal"] and found["positions"] == 211  # and the end mark
    assert 1e-4 < found["float32"] < found["limit"]


def test_the_companion_finds_another_model(kha, tmp_path):
    exported(kha, tmp_path)
    ours = tmp_path / "ours.safetensors"
    assert kha("logits", tmp_path / "in", "--ids", ",".join(map(str, IDS)), "--write", ours,
               "--continue", 8).returncode == 0
    tensors = load_file(tmp_path / "out/model.safetensors")
    tensors["model.layers.2.self_attn.v_proj.weight"] *= 1.5
    save_file(tensors, tmp_path / "out/model.safetensors", metadata={"format": "pt"})
    answer = tmp_path / "answer.json"
    peer = [str(BIN / "kha-hf-peer"), str(tmp_path / "out"), str(ours), str(answer)]
    assert subprocess.run(peer).returncode == 0
    found = json.loads(answer.read_text())
    assert found["float32"] > 0.01 and found["float64"] > 0.01
    del tensors["model.layers.2.self_attn.v_proj.weight"]
    save_file(tensors, tmp_path / "out/model.safetensors", metadata={"format": "pt"})
    result = subprocess.run(peer, capture_output=True, text=True)
    assert result.returncode == 2 and "missing keys" in result.stderr


def test_a_difference_is_exit_code_1(kha, tmp_path):
    """With a companion that finds one: what the program makes of it."""
    write_model(tmp_path / "in")
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(BIN / "kha", programs)
    (programs / "kha-engine").write_text("#!/bin/sh\n")
    answer = dict(version="transformers 0", float32=1e-6, float64=1e-6, positions=9,
                  rounding_ours=1e-6, rounding_theirs=1e-6, largest_log_probability=9.0,
                  continuation_agrees=True, first_difference=None, gap=0.0) | {"class": "X"}
    for change, code in (({}, 0), ({"float32": 1e-3}, 1),
                         ({"continuation_agrees": False, "first_difference": 3, "gap": 0.5}, 1),
                         ({"continuation_agrees": False, "first_difference": 3, "gap": 1e-6}, 0)):
        (programs / "kha-hf-peer").write_text(
            f"#!/bin/sh\ncat > $3 <<'END'\n{json.dumps(answer | change)}\nEND\n")
        for name in ("kha-engine", "kha-hf-peer"):
            (programs / name).chmod(0o755)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        result = subprocess.run([programs / "kha", "export", tmp_path / "in", tmp_path / "out",
                                 "--to", "hf", "--verify"], capture_output=True, text=True)
        assert result.returncode == code, result.stdout + result.stderr
        assert ("NOT EQUAL" in result.stdout) == (code == 1)
    assert (tmp_path / "out").exists()
