"""The wheel, installed in a fresh environment and used outside the tree."""

import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from conftest import settings
from installed_wheel import ROOT, Environment, build_wheel

PACKAGE = ROOT / "python" / "knocking_heads"
OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1",
                 "ld-linux-x86-64.so.2"}  # fmt: skip
OF_TORCH = {"libtorch_cpu.so", "libc10.so"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def beside(wheel, tmp_path_factory):
    """torch lies beside the package; the folder's name has a space."""
    return Environment(tmp_path_factory.mktemp("beside") / "an environment", wheel, beside=True)


@pytest.fixture(scope="module")
def apart(wheel, tmp_path_factory):
    """torch lies in another site folder."""
    return Environment(tmp_path_factory.mktemp("apart") / "environment", wheel, beside=False)


def engine_facts(environment):
    done = environment.run("kha", "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["engine"]


def test_name_and_tag(wheel):
    version = re.search(r"project\(kha VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert wheel.name.startswith(f"knocking_heads-{version.group(1)}-py3-none-linux_")


def test_every_file_of_the_package_is_in_it(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in PACKAGE.rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(PACKAGE.parent)) for path in files
              if "__pycache__" not in path.parts}  # fmt: skip
    assert wanted and wanted <= inside
    assert not [name for name in inside if "__pycache__" in name]


def test_each_companion_has_an_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rules = (ROOT / "cmake" / "install.cmake").read_text()
    companions = re.search(r"foreach\(KHA_COMPANION ([^)]*)\)", rules).group(1).split()
    modules = {entry.split(":")[1] for entry in project["scripts"].values()}
    assert modules == {*companions, "engine"}
    for name, entry in project["scripts"].items():
        assert name == f"kha-{entry.split(':')[1]}".replace("_", "-")


def test_what_is_said_after_a_failed_build_names_every_library():
    settings_of_build = (ROOT / "pyproject.toml").read_text()
    table = (ROOT / "scripts" / "lib" / "packages.sh").read_text()
    libraries = set(re.findall(r"^([a-z0-9+-]+-dev)\|", table, re.M)) - {"libgtest-dev", "libgmock-dev"}
    assert libraries and libraries == set(re.findall(r"\b[a-z0-9+-]+-dev\b", settings_of_build))


@pytest.mark.parametrize(
    "file, from_elsewhere",
    [
        ("bin/kha", set()),
        ("site/bin/kha-engine", OF_TORCH | {"libkha_ops.so"}),
        ("site/lib/libkha_ops.so", OF_TORCH),
    ],
)
def test_nothing_but_the_system_and_torch_is_needed(beside, file, from_elsewhere):
    path = beside.folder / file
    if file.startswith("site/"):
        path = beside.site / "knocking_heads" / file.removeprefix("site/")
    dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert "libstdc++.so.6" in needed
    assert needed - OF_THE_SYSTEM == from_elsewhere
    for found in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic):
        assert all(entry.startswith("$ORIGIN/") for entry in found.split(":"))


def test_the_program_says_its_version(beside, wheel):
    done = beside.run("kha", "--version")
    assert done.returncode == 0 and wheel.name.split("-")[1] in done.stdout


def test_the_engine_finds_torch_beside_the_package(beside):
    facts = engine_facts(beside)
    assert facts["found"] and facts["starts"], facts


def test_the_engine_finds_torch_in_another_folder(apart):
    facts = engine_facts(apart)
    assert facts["found"] and facts["starts"], facts


OPERATOR = """
import sys, torch, knocking_heads
x = torch.randn(3, 4, 8, requires_grad=True)
weight = torch.randn(8, 8, requires_grad=True)
y = torch.ops.kha.knock_linear(x, weight)
y.sum().backward()
wanted = x.detach() @ weight.detach().T
assert torch.allclose(y, wanted, atol=1e-5), (y - wanted).abs().max()
assert torch.allclose(x.grad, weight.detach().sum(0).expand_as(x), atol=1e-5)
print(knocking_heads.__file__)
"""


@pytest.mark.parametrize("where", ["beside", "apart"])
def test_the_operators_work(where, request):
    environment = request.getfixturevalue(where)
    done = environment.run("python", "-c", OPERATOR)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == environment.site / "knocking_heads"


def test_two_steps_of_training_on_parquet(beside, tiny_text):
    texts = [path.read_text() for path in sorted(tiny_text.iterdir())]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), beside.folder / "text.parquet")
    given = {"run.folder": "runs", "run.name": "two", "data.paths": ["text.parquet"]}
    # The engine runs kha-parquet, which does not lie beside it.
    done = beside.run("kha", "train", *settings(**given, train__steps=2))
    assert done.returncode == 0, done.stdout + done.stderr
    run = beside.folder / "runs" / "two"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert len(losses) == 2 and all(0 < loss < 10 for loss in losses)


@pytest.mark.parametrize(
    "name, code, words",
    [
        ("curves", 0, "usage: kha curves"),
        ("parquet", 0, "usage: kha parquet"),
        ("report", 0, "usage: kha report"),
        ("tokenizer-peer", 2, "kha-tokenizer-peer: DIR"),
        ("hf-peer", 2, "kha-hf-peer: MODEL"),
        ("gguf-export", 0, "usage: kha-gguf-export"),
        ("gguf-peer", 2, "kha-gguf-peer: "),
        ("harness", 0, "usage: kha harness"),
    ],
)
def test_companions_start_from_the_program(beside, name, code, words):
    done = beside.run("kha", name, "--help")
    assert done.returncode == code and words in done.stdout + done.stderr


def misfits(environment):
    """What import and engine say."""
    imported = environment.run("python", "-c", "import knocking_heads")
    engine = environment.run("kha-engine", "doctor")
    assert imported.returncode == 1 and engine.returncode == 2
    return imported.stderr.splitlines()[-1], engine.stderr.strip()


def test_another_minor_version_of_torch_is_said_in_one_sentence(apart):
    record = apart.site / "knocking_heads" / "lib" / "libkha_ops.json"
    before = record.read_text()
    try:
        apart.change_record(torch="2.99.1")
        for said in misfits(apart):
            assert "built with torch 2.99.1 and this Python has torch 2." in said
            assert "pip install --force-reinstall" in said and str(apart.python) in said
        apart.change_record(torch=json.loads(before)["torch"], cxx11_abi=False)
        for said in misfits(apart):
            assert "_GLIBCXX_USE_CXX11_ABI=0" in said and "pip install" in said
    finally:
        record.write_text(before)
    assert json.loads(before)["kha"] and engine_facts(apart)["starts"]


def test_an_environment_without_torch(apart):
    found = apart.site / "other.pth"
    text = found.read_text()
    try:
        found.unlink()
        done = apart.run("kha-engine", "doctor")
        assert done.returncode == 2
        assert "has no torch" in done.stderr and "pip install 'torch>=2.11'" in done.stderr
    finally:
        found.write_text(text)
