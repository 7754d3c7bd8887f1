"""The bridge to GoogleTest, on a small program made here."""

import subprocess

import pytest

import cpp_tests

SOURCE = r"""
#include <gtest/gtest.h>
#include <cstdlib>
TEST(A, Good) {}
TEST(A, Bad) { EXPECT_EQ(1, 2) << "one is not two"; }
TEST(A, Skip) { GTEST_SKIP() << "needs a GPU"; }
TEST(A, DISABLED_Off) {}
TEST(B, Crash) {
  std::puts("last words");
  std::fflush(stdout);
  if (std::getenv("CRASH")) std::abort();
}
TEST(B, After) {}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gtest")
    (folder / "small.cpp").write_text(SOURCE)
    subprocess.run(
        ["g++", "-std=c++20", "small.cpp", "-o", "small", "-lgtest", "-lgtest_main"],
        cwd=folder,
        check=True,
    )
    return folder / "small"


def test_lists_every_test(program):
    names, problem = cpp_tests.list_tests(program)
    assert names == ["A.Good", "A.Bad", "A.Skip", "A.DISABLED_Off", "B.Crash", "B.After"]
    assert problem == ""


def test_maps_each_outcome(program):
    run = cpp_tests.run_program(program, cpp_tests.list_tests(program)[0])
    assert run.of("A.Good").state == "passed"
    assert run.of("A.Bad").state == "failed" and "one is not two" in run.of("A.Bad").text
    assert run.of("A.Skip").state == "skipped" and "needs a GPU" in run.of("A.Skip").text
    assert run.of("A.DISABLED_Off").state == "skipped"
    assert run.returncode == 1 and not run.crash


def test_runs_only_what_is_selected(program):
    run = cpp_tests.run_program(program, ["A.Good"])
    assert list(run.outcomes) == ["A.Good"]


def test_a_crash_fails_its_test_and_those_after(program, monkeypatch):
    monkeypatch.setenv("CRASH", "1")
    run = cpp_tests.run_program(program, cpp_tests.list_tests(program)[0])
    assert run.of("A.Good").state == "passed"
    for test in ("B.Crash", "B.After"):
        assert run.of(test).state == "failed"
        assert "signal SIGABRT in B.Crash" in run.of(test).text
        assert "last words" in run.of(test).text


def test_a_hang_is_stopped(program, monkeypatch):
    monkeypatch.setattr(cpp_tests, "TIME_LIMIT_S", 1)
    sleeper = program.with_name("sleeper")
    sleeper.write_text("#!/bin/sh\necho '[ RUN      ] C.Slow'\nexec sleep 60\n")
    sleeper.chmod(0o755)
    run = cpp_tests.run_program(sleeper, ["C.Slow"])
    assert "did not end within 1 s in C.Slow" in run.of("C.Slow").text


def test_a_missing_program_is_said(tmp_path):
    names, problem = cpp_tests.list_tests(tmp_path / "kha_core_tests")
    assert names == [] and "make build" in problem
