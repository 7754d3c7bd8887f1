"""Attention systems as a user meets them: train, go on, generate, look at, fold, refuse."""

import json

import pytest

LATENT = {"model.num_key_value_heads": 4, "model.rope_head_dim": 8, "model.kv_latent": 12}
SYSTEMS = {
    "gta": {"model.attention": "gta", "model.rope_head_dim": 8},
    "mla": {"model.attention": "mla", "model.latent_heads": 1, "model.query_latent": 20, **LATENT},
    "gla": {"model.attention": "gla", "model.latent_heads": 2, **LATENT},
    "gta_value": {"model.attention": "gta_value", "model.rope_head_dim": 8},
    "gta_apart": {"model.attention": "gta_apart", "model.rope_head_dim": 8},
    "talking": {"model.attention": "talking"},
    "collaborative": {"model.attention": "collaborative", "model.num_key_value_heads": 4,
                      "model.shared_key_width": 32, "model.content_bias": True},
}
CASES = [("gta", "kha-mlp"), ("gta", "kha-linear-v"), ("mla", "kha-linear"), ("gla", "kha-linear"),
         ("gta_value", "kha-linear-v"), ("gta_apart", "kha-linear"), ("talking", "kha-linear"),
         ("collaborative", "kha-mlp"), ("collaborative", "kha-linear-v")]


@pytest.fixture(scope="module")
def runs(train, tmp_path_factory):
    """Finished tiny runs by (system, setting), made once."""
    folder = tmp_path_factory.mktemp("systems")
    for system, setting in CASES:
        changes = {**SYSTEMS[system], "knock.setting": setting, "run.name": f"{system}-{setting}",
                   "optimizer.lr": 0.01, "train.steps": 12}
        train(folder, **changes)
    return {case: folder / "-".join(case) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_it_learns_and_keeps_its_description(runs, case):
    lines = [json.loads(line) for line in (runs[case] / "metrics.jsonl").read_text().splitlines()]
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert losses[-1] < losses[0] - 0.5
    config = json.loads((runs[case] / "checkpoints/latest/config.json").read_text())
    assert config["model_type"] == "kha" and config["kha"]["attention"] == case[0]


@pytest.mark.parametrize("system, setting", [
    ("mla", "kha-linear"), ("talking", "kha-mlp-qkv"), ("collaborative", "kha-mlp"),
    ("gta_apart", "kha-linear")])
def test_a_killed_run_goes_on_to_the_same_bytes(train, tmp_path, system, setting):
    changes = {**SYSTEMS[system], "knock.setting": setting}
    train(tmp_path, **changes, run__name="whole")
    train(tmp_path, **changes, run__name="cut", check=False, env={"KHA_FAIL_POINT": "step-6"})
    train(tmp_path, **changes, run__name="cut")
    whole, cut = (tmp_path / name / "checkpoints/latest/model.safetensors" for name in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_cache_changes_no_token(kha, runs, case):
    words = ["generate", runs[case], "--prompt", "the heads", "--max-tokens", 20, "--temperature", 0, "--json"]
    cached, plain = (json.loads(kha(*words, *more).stdout)["ids"] for more in ([], ["--no-cache"]))
    assert len(cached) > 0 and cached == plain


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_prompts_of_one_batch_come_out_as_each_alone(kha, runs, case, tmp_path):
    prompts = ["the heads", "a", "knocking heads"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    words = ["--max-tokens", 12, "--temperature", 0, "--json"]
    together = json.loads(kha("generate", runs[case], "--prompts", tmp_path / "prompts.txt", *words).stdout)
    alone = [json.loads(kha("generate", runs[case], "--prompt", prompt, *words).stdout) for prompt in prompts]
    assert [text["ids"] for text in together["texts"]] == [text["ids"] for text in alone]
    assert [text["prompt"] for text in together["texts"]] == prompts


def test_an_interleaved_model_says_so_wherever_it_is_met(kha, train, tmp_path):
    result = train(tmp_path, **SYSTEMS["mla"], model__rotary_layout="interleaved", model__value_head_dim=12,
                   model__attention_bias=True, knock__setting="kha-linear", run__name="turned")
    assert "the width of a value head is 12" in result.stdout + result.stderr
    config = json.loads((tmp_path / "turned/checkpoints/latest/config.json").read_text())
    assert config["kha"]["rotary_layout"] == "interleaved" and config["kha"]["value_head_dim"] == 12
    text = kha("inspect", tmp_path / "turned")
    assert ", interleaved" in text.stdout and "the width of a value head is 12" in text.stderr
    ran = json.loads(kha("generate", tmp_path / "turned", "--prompt", "a", "--max-tokens", 2, "--json").stdout)["ran"]
    assert ran["rotary"].startswith("interleaved")
    folded = kha("fold", tmp_path / "turned", "--to", tmp_path / "folded")
    assert folded.returncode == 0, folded.stderr
    again = kha("fold", tmp_path / "folded", "--to", tmp_path / "twice")
    assert again.returncode == 2 and "attention mla without maps" in again.stderr


@pytest.mark.parametrize("case", [case for case in CASES if "linear" in case[1]], ids="-".join)
def test_linear_maps_fold_away_and_the_fold_is_proved(kha, runs, case, tmp_path):
    result = kha("fold", runs[case], "--to", tmp_path / "folded")
    assert result.returncode == 0, result.stderr
    assert "verified: both models give the same logits" in result.stdout
    config = json.loads((tmp_path / "folded/config.json").read_text())
    assert config["kha"]["attention"] == case[0] and config["kha"]["v"] == "none"
    words = ["--prompt", "the heads", "--max-tokens", 20, "--temperature", 0, "--json"]
    before, after = (json.loads(kha("generate", model, *words).stdout)["ids"]
                     for model in (runs[case], tmp_path / "folded"))
    assert before == after


@pytest.mark.parametrize("system, elements", [
    ("gta", 2 * 16 + 8), ("mla", 12 + 8), ("gla", 2 * 12 + 8), ("gta_value", 2 * 16 + 8),
    ("gta_apart", 2 * 16 + 8), ("talking", 2 * 2 * 16), ("collaborative", 32 + 4 + 4 * 16)])
def test_inspect_says_what_the_cache_holds(kha, runs, system, elements):
    run = next(folder for case, folder in runs.items() if case[0] == system)
    text = kha("inspect", run).stdout
    assert f"attention {system}" in text
    assert f"{2 * elements * 4:,}".replace(",", "") in text.replace(",", "")  # two layers, float32


REFUSED = [
    ("mla", {"knock.setting": "kha-mlp"}, "only a linear map commutes with the sum over latents"),
    ("gta", {"knock.k": "linear"}, "slice of the value's state"),
    ("gta", {"model.rope_head_dim": 16}, "below head_dim 16"),
    ("gta", {"model.kv_latent": 4}, "attention `gta` has no `kv_latent`"),
    ("mla", {"model.latent_heads": 2}, "several latent heads are attention `gla`"),
    ("gla", {"model.latent_heads": 3}, "a divisor of num_attention_heads"),
    ("mla", {"model.num_key_value_heads": 2}, "every head has keys and values of its own"),
    ("mla", {"model.rope_head_dim": 7}, "an even number"),
    ("gta_value", {"knock.v": "mlp"}, "would break the tied cache"),
    ("gta_apart", {"knock.k": "gate"}, "would break the tied cache"),
    ("collaborative", {"knock.setting": "kha-linear"}, "no head has a part of its own"),
    ("collaborative", {"model.num_key_value_heads": 2}, "every head has values of its own"),
    ("collaborative", {"model.shared_key_width": 8}, "whole blocks of head_dim"),
    ("talking", {"model.content_bias": True}, "attention `talking` has no `content_bias`"),
]


@pytest.mark.parametrize("system, change, reason", REFUSED, ids=[r[2] for r in REFUSED])
def test_what_does_not_fit_is_refused_with_its_reason(train, tmp_path, system, change, reason):
    changes = {**SYSTEMS[system], "knock.setting": "baseline", **change}
    result = train(tmp_path, check=False, **changes)
    assert result.returncode == 2 and reason in result.stderr, result.stderr
