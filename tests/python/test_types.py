"""mypy finds nothing to say about the package's hints."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(file, cache):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "mypy.ini", "--cache-dir", cache, file],
        cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_the_hints_are_right(cache):
    done = check("python/knocking_heads/__init__.py", cache)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_hint_is_found(cache, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import knocking_heads\nknock: int = knocking_heads.KnockingHeads(8, 'mlp')\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "mypy.ini", "--cache-dir", cache, wrong],
        cwd=ROOT, capture_output=True, text=True, env={"MYPYPATH": str(ROOT / "python")})
    assert 'has type "KnockingHeads"' in done.stdout, done.stdout
