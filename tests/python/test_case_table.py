"""torch.ops.kha over the parity table that the C++ tests use, against the double reference."""

import subprocess

import pytest
import torch
from cpp_tests import build_dir


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """operator -> its cases, written by the program that has table and reference."""
    program, file = build_dir() / "tests" / "kha_case_table", tmp_path_factory.mktemp("cases") / "t.pt"
    if not program.exists():
        pytest.fail(f"{program} is not built; next: cmake --build build/cpu --target kha_case_table")
    subprocess.run([program, file], check=True)
    cases = {}
    for name, *case in torch.load(file, weights_only=False):
        cases.setdefault(name, []).append(case)
    return cases


OPERATORS = ["knock_linear", "knock_gate", "knock_mlp", "knocked_linear", "knocked_linear with bias"]


def call(ops, name, arguments):
    if name == "knocked_linear":
        x, weight, map = arguments
        return ops.knocked_linear(x, weight, None, map)
    return getattr(ops, name.split()[0])(*arguments)


def results(ops, name, arguments, grad):
    """The result and every gradient, through Python's dispatch."""
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    y = call(ops, name, leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad)]


@pytest.mark.parametrize("name", OPERATORS)
def test_every_case_is_the_references(ops, table, name):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products this small would spend their time waking the others
    checked = 0
    for text, arguments, grad, wanted, allowed in table[name]:
        found = results(ops, name, arguments, grad)
        assert len(found) == len(wanted) == len(arguments) + 1
        for index, (value, want) in enumerate(zip(found, wanted)):
            assert value.shape == want.shape, (text, index)
            error = (value.double() - want).abs().max().item() if want.numel() else 0.0
            assert error <= allowed[index], (text, index)
        checked += 1
    torch.set_num_threads(threads)
    assert checked == 4 * 3 * 12  # dtypes, layouts, shapes


def test_the_table_has_every_operator_and_layout(table):
    assert sorted(table) == sorted(OPERATORS)
    strides = {case[1][0].is_contiguous() for case in table["knock_mlp"]}
    assert strides == {True, False}
    assert {case[1][0].dtype for case in table["knock_mlp"]} == {
        torch.float32, torch.float64, torch.bfloat16, torch.float16}


def test_a_wrong_result_is_found(table):
    """The bounds are tight enough to see the fraction of a per cent."""
    text, arguments, grad, wanted, allowed = next(
        case for case in table["knock_linear"] if "Float " in case[0] and case[3][0].numel() > 100)
    assert (wanted[0] * 1.001 - wanted[0]).abs().max().item() > allowed[0]
