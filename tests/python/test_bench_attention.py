"""The attention bench: both contenders agree before they are timed, and a wrong one stops it."""

import pytest

from bench import attention


def test_a_quick_run_checks_and_measures_every_case(capsys):
    attention.main(["--quick", "--rounds", "2", "--threads", "1"])
    out = capsys.readouterr().out
    assert "1 threads, torch's time / kha's, 2 rounds" in out
    for case in attention.QUICK:
        row = next(row for row in out.splitlines() if row.startswith(f"| {case.name} |"))
        assert row.count("GFLOP/s") == 2 and row.count("[") == 3


def test_nothing_is_timed_while_one_differs():
    class Child:
        def ask(self, command):
            return {"kha": None, "torch": 1e-7, "kernels": "avx2"}

    with pytest.raises(SystemExit, match="parity is red.*kha is off by nan"):
        attention.check(Child(), attention.QUICK[0])


def test_the_work_of_pairs_that_see_one_another():
    # One query behind nothing sees itself: 2 (D + D_v) and 6 D + 4 D_v.
    assert attention.Case("", 1, 1, 1, 1, 3, 5).flops() == (16, 38)
    # Two of them behind four positions see five and six.
    assert attention.Case("", 1, 2, 1, 1, 3, 5, before=4).flops() == (11 * 16, 11 * 38)
