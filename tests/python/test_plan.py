"""`kha plan`: the paper's numbers, memory against the allocator's own count, names and recipes."""

import json
import re

import pytest
from conftest import bytes_of, settings, toml_value

# total, active, both without embedding, parameters of KHA-MLP, KV bytes a token in bf16, and at
# 4,096 tokens: GFLOP forward, in training, and in training with KHA-Linear and KHA-MLP.
PAPER = {
    "moe-2.3b": (2347826304, 436796544, 2166750336, 255720576, 589824, 24576,
                 "1.2763", "3.8288", "3.8760", "3.8430"),
    "moe-6.6b": (6613364736, 880275456, 6371930112, 638840832, 884736, 36864,
                 "2.3646", "7.0937", "7.1644", "7.1149"),
    "moe-14.6b": (14650674944, 1627361024, 14328762112, 1305448192, 1130496, 47104,
                  "4.0265", "12.0794", "12.1698", "12.1065"),
    "moe-6.1b": (6102268416, 1006189056, 5780355584, 684276224, 884736, 36864,
                 "2.6163", "7.8490", "7.9198", "7.8703"),
    "dense-0.61b": (613997568, 613997568, 453041152, 453041152, 1179648, 49152,
                    "2.0334", "6.1002", "6.1945", "6.1285"),
    "dense-1.68b": (1680973824, 1680973824, 1359060992, 1359060992, 1179648, 49152,
                    "4.1672", "12.5017", "12.5961", "12.5300"),
    "dense-3.94b": (3941531136, 3941531136, 3539140096, 3539140096, 1769472, 73728,
                    "9.0909", "27.2728", "27.4143", "27.3152"),
}  # fmt: skip


def freezes(*groups):
    return {f"optimizer.groups.{group}.freeze": True for group in groups}


def only_trains(*groups):
    everything = ("embedding", "head", "matrices", "norms", "biases", "knock", "experts")
    return freezes(*(group for group in everything if group not in groups))


def settings_of(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={toml_value(value)}")]


def plan(kha, *arguments):
    result = kha("plan", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def giga(flops):
    return f"{flops / 1e9:.4f}"


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_models(kha, name):
    total, active, body, active_body, maps, cache, forward, training, linear, mlp = PAPER[name]
    at = ["--set", "train.context=4096", "--set"]
    plain = plan(kha, name, *at, "knock.setting=baseline")
    counts = plain["parameters"]
    assert [counts[key] for key in ("total", "active", "total_without_embedding",
                                    "active_without_embedding", "maps")] == [total, active, body, active_body, 0]
    assert plain["kv_cache_bytes_per_token"]["bf16"] == cache
    flops = plain["flops_per_token"]
    assert (giga(flops["forward"]), giga(flops["training"])) == (forward, training)
    for setting, expected in (("kha-linear", linear), ("kha-mlp", mlp)):
        with_maps = plan(kha, name, *at, f"knock.setting={setting}")
        assert giga(with_maps["flops_per_token"]["training"]) == expected
        assert with_maps["parameters"]["maps"] == maps
    assert plan(kha, name, *at, "knock.setting=kha-linear-v")["parameters"]["maps"] == maps // 3


def test_the_main_run_of_the_paper(kha):
    main = plan(kha, "moe-6.1b", "--recipe", "main", "--set", "knock.setting=baseline", "--tokens", "1e12",
                "--devices", "64", "--speed", "4e14")
    assert f"{main['training_flops']:.2e}" == "9.66e+21"
    assert main["context"] == 8192
    assert main["days"] == pytest.approx(9.66e21 / (64 * 4e14) / 86400, rel=1e-3)
    assert main["state_bytes"]["a_device"] / 2**30 == pytest.approx(1.42, abs=0.005)
    text = kha("plan", "moe-6.1b", "--recipe", "main", "--devices", "64").stdout
    assert "6,103,153,152 (5,781,240,320 without embedding)" in text  # with KHA-MLP
    assert "238419 steps of 4194304" in text and "not known: --speed FLOPS" in text


def test_a_configuration_of_ones_own(kha, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("[model]\nhidden_size = 64\n[train]\nsteps = 10\ncontext = 128\nbatch = 4\n")
    own = plan(kha, config)
    assert own["vocabulary"] == 257 and own["tokens"] == 10 * 4 * 128 and own["days"] is None
    assert plan(kha, config, "--vocabulary", 1000)["parameters"]["total"] - own["parameters"]["total"] == 64 * 743


def test_attention_without_a_fused_kernel_keeps_its_scores(kha):
    def kept(attention):
        return plan(kha, "dense-0.61b", "--set", f"model.attention={attention}")["step_memory"]["kept"]

    layers, heads, tokens, context = 24, 32, 8 * 256, 256
    # The fused kernel keeps a number a head instead.
    assert kept("talking") - kept("gqa") == 4 * layers * heads * tokens * (3 * context - 1)


def test_a_run_that_starts_from_a_model_is_not_planned_on_other_sizes(kha):
    result = kha("plan", "--set", "init.from=runs/other")
    assert result.returncode == 2 and "starts from another model" in result.stderr
    assert "kha inspect runs/other" in result.stderr


def test_names_are_listed_and_mistyped_ones_answered(kha):
    listed = kha("plan", "--list").stdout
    for name in (*PAPER, "moe-6.6b-mqa", "moe-2.3b-small", "exploratory", "main"):
        assert name in listed
    assert "did you mean `main`" in kha("plan", "moe-6.6b", "--recipe", "mian").stderr
    wrong = kha("plan", "moe-6.6b-smal")
    assert wrong.returncode == 2 and "did you mean `moe-6.6b-small`" in wrong.stderr
    wrong = kha("plan", "configs/none.toml")
    assert wrong.returncode == 2 and "cannot read the run's configuration" in wrong.stderr


def test_a_model_and_a_folder_of_one_name_are_not_confused(kha, tmp_path):
    (tmp_path / "moe-2.3b-small").mkdir()
    (tmp_path / "moe-2.3b-small" / "config.toml").write_text("[model]\nhidden_size = 32\n")
    result = kha("plan", "moe-2.3b-small", cwd=tmp_path)
    assert result.returncode == 2 and "is a named model and a folder here" in result.stderr
    assert "./moe-2.3b-small" in result.stderr and "model.preset=moe-2.3b-small" in result.stderr
    assert "width 32" in kha("plan", "./moe-2.3b-small", cwd=tmp_path).stdout
    assert "width 144" in kha("plan", "--set", "model.preset=moe-2.3b-small", cwd=tmp_path).stdout


def test_a_name_in_a_file_is_the_same_model(kha, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('[model]\npreset = "moe-6.6b"\n')
    assert plan(kha, config)["parameters"] == plan(kha, "moe-6.6b")["parameters"]
    assert "model.preset moe-6.6b: paper, table 5" in kha("plan", config).stdout


def test_a_scaled_recipe_says_what_it_chose(kha):
    said = kha("plan", "moe-2.3b-small", "--set", "train.scale_from=exploratory", "--set", "train.tokens=1e8").stdout
    assert re.search(r"train.scale_from exploratory: .* the rule gives [\d.e+]+ tokens a step at lr [\d.e-]+", said)
    assert re.search(r"budget +1e\+08 tokens", said)


@pytest.mark.parametrize(("precision", "said"), [
    ("fp32", "(float32, one process"),
    ("bf16", "(as float32: bf16 is not predicted for this model, one process"),
    ("auto", "(float32: bf16, which `auto` takes where it is fast, is not predicted for this model, one process"),
])  # fmt: skip
def test_the_peak_says_that_it_is_of_float32(kha, precision, said):
    words = ["dense-0.61b-small", "--set", "model.attention=talking", "--set", f"train.precision={precision}"]
    assert said in kha("plan", *words).stdout
    memory = plan(kha, *words)["step_memory"]
    assert (memory["precision"], memory["copies"], memory["peak_in_bf16"]) == ("float32", 0, None)


def test_the_peak_is_of_bf16_where_the_run_is(kha):
    def memory(precision, *words):
        return plan(kha, "dense-0.61b-small", *words, "--set", f"train.precision={precision}")["step_memory"]

    wide, narrow, chosen = memory("fp32"), memory("bf16"), memory("auto")
    assert narrow["precision"] == "bfloat16" and narrow["copies"] == wide["weights"] / 2
    assert narrow["peak"] == narrow["peak_in_bf16"] == wide["peak_in_bf16"] == chosen["peak_in_bf16"] < wide["peak"]
    assert chosen["precision"] == "float32" and chosen["peak"] == wide["peak"]
    said = {precision: kha("plan", "dense-0.61b-small", "--set", f"train.precision={precision}").stdout
            for precision in ("bf16", "auto")}  # fmt: skip
    assert "(bf16, with copies of the weights of " in said["bf16"]
    peak = f"{narrow['peak'] / 2**20:.1f} MiB"
    assert f"peak {peak} in tensors" in said["bf16"]
    assert f"(float32: bf16, which `auto` takes where it is fast, takes {peak}, one process" in said["auto"]
    # Norms that torch composes otherwise.
    assert memory("bf16", "--set", "model.rotary_layout=interleaved")["precision"] == "float32"


def test_frozen_parameters_have_no_gradient_and_no_moments(kha):
    words = ["dense-0.61b-small", "--set", "knock.setting=kha-mlp"]
    whole, frozen = plan(kha, *words), plan(kha, *words, *settings_of(only_trains("knock")))
    maps = whole["parameters"]["maps"]
    assert frozen["step_memory"]["weights"] == whole["step_memory"]["weights"] == 4 * whole["parameters"]["total"]
    assert (frozen["step_memory"]["moments"], frozen["step_memory"]["gradients"]) == (8 * maps, 4 * maps)


# Peak memory: what the plan says against what the engine's allocator counted.

ODD = {"model.hidden_size": 160, "model.intermediate_size": 448, "model.num_hidden_layers": 3,
       "model.num_attention_heads": 6, "model.num_key_value_heads": 3, "model.head_dim": 24,
       "train.context": 192, "train.batch": 6}  # fmt: skip
LATENTS = {"model.attention": "mla", "model.num_key_value_heads": 6, "model.latent_heads": 1, "model.kv_latent": 40,
           "model.rope_head_dim": 8}  # fmt: skip
MIXTURE = {"model.experts.count": 12, "model.experts.active": 3, "model.experts.width": 104}
BF16 = {**ODD, "model.num_hidden_layers": 2, "train.precision": "bf16"}
SHAPES = {
    "many tokens": {"model.hidden_size": 256, "model.intermediate_size": 768, "train.batch": 8},
    "micro-batches": {"model.hidden_size": 256, "model.intermediate_size": 768, "train.batch": 8,
                      "train.accumulate": 2},
    "many parameters": {"model.hidden_size": 512, "model.intermediate_size": 1536, "train.batch": 1,
                        "knock.setting": "kha-linear"},
    "a large vocabulary": {"model.hidden_size": 128, "model.intermediate_size": 512, "train.batch": 4,
                           "model.num_hidden_layers": 6, "data.vocab_multiple": 4096},
    "recomputed": {"model.hidden_size": 256, "model.intermediate_size": 768, "train.batch": 8,
                   "model.num_hidden_layers": 8, "train.recompute": "layer"},
    # Sizes that no formula was derived on.
    "maps on activations": {**ODD, "knock.setting": "kha-linear", "knock.plan": "activation"},
    "latents": {**ODD, **LATENTS, "model.query_latent": 80, "knock.setting": "kha-linear"},
    "several latents": {**ODD, **LATENTS, "model.attention": "gla", "model.latent_heads": 3, "model.kv_latent": 16,
                        "train.recompute": "layer", "knock.setting": "kha-linear-v"},
    "tied": {**ODD, "model.attention": "gta", "model.rope_head_dim": 8},
    "talking": {**ODD, "model.attention": "talking", "train.accumulate": 3},
    "collaborative": {**ODD, "model.attention": "collaborative", "model.num_key_value_heads": 6,
                      "model.shared_key_width": 48},
    "experts": {**ODD, **MIXTURE, "train.accumulate": 2},
    "shared experts": {**ODD, **MIXTURE, "model.experts.router": "softmax", "model.experts.shared": 1,
                       "model.experts.first_dense": 1, "knock.setting": "baseline"},
    "experts recomputed": {**ODD, **MIXTURE, "train.recompute": "layer"},
    "a large tied vocabulary": {**ODD, "data.vocab_multiple": 32768, "train.context": 64, "train.batch": 1},
    "a large untied vocabulary": {**ODD, "data.vocab_multiple": 16384, "train.context": 64, "train.batch": 1,
                                  "model.tie_word_embeddings": False},
    "a large vocabulary, micro-batches": {**ODD, "data.vocab_multiple": 16384, "train.context": 64, "train.batch": 1,
                                          "train.accumulate": 2},
    "long texts": {**ODD, "train.context": 512, "train.batch": 2, "knock.setting": "kha-mlp-qkv"},
    "short texts": {**ODD, "train.context": 96, "train.batch": 5, "knock.setting": "kha-gate-v",
                    "model.tie_word_embeddings": False},
    "no query latent": {**ODD, **LATENTS, "knock.setting": "baseline"},
    "documents": {**ODD, "data.document_mask": True, "model.head_dim": 48},
    "narrow values": {**ODD, **LATENTS, "model.value_head_dim": 16, "train.accumulate": 4, "train.recompute": "layer",
                      "knock.setting": "kha-linear"},
    "two latents": {**ODD, **LATENTS, "model.attention": "gla", "model.latent_heads": 2, "knock.setting": "kha-linear"},
    "experts on a latent": {**ODD, **LATENTS, **MIXTURE, "experts.balance_loss": 0.01, "train.accumulate": 2,
                            "knock.setting": "kha-linear"},
    # Frozen groups: no gradient, no moments, and products that keep no input.
    "maps alone": {"model.hidden_size": 256, "model.intermediate_size": 768, "train.batch": 8, **only_trains("knock")},
    "maps alone, micro-batches": {**ODD, "train.accumulate": 2, "knock.setting": "kha-mlp-qkv", **only_trains("knock")},
    "maps alone, recomputed": {**ODD, "train.recompute": "layer", "knock.setting": "kha-linear",
                               **only_trains("knock")},
    "maps of the upper layers alone": {**ODD, "model.num_hidden_layers": 5, "knock.layers.0.v": "none",
                                       "knock.layers.1.v": "none", "knock.layers.2.v": "none", **only_trains("knock")},
    "maps alone in many weights": {**ODD, "model.hidden_size": 640, "model.num_attention_heads": 24,
                                   "model.num_key_value_heads": 24, "train.batch": 1, "train.context": 64,
                                   "knock.setting": "kha-linear", "knock.plan": "weight", **only_trains("knock")},
    "maps alone, documents": {**ODD, "data.document_mask": True, "model.head_dim": 48, **only_trains("knock")},
    "maps alone on latents": {**ODD, **LATENTS, "model.query_latent": 80, "knock.setting": "kha-linear",
                              **only_trains("knock")},
    "maps alone, tied, in front of the output": {**ODD, "model.attention": "gta_value", "model.rope_head_dim": 8,
                                                 "knock.setting": "kha-linear-v", **only_trains("knock")},
    "maps alone, talking": {**ODD, "model.attention": "talking", **only_trains("knock")},
    "maps alone, collaborative": {**ODD, "model.attention": "collaborative", "model.num_key_value_heads": 6,
                                  "model.shared_key_width": 48, **only_trains("knock")},
    "maps alone, experts": {**ODD, **MIXTURE, "model.experts.router": "softmax", "model.experts.shared": 1,
                            **only_trains("knock")},
    "experts frozen": {**ODD, **MIXTURE, **freezes("experts")},
    "matrices frozen": {**ODD, "knock.setting": "kha-linear", **freezes("matrices")},
    "a large vocabulary frozen": {**ODD, "data.vocab_multiple": 32768, "train.context": 64, "train.batch": 1,
                                  **freezes("embedding")},
    "the head alone": {**ODD, "model.tie_word_embeddings": False, **only_trains("head")},
    # In bf16, which is slow where the processor has none of it.
    "bf16": BF16,
    "bf16, wide queries": {**BF16, "model.num_attention_heads": 12, "model.head_dim": 48, "model.hidden_size": 96,
                           "model.intermediate_size": 128},
    "bf16, many heads mapped": {**BF16, "model.num_key_value_heads": 6, "knock.setting": "kha-mlp-qkv",
                                "model.intermediate_size": 128},
    "bf16, recomputed": {**BF16, "train.recompute": "layer", "train.batch": 2, "train.accumulate": 2,
                         "model.num_hidden_layers": 4},
    "bf16, documents": {**BF16, "data.document_mask": True},
    "bf16, a large untied vocabulary": {**BF16, "data.vocab_multiple": 4096, "train.context": 64, "train.batch": 1,
                                        "model.tie_word_embeddings": False},
    "bf16, a large vocabulary, micro-batches": {**BF16, "data.vocab_multiple": 4096, "train.context": 64,
                                                "train.batch": 1, "train.accumulate": 2},
    "bf16, experts": {**BF16, **MIXTURE},
    "bf16, wide experts": {**BF16, **MIXTURE, "model.experts.width": 300},
    "bf16, shared experts": {**BF16, **MIXTURE, "model.experts.router": "softmax", "model.experts.shared": 2,
                             "model.experts.first_dense": 1},
    "bf16, experts frozen": {**BF16, **MIXTURE, **freezes("experts")},
    "bf16, at the loss": {**BF16, "data.vocab_multiple": 2048, "model.hidden_size": 64, "model.intermediate_size": 64,
                          "train.batch": 4},
    "bf16, maps alone": {**BF16, "knock.setting": "kha-mlp-qkv", **only_trains("knock")},
    "bf16, the head alone": {**BF16, "model.intermediate_size": 1024, "model.tie_word_embeddings": False,
                             **only_trains("head")},
}  # fmt: skip
COMMON = {"model.num_hidden_layers": 4, "model.num_attention_heads": 8, "model.num_key_value_heads": 2,
          "model.head_dim": 32, "train.context": 256, "train.steps": 4, "train.eval_every": 0,
          "train.save_every": 0, "data.validation_share": 0.05}  # fmt: skip


@pytest.fixture(scope="module")
def longer_text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longer")
    for number in range(60):
        (folder / f"{number:02}.txt").write_text("knocking on the heads of a layer. " * 60)
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_the_predicted_peak_is_the_allocators_within_5_percent(kha, longer_text, tmp_path, shape):
    words = settings(**{**COMMON, **SHAPES[shape]})
    run = kha("train", *words, "--set", f'data.paths=["{longer_text}"]', "--set", f'run.folder="{tmp_path}"', "--profile-steps", 1)
    assert run.returncode == 0, run.stderr
    counted = re.search(r"allocator: (.+?) in use, (.+?) at most", run.stdout)
    resident = re.search(r"([\d.]+ [kMG]B)  0 s left", run.stdout)
    predicted = plan(kha, *words)["step_memory"]["peak"]
    print(f"{shape}: predicted {predicted / 1e6:.1f} MB, counted {counted[2]}, resident {resident[1]}")
    assert predicted == pytest.approx(bytes_of(counted[2]), rel=0.05)
