"""Importing the package: it loads the operators or says why it cannot."""

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"


def import_with(library):
    environment = {**os.environ, "KHA_OPS_LIBRARY": str(library), "PYTHONPATH": str(PACKAGE)}
    return subprocess.run(
        [sys.executable, "-c", "import knocking_heads, torch; print(torch.ops.kha)"],
        env=environment,
        capture_output=True,
        text=True,
    )


def test_a_missing_library_is_said(tmp_path):
    done = import_with(tmp_path / "libkha_ops.so")
    assert done.returncode != 0
    for part in ("ImportError", str(tmp_path), "make build", "KHA_OPS_LIBRARY"):
        assert part in done.stderr


def test_a_library_that_does_not_load_is_said(tmp_path):
    library = tmp_path / "libkha_ops.so"
    library.write_bytes(b"not a library")
    done = import_with(library)
    assert done.returncode != 0
    for part in ("ImportError", "does not load into torch", "make build"):
        assert part in done.stderr


def test_the_installed_library_loads():
    done = import_with(os.environ["KHA_OPS_LIBRARY"])
    assert done.returncode == 0, done.stderr
    assert "kha" in done.stdout


def test_import_loads_no_other_package():
    """What torch has not loaded already is loaded where it is used: import stays cheap."""
    code = (
        "import sys, torch; before = set(sys.modules); import knocking_heads; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['knocking_heads']\n", done.stderr
