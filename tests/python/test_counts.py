"""Instructions of the CPU kernels against bench/counts.json, and the counting itself."""

import json
import platform

import pytest

from bench import counts

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="counts are of x86-64")


@pytest.fixture(scope="module")
def expected():
    """The committed counts; skips where another compiler built the kernels."""
    known = json.loads(counts.FILE.read_text())
    if counts.compiler() != known["compiler"]:
        pytest.skip(f"the kernels are built by {counts.compiler()}, bench/counts.json is of "
                    f"{known['compiler']}")
    return known


@pytest.mark.parametrize("set_name", counts.COUNTED_SETS)
def test_kernels_take_the_instructions_they_took(expected, set_name):
    try:
        found = counts.run_callgrind(set_name)
    except counts.Unavailable as why:
        pytest.skip(str(why))
    lines = counts.differences(found, expected["counts"][set_name])
    assert not lines, "\n".join([*lines, "if this is meant: scripts/bench --only counts --write"])


def test_avx512_tiles_are_the_code_they_were(expected):
    """Exact: object code needs no tolerance."""
    assert counts.tiles() == expected["avx512 tiles"]


def test_counts_are_a_part_of_the_benchmark(monkeypatch, capsys):
    """Alone or before others, and a count that moved ends the run."""
    from bench import __main__ as program

    monkeypatch.setattr(counts, "main", lambda write: print(f"counted, write {write}") or 1)
    assert program.main(["--only", "counts", "--only", "maps", "--write"]) == 1
    assert capsys.readouterr().out == "counted, write True\n"


def test_annotations_are_read():
    text = """
12,345,678 (99.0%)  ???:kha::cpu::avx2::knock_mlp(kha::HeadView, float*) [/a/b]
     2,000 ( 1.0%)  ???:kha::cpu::avx2::packed_size(long) [/a/b]
     1,500 ( 1.0%)  ???:kha::cpu::avx2::pack(float const*) [/a/b]
       900 ( 0.1%)  ???:void kha::cpu::avx2::tile<6, (kha::cpu::avx2::Side)0>(long) [/a/b]
       800 ( 0.1%)  ???:kha::cpu::scalar::knock_gate(long) [/a/b]
"""
    found = counts.only_kernels(counts.parse_annotation(text, "avx2"))
    assert found == {"knock_mlp": 12345678, "pack": 1500}


def test_differences_beyond_the_tolerance_are_named():
    before = {"a": 1000, "b": 1000, "gone": 5}
    lines = counts.differences({"a": 1019, "b": 1025, "new": 7}, before)
    assert lines == ["b: 1,025 instructions, expected 1,000 (1.025)", "gone: no longer counted",
                     "new: not yet expected"]
    assert counts.differences({"a": 970}, {"a": 1000})  # fewer is a change too: write it down
