"""cmake/torch.cmake: which torch a build takes, and what it says where it finds none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(find CXX)
include({root}/cmake/torch.cmake)
message(STATUS "found ${{KHA_TORCH_VERSION}} at ${{KHA_TORCH_ROOT}}")
"""


def made_python(folder: Path, version: str | None) -> Path:
    """A virtual environment whose torch is a version and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if version:
        (site,) = folder.glob("lib/python3.*/site-packages")
        (site / "torch").mkdir()
        (site / "torch" / "__init__.py").touch()
        (site / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    return folder / "bin" / "python"


@pytest.fixture
def configure(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))

    def run(*arguments, **environment):
        command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True,
                              env={**os.environ, **environment})  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def test_the_torch_of_a_named_python(configure, tmp_path):
    python = made_python(tmp_path / "env", "2.15.3+cpu")
    code, said = configure(f"-DKHA_PYTHON={python}")
    assert code == 0, said
    assert f"found 2.15.3+cpu at {tmp_path}/env/lib/" in said


def test_the_torch_that_pip_hides(configure, tmp_path):
    """pip's build isolation starts the Python that it installs into with its packages taken away."""
    python = made_python(tmp_path / "env", "2.11.0")
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [path for path in sys.path if 'site-packages' not in path]\n"
    )
    code, said = configure("-DSKBUILD=2", f"-DPython_EXECUTABLE={python}",
                           PYTHONPATH=str(tmp_path / "hide"), PYTHONNOUSERSITE="1")  # fmt: skip
    assert code == 0, said
    assert f"found 2.11.0 at {tmp_path}/env/lib/" in said


def test_no_torch_under_pip_names_the_flags(configure, tmp_path):
    python = made_python(tmp_path / "env", None)
    code, said = configure("-DSKBUILD=2", f"-DPython_EXECUTABLE={python}")
    assert code != 0
    for part in (f"No torch in {python}", "pip install torch", "--no-build-isolation",
                 "--config-settings=cmake.define.KHA_PYTHON="):  # fmt: skip
        assert part in said


def test_no_torch_in_a_build_of_the_tree(configure, tmp_path):
    python = made_python(tmp_path / "env", None)
    code, said = configure(f"-DKHA_PYTHON={python}")
    assert code != 0
    assert f"No torch in {python}. Run `make build`, or set KHA_PYTHON" in said


def test_a_torch_that_is_too_old(configure, tmp_path):
    python = made_python(tmp_path / "env", "2.9.1")
    code, said = configure(f"-DKHA_PYTHON={python}")
    assert code != 0
    assert "torch 2.9.1" in said and "is too old: 2.11.0 or newer is needed" in said
