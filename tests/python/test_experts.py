"""Mixtures of experts as a user meets them: runs, checkpoints, transformers' own classes."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, Glm4MoeConfig, Glm4MoeForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

E, ACTIVE, WIDTH, LAYERS = 8, 2, 24, 2
EXPERTS = dict(model__experts__count=E, model__experts__active=ACTIVE, model__experts__width=WIDTH,
               train__steps=20, train__eval_every=0, train__save_every=10,
               optimizer__lr=0.02, experts__balance_rate=0.05, knock__setting="baseline")
# head_dim 16 x 4 heads is not the width, 32.
KINDS = {
    "softmax": dict(model__experts__router="softmax"),
    "softmax, as scored, a dense layer in front": dict(
        model__experts__router="softmax", model__experts__normalise=False,
        model__experts__first_dense=1, model__tie_word_embeddings=False),
    "sigmoid": {},
    "sigmoid, a dense layer in front": dict(model__experts__first_dense=1),
    "sigmoid, scaled, as scored": dict(model__experts__normalise=False, model__experts__scaling=1.5),
    "sigmoid, shared": dict(model__experts__shared=2),
}
IDS = torch.tensor([list(b"the heads of a layer share one small map and knock ")]).repeat(1, 4)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")

    def run(kind, **more):
        name = "-".join([str(list(KINDS).index(kind)), *map(str, more.values())])
        if not (folder / name).exists():
            train(folder, run__name=name, **{**EXPERTS, **KINDS[kind], **more})
        return folder / name

    return run


def our_logits(kha, folder):
    result = kha("logits", folder, "--ids", ",".join(map(str, IDS[0].tolist())), "--json")
    assert result.returncode == 0, result.stderr
    return torch.tensor(json.loads(result.stdout)["logits"])


def their_logits(folder, model_class, dtype):
    # The grouped product of its default has no float64.
    model, loading = model_class.from_pretrained(folder, dtype=dtype, output_loading_info=True,
                                                 experts_implementation="eager")
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    with torch.no_grad():
        return model.eval()(IDS).logits[0]


def check_parity(kha, ours_in, theirs_in, model_class):
    ours = our_logits(kha, ours_in)
    theirs = their_logits(theirs_in, model_class, torch.float32)
    exact = their_logits(theirs_in, model_class, torch.float64)
    rounding = (theirs - exact).abs().max().item()
    assert (ours - exact).abs().max().item() <= 2 * rounding + 1e-5
    assert ours.abs().max() > 0.1


def write_for_glm4_moe(source, folder):
    """A sigmoid model without shared experts as Glm4-MoE's class needs it: one that is all zeros."""
    folder.mkdir()
    config, tensors = config_of(source), load_file(source / "model.safetensors")
    config.pop("kha")
    config.update(architectures=["Glm4MoeForCausalLM"], model_type="glm4_moe", n_shared_experts=1,
                  tie_word_embeddings=False)
    for layer in range(config["first_k_dense_replace"], LAYERS):
        prefix = f"model.layers.{layer}.mlp.shared_experts."
        for name, shape in (("gate", (WIDTH, 32)), ("up", (WIDTH, 32)), ("down", (32, WIDTH))):
            tensors[f"{prefix}{name}_proj.weight"] = torch.zeros(shape)
    tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"].clone())
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "softmax" in kind])
def test_a_softmax_checkpoint_is_a_qwen3_moe(kha, trained, kind):
    latest = trained(kind) / "checkpoints" / "latest"
    assert config_of(latest)["model_type"] == "qwen3_moe"
    check_parity(kha, latest, latest, Qwen3MoeForCausalLM)
    assert isinstance(AutoModelForCausalLM.from_pretrained(latest), Qwen3MoeForCausalLM)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "sigmoid" in kind])
def test_a_sigmoid_checkpoint_is_a_glm4_moe(kha, trained, tmp_path, kind):
    latest = trained(kind) / "checkpoints" / "latest"
    plain = latest
    if "shared" not in kind:
        assert config_of(latest)["model_type"] == "kha"
        plain = tmp_path / "plain"
        write_for_glm4_moe(latest, plain)
    assert config_of(plain)["model_type"] == "glm4_moe"
    check_parity(kha, latest, plain, Glm4MoeForCausalLM)
    # What was written for that class is read back as the same model.
    assert (our_logits(kha, plain) - our_logits(kha, latest)).abs().max() < 1e-5


TINY = dict(vocab_size=257, hidden_size=32, intermediate_size=40, num_hidden_layers=LAYERS,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, moe_intermediate_size=WIDTH,
            num_experts_per_tok=3, initializer_range=0.2, bos_token_id=None, eos_token_id=None)


def random_qwen3_moe():
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(num_experts=E, norm_topk_prob=True,
                                              mlp_only_layers=[0], **TINY))


def random_glm4_moe(share=1.0):
    model = Glm4MoeForCausalLM(Glm4MoeConfig(
        n_routed_experts=E, n_shared_experts=2, first_k_dense_replace=1, use_qk_norm=True,
        routed_scaling_factor=1.5, partial_rotary_factor=share,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": share},
        **TINY))
    torch.nn.init.normal_(model.model.layers[1].mlp.gate.weight, std=0.2)
    torch.nn.init.normal_(model.model.layers[1].mlp.gate.e_score_correction_bias, std=0.3)
    return model


def random_glm4_moe_turned_in_part():
    return random_glm4_moe(0.5)


@pytest.mark.parametrize("make", [random_qwen3_moe, random_glm4_moe,
                                  random_glm4_moe_turned_in_part])
def test_a_model_of_transformers_opens_here(kha, tmp_path, make):
    torch.manual_seed(7)
    model = make()
    model.save_pretrained(tmp_path)
    check_parity(kha, tmp_path, tmp_path, type(model))


def test_the_parity_can_fail(kha, trained, tmp_path):
    """Without its biases the model chooses other experts."""
    latest = trained("sigmoid") / "checkpoints" / "latest"
    write_for_glm4_moe(latest, tmp_path / "plain")
    tensors = load_file(tmp_path / "plain" / "model.safetensors")
    biases = [name for name in tensors if name.endswith("e_score_correction_bias")]
    assert len(biases) == LAYERS
    for name in biases:
        assert tensors[name].dtype == torch.float32 and tensors[name].abs().max() > 0.01
        assert abs(tensors[name].sum()) < 1e-4
        tensors[name] = -tensors[name]
    save_file(tensors, tmp_path / "plain" / "model.safetensors", {"format": "pt"})
    assert (our_logits(kha, tmp_path / "plain") - our_logits(kha, latest)).abs().max() > 0.01


def test_maps_fold_out_of_a_mixture(kha, trained, tmp_path):
    run = trained("softmax", knock__setting="kha-linear")
    assert config_of(run / "checkpoints" / "latest")["kha"]["base"] == "qwen3_moe"
    folded = kha("fold", run, "--to", tmp_path / "plain")
    assert folded.returncode == 0, folded.stdout + folded.stderr
    assert "a plain qwen3_moe model" in folded.stdout
    check_parity(kha, tmp_path / "plain", tmp_path / "plain", Qwen3MoeForCausalLM)
    diff = kha("diff", run, tmp_path / "plain")
    assert diff.returncode == 0, diff.stdout + diff.stderr


def test_generation_is_that_of_transformers(kha, trained):
    latest = trained("softmax") / "checkpoints" / "latest"
    model = Qwen3MoeForCausalLM.from_pretrained(latest).eval()
    ids = torch.tensor([list(b"the heads")])
    theirs = model.generate(ids, max_new_tokens=20, do_sample=False)[0, ids.size(1):]
    ours = kha("generate", latest, "--prompt", "the heads", "--max-tokens", 20, "--temperature", 0)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.encode() == bytes(i for i in theirs.tolist() if i < 256)


def test_inspect_says_what_is_active(kha, trained):
    result = kha("inspect", trained("sigmoid, shared"))
    assert result.returncode == 0, result.stderr
    for words in ("glm4_moe", "8 of width 24, 2 a token, 2 shared", "selection bias",
                  "weights normalised times 1"):
        assert words in result.stdout
    counted = json.loads(kha("inspect", trained("sigmoid"), "--json").stdout)["parameters"]
    expert = 3 * 32 * WIDTH
    assert counted["experts"] == LAYERS * E * expert
    assert counted["total"] - counted["active"] == LAYERS * (E - ACTIVE) * expert


def test_a_resumed_run_is_the_run_bit_for_bit(train, trained, tmp_path):
    whole = trained("sigmoid")
    part = tmp_path / "part"
    shutil.copytree(whole, part, symlinks=True)  # `latest` is a link
    train(tmp_path, "--resume", part / "checkpoints" / "step-00000010", run__name="part", **EXPERTS)
    for name in ("model.safetensors", "trainer/optimizer.safetensors"):
        one, other = (run / "checkpoints" / "latest" / name for run in (whole, part))
        assert one.read_bytes() == other.read_bytes(), name
    assert lines(whole / "experts.jsonl") == lines(part / "experts.jsonl")
    before = load_file(whole / "checkpoints" / "step-00000010" / "model.safetensors")
    after = load_file(whole / "checkpoints" / "latest" / "model.safetensors")
    name = "model.layers.1.mlp.gate.e_score_correction_bias"
    assert before[name].abs().max() > 0 and not torch.equal(before[name], after[name])


def test_the_load_is_logged(trained):
    run = trained("sigmoid, a dense layer in front")
    steps = [line for line in lines(run / "metrics.jsonl") if "train/loss" in line]
    for line in steps:
        assert line["moe/load_max"] >= 1 >= line["moe/load_min"] >= 0
        assert 0 <= line["moe/dead"] < 1
        assert line["moe/max_vio"] == pytest.approx(line["moe/load_max"] - 1)  # of its one layer
    logged = lines(run / "experts.jsonl")
    assert [line["step"] for line in logged] == [10, 20]
    for line in logged:
        assert list(line["counts"]) == ["1"]
        assert len(line["counts"]["1"]) == E and sum(line["counts"]["1"]) == 4 * 32 * ACTIVE


def evaluated(run):
    return [line for line in lines(run / "metrics.jsonl") if "val/loss" in line][-1]


def untrained(train, folder, name, **changes):
    """The evaluation of a model as its seed makes it, over the whole validation text."""
    train(folder, run__name=name, **{**EXPERTS, "train__steps": 0, "train__eval_tokens": 0,
                                     "metrics__experts": True, **changes})
    return evaluated(folder / name)


def test_the_global_violation_is_of_the_whole_validation_text(train, tmp_path):
    four, three = (untrained(train, tmp_path, str(rows), train__batch=rows) for rows in (4, 3))
    by_layer = four["moe/max_vio_global_by_layer"]
    assert four["moe/max_vio_global"] == pytest.approx(sum(by_layer.values()) / len(by_layer))
    assert four["moe/max_vio_global"] > 0
    assert by_layer == three["moe/max_vio_global_by_layer"], "however the text is cut into batches"
    everyone = untrained(train, tmp_path, "everyone", model__experts__active=E)
    assert everyone["moe/max_vio_global"] == 0


def test_more_is_logged_when_asked_and_changes_no_bit(train, tmp_path):
    for name, asked in (("few", False), ("all", True)):
        train(tmp_path, run__name=name, **{**EXPERTS, "knock__setting": "kha-mlp", "metrics__experts": asked,
                                           "metrics__attention": asked, "metrics__maps": asked})
    few, every = (evaluated(tmp_path / name) for name in ("few", "all"))
    router = {f"router/{key}" for key in ("logit_size", "score_entropy", "weight_sum", "weight_sum_low",
                                          "bias_least", "bias_mean", "bias_most")}
    more = {*router, "moe/max_vio_global_by_layer", "attention/largest_logit", "attention/entropy", "heads/size",
            "kha/diagonal_mean", "kha/off_diagonal_share"}
    assert set(every) - set(few) == more and "moe/max_vio_global" in few
    layers = list(every["moe/max_vio_global_by_layer"])
    assert all(list(every[key]) == layers for key in router)
    for layer in layers:
        assert every["router/bias_least"][layer] < every["router/bias_mean"][layer] < every["router/bias_most"][layer]
        assert 0 < every["router/score_entropy"][layer] <= 1
        assert 0 < every["router/weight_sum_low"][layer] <= every["router/weight_sum"][layer] <= ACTIVE
    steps = [line for line in lines(tmp_path / "all" / "metrics.jsonl") if "train/loss" in line]
    assert all(0 < line["moe/load_entropy"] <= 1 and 0 <= line["clipped"] <= 1 for line in steps)
    one, other = (tmp_path / name / "checkpoints/latest/model.safetensors" for name in ("few", "all"))
    assert one.read_bytes() == other.read_bytes()


def test_clipped_is_the_share_of_steps_since_the_last_line(train, tmp_path):
    for name, clip in (("never", 1e6), ("always", 1e-6), ("off", 0)):
        train(tmp_path, run__name=name, optimizer__clip=clip, train__log_every=4)
        logged = {line["clipped"] for line in lines(tmp_path / name / "metrics.jsonl") if "clipped" in line}
        assert logged == {1.0 if name == "always" else 0.0}


def test_biases_hold_still_behind_their_share_of_the_steps(train, tmp_path):
    name = "model.layers.1.mlp.gate.e_score_correction_bias"
    held = {**EXPERTS, "train__steps": 8, "train__save_every": 2, "train__keep_last": 9, "experts__balance_until": 0.5}
    train(tmp_path, run__name="held", **held)
    bias = [load_file(tmp_path / f"held/checkpoints/step-{step:08}/model.safetensors")[name] for step in (2, 4, 6, 8)]
    assert not torch.equal(bias[0], bias[1])
    assert torch.equal(bias[1], bias[2]) and torch.equal(bias[2], bias[3])


def test_a_start_scaled_by_depth(train, tmp_path):
    for name, scaled in (("plain", False), ("scaled", True)):
        train(tmp_path, run__name=name, **{**EXPERTS, "train__steps": 0, "init__depth_scaled": scaled})
    plain, small = (load_file(tmp_path / name / "checkpoints/latest/model.safetensors") for name in ("plain", "scaled"))
    layers = 1 + max(int(name.split(".")[2]) for name in plain if name.startswith("model.layers."))
    for name, weight in plain.items():
        into_stream = name.endswith(("o_proj.weight", "down_proj.weight"))
        expected = weight * (2 * layers) ** -0.5 if into_stream else weight
        torch.testing.assert_close(small[name], expected, rtol=1e-6, atol=0, msg=name)


def test_a_dense_run_says_nothing_of_experts(tiny_run):
    assert not (tiny_run / "experts.jsonl").exists()
    assert "moe/" not in (tiny_run / "metrics.jsonl").read_text()


def test_balancing_evens_the_load(train, tmp_path):
    """The same run with and without; the routers start where three experts take nearly all."""
    violation = {}
    for rule in ("none", "rms", "sign", "proportional"):
        train(tmp_path, run__name=rule, **{**EXPERTS, "train__steps": 60, "experts__balance": rule,
                                           "experts__balance_rate": 0.02,
                                           "model__initializer_range": 0.1})
        steps = [line for line in lines(tmp_path / rule / "metrics.jsonl") if "train/loss" in line]
        violation[rule] = sum(line["moe/max_vio"] for line in steps[-20:]) / 20
    assert max(violation["rms"], violation["sign"], violation["proportional"]) < violation["none"]


@pytest.mark.parametrize("changes", [
    {"train__precision": "bf16"}, {"train__accumulate": 2, "experts__balance_loss": 0.01},
    {"train__z_loss": 1e-4, "experts__router_z_loss": 1e-3},
    {"model__experts__first_dense": 2}, {"model__experts__active": E}], ids=str)
def test_it_learns(train, tmp_path, changes):
    train(tmp_path, run__name="a", **{**EXPERTS, "train__steps": 40, "optimizer__lr": 0.01,
                                      **changes})
    losses = [line["train/loss"] for line in lines(tmp_path / "a" / "metrics.jsonl")
              if "train/loss" in line]
    assert losses[0] > 5.0 and losses[-1] < 3.5


def test_layers_that_run_again_change_no_bit(train, trained, tmp_path):
    train(tmp_path, run__name="again", **{**EXPERTS, "train__recompute": "layer"})
    latest = [run / "checkpoints/latest/model.safetensors"
              for run in (trained("sigmoid"), tmp_path / "again")]
    assert latest[0].read_bytes() == latest[1].read_bytes()


def test_a_run_starts_from_a_mixture(train, trained, tmp_path):
    start = trained("softmax") / "checkpoints" / "latest"
    result = train(tmp_path, run__name="a", init__from=start, train__steps=2,
                   knock__setting="kha-mlp")
    assert "maps added" in result.stdout
    assert config_of(tmp_path / "a/checkpoints/latest")["num_experts"] == E


@pytest.mark.parametrize("change, words", [
    (lambda config: config.update(num_experts=4), "the file has 8 experts"),
    (lambda config: config.update(num_experts=9), "the file has 8 experts in a layer"),
    (lambda config: config.update(moe_intermediate_size=25), "experts of width 24"),
    (lambda config: config.update(mlp_only_layers=[0]), "other dense layers"),
    (lambda config: config.update(decoder_sparse_step=2), "other dense layers"),
], ids=["fewer", "more", "width", "dense", "step"])
def test_another_config_than_the_weights_is_refused(kha, trained, tmp_path, change, words):
    shutil.copytree(trained("softmax") / "checkpoints" / "latest", tmp_path / "m", symlinks=False)
    (tmp_path / "m" / "MANIFEST.json").unlink()
    config = config_of(tmp_path / "m")
    change(config)
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    result = kha("logits", tmp_path / "m", "--ids", "1,2")
    assert result.returncode == 2 and words in result.stderr, result.stderr


@pytest.mark.parametrize("dense", [3, 4], ids=["one layer of experts", "none at all"])
def test_dense_layers_train_and_log_beside_experts(kha, train, tmp_path, dense):
    """Stopped and gone on with, a balance loss included: an empty list of counts stops nobody."""
    options = EXPERTS | {"model__num_hidden_layers": 4, "model__experts__first_dense": dense,
                         "experts__balance_loss": 0.01, "metrics__experts": True,
                         "train__eval_every": 5, "train__steps": 10, "train__save_every": 5}
    stopped = train(tmp_path, run__name="a", check=False, env={"KHA_FAIL_POINT": "step-7"}, **options)
    assert stopped.returncode == 86, stopped.stderr
    assert "(5 of 10 steps)" in train(tmp_path, run__name="a", **options).stdout
    assert config_of(tmp_path / "a/checkpoints/latest")["first_k_dense_replace"] == dense
    steps = [line for line in lines(tmp_path / "a/metrics.jsonl") if "train/loss" in line]
    assert [line["step"] for line in steps] == list(range(1, 11))
    assert all(("moe/load_max" in line) == (dense < 4) for line in steps)
    tensors = load_file(tmp_path / "a/checkpoints/latest/model.safetensors")
    assert {name.split(".")[2] for name in tensors if ".experts." in name} == set("3"[: 4 - dense])
    assert kha("inspect", tmp_path / "a").returncode == 0
