"""knocking_heads.report: the figures of `kha inspect`, from a live model; a figure of heat maps."""

import json

import pytest
import torch
from live_models import live_model, stir

import knocking_heads as kh


def test_the_figures_are_those_of_the_program(kha, tmp_path):
    model = stir(kh.insert(live_model(), {"q": "linear", "k": "gate", "v": "mlp"}))
    with torch.no_grad():
        model.model.layers[0].self_attn.knock_q.weight[3] = 0  # singular
    model.save_pretrained(tmp_path / "model")
    done = kha("inspect", tmp_path / "model", "--json")
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)["maps"]
    ours = kh.report(model).to_list()
    assert len(ours) == len(theirs) == 3 * 5
    for mine, other in zip(ours, theirs):
        assert mine.keys() == other.keys()
        for key, value in mine.items():
            assert value == (pytest.approx(other[key], rel=1e-9, abs=1e-12)
                             if isinstance(value, float) else other[key]), key
    assert ours[0]["singular"] and ours[0]["condition"] is None


def test_figures_by_hand():
    model = kh.insert(live_model(), {"q": "linear", "v": "mlp"}, layers=[2])
    maps = {each.tensor.partition("knock_")[2]: each.figures for each in kh.report(model).maps}
    assert maps["q.weight"].identity_distance == 0 and maps["q.weight"].condition == 1
    assert maps["v.gate.weight"].identity_distance == 0  # starts at zero
    with torch.no_grad():
        model.model.layers[2].self_attn.knock_q.weight[:] = torch.diag(torch.arange(1.0, 9))
        model.model.layers[2].self_attn.knock_q.weight[0, 7] = 2
    found = kh.report(model).maps[0].figures
    assert found.identity_distance == pytest.approx(((sum(i * i for i in range(8)) + 4) / 8) ** 0.5)
    assert found.diagonal_max == 8 and found.diagonal_min == 1
    assert found.off_diagonal_share == pytest.approx(4 / (204 + 4))


def test_the_figure_has_a_panel_for_each_matrix():
    model = stir(kh.insert(live_model(), {"q": "linear", "v": "mlp"}, layers=[0, 2]))
    report = kh.report(model)
    figure = report.figure()
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [f"layer {layer}, {panel}" for layer in (0, 2)
                      for panel in ("q: T", "v: up", "v: gate", "v: down")]
    image = figure.axes[0].images[0]
    shown = torch.as_tensor(image.get_array().data)
    assert torch.equal(shown.float(), model.model.layers[0].self_attn.knock_q.weight.detach().T)
    assert image.get_clim() == (0, 1) and figure.axes[2].images[0].get_clim() == (-0.1, 0.1)
    lines = str(report).splitlines()
    assert len(lines) == 9 and lines[1].split()[:4] == ["0", "q", "linear", "T"]


def test_a_model_without_maps_is_refused():
    with pytest.raises(kh.KhaError, match="has no maps"):
        kh.report(live_model())
