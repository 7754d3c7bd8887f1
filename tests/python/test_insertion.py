"""knocking_heads.insert in live models: nothing changes yet, everything trains, refusals are said."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from live_models import FAMILIES, TOKENS, live_model, logits, stir
from torch import nn

import knocking_heads as kh

SETTINGS = ["kha-linear", "kha-mlp", "kha-mlp-qkv", "kha-gate-v"]


@pytest.mark.parametrize("family", FAMILIES)
def test_not_one_bit_of_the_logits_changes(family):
    model = live_model(family)
    before = logits(model)
    for setting in SETTINGS:
        inserted = kh.insert(copy.deepcopy(model), setting)
        assert torch.equal(logits(inserted), before), setting
        assert torch.equal(logits(inserted.eval(), TOKENS[:, :7]), logits(model.eval(), TOKENS[:, :7]))
        model.train()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_nor_in_another_type(dtype):
    model = live_model(dtype=dtype)
    inserted = kh.insert(copy.deepcopy(model), "kha-mlp-qkv")
    assert {p.dtype for p in inserted.parameters()} == {dtype}
    assert torch.equal(logits(inserted), logits(model))


def test_names_are_those_on_disk():
    model = live_model()
    plain = set(model.state_dict())
    kh.insert(model, {"q": "linear", "k": "gate", "v": "mlp"}, layers=[1])
    prefix = "model.layers.1.self_attn."
    assert set(model.state_dict()) - plain == {prefix + name for name in [
        "knock_q.weight", "knock_k.gate.weight",
        "knock_v.up.weight", "knock_v.gate.weight", "knock_v.down.weight"]}
    assert plain <= set(model.state_dict())
    names = [name for name, _ in model.named_parameters()]
    assert len(names) == len(set(names))


def by_hand(kind, y, matrices):
    """The map in the paper's formula, float64, on [..., heads, D]."""
    m = {name: value.double() for name, value in matrices.items()}
    if kind == "linear":
        return y @ m["weight"].T
    gate = 2 * torch.sigmoid(y @ m["gate.weight"].T)
    return y * gate if kind == "gate" else ((y @ m["up.weight"].T) * gate) @ m["down.weight"].T


@pytest.mark.parametrize("kind", ["linear", "mlp", "gate"])
@pytest.mark.parametrize("training", [True, False])
def test_a_map_acts_on_each_head_right_behind_its_projection(kind, training):
    """Also in weight space, which training takes above 36 tokens, with a bias in the projection."""
    model = stir(kh.insert(live_model("llama", dtype=torch.float64), {"k": kind})).train(training)
    attention = model.model.layers[2].self_attn
    x = torch.randn(120, 36, dtype=torch.float64)
    projection = attention.k_proj
    plain = F.linear(x, projection.weight, projection.bias).unflatten(-1, (2, 8))
    expected = by_hand(kind, plain, attention.knock_k.matrices()).flatten(-2)
    torch.testing.assert_close(projection(x), expected, rtol=1e-11, atol=1e-11)


def test_maps_stand_before_norm_rotation_and_cache():
    """The cache holds the mapped values, and decoding with it equals one pass over all tokens."""
    model = stir(kh.insert(live_model(), "kha-mlp-qkv")).eval()
    with torch.no_grad():
        whole = model(TOKENS, use_cache=True)
        cached = getattr(whole, "cache", None) or whole.past_key_values
        attention = model.model.layers[0].self_attn
        x = model.model.layers[0].input_layernorm(model.model.embed_tokens(TOKENS))
        values = attention.v_proj(x).unflatten(-1, (2, 8)).transpose(1, 2)
        assert torch.equal(cached.layers[0].values, values)
        answer = model.generate(TOKENS[:, :20], max_new_tokens=8, do_sample=False, pad_token_id=0,
                                eos_token_id=None)
        for row in answer:
            steps = model(row[None], use_cache=False).logits[0, 19:-1].argmax(-1)
            assert torch.equal(steps, row[20:])


def test_both_plans_give_the_same_gradients():
    found = []
    for plan in ("weight_space", "activation_space"):
        model = live_model(dtype=torch.float64)
        stir(kh.insert(model, "kha-linear", plan=plan))
        model(TOKENS, labels=TOKENS).loss.backward()
        found.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in found[0].items():
        scale = gradient.abs().max()
        assert (gradient - found[1][name]).abs().max() <= 1e-10 * max(1, scale), name
    assert found[0]["model.layers.0.self_attn.knock_q.weight"].abs().max() > 0


def test_the_plan_is_printable_and_follows_the_shape():
    model = kh.insert(live_model(), {"q": "linear", "v": "mlp"}, layers=[0])
    q, v = "model.layers.0.self_attn.knock_q", "model.layers.0.self_attn.knock_v"
    assert kh.plan(model, 36) == {q: "activation_space", v: "activation_space"}
    assert kh.plan(model, 37) == {q: "weight_space", v: "activation_space"}
    assert "above 36 tokens" in kh.plan(model)[q]
    kept = []
    projection = model.model.layers[0].self_attn.q_proj
    for rows in (36, 37):  # weight space keeps the weights beside x, activations the projected heads
        shapes = []
        x = torch.randn(rows, 36, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(
                lambda t: shapes.append(tuple(t.shape)) or t, lambda t: t):
            projection(x)
        kept.append(shapes)
    assert (36, 6, 8) in kept[0] and not any(shape[-2:] == (6, 8) for shape in kept[1])


def test_copies_and_pickles_are_models_of_their_own():
    model = stir(kh.insert(live_model(), "kha-linear"))
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for other in (copy.deepcopy(model), torch.load(stream, weights_only=False)):
        attention = other.model.layers[0].self_attn
        assert attention.q_proj.knock is attention.knock_q
        assert attention.knock_q is not model.model.layers[0].self_attn.knock_q
        assert other.save_pretrained.model is other
        assert torch.equal(logits(other), logits(model))
        with torch.no_grad():
            attention.knock_q.weight.zero_()
        assert not torch.equal(logits(other), logits(model))


def test_moves_and_state_dicts_reach_the_maps():
    model = stir(kh.insert(live_model(), "kha-mlp"))
    fresh = kh.insert(live_model(seed=5), "kha-mlp")
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(logits(fresh), logits(model))
    fresh.load_state_dict(copy.deepcopy(model).double().state_dict(), assign=True)
    assert fresh.model.layers[0].self_attn.v_proj.knock.up.weight.dtype == torch.float64
    assert logits(fresh).dtype == torch.float64


class Plain(nn.Module):
    """Somebody's own model: other names, no config."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(2):
            block = nn.Module()
            block.attn = nn.Module()
            for name, rows in (("wq", 32), ("wk", 16), ("wv", 16)):
                block.attn.add_module(name, nn.Linear(24, rows))
            block.attn.wo = nn.Linear(32, 24)
            self.blocks.append(block)

    def forward(self, x):
        for block in self.blocks:
            q, k, v = (getattr(block.attn, name)(x).unflatten(-1, (-1, 8)).transpose(-2, -3)
                       for name in ("wq", "wk", "wv"))
            made = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + block.attn.wo(made.transpose(-2, -3).flatten(-2))
        return x


NAMES = {"q": "attn.wq", "k": "attn.wk", "v": "attn.wv", "o": "attn.wo"}


def test_any_module_by_the_names_of_its_projections():
    model = Plain()
    x = torch.randn(3, 9, 24)
    before = model(x)
    kh.insert(model, "kha-mlp-qkv", projections=NAMES, head_dim=8)
    assert torch.equal(model(x), before)
    assert model.blocks[1].attn.knock_v.up.weight.shape == (8, 8)
    assert "save_pretrained" not in model.__dict__
    values = Plain()
    kh.insert(values, "kha-linear-v", projections={"v": "attn.wv"}, head_dim=8, layers=[1])
    assert [name for name, _ in values.named_parameters() if "knock" in name] == [
        "blocks.1.attn.knock_v.weight"]


def quantised():
    model = live_model()
    model.model.layers[1].self_attn.v_proj = torch.ao.nn.quantized.dynamic.Linear(36, 16)
    return model


def rewired():
    model = live_model()
    linear = model.model.layers[1].self_attn.v_proj
    linear.forward = lambda x: x
    return model


def integers():
    model = live_model()
    linear = model.model.layers[1].self_attn.v_proj
    linear.weight = nn.Parameter(linear.weight.to(torch.int8), requires_grad=False)
    return model


REFUSALS = {
    "twice": (lambda: kh.insert(live_model(), "kha-mlp"), ["kha-linear"],
              ["layer 0 has a map on v already", "found: mlp", "knocking_heads.fold"]),
    "unknown setting": (live_model, ["kha-lineer"], ["did you mean `kha-linear`"]),
    "baseline": (live_model, ["baseline"], ["nothing to insert"]),
    "unknown kind": (live_model, [{"v": "mpl"}], ["did you mean `mlp`"]),
    "unknown slot": (live_model, [{"o": "mlp"}], ["expected: q, k or v"]),
    "no such layer": (live_model, ["kha-mlp", [1, 3]], ["no such layer", "0 to 2", "found: 3"]),
    "no layer": (live_model, ["kha-mlp", []], ["no layer is named"]),
    "quantised": (quantised, ["kha-mlp"],
                  ["model.layers.1.self_attn.v_proj", "expected: torch.nn.Linear", "quantised"]),
    "integers": (integers, ["kha-mlp"], ["v_proj.weight", "found: Tensor of int8"]),
    "another forward": (rewired, ["kha-mlp"], ["replaced this projection's forward"]),
    "compiled": (lambda: torch.compile(live_model()), ["kha-mlp"],
                 ["wrapped already", "insert the maps first, then torch.compile"]),
    "unknown model": (Plain, ["kha-mlp"], ["qwen3_moe", 'projections={"q": "attn.wq"']),
    "names of nothing": (Plain, ["kha-mlp", None, {"v": "attn.values"}, dict(head_dim=8)],
                         ["no module has these projections", "v: attn.values"]),
    "no head_dim": (Plain, ["kha-mlp", None, NAMES], ["head_dim is needed"]),
    "wrong head_dim": (Plain, ["kha-mlp", None, NAMES, dict(head_dim=12)],
                       ["blocks.0.attn.wv.weight", "multiple of head_dim = 12", "[16, 24]"]),
    "another head_dim": (live_model, ["kha-mlp", None, None, dict(head_dim=16)],
                         ["expected: 8", "found: 16"]),
    "no names": (Plain, ["kha-linear", None, {}, dict(head_dim=8)], ["no projection is named"]),
    "unnamed slot": (Plain, ["kha-linear", None, {"v": "attn.wv"}, dict(head_dim=8)],
                     ["the projection of q is not named"]),
    "unknown start": (live_model, ["kha-mlp", None, None, dict(start="zero")], ["identity or random"]),
    "unknown plan": (live_model, ["kha-mlp", None, None, dict(plan="weight")], ["weight_space"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_is_allowed_and_change_nothing(case):
    make, given, words = REFUSALS[case]
    model = make()
    before = list(model.state_dict())
    arguments, keywords = (given[:3], given[3]) if len(given) == 4 else (given, {})
    with pytest.raises(kh.KhaError) as error:
        kh.insert(model, *arguments, **keywords)
    for word in words:
        assert word in str(error.value)
    assert list(model.state_dict()) == before


def test_a_replaced_projection_is_noticed():
    model = kh.insert(live_model(), "kha-mlp")
    model.model.layers[0].self_attn.v_proj = nn.Linear(36, 16)
    with pytest.raises(kh.KhaError, match="not behind its projection, where insert put it"):
        kh.report(model)


def test_random_start_has_the_models_deviation():
    torch.manual_seed(0)
    model = kh.insert(live_model(head_dim=128, initializer_range=0.05), "kha-mlp", start="random")
    for name, parameter in model.named_parameters():
        if "knock_" in name:
            assert parameter.std().item() == pytest.approx(0.05, rel=0.05), name


def test_a_module_made_on_meta_finds_its_start():
    with torch.device("meta"):
        knock = kh.KnockingHeads(8, "mlp")
    knock.to_empty(device="cpu").reset_parameters()
    x = torch.randn(3, 2, 8)
    assert torch.equal(knock(x), x)


def test_the_module_refuses_what_it_cannot_be():
    for arguments, word in [((8, "none"), "one of linear, mlp, gate"), ((0, "mlp"), "at least 1"),
                            ((8, "mlp", "zero"), "identity or random")]:
        with pytest.raises(kh.KhaError, match=word):
            kh.KnockingHeads(*arguments)
    with pytest.raises(ValueError, match=r"kha::knock_mlp: up is \[8, 8\]"):
        kh.KnockingHeads(8, "mlp")(torch.randn(3, 2, 9))
