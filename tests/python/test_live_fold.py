"""knocking_heads.fold in live models: the same logits, and the tensors that `kha fold` writes."""

import copy

import pytest
import torch
from live_models import FAMILIES, TOKENS, in_double, largest, live_model, logits, stir
from safetensors.torch import load_file
from test_insertion import NAMES, Plain

import knocking_heads as kh


def fold_by_hand(state):
    """KHA-Linear's eq. 8 in float64, on a state dict; the maps leave it."""
    folded = {name: value for name, value in state.items() if "knock_" not in name}
    for name, matrix in state.items():
        if "knock_" not in name:
            continue
        prefix, _, rest = name.partition("knock_")
        for part in ("weight", "bias"):
            target = f"{prefix}{rest[0]}_proj.{part}"
            if target in folded:
                heads = folded[target].double().view(-1, 8, folded[target][0].numel())
                mapped = torch.einsum("ij,hjc->hic", matrix.double(), heads)
                folded[target] = mapped.reshape(folded[target].shape).to(folded[target].dtype)
    return folded


@pytest.mark.parametrize("family", FAMILIES)
def test_linear_maps_leave_exactly(family):
    model = stir(kh.insert(live_model(family), "kha-linear"))
    before, expected = logits(model), fold_by_hand(model.state_dict())
    exact = logits(in_double(model))
    report = kh.fold(model, TOKENS)
    assert [each.outcome for each in report.maps] == ["folded"] * 9
    assert type(model.model.layers[0].self_attn.q_proj) is torch.nn.Linear
    assert "save_pretrained" not in model.__dict__
    state = model.state_dict()
    assert state.keys() == expected.keys()
    for name, value in state.items():
        torch.testing.assert_close(value, expected[name], rtol=2e-7, atol=1e-8)
    rounding = largest(before, exact)
    assert 0 < largest(logits(model), exact) <= 4 * rounding
    assert report.logit_difference <= 5 * rounding


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_an_mlp_map_on_values_leaves_a_gate(family):
    model = stir(kh.insert(live_model(family, dtype=torch.float64), "kha-mlp"))
    before, old = logits(model), copy.deepcopy(model.model.layers[1].self_attn)
    report = kh.fold(model, TOKENS)
    assert [(each.outcome, each.after) for each in report.maps] == [("became gate", "gate")] * 3
    assert report.logit_difference < 1e-9
    assert largest(logits(model), before) < 1e-9 and before.abs().max() > 0.1
    new = model.model.layers[1].self_attn
    up, gate, down = (old.knock_v.matrices()[f"{name}.weight"] for name in ("up", "gate", "down"))
    torch.testing.assert_close(new.knock_v.gate.weight @ up, gate)
    torch.testing.assert_close(new.v_proj.weight[8:16], up @ old.v_proj.weight[8:16])
    torch.testing.assert_close(new.o_proj.weight[:, 40:48], old.o_proj.weight[:, 40:48] @ down)
    assert new.v_proj.knock is new.knock_v and "save_pretrained" in model.__dict__


def test_an_ill_conditioned_map_keeps_up_and_gate():
    model = kh.insert(live_model(dtype=torch.float64), "kha-mlp", layers=[0, 1])
    stir(model)
    knock = model.model.layers[0].self_attn.knock_v
    with torch.no_grad():
        knock.up.weight.copy_(torch.diag(torch.logspace(0, -5, 8)))
    before = logits(model)
    report = kh.fold(model)
    assert [each.outcome for each in report.maps] == ["down only", "became gate"]
    assert report.maps[0].condition == pytest.approx(1e5) and "above 10000" in report.maps[0].reason
    assert torch.equal(knock.down.weight, torch.eye(8, dtype=torch.float64))
    assert largest(logits(model), before) < 1e-9
    again = copy.deepcopy(model)
    assert kh.fold(again, condition_limit=1e6).maps[0].outcome == "became gate"
    assert largest(logits(again), before) < 1e-7


@pytest.mark.parametrize("family, setting", [("qwen3", "kha-linear"), ("llama", "kha-mlp"),
                                             ("qwen2", "kha-linear-v"), ("qwen3", "kha-mlp-qkv")])
def test_equals_the_program(kha, tmp_path, family, setting):
    model = stir(kh.insert(live_model(family), setting))
    model.save_pretrained(tmp_path / "in")
    done = kha("fold", tmp_path / "in", "--to", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    kh.fold(model)
    model.save_pretrained(tmp_path / "ours")
    ours, theirs = (load_file(tmp_path / each / "model.safetensors") for each in ("ours", "out"))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        # Both round a float64 product once; only sums in another order may fall elsewhere.
        assert (value.view(torch.int32) - theirs[name].view(torch.int32)).abs().max() <= 1, name


def test_any_module_folds_where_its_output_is_named():
    model = stir(kh.insert(Plain().double(), "kha-mlp-qkv", projections=NAMES, head_dim=8), size=0.1)
    x = torch.randn(2, 9, 24, dtype=torch.float64)
    before = model(x)
    report = kh.fold(model)
    assert [each.outcome for each in report.maps] == ["kept", "kept", "became gate"] * 2
    assert "not linear in it" in report.maps[0].reason and str(report).count("kept") == 4
    torch.testing.assert_close(model(x), before)
    values = kh.insert(Plain(), "kha-mlp", projections={"v": "attn.wv"}, head_dim=8)
    with pytest.raises(kh.KhaError, match="was not named"):
        kh.fold(values)


def shared():
    model = kh.insert(live_model(), "kha-linear-v")
    layers = model.model.layers
    layers[2].self_attn.v_proj.weight = layers[1].self_attn.v_proj.weight
    return model


def broken():
    model = kh.insert(live_model(), "kha-linear")
    with torch.no_grad():
        model.model.layers[1].self_attn.knock_k.weight[0, 0] = torch.nan
    return model


REFUSALS = {
    "no maps": (live_model, ["nothing to fold: the model has no maps"]),
    "gates": (lambda: kh.insert(live_model(), "kha-gate-v"), ["none of the model's maps can leave",
                                                              "a gate depends on its input"]),
    "shared": (shared, ["more than one owner", "model.layers.1.self_attn.v_proj.weight"]),
    "not finite": (broken, ["model.layers.1.self_attn.knock_k.weight", "not finite"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_change_nothing(case):
    make, words = REFUSALS[case]
    model = make()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(kh.KhaError) as error:
        kh.fold(model)
    for word in words:
        assert word in str(error.value)
    after = model.state_dict()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert value.equal(after[name]) or value.isnan().any()
    with pytest.raises(kh.KhaError, match="at least 1"):
        kh.fold(model, condition_limit=0.5)


def test_a_product_that_its_type_cannot_hold_changes_nothing():
    model = stir(kh.insert(live_model(dtype=torch.float16), "kha-linear"))
    last = model.model.layers[-1].self_attn
    with torch.no_grad():
        last.v_proj.weight.fill_(6e4)
        last.knock_v.weight.mul_(4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(kh.KhaError, match="too large for its type(.|\n)*float16"):
        kh.fold(model)
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_the_modes_of_parts_stay():
    model = kh.insert(live_model(), "kha-linear")
    model.model.layers[0].eval()
    kh.fold(model, TOKENS)
    assert model.training and not model.model.layers[0].mlp.training
    assert model.model.layers[1].mlp.training
