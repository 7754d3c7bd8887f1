"""Lists and runs the GoogleTest programs, so that pytest reports C++ tests one by one."""

import functools
import json
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 1200


def build_dir() -> Path:
    return Path(os.environ.get("KHA_BUILD_DIR", ROOT / "build" / os.environ.get("PRESET", "cpu")))


def programs() -> list[Path]:
    """One program for each folder of tests/ that holds C++ files, whether it is built or not."""
    layers = sorted({file.parent.name for file in (ROOT / "tests").glob("*/*.cpp")})
    return [build_dir() / "tests" / f"kha_{layer}_tests" for layer in layers]


@dataclass
class Outcome:
    state: str  # passed, failed, skipped
    text: str = ""


@dataclass
class ProgramRun:
    """What one run of a program gave. `crash` is empty where the program came to its end."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    returncode: int = 0
    output: str = ""
    crash: str = ""

    def of(self, test: str) -> Outcome:
        if test in self.outcomes:
            return self.outcomes[test]
        why = self.crash or "the program did not report this test"
        return Outcome("failed", f"{why}\n{self.output}")


def _command(program: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, and a sentence where the program did not end by itself."""
    try:
        done = subprocess.run(
            [program, "--gtest_color=no", *arguments],
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired as stopped:
        output = (stopped.output or b"").decode(errors="replace")
        return 1, output, f"{program.name} did not end within {TIME_LIMIT_S} s"
    return done.returncode, done.stdout, ""


def _tests_of(report: Path) -> list[tuple[str, dict]]:
    suites = json.loads(report.read_text())["testsuites"]
    tests = [(suite["name"], test) for suite in suites for test in suite["testsuite"]]
    return [(f"{suite}.{test['name']}", test) for suite, test in tests]


@functools.cache
def list_tests(program: Path) -> tuple[list[str], str]:
    """The names of a program's tests, and why there are none where it cannot be asked."""
    if not program.is_file():
        return [], f"{program} is not there: its sources are in tests/, run `make build`"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "list.json"
        write = f"--gtest_output=json:{report}"
        code, output, stopped = _command(program, "--gtest_list_tests", write)
        if code or not report.is_file():
            return [], f"{program} cannot list its tests (exit code {code}) {stopped}\n{output}"
        names = [name for name, _ in _tests_of(report)]
    return names, "" if names else f"{program} holds no test"


def _block(output: str, test: str) -> str:
    """What a test printed between its first and its last line."""
    name = re.escape(test)
    found = re.search(rf"^\[ RUN      \] {name}\n(.*?)^\[ .*? \] {name}\b", output, re.M | re.S)
    return found.group(1) if found else ""


def _reported(test: str, entry: dict, output: str) -> Outcome:
    if entry.get("failures"):
        printed = _block(output, test)
        return Outcome("failed", printed or "\n".join(f["failure"] for f in entry["failures"]))
    if entry["result"] == "SUPPRESSED":
        return Outcome("skipped", "disabled by its name")
    if entry["result"] == "SKIPPED":
        reason = " ".join(_block(output, test).split())
        return Outcome("skipped", reason or "skipped without a reason")
    return Outcome("passed")


def _outcomes_before_crash(output: str) -> dict[str, Outcome]:
    """Only what passed counts; whatever failed, crashed or never ran is shown with the output."""
    passed = re.findall(r"^\[       OK \] (\S+)", output, re.M)
    return {test: Outcome("passed") for test in passed}


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def run_program(program: Path, tests: list[str]) -> ProgramRun:
    """Runs these tests of a program in one process."""
    selection = [] if tests == list_tests(program)[0] else [f"--gtest_filter={':'.join(tests)}"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "run.json"
        code, output, stopped = _command(program, f"--gtest_output=json:{report}", *selection)
        if report.is_file():
            outcomes = {test: _reported(test, entry, output) for test, entry in _tests_of(report)}
            return ProgramRun(outcomes, code, output)
    running = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    crash = stopped or f"{program.name} ended with {_ending(code)}"
    return ProgramRun(
        _outcomes_before_crash(output),
        code,
        output,
        f"{crash} in {running[-1] if running else 'its start'}",
    )
