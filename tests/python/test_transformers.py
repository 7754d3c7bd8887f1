"""A folded or plain model is an ordinary Qwen3 to transformers; an unfolded one is refused there."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

SHAPES = {
    "gqa": {},
    "mha with biases, untied": dict(model__num_key_value_heads=4, model__attention_bias=True,
                                    model__tie_word_embeddings=False),
    "mqa, heads wider than the model": dict(model__num_key_value_heads=1, model__head_dim=24,
                                            model__rope_theta=500000.0),
}
# Long enough for the far positions, where a wrong rotary layout shows.
IDS = torch.tensor([list(b"the heads of a layer share one small map and knock ")]).repeat(1, 5)[:, :210]


def our_logits(kha, folder, ids):
    """Logits as the program gives them for `ids`, float32, [T, vocabulary]."""
    result = kha("logits", folder, "--ids", ",".join(map(str, ids[0].tolist())), "--json")
    assert result.returncode == 0, result.stderr
    return torch.tensor(json.loads(result.stdout)["logits"])


def their_logits(folder, ids, dtype=torch.float32):
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    with torch.no_grad():
        return model(ids).logits[0]


def check_parity(kha, folder):
    ours, theirs = our_logits(kha, folder, IDS), their_logits(folder, IDS)
    exact = their_logits(folder, IDS, torch.float64)
    rounding = (theirs - exact).abs().max().item()
    assert (ours - exact).abs().max().item() <= 2 * rounding + 1e-6
    assert ours.abs().max() > 0.1


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("interop")

    def run(shape, setting):
        name = f"{list(SHAPES).index(shape)}-{setting}"
        if not (folder / name).exists():
            train(folder, run__name=name, knock__setting=setting, optimizer__lr=0.02, train__steps=30,
                  train__eval_every=0, train__save_every=0, **SHAPES[shape])
        return folder / name

    return run


@pytest.mark.parametrize("shape", SHAPES)
def test_a_baseline_checkpoint_opens_unchanged(kha, trained, shape):
    latest = trained(shape, "baseline") / "checkpoints" / "latest"
    assert json.loads((latest / "config.json").read_text())["model_type"] == "qwen3"
    check_parity(kha, latest)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_folded_linear_model_opens_with_our_logits(kha, trained, tmp_path, shape):
    run = trained(shape, "kha-linear")
    folded = kha("fold", run, "--to", tmp_path / "plain")
    assert folded.returncode == 0, folded.stdout + folded.stderr
    check_parity(kha, tmp_path / "plain")
    before = our_logits(kha, run / "checkpoints" / "latest", IDS)
    after = their_logits(tmp_path / "plain", IDS)
    assert (before - after).abs().max() < 1e-4
    model, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", output_loading_info=True)
    assert isinstance(model, Qwen3ForCausalLM)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]


@pytest.mark.parametrize("setting", ["kha-linear", "kha-mlp", "kha-gate-v"])
def test_an_unfolded_model_is_refused_by_the_auto_classes(trained, setting):
    latest = trained("gqa", setting) / "checkpoints" / "latest"
    assert json.loads((latest / "config.json").read_text())["model_type"] == "kha"
    with pytest.raises(ValueError, match="kha"):
        AutoConfig.from_pretrained(latest)
    with pytest.raises(ValueError, match="kha"):
        AutoModelForCausalLM.from_pretrained(latest)


def test_the_fold_is_needed(kha, trained):
    """The parity above can fail: the unfolded weights without their maps are another model."""
    latest = trained("gqa", "kha-linear") / "checkpoints" / "latest"
    assert (our_logits(kha, latest, IDS) - their_logits(latest, IDS)).abs().max() > 0.01


def test_generation_and_tokenizer_work_there(kha, trained, tmp_path):
    kha("fold", trained("gqa", "kha-linear"), "--to", tmp_path / "plain")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "plain")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "plain").eval()
    ids = tokenizer("the heads", return_tensors="pt").input_ids
    theirs = model.generate(ids, max_new_tokens=20, do_sample=False)[0, ids.size(1):]
    ours = kha("generate", tmp_path / "plain", "--prompt", "the heads", "--max-tokens", 20,
               "--temperature", 0)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == tokenizer.decode(theirs, skip_special_tokens=True)
