"""Fixtures shared by the Python tests."""

import os
import pathlib
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"


@pytest.fixture(scope="session", autouse=True)
def environment():
    """Programs and operators are those that `make build` installed, unless named otherwise."""
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    os.environ.setdefault("KHA_OPS_LIBRARY", str(ROOT / ".venv" / "lib" / "libkha_ops.so"))


@pytest.fixture(scope="session")
def kha():
    """Runs `kha ARGUMENTS...` and returns what it printed and its exit code; never raises."""

    def run(*arguments, **options):
        command = [str(BIN / "kha"), *map(str, arguments)]
        return subprocess.run(command, text=True, capture_output=True, **options)

    return run


@pytest.fixture(scope="session")
def ops():
    """torch.ops.kha, from KHA_OPS_LIBRARY or the library installed beside this Python."""
    import torch

    installed = pathlib.Path(sysconfig.get_path("data")) / "lib" / "libkha_ops.so"
    library = pathlib.Path(os.environ.get("KHA_OPS_LIBRARY", installed))
    assert library.is_file(), (
        f"{library}: no such file; expected the operators' library; "
        "build it with `cmake --build --preset cpu --target kha_ops` "
        "and set KHA_OPS_LIBRARY to build/cpu/libkha_ops.so"
    )
    torch.ops.load_library(str(library))
    return torch.ops.kha


TINY = {
    "run.report": False,  # takes longer than the run
    "model.hidden_size": 32,
    "model.intermediate_size": 48,
    "model.num_hidden_layers": 2,
    "model.num_attention_heads": 4,
    "model.num_key_value_heads": 2,
    "model.head_dim": 16,
    "data.validation_share": 0.3,
    "train.context": 32,
    "train.batch": 4,
    "train.steps": 8,
    "train.log_every": 1,
    "train.eval_every": 4,
    "train.save_every": 4,
    "train.eval_tokens": 512,
    "train.threads": 1,
}


def toml_value(value):
    """A Python value as TOML text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(each) for each in value) + "]"
    return f'"{value}"' if isinstance(value, (str, pathlib.Path)) else str(value)


def settings(**changes):
    """--set arguments: TINY with changes on top; `train__steps=20` means train.steps."""
    values = {**TINY, **{key.replace("__", "."): value for key, value in changes.items()}}
    return [word for key, value in values.items() for word in ("--set", f"{key}={toml_value(value)}")]


def bytes_of(text):
    """Bytes of a size as the programs print it: `43.7 MB`."""
    number, unit = text.split()
    return float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory):
    """A folder of 40 short documents of words that a tiny model can learn something of."""
    folder = tmp_path_factory.mktemp("text")
    words = "the heads of a layer share one small map and knock on each other in the dark".split()
    for number in range(40):
        line = " ".join(words[(number * 7 + i * i) % len(words)] for i in range(60))
        (folder / f"document{number:02}.txt").write_text(line + "\n")
    return folder


@pytest.fixture(scope="session")
def train(kha, tiny_text):
    """Trains a tiny run in `folder`; keyword arguments are settings (run__name="x")."""

    def run(folder, *arguments, command="train", check=True, env=None, **changes):
        given = {"run.folder": folder, "data.paths": [tiny_text]}
        given.update({key.replace("__", "."): value for key, value in changes.items()})
        result = kha(command, *settings(**given), *arguments,
                     env={**os.environ, **(env or {})})
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def tiny_run(train, tmp_path_factory):
    """The folder of a finished tiny run of KHA-MLP; its model is in checkpoints/latest."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder, run__name="tiny")
    return folder / "tiny"
