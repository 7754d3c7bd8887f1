"""The bars of the experts' bench: what is reached, what a line says, what noise is."""

import json

import pytest

from bench import experts
from bench.paired import paired_ratio


def test_a_bar_is_reached_from_its_own_side():
    assert experts.BLOCK.reached(0.70) and not experts.BLOCK.reached(0.699)
    assert experts.MEMORY.reached(0.6) and not experts.MEMORY.reached(0.601)
    assert experts.MAPS.line(1.02).endswith("(at most 1.03): reached")
    line = experts.TIME.line(paired_ratio([2.0, 2.2, 2.4], [2.0, 2.0, 2.0]), ", a case")
    assert "1.100 [1.000, 1.200], a case (at least 1.3): NOT REACHED" in line


def test_noise_is_how_far_neighbours_are_apart():
    assert experts.noise([1.0, 1.1, 1.1, 0.55]) == pytest.approx(0.1)
    assert experts.noise([1.0]) == 0


def test_every_contender_has_its_turn_in_every_round():
    class Child:
        def __init__(self, name, asked):
            self.name, self.asked = name, asked

        def ask(self, command):
            self.asked.append(self.name)
            return {"seconds": [float(len(self.asked))], "peak_bytes": len(self.asked)}

    asked = []
    seconds, last = experts.take_turns([Child("a", asked), Child("b", asked)], 2)
    assert asked == ["a", "b", "b", "a"]
    assert seconds == {"a": [1.0, 4.0], "b": [2.0, 3.0]}
    assert last["a"]["peak_bytes"] == 4


def test_a_quick_block_and_its_maps_are_measured(tmp_path, capsys):
    out = tmp_path / "experts.json"
    experts.main(["block", "maps", "--quick", "--rounds", "1", "--out", str(out)])
    result = json.loads(out.read_text())
    assert len(result["block"]["mixture_seconds"]) == 2 and result["block"]["useful_flops"] > 0
    assert {kind: row["ratio"]["pairs"] for kind, row in result["maps"].items()} == {
        "mixture": 2, "dense": 2}
    assert "bars not reached: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        experts.main(["blocks"])
