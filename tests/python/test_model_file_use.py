"""The model file in use: generation, padding, training, saving, attention backends, evaluation."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hf_models import IDS
from model_file_models import (AUTO_MAP, PARTS, SIGMOID, description, engine, logits, randomise,
                               their_model, write_byte_tokenizer, write_folder)
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode
from transformers import (AutoConfig, AutoModel, AutoModelForCausalLM, DynamicCache,
                          GenerationConfig)

GREEDY = GenerationConfig(max_new_tokens=12, do_sample=False, pad_token_id=0)
# Small: three layers with maps of several kinds.
SMALL = {"gqa": ("mlp", "linear", "gate"), "talking": ("gate", "mlp", "linear"),
         "gta": ("mlp", "none", "gate"), "gta_value": ("linear", "none", "linear"),
         "gta_apart": ("linear",) * 3, "mla": ("linear",) * 3, "gla": ("linear",) * 3,
         "collaborative": ("none", "none", "mlp")}


def small(system, **changes):
    config = description(system) | {"num_hidden_layers": 3} | changes
    kha = {key: value for key, value in config["kha"].items() if key != "layers"}
    return config | {"kha": kha | dict(zip("qkv", SMALL[system]))}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")

    def make(system, experts=False):
        folder = root / f"{system}{experts}"
        if folder.exists():
            return folder
        config = small(system)
        if experts:
            config |= SIGMOID
            config["kha"]["base"] = "glm4_moe"
        return write_folder(folder, config)

    return make


@pytest.fixture
def model_of(folder_of):
    return lambda system, experts=False, **how: their_model(folder_of(system, experts), **how)


@pytest.mark.parametrize("system", PARTS)
def test_generation_with_the_cache_is_generation_without_and_the_engines(
        kha, folder_of, tmp_path, system):
    folder = folder_of(system)
    model, prompt = their_model(folder), torch.tensor([IDS[:17]])
    model.generation_config = GREEDY  # an end mark is a token like others here
    cached = model.generate(prompt, generation_config=GREEDY)
    assert torch.equal(cached, model.generate(prompt, generation_config=GREEDY, use_cache=False))
    static = GenerationConfig(max_new_tokens=12, do_sample=False, pad_token_id=0,
                              cache_implementation="static")
    assert torch.equal(cached, model.generate(prompt, generation_config=static))
    ours = engine(kha, folder, tmp_path, IDS[:17], continued=12)["continuation"]
    assert cached[0, 17:].tolist() == ours.tolist()


@pytest.mark.parametrize("system", PARTS)
def test_stretches_through_the_cache_are_one_pass(model_of, system):
    model, ids = model_of(system), torch.tensor([IDS[:23]])
    whole, cache, parts = logits(model, IDS[:23]), None, []
    with torch.no_grad():
        for begin, end in ((0, 9), (9, 15), (15, 16), (16, 23)):
            made = model(ids[:, begin:end], past_key_values=cache, use_cache=True)
            parts.append(made.logits[0])
            cache = made.past_key_values
    assert (torch.cat(parts) - whole).abs().max() < 1e-10
    width = sum(each.shape[1] * each.shape[3] for each in (cache.layers[0].keys,
                                                          cache.layers[0].values))
    elements = {"gqa": 32, "talking": 32, "gta": 16 + 4, "gta_value": 16 + 6, "gta_apart": 16 + 2,
                "mla": 20 + 6, "gla": 3 * 14 + 4, "collaborative": 20 + 6 + 48}
    assert width == elements[system]  # what the paper of each caches, and no more


def products_of_a_step(model, positions):
    """Multiplications that a step behind so many positions costs."""
    with torch.no_grad():
        cache = model(torch.tensor([IDS[:positions]]), use_cache=True).past_key_values
        with FlopCounterMode(display=False) as counted:
            made = model(torch.tensor([[7]]), past_key_values=cache).logits[0]
    assert (made - logits(model, [*IDS[:positions], 7])[-1]).abs().max() < 1e-10
    return counted.get_total_flops() // 2


@pytest.mark.parametrize("how", ["eager", "sdpa"])
@pytest.mark.parametrize("system", ["mla", "gla"])
def test_a_step_forms_no_keys_and_values_of_latents(model_of, system, how):
    """A further position costs every head one product with its latent and rotated key, and one sum
    over latents: no product with kv_b."""
    model = model_of(system, attn_implementation=how)
    kha = model.config.kha
    more = products_of_a_step(model, 60) - products_of_a_step(model, 40)
    assert more == 20 * 3 * 6 * (2 * kha["kv_latent"] + kha["rope_head_dim"])


def test_a_step_forms_them_where_the_matrix_is_not_a_plain_one(model_of):
    """An adapter around kv_b, as libraries of adapters put there, counts in a step as in a pass."""
    class Adapted(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 1.25 + 0.5

    model = model_of("mla")
    before = logits(model, IDS[:21])
    for layer in model.model.layers:
        layer.self_attn.kv_b_proj.__class__ = Adapted
    products_of_a_step(model, 20)
    assert (logits(model, IDS[:21]) - before).abs().max() > 1e-2


def test_a_step_forms_them_where_a_hook_watches_the_matrix(model_of):
    """A hook on kv_b sees every position of a step as it sees those of a pass."""
    model = model_of("mla")
    before = logits(model, IDS[:21])
    for layer in model.model.layers:
        layer.self_attn.kv_b_proj.register_forward_hook(lambda module, inputs, out: out * 1.25)
    products_of_a_step(model, 20)
    assert (logits(model, IDS[:21]) - before).abs().max() > 1e-2


def test_scores_beyond_a_narrow_type_are_as_finite_in_a_step_as_in_a_pass(folder_of):
    """The scores of a step are made before their scale, which here brings them back."""
    ids, model = torch.tensor([IDS[:65]]), their_model(folder_of("mla"), torch.float16)
    for layer in model.model.layers:
        layer.self_attn.q_b_proj.weight.data.mul_(4096)
        layer.self_attn.scaling /= 4096
    with torch.no_grad():
        whole = model(ids).logits[0, -1]
        cache = model(ids[:, :-1], use_cache=True).past_key_values
        step = model(ids[:, -1:], past_key_values=cache).logits[0, -1]
    assert whole.isfinite().all() and step.isfinite().all()
    assert (whole - step).abs().max() < 0.1


def test_kernels_of_flex_attention_are_found_by_their_threads(model_of):
    from torch._inductor import config as settings

    attention = type(model_of("gqa").model.layers[0].self_attn)
    guard = sys.modules[attention.__module__].kernels_of_these_threads
    cpu, flex = torch.device("cpu"), SimpleNamespace(_attn_implementation="flex_attention")
    with guard(flex, cpu):
        assert settings.cpp.threads == torch.get_num_threads()
    with settings.patch({"cpp.threads": 7}), guard(flex, cpu):
        assert settings.cpp.threads == 7
    for config, device in ((SimpleNamespace(_attn_implementation="sdpa"), cpu),
                           (flex, torch.device("cuda"))):
        with guard(config, device):
            assert settings.cpp.threads < 1


def padded(rows):
    """Left-padded ids and their mask."""
    length = max(map(len, rows))
    ids = torch.tensor([[0] * (length - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


@pytest.mark.parametrize("how", ["eager", "sdpa"])
@pytest.mark.parametrize("system", PARTS)
def test_left_padded_rows_are_single_prompts(model_of, system, how):
    rows = [IDS[:5], IDS[3:17], IDS[40:49]]
    model = model_of(system, attn_implementation=how)
    ids, mask = padded(rows)
    with torch.no_grad():
        made = model(ids, attention_mask=mask).logits
        nothing = model(ids, attention_mask=mask * torch.tensor([[1], [0], [1]])).logits
    assert made.isfinite().all() and nothing.isfinite().all()  # also of a row of padding alone
    for row, own in zip(rows, made):
        assert (own[-len(row) :] - logits(model, row)).abs().max() < 1e-10
    model.generation_config = GREEDY
    batch = model.generate(ids, attention_mask=mask, generation_config=GREEDY)
    for row, own in zip(rows, batch):
        single = model.generate(torch.tensor([row]), generation_config=GREEDY)[0]
        assert own[-12:].tolist() == single[-12:].tolist()


@pytest.mark.parametrize("system", PARTS)
def test_attention_backends_agree(model_of, system):
    ids, mask = padded([IDS[:21], IDS[:32]])
    seen = mask.bool()
    with torch.no_grad():
        eager, sdpa = (model_of(system, attn_implementation=how)(ids, attention_mask=mask).logits
                       for how in ("eager", "sdpa"))
    assert (eager - sdpa)[seen].abs().max() < 1e-10


FLEX = """
import sys
import torch
from hf_models import IDS
from model_file_models import randomise
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(int(sys.argv[2]))
ids, made = torch.tensor([IDS[:160]]), []
for how in ("eager", "flex_attention"):
    config = AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True)
    config.head_dim = 16
    model = AutoModelForCausalLM.from_config(config, trust_remote_code=True,
                                             attn_implementation=how)
    with torch.no_grad():
        made.append(randomise(model).eval()(ids).logits)
print("difference", float((made[0] - made[1]).abs().max()))
"""


@pytest.mark.skipif("KHA_SLOW_TESTS" not in os.environ, reason="compiles for minutes")
def test_flex_attention_agrees(folder_of, tmp_path):
    """In float32 and with heads of 16 channels: it knows neither float64 nor narrower heads. Of
    torch 2.11 a kernel that was compiled for one thread writes beyond its buffers in a process of
    two, which finds it in the cache of kernels."""
    for threads in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", FLEX, folder_of("gqa"), str(threads)], capture_output=True,
            text=True, cwd=Path(__file__).parent,
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-3000:]}"
        assert float(done.stdout.split("difference")[1]) < 1e-4


@pytest.mark.parametrize("system, experts", [("gqa", False), ("gqa", True), ("gla", False)])
def test_gradient_checkpointing_changes_no_gradient(model_of, system, experts):
    found = []
    for recompute in (False, True):
        model = model_of(system, experts).train()
        if recompute:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        ids = torch.tensor([IDS[:24], IDS[30:54]])
        model(ids, labels=ids).loss.backward()
        found.append({name: value.grad for name, value in model.named_parameters()})
    assert all(torch.allclose(value, found[1][name], rtol=1e-9, atol=1e-12)
               for name, value in found[0].items() if value is not None)
    maps = [value for name, value in found[0].items() if "knock" in name]
    assert maps and all(value.abs().max() > 0 for value in maps)
    with pytest.raises(ValueError, match="a cache cannot be used"):
        model(ids, past_key_values=DynamicCache())


@pytest.mark.parametrize("system, experts", [("gqa", True), ("mla", False)])
def test_saving_again_writes_the_same_model(kha, folder_of, tmp_path, system, experts):
    folder = folder_of(system, experts)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    model.save_pretrained(tmp_path / "again")
    again = tmp_path / "again"
    for name in ("model.safetensors", *(file.name for file in folder.glob("*_kha.py"))):
        assert (again / name).read_bytes() == (folder / name).read_bytes(), name
    assert json.loads((again / "config.json").read_text())["auto_map"] == AUTO_MAP
    assert torch.equal(logits(their_model(again)), logits(their_model(folder)))
    shown = [kha("inspect", each, "--json") for each in (folder, again)]
    assert shown[0].returncode == 0, shown[0].stderr
    assert json.loads(shown[0].stdout)["config"] == json.loads(shown[1].stdout)["config"]


def test_it_opens_by_the_auto_classes_with_trust_alone(folder_of):
    folder = folder_of("gqa")
    for opener in (AutoConfig, AutoModel, AutoModelForCausalLM):
        with pytest.raises(ValueError, match="trust_remote_code"):
            opener.from_pretrained(folder, trust_remote_code=False)
    body = AutoModel.from_pretrained(folder, trust_remote_code=True, dtype=torch.float64)
    whole = their_model(folder)
    ids = torch.tensor([IDS[:20]])
    with torch.no_grad():
        hidden = body(ids, output_hidden_states=True)
        assert torch.allclose(whole.lm_head(hidden.last_hidden_state), whole(ids).logits)
        assert len(hidden.hidden_states) == 4
        weights = their_model(folder, attn_implementation="eager")(ids, output_attentions=True)
    assert [each.shape for each in weights.attentions] == [(1, 6, 20, 20)] * 3
    assert whole.lm_head.weight is whole.model.embed_tokens.weight


def test_labels_kept_logits_embeddings_and_positions(model_of):
    model, ids = model_of("gqa"), torch.tensor([IDS[:24], IDS[30:54]])
    labels = ids.masked_fill(torch.arange(24) < 5, -100)
    with torch.no_grad():
        made = model(ids, labels=labels)
        assert torch.allclose(made.loss, cross_entropy(
            made.logits[:, 4:-1].reshape(-1, 257).float(), ids[:, 5:].reshape(-1)))
        assert torch.allclose(model(ids, logits_to_keep=3).logits, made.logits[:, -3:])
        chosen = torch.tensor([2, 7])
        assert torch.allclose(model(ids, logits_to_keep=chosen).logits, made.logits[:, chosen])
        embeds = model.get_input_embeddings()(ids)
        assert torch.equal(model(inputs_embeds=embeds).logits, made.logits)
        shifted = model(ids, position_ids=torch.arange(24).unsqueeze(0) + 100).logits
        assert (shifted - made.logits).abs().max() < 1e-9  # rotary positions are relative
        spread = model(ids, position_ids=torch.arange(24).unsqueeze(0) * 3).logits
        assert (spread - made.logits).abs().max() > 1e-2
        as_tuple = model(ids, return_dict=False)
        assert torch.equal(as_tuple[0], made.logits)
        with pytest.raises(ValueError, match="one of them"):
            model(ids, inputs_embeds=embeds)


def test_maps_start_at_the_identity(folder_of):
    folder = folder_of("gqa")
    with_maps, without = (AutoConfig.from_pretrained(folder, trust_remote_code=True)
                          for _ in range(2))
    without.kha = {"attention": "gqa"}
    models = [AutoModelForCausalLM.from_config(each, trust_remote_code=True).eval()
              for each in (with_maps, without)]
    state = models[0].state_dict()
    missing = models[1].load_state_dict(state, strict=False)
    assert not missing.missing_keys and all("knock" in key for key in missing.unexpected_keys)
    assert torch.equal(*(logits(each) for each in models))
    assert (state["model.layers.0.self_attn.knock_q.gate.weight"] == 0).all()
    assert abs(state["model.layers.0.mlp.up_proj.weight"].std() - 0.1) < 0.01


@pytest.mark.parametrize("system, name, ones", [
    ("talking", "weight_mix", lambda w: torch.eye(6)),
    ("collaborative", "mixing", lambda w: torch.eye(6).repeat_interleave(4, 1))])
def test_what_mixes_heads_starts_as_mha(system, name, ones, tmp_path):
    config = small(system)
    if system == "collaborative":
        config["kha"]["shared_key_width"] = 24
    folder = write_folder(tmp_path / "model", config)
    opened = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForCausalLM.from_config(opened, trust_remote_code=True)
    weight = model.state_dict()[f"model.layers.1.self_attn.{name}.weight"]
    assert torch.equal(weight, ones(weight))


def test_selection_biases_stay_float32(folder_of):
    model = their_model(folder_of("gqa", True), torch.bfloat16)
    types = {name.rsplit(".", 1)[1]: value.dtype for name, value in model.state_dict().items()}
    assert types.pop("e_score_correction_bias") == torch.float32
    assert set(types.values()) == {torch.bfloat16}
    assert logits(model).isfinite().all()


def test_the_vocabulary_can_grow(model_of, tmp_path):
    model = model_of("gqa")
    before = logits(model)
    model.resize_token_embeddings(300)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    after = logits(model)
    assert after.shape[-1] == 300 and torch.allclose(after[:, :257], before)
    model.save_pretrained(tmp_path / "grown")
    assert torch.equal(logits(their_model(tmp_path / "grown")), after)


def test_the_plan_for_tensor_parallel_names_what_is_there(model_of):
    names = {name.replace(".0.", ".*.") for name, _ in model_of("gqa").model.named_modules()}
    plan = model_of("gqa").config.base_model_tp_plan
    split = {name for name, how in plan.items() if how in ("colwise", "rowwise")}
    assert {f"layers.*.self_attn.{x}_proj" for x in "qkvo"} <= split & names
    assert not any("knock" in name for name in split)
    assert model_of("talking").config.base_model_tp_plan is None


def test_the_evaluation_harness_scores_it(folder_of, tmp_path):
    """lm-evaluation-harness by its model type `hf`, offline: likelihoods are the model's own."""
    lm_eval_model = pytest.importorskip("lm_eval.models.huggingface")
    from lm_eval.api.instance import Instance
    folder = tmp_path / "model"
    shutil.copytree(folder_of("gqa"), folder)
    write_byte_tokenizer(folder)
    scorer = lm_eval_model.HFLM(pretrained=str(folder), trust_remote_code=True, dtype="float32",
                                device="cpu", batch_size=2, max_length=128)
    texts = [("the heads of a layer", " share"), ("knock", " on each other"), ("", "one")]
    requests = [Instance("loglikelihood", {}, text, i) for i, text in enumerate(texts)]
    scores = [score for score, _ in scorer.loglikelihood(requests)]
    model = their_model(folder, torch.float32)
    for (context, continuation), score in zip(texts, scores):
        ids = list(context.encode()) or [256]
        whole = ids + list(continuation.encode())
        found = logits(model, whole).log_softmax(-1)
        own = sum(found[i - 1, whole[i]].item() for i in range(len(ids), len(whole)))
        assert score == pytest.approx(own, abs=1e-3)
