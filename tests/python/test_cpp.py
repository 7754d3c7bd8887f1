"""The C++ tests: one item a test, one process a program, run when its first item is reached."""

import pytest

import cpp_tests


def pytest_generate_tests(metafunc):
    programs = cpp_tests.programs()
    if "cpp_test" in metafunc.fixturenames:
        pairs = [
            (program, test) for program in programs for test in cpp_tests.list_tests(program)[0]
        ]
        ids = [f"{program.name}-{test}" for program, test in pairs]
        metafunc.parametrize("cpp_test", pairs, ids=ids)
    elif "cpp_program" in metafunc.fixturenames:
        metafunc.parametrize("cpp_program", programs, ids=[program.name for program in programs])


@pytest.fixture(scope="session")
def run_of(request):
    """A program's run, restricted to the tests that pytest selected."""
    runs = {}

    def run(program):
        if program not in runs:
            pairs = [
                item.callspec.params["cpp_test"]
                for item in request.session.items
                if hasattr(item, "callspec") and "cpp_test" in item.callspec.params
            ]
            selected = [test for of, test in pairs if of == program]
            runs[program] = cpp_tests.run_program(program, selected)
        return runs[program]

    return run


def test_cpp(cpp_test, run_of):
    program, test = cpp_test
    outcome = run_of(program).of(test)
    if outcome.state == "skipped":
        pytest.skip(outcome.text)
    if outcome.state == "failed":
        pytest.fail(outcome.text, pytrace=False)


def test_cpp_program_is_whole(cpp_program, run_of):
    """It is built, lists its tests, and its exit code says what its tests say."""
    tests, problem = cpp_tests.list_tests(cpp_program)
    if problem:
        pytest.fail(problem, pytrace=False)
    run = run_of(cpp_program)
    bad = run.crash or any(outcome.state == "failed" for outcome in run.outcomes.values())
    assert run.returncode == 0 or bad, f"exit code {run.returncode} after good tests\n{run.output}"
