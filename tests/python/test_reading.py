"""kha opens the checkpoints of other families as transformers does."""

import json
import shutil

import pytest
import torch
from hf_models import IDS, check_parity, distance, our_logits, their_logits
from safetensors.torch import load_file, save_file

SMALL = dict(vocab_size=257, hidden_size=40, intermediate_size=56, num_hidden_layers=3,
             num_attention_heads=6, max_position_embeddings=512, initializer_range=0.3,
             bos_token_id=None, eos_token_id=256, pad_token_id=None)
GROUPED = SMALL | dict(num_key_value_heads=2, head_dim=10, hidden_size=48)
LATENT = SMALL | dict(num_key_value_heads=6, first_k_dense_replace=3, kv_lora_rank=20,
                      qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=8, rope_interleave=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
MSCALE = dict(rope_type="yarn", rope_theta=1e4, factor=40.0, beta_fast=32.0, beta_slow=1.0, mscale=0.7,
              mscale_all_dim=1.2, original_max_position_embeddings=64)
DYNAMIC = dict(rope_type="dynamic", rope_theta=1e4, factor=3.0)
LONG = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.1, 1.3, 1.5, 2.0],
            long_factor=[1.0, 2.0, 3.0, 5.0, 9.0])
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)
EXPERTS = dict(first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
               moe_intermediate_size=24, n_shared_experts=2, routed_scaling_factor=1.5)
GROUPS = dict(n_group=4, topk_group=2)
FULL = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}
WIDE = LATENT | dict(v_head_dim=10, rope_interleave=True, q_lora_rank=28)
V2 = {key: value for key, value in WIDE.items() if key != "rope_interleave"} | dict(hidden_size=48)
MODELS = {
    "llama": ("Llama", GROUPED),
    "llama, one KV head, tied, biases, another epsilon": ("Llama", GROUPED | dict(
        num_key_value_heads=1, tie_word_embeddings=True, attention_bias=True, rms_norm_eps=1e-4)),
    "llama, stretched": ("Llama", GROUPED | dict(rope_parameters=LLAMA3)),
    "llama, linear": ("Llama", GROUPED | dict(
        rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=3.0))),
    "qwen2, mha": ("Qwen2", SMALL | dict(num_key_value_heads=6, hidden_size=48)),
    "qwen2, yarn": ("Qwen2", SMALL | dict(num_key_value_heads=3, hidden_size=48, rope_parameters=YARN)),
    "mistral": ("Mistral", GROUPED | dict(sliding_window=None)),
    "qwen3, yarn": ("Qwen3", GROUPED | dict(rope_parameters=YARN)),
    "deepseek": ("DeepseekV3", LATENT | dict(q_lora_rank=None)),
    "deepseek, query latent, tied, another epsilon": ("DeepseekV3", LATENT | dict(
        q_lora_rank=28, tie_word_embeddings=True, rms_norm_eps=1e-3)),
    "llama, dynamic, longer than the context": ("Llama", GROUPED | dict(
        rope_parameters=DYNAMIC, max_position_embeddings=128)),
    "llama, dynamic, within the context": ("Llama", GROUPED | dict(rope_parameters=DYNAMIC)),
    "llama, longrope, longer than the original": ("Llama", GROUPED | dict(
        rope_parameters=LONG | dict(original_max_position_embeddings=64))),
    "llama, longrope, within the original": ("Llama", GROUPED | dict(
        rope_parameters=LONG | dict(original_max_position_embeddings=256, factor=4.0))),
    "llama, yarn with mscale": ("Llama", GROUPED | dict(rope_parameters=MSCALE)),
    "llama, yarn with an amplitude": ("Llama", GROUPED | dict(
        rope_parameters=YARN | dict(attention_factor=1.7))),
    "qwen3, one KV head, biases": ("Qwen3", GROUPED | dict(
        num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True)),
    "qwen3 moe": ("Qwen3Moe", GROUPED | dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
        mlp_only_layers=[0])),
    "glm4 moe, groups": ("Glm4Moe", GROUPED | EXPERTS | GROUPS | dict(
        use_qk_norm=True, rope_parameters=FULL)),
    "glm4 moe, a part of each head turned": ("Glm4Moe", GROUPED | EXPERTS | dict(
        use_qk_norm=True, rope_parameters=FULL | dict(partial_rotary_factor=0.6))),
    "glm4 moe, by the class default, no norms": ("Glm4Moe", GROUPED | EXPERTS | dict(
        head_dim=12, use_qk_norm=False)),
    "glm4 moe, biases, no norms": ("Glm4Moe", GROUPED | EXPERTS | dict(
        attention_bias=True, use_qk_norm=False, rope_parameters=FULL)),
    "deepseek, yarn with mscale": ("DeepseekV3", WIDE | dict(rope_parameters=MSCALE)),
    "deepseek, biases, wider values, interleaved": ("DeepseekV3", WIDE | dict(attention_bias=True)),
    "deepseek, experts in groups": ("DeepseekV3", WIDE | EXPERTS | GROUPS),
    "deepseek, experts, not normalised, tied": ("DeepseekV3", WIDE | EXPERTS | dict(
        n_group=1, topk_group=1, norm_topk_prob=False, tie_word_embeddings=True)),
    "deepseek v2, experts": ("DeepseekV2", V2 | EXPERTS),
    "deepseek v2, experts in groups, yarn with mscale": ("DeepseekV2", V2 | EXPERTS | GROUPS | dict(
        topk_method="group_limited_greedy", rope_parameters=MSCALE)),
}


def save(family, settings, folder):
    """A random model of the class, biases and gains too, as transformers writes it."""
    import transformers

    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.ndim == 1 and "inv_freq" not in name:
                value.add_(0.3 * torch.randn(value.shape))
            if name.endswith("mlp.gate.weight"):
                value.normal_(std=0.3)
    model.save_pretrained(folder)


@pytest.mark.parametrize("name", MODELS)
def test_a_family_has_the_logits_of_transformers(kha, tmp_path, name):
    save(*MODELS[name], tmp_path / "in")
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)


# Llama's class for Mistral's model: the same but for the window.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "mistral"])
def test_what_is_read_goes_out_again(kha, tmp_path, name):
    save(*MODELS[name], tmp_path / "in")
    result = kha("export", tmp_path / "in", tmp_path / "out", "--to", "hf")
    assert result.returncode == 0, result.stderr
    assert "read back: names, shapes, types and checksums are those written" in result.stdout
    before, after = (json.loads((tmp_path / each / "config.json").read_text()) for each in ("in", "out"))
    assert before["model_type"] == after["model_type"]
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)
    assert distance(their_logits(tmp_path / "in"), their_logits(tmp_path / "out")) < 1e-4


def test_old_and_new_spelling_of_the_rotary_keys_are_one_model(kha, tmp_path):
    save("Llama", GROUPED | dict(rope_parameters=LLAMA3), tmp_path / "in")
    far = (IDS * 3)[:502]
    new = our_logits(kha, tmp_path / "in", tmp_path, far)[0]
    assert len(new) > 500
    config = json.loads((tmp_path / "in/config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    (tmp_path / "in/config.json").write_text(json.dumps(config))
    assert torch.equal(our_logits(kha, tmp_path / "in", tmp_path, far)[0], new)
    config["rope_scaling"] = None
    (tmp_path / "in/config.json").write_text(json.dumps(config))
    assert not torch.equal(our_logits(kha, tmp_path / "in", tmp_path, far)[0], new)


def edit_config(folder, *without, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    for key in without:
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["yarn", "dynamic"])
def test_a_scaling_without_its_original_length_takes_the_context(kha, tmp_path, kind):
    """As the class does, and inspect prints what it took."""
    save("Qwen2", MODELS["qwen2, yarn"][1], tmp_path / "in")
    scaling = dict(rope_type=kind, rope_theta=1e4, factor=2.0)
    edit_config(tmp_path / "in", max_position_embeddings=128, rope_parameters=scaling)
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)
    assert f"{kind} scaling by 2 from 128 positions" in kha("inspect", tmp_path / "in").stdout


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Qwen3Moe"])
def test_a_window_that_is_switched_off_is_none(kha, tmp_path, family):
    """And one that is not is refused, whatever layers it would be of."""
    sizes = MODELS["qwen3 moe"][1] if family == "Qwen3Moe" else GROUPED
    save(family, sizes | dict(hidden_size=60), tmp_path / "in")
    window = dict(sliding_window=8, max_window_layers=2)
    edit_config(tmp_path / "in", "layer_types", use_sliding_window=False, **window)
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)
    for changes in (dict(use_sliding_window=True), dict(
            layer_types=["full_attention", "full_attention", "sliding_attention"])):
        shutil.copytree(tmp_path / "in", tmp_path / "on")
        edit_config(tmp_path / "on", **changes)
        result = kha("inspect", tmp_path / "on")
        assert result.returncode == 2 and "sliding windows are not supported" in result.stderr
        shutil.rmtree(tmp_path / "on")


def test_a_window_counts_the_token_itself(kha, tmp_path):
    """One as long as the text hides nothing of it, one that is a token shorter does."""
    window = len(IDS)
    sizes = GROUPED | dict(sliding_window=window, max_position_embeddings=window)
    save("Mistral", sizes, tmp_path / "in")
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)
    whole = their_logits(tmp_path / "in")
    edit_config(tmp_path / "in", sliding_window=window - 1)
    shorter = their_logits(tmp_path / "in")
    assert distance(whole[:-1], shorter[:-1]) < 1e-5 < distance(whole[-1:], shorter[-1:])
    result = kha("inspect", tmp_path / "in")
    assert result.returncode == 2 and "sliding windows are not supported" in result.stderr


@pytest.mark.parametrize("value", [True, False, None], ids=["true", "false", "absent"])
@pytest.mark.parametrize("name", ["qwen3 moe", "glm4 moe, groups"])
def test_weights_of_experts_are_scaled_as_the_class_does(kha, tmp_path, name, value):
    """Absent means another thing to each class; what is read is printed and goes out again."""
    save(*MODELS[name], tmp_path / "in")
    edit_config(tmp_path / "in", *["norm_topk_prob"] * (value is None),
                **({} if value is None else {"norm_topk_prob": value}))
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)
    normalised = name.startswith("glm4") if value is None else value
    shown = kha("inspect", tmp_path / "in").stdout
    assert f"weights {'normalised' if normalised else 'as scored'}" in shown
    assert kha("export", tmp_path / "in", tmp_path / "out", "--to", "hf").returncode == 0
    assert json.loads((tmp_path / "out/config.json").read_text())["norm_topk_prob"] is normalised


def test_decoding_with_the_cache_equals_one_pass(kha, tmp_path):
    save("Llama", GROUPED, tmp_path / "in")
    logits = our_logits(kha, tmp_path / "in", tmp_path)[0]
    assert logits.shape == (len(IDS), 257)
    prompt = ["generate", tmp_path / "in", "--prompt", "the heads", "--max-tokens", 20,
              "--temperature", 0, "--json"]
    cached, full = kha(*prompt), kha(*prompt, "--no-cache")
    assert cached.returncode == 0, cached.stderr
    assert json.loads(cached.stdout)["ids"] == json.loads(full.stdout)["ids"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_every_type_that_holds_numbers_is_read(kha, tmp_path, dtype):
    """In several files too, where one of them holds another type than the others."""
    save("Qwen3Moe", MODELS["qwen3 moe"][1], tmp_path / "in")
    tensors = load_file(tmp_path / "in/model.safetensors")
    for name, value in tensors.items():
        tensors[name] = value.to(dtype) if "layers.1." in name else value
    save_file(tensors, tmp_path / "in/model.safetensors", metadata={"format": "pt"})
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)
    whole = our_logits(kha, tmp_path / "in", tmp_path)[0]
    shutil.copytree(tmp_path / "in", tmp_path / "sharded")
    (tmp_path / "sharded/model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"model-{i % 3 + 1:05}-of-00003.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == file},
                  tmp_path / "sharded" / file, metadata={"format": "pt"})
    (tmp_path / "sharded/model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places}))
    assert torch.equal(our_logits(kha, tmp_path / "sharded", tmp_path)[0], whole)


@pytest.mark.parametrize("dtype, name", [(torch.float8_e4m3fn, "F8_E4M3"), (torch.int8, "I8")])
def test_quantised_tensors_are_refused_by_name(kha, tmp_path, dtype, name):
    save("Llama", GROUPED, tmp_path / "in")
    tensors = load_file(tmp_path / "in/model.safetensors")
    tensor = "model.layers.1.self_attn.k_proj.weight"
    tensors[tensor] = tensors[tensor].to(dtype)
    save_file(tensors, tmp_path / "in/model.safetensors", metadata={"format": "pt"})
    for command in (["inspect", tmp_path / "in"],
                    ["export", tmp_path / "in", tmp_path / "out", "--to", "hf"]):
        result = kha(*command)
        assert result.returncode == 2, result.stdout
        assert tensor in result.stderr and name in result.stderr, result.stderr
        assert "quantised" in result.stderr and not (tmp_path / "out").exists()


def test_null_means_the_default_of_the_class(kha, tmp_path):
    settings = SMALL | dict(num_key_value_heads=6, hidden_size=48)
    save("Llama", settings, tmp_path / "in")
    expected = our_logits(kha, tmp_path / "in", tmp_path)[0]
    config = json.loads((tmp_path / "in/config.json").read_text())
    config |= dict.fromkeys(["head_dim", "num_key_value_heads", "rope_scaling", "sliding_window",
                             "rope_parameters", "eos_token_id", "attention_bias", "mlp_bias",
                             "quantization_config", "original_max_position_embeddings"])
    (tmp_path / "in/config.json").write_text(json.dumps(config))
    assert torch.equal(our_logits(kha, tmp_path / "in", tmp_path)[0], expected)


def test_a_text_that_outgrows_its_frequencies_is_not_decoded_on(kha, tmp_path):
    """longrope: what is in the cache was turned by others than the next token will be."""
    save(*MODELS["llama, longrope, longer than the original"], tmp_path / "in")
    prompt = ["generate", tmp_path / "in", "--prompt", "a" * 60, "--temperature", 0, "--json"]
    within = kha(*prompt, "--max-tokens", 4)
    assert within.returncode == 0, within.stderr
    beyond = kha(*prompt, "--max-tokens", 10)
    assert beyond.returncode == 2 and "keys of other rotary frequencies" in beyond.stderr
    assert "--no-cache" in beyond.stderr and "at most 64 positions" in beyond.stderr
    assert kha(*prompt, "--max-tokens", 10, "--no-cache").returncode == 0
    longer = ["generate", tmp_path / "in", "--prompt", "a" * 80, "--temperature", 0, "--json",
              "--max-tokens", 10]
    cached, full = kha(*longer), kha(*longer, "--no-cache")
    assert cached.returncode == 0, cached.stderr
    assert json.loads(cached.stdout)["ids"] == json.loads(full.stdout)["ids"]
