"""kha opens the checkpoints of other families as transformers does."""

import json

import pytest
import torch
from hf_models import IDS, check_parity, distance, our_logits, their_logits

SMALL = dict(vocab_size=257, hidden_size=40, intermediate_size=56, num_hidden_layers=3,
             num_attention_heads=6, max_position_embeddings=512, initializer_range=0.3,
             bos_token_id=None, eos_token_id=256, pad_token_id=None)
GROUPED = SMALL | dict(num_key_value_heads=2, head_dim=10, hidden_size=48)
LATENT = SMALL | dict(num_key_value_heads=6, first_k_dense_replace=3, kv_lora_rank=20,
                      qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=8, rope_interleave=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)
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
}


def save(family, settings, folder):
    """A random model of the class, biases and gains too, as transformers writes it."""
    import transformers

    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 1:
                value.add_(0.3 * torch.randn(value.shape))
    model.save_pretrained(folder)


@pytest.mark.parametrize("name", MODELS)
def test_a_family_has_the_logits_of_transformers(kha, tmp_path, name):
    save(*MODELS[name], tmp_path / "in")
    check_parity(kha, tmp_path / "in", tmp_path / "in", tmp_path)


@pytest.mark.parametrize("name", ["llama, stretched", "qwen2, mha", "deepseek"])
def test_what_is_read_goes_out_again(kha, tmp_path, name):
    save(*MODELS[name], tmp_path / "in")
    result = kha("export", tmp_path / "in", tmp_path / "out", "--to", "hf")
    assert result.returncode == 0, result.stderr
    before, after = (json.loads((tmp_path / each / "config.json").read_text()) for each in ("in", "out"))
    assert before["model_type"] == after["model_type"]
    check_parity(kha, tmp_path / "in", tmp_path / "out", tmp_path)
    assert distance(their_logits(tmp_path / "in"), their_logits(tmp_path / "out")) < 1e-4


def test_old_and_new_spelling_of_the_rotary_keys_are_one_model(kha, tmp_path):
    save("Llama", GROUPED | dict(rope_parameters=LLAMA3), tmp_path / "in")
    new = our_logits(kha, tmp_path / "in", tmp_path)[0]
    config = json.loads((tmp_path / "in/config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    (tmp_path / "in/config.json").write_text(json.dumps(config))
    assert torch.equal(our_logits(kha, tmp_path / "in", tmp_path)[0], new)
    config["rope_scaling"] = None
    (tmp_path / "in/config.json").write_text(json.dumps(config))
    assert not torch.equal(our_logits(kha, tmp_path / "in", tmp_path)[0], new)


def test_decoding_with_the_cache_equals_one_pass(kha, tmp_path):
    save("Llama", GROUPED, tmp_path / "in")
    logits = our_logits(kha, tmp_path / "in", tmp_path)[0]
    assert logits.shape == (len(IDS), 257)
    prompt = ["generate", tmp_path / "in", "--prompt", "the heads", "--max-tokens", 20,
              "--temperature", 0, "--json"]
    cached, full = kha(*prompt), kha(*prompt, "--no-cache")
    assert cached.returncode == 0, cached.stderr
    assert json.loads(cached.stdout)["ids"] == json.loads(full.stdout)["ids"]
