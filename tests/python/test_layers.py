"""The house rules that a machine can check: layers, headers, file sizes, what no file may name."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the lowest up. A file may include its own layer and those below it.
ORDER = ["kernels", "core", "ops", "memory", "modules", "model", "observe", "train", "cli"]
TORCH_FREE = {"kernels", "core"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
TORCH_HEADER = re.compile(r"(ATen|torch|c10)/")
UMBRELLAS = {"torch/torch.h", "torch/all.h", "torch/extension.h"}
SOURCE_ENDINGS = {".h", ".hpp", ".cpp", ".cu", ".cuh", ".py", ".sh"}


def sources() -> list[Path]:
    return sorted(
        file
        for folder in ("src", "include/kha")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".h", ".cpp", ".cu", ".cuh"}
    )


def public_headers() -> list[Path]:
    return sorted((ROOT / "include").rglob("*.h"))


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def layer_of(path: str) -> str | None:
    """The layer of a path below the root, of `kha/LAYER/...` or of `LAYER/...`, else None."""
    parts = [part for part in path.split("/") if part not in ("src", "include", "kha")]
    return parts[0] if len(parts) > 1 and parts[0] in ORDER else None


def target_of(file: Path, bracket: str, include: str) -> str:
    """The included path below the root where it is named from the file's own folder."""
    beside = (file.parent / include).resolve()
    if bracket == '"' and beside.is_file() and beside.is_relative_to(ROOT):
        return beside.relative_to(ROOT).as_posix()
    return include


def complaints(file: Path, text: str) -> list[str]:
    own = layer_of(name_of(file))
    if own is None:
        return [f"{name_of(file)}: in none of the layers {', '.join(ORDER)}"]
    found = []
    for bracket, include in INCLUDE.findall(text):
        target = target_of(file, bracket, include)
        other = layer_of(target)
        if other and ORDER.index(other) > ORDER.index(own):
            found.append(
                f"{name_of(file)}: {own} includes {include} of {other}, which lies above it"
            )
        if own == "core" and other == "kernels" and "kha/" not in target:
            found.append(f"{name_of(file)}: core includes {include}, a private header of kernels")
        if own in TORCH_FREE and TORCH_HEADER.match(include):
            found.append(f"{name_of(file)}: {own} includes {include}, but it builds without torch")
        if include in UMBRELLAS:
            found.append(
                f"{name_of(file)}: includes the umbrella {include}; take the headers it needs"
            )
    return found


def test_includes_point_only_downward():
    found = [line for file in sources() for line in complaints(file, file.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "file, include, complaint",
    [
        ("src/core/a.cpp", '"kha/ops/knock.h"', "lies above"),
        ("src/kernels/a.cpp", '"kha/core/error.h"', "lies above"),
        ("src/core/a.cpp", '"kernels/ref/knock.h"', "private header"),
        ("include/kha/core/a.h", "<ATen/core/Tensor.h>", "without torch"),
        ("src/train/a.cpp", "<torch/torch.h>", "umbrella"),
        ("src/train/a.cpp", '"cli/print.h"', "lies above"),
        ("src/elsewhere/a.cpp", "<vector>", "none of the layers"),
    ],
)
def test_the_rules_find(file, include, complaint):
    assert complaint in "".join(complaints(ROOT / file, f"#include {include}\n"))


@pytest.mark.parametrize(
    "file, include",
    [
        ("src/core/a.cpp", '"kha/kernels/knock.h"'),
        ("src/cli/a.cpp", '"train/loop.h"'),
        ("src/ops/a.cpp", "<ATen/core/Tensor.h>"),
        ("src/ops/a.cpp", '"ops/validate.h"'),
    ],
)
def test_the_rules_allow(file, include):
    assert complaints(ROOT / file, f"#include {include}\n") == []


def torch_includes() -> list[str]:
    from importlib.util import find_spec

    include = Path(find_spec("torch").origin).parent / "include"
    return ["-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include")]


@pytest.mark.parametrize("header", public_headers(), ids=name_of)
def test_public_header_compiles_alone(header):
    free = layer_of(name_of(header)) in TORCH_FREE
    command = [
        "g++",
        "-std=c++20",
        "-fsyntax-only",
        "-x",
        "c++",
        "-I",
        "include",
        "-isystem",
        "/usr/include/eigen3",
        *([] if free else torch_includes()),
        str(header),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def files_of_the_project() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0:
        return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    made = {".git", ".venv", "build", "runs"}
    return [
        file
        for file in ROOT.rglob("*")
        if file.is_file() and file.relative_to(ROOT).parts[0] not in made
    ]


# Put together here so that this file does not find itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            "/(" + "|".join(["work", "farm", "root", "home"]) + ")/",
            "index" + "-url",
            "https?://[^ ]*(" + "|".join(["py" + "pi", "python" + "hosted", "deb" + "ian"]) + ")",
        ]
    )
)


def test_no_file_names_a_machine_path_or_a_registry():
    found = []
    for file in files_of_the_project():
        text = file.read_bytes()
        if b"\0" in text:
            continue
        for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                found.append(f"{name_of(file)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["cd /" + "root/x", "pip --index" + "-url x", "https://files.python" + "hosted.org"]
)
def test_the_search_finds(text):
    assert FORBIDDEN.search(text)


def test_no_source_file_is_too_long():
    long = {
        name_of(file): lines
        for file in files_of_the_project()
        if file.suffix in SOURCE_ENDINGS
        if (lines := len(file.read_text().splitlines())) > 500
    }
    assert not long, f"split these, 500 lines is the end: {long}"
