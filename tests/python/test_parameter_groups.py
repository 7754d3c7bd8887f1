"""knocking_heads.parameter_groups: who decays, and to what."""

import pytest
import torch
from live_models import TOKENS, live_model, stir

import knocking_heads as kh


def grouped(model, **options):
    names = {id(p): name for name, p in model.named_parameters()}
    groups = kh.parameter_groups(model, **options)
    return {group["name"]: group | {"params": [names[id(p)] for p in group["params"]]}
            for group in groups}


def test_every_parameter_is_in_one_group():
    model = kh.insert(live_model("llama", tie_word_embeddings=True), {"q": "linear", "v": "mlp"})
    groups = grouped(model)
    names = [name for group in groups.values() for name in group["params"]]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert all("norm" in name or "bias" in name for name in groups["norms and biases"]["params"])
    assert all(name.endswith(("knock_q.weight", "up.weight", "down.weight"))
               for name in groups["maps"]["params"])
    assert [name.rpartition("knock_v.")[2] for name in groups["gates"]["params"]] == ["gate.weight"] * 3
    decays = {name: (group["weight_decay"], group.get("decay_to_identity"))
              for name, group in groups.items()}
    assert decays == {"matrices": (0.1, None), "norms and biases": (0.0, None),
                      "maps": (0.0, 0.1), "gates": (0.1, None)}


@pytest.mark.parametrize("knock_decay, maps", [("paper", 0.1), ("none", 0.0)])
def test_the_other_decays(knock_decay, maps):
    groups = grouped(kh.insert(live_model(), "kha-mlp"), knock_decay=knock_decay, lr=0.5,
                     knock_lr_scale=4)
    assert groups["maps"]["weight_decay"] == groups["gates"]["weight_decay"] == maps
    assert "decay_to_identity" not in groups["maps"]
    assert groups["maps"]["lr"] == 2 and groups["matrices"]["lr"] == 0.5


def test_frozen_parameters_are_left_out():
    model = kh.insert(live_model(), "kha-linear")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("knock_" in name)
    assert grouped(model).keys() == {"maps"}


def test_a_step_draws_maps_to_the_identity_and_gates_to_zero():
    """Against the update written out: decay first, then Adam's first step of size lr."""
    model = stir(kh.insert(live_model(dtype=torch.float64), "kha-mlp", layers=[1]))
    optimizer = torch.optim.AdamW(kh.parameter_groups(model, 0.1), lr=0.01, eps=0)
    model(TOKENS, labels=TOKENS).loss.backward()
    knock = model.model.layers[1].self_attn.knock_v
    expected = {}
    for name, parameter in knock.named_parameters():
        target = torch.zeros(8, 8) if name == "gate.weight" else torch.eye(8)
        moved = parameter.detach() + 0.01 * 0.1 * (target - parameter.detach())
        expected[name] = moved - 0.01 * parameter.grad.sign()
    untouched = model.lm_head.weight
    gradient, before = untouched.grad.clone(), untouched.detach().clone()
    optimizer.step()
    for name, parameter in knock.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(untouched.detach(),
                               before * (1 - 0.01 * 0.1) - 0.01 * gradient.sign())


def test_other_optimisers_are_left_alone():
    kh.parameter_groups(kh.insert(live_model(), "kha-linear"))  # installs the hook
    weight = torch.nn.Parameter(torch.zeros(3, 3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad = torch.zeros(3, 3)
    optimizer.step()
    assert not weight.any()


@pytest.mark.parametrize("options, word", [
    (dict(knock_decay="identity"), "paper, none, to_identity"), (dict(weight_decay=-1), "at least 0"),
    (dict(knock_lr_scale=2), "which is not given")])
def test_wrong_options(options, word):
    with pytest.raises(kh.KhaError, match=word):
        kh.parameter_groups(live_model(), **options)
