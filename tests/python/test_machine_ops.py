"""The operators that concern the machine: which kernels run, and how fast it multiplies and adds."""

import pytest


@pytest.fixture
def choice(ops):
    """Puts the choice back, whatever a test made of it."""
    yield ops
    ops.set_cpu_implementation("auto")


def test_the_choice_is_readable_and_forceable(choice):
    for name in ("scalar", "aten", choice.widest_instruction_set()):
        choice.set_cpu_implementation(name)
        assert choice.cpu_implementation() == name


def test_an_unknown_choice_names_those_that_work(choice):
    with pytest.raises(ValueError, match='name is "sse9".*auto, aten, scalar'):
        choice.set_cpu_implementation("sse9")


def test_the_ceiling_is_the_machines_whatever_is_chosen(choice):
    """A scalar reading would be an eighth or less of a vector one; half tells them apart."""
    if choice.widest_instruction_set() == "scalar":
        pytest.skip("this processor has one set only")
    widest = max(choice.measure_ceiling(1, 0.02) for _ in range(5))
    choice.set_cpu_implementation("scalar")
    assert max(choice.measure_ceiling(1, 0.02) for _ in range(5)) > widest / 2


@pytest.mark.parametrize("threads, seconds, message", [(0, 0.1, "threads is 0"),
                                                       (1, 0.0, "seconds is 0"),
                                                       (1, float("nan"), "seconds is")])
def test_a_ceiling_without_sense_is_refused(ops, threads, seconds, message):
    with pytest.raises(ValueError, match=message):
        ops.measure_ceiling(threads, seconds)
