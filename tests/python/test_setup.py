"""scripts/setup against made-up machines: a PATH with stand-ins for what it asks and changes."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = "awk bash cat cut dirname env grep head mkdir mv rm sed sh sha256sum sort tail tee tr"

# A python3 that answers setup's questions and whose venv holds a copy of itself. Variables of the
# environment choose the answers; each call that changes something is written to $CALLS.
PYTHON = r"""#!/bin/sh
case "$*" in
  *version_info*) echo "${FAKE_PYTHON_VERSION:-3.11}" ;;
  *ensurepip*) exit ${FAKE_NO_VENV:-0} ;;
  *'version("torch")'*)
    [ -e "$0.torch" ] && exec cat "$0.torch"
    [ -n "$FAKE_TORCH" ] && echo "$FAKE_TORCH" ;;
  *distributions*) printf '%s\n' pip torch nvidia-cublas typing-extensions ;;
  *get_path*) echo "$PWD" ;;
  *getsitepackages*) [ -z "$FAKE_SITE" ] || echo "$FAKE_SITE" ;;
  *'pip --version'*) ;;
  *'pip install'*)
    echo "pip install $*" >>"$CALLS"
    [ -z "$FAKE_PIP_ERROR" ] || { echo "ERROR: $FAKE_PIP_ERROR"; exit 1; }
    [ -z "$FAKE_PIP_TORCH" ] || echo "$FAKE_PIP_TORCH" >"$0.torch" ;;
  *'-m venv'*)
    echo "venv $*" >>"$CALLS"
    for folder; do :; done
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
  *) echo "python stand-in: $*" >&2; exit 9 ;;
esac
"""
DPKG_QUERY = r"""#!/bin/sh
for name; do :; done
case " $FAKE_MISSING " in *" $name "*) exit 1 ;; esac
printf installed
"""
APT_GET = r"""#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case "$*" in *install*) [ -z "$FAKE_APT_ERROR" ] || { echo "E: $FAKE_APT_ERROR"; exit 100; } ;; esac
"""
SUDO = r"""#!/bin/sh
echo "sudo" >>"$CALLS"
[ "$1" = -n ] && shift
exec "$@"
"""


class Machine:
    """A copy of the scripts, a PATH of its own, and a record of what was changed."""

    def __init__(self, folder: Path):
        self.tree, self.bin, self.calls_file = folder / "tree", folder / "bin", folder / "calls"
        shutil.copytree(ROOT / "scripts", self.tree / "scripts")
        for name in ("requirements.txt", "requirements.lock", "CMakePresets.json"):
            shutil.copy(ROOT / name, self.tree)
        self.bin.mkdir()
        self.calls_file.touch()
        for tool in [*TOOLS.split(), "cp"]:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.add("python3", PYTHON)
        self.add("dpkg-query", DPKG_QUERY)
        self.add("apt-get", APT_GET)
        self.add("id", "#!/bin/sh\necho ${FAKE_USER:-0}\n")
        self.add("df", "#!/bin/sh\necho Avail\necho ${FAKE_FREE_MB:-90000}\n")

    def add(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, script="setup", **variables):
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls_file), "FAKE_TORCH": "2.11.0"}
        return subprocess.run(
            [self.tree / "scripts" / script],
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def calls(self):
        return self.calls_file.read_text().splitlines()

    def venv_is_there(self):
        return (self.tree / ".venv").exists()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def check_stopped(machine, done, *parts):
    """It left with 2, said each part, and changed nothing."""
    assert done.returncode == 2, done.stdout + done.stderr
    for part in parts:
        assert part in done.stderr
    assert machine.calls() == [] and not machine.venv_is_there()


def test_first_call_makes_and_second_does_nothing(machine):
    first = machine.run()
    assert first.returncode == 0, first.stderr
    assert [call.split()[0] for call in machine.calls()] == ["venv", "pip"]
    assert "torch==2.11.0" in machine.calls()[1]
    second = machine.run()
    assert second.stdout == "setup: ready (Python 3.11, torch 2.11.0)\n"
    assert len(machine.calls()) == 2


def test_missing_packages_are_installed_and_no_others(machine):
    done = machine.run(FAKE_MISSING="libfmt-dev cmake")
    assert done.returncode == 0, done.stderr
    apt = [call for call in machine.calls() if call.startswith("apt-get")]
    assert "update" in apt[0] and apt[1].endswith("cmake libfmt-dev") and len(apt) == 2
    assert "sudo" not in machine.calls()


def test_sudo_is_taken_where_not_root(machine):
    machine.add("sudo", SUDO)
    done = machine.run(FAKE_MISSING="libfmt-dev", FAKE_USER="1000")
    assert done.returncode == 0, done.stderr
    assert machine.calls()[0] == "sudo" and machine.calls()[1].startswith("apt-get update")


def test_without_root_or_sudo_the_list_is_printed(machine):
    done = machine.run(FAKE_MISSING="libfmt-dev ninja-build", FAKE_USER="1000")
    check_stopped(machine, done, "needs root or sudo", "libfmt-dev", "formatting", "ninja-build")
    assert "libcli11-dev" not in done.stderr


def test_on_another_linux_the_list_is_printed(machine):
    for name in ("dpkg-query", "apt-get"):
        (machine.bin / name).unlink()
    done = machine.run()
    check_stopped(machine, done, "no apt-get", "g++", "C++20", "libxxhash-dev", "checksums")
    assert "python3-venv" not in done.stderr


def test_apt_failing_is_explained(machine):
    done = machine.run(FAKE_MISSING="libfmt-dev", FAKE_APT_ERROR="Unable to fetch some archives")
    assert done.returncode == 2
    for part in ("apt-get could not install", "no network", "Unable to fetch", "libfmt-dev"):
        assert part in done.stderr
    assert not machine.venv_is_there()


def test_old_python(machine):
    done = machine.run(FAKE_PYTHON_VERSION="3.9")
    check_stopped(machine, done, "Python 3.11 or newer is needed", "3.9", "KHA_PYTHON")


def test_no_python(machine):
    done = machine.run(KHA_PYTHON=str(machine.bin / "nowhere"))
    check_stopped(machine, done, "there is no Python to run at", "nowhere")


def test_too_little_disk(machine):
    done = machine.run(FAKE_FREE_MB="6000")
    check_stopped(machine, done, "too little disk", "7 GB are needed", "5 GB are free")


@pytest.mark.parametrize(
    "pip_error, sentence",
    [
        ("Failed to establish a new connection: refused", "no network: pip could not reach"),
        ("Temporary failure in name resolution", "no network: pip could not reach"),
        ("[Errno 28] No space left on device", "the disk is full"),
        ("No matching distribution found for torch==2.11.0", "not to be had for Python 3.11"),
        ("something unforeseen", "something unforeseen"),
    ],
)
def test_pip_failing_is_one_sentence_and_leaves_nothing(machine, pip_error, sentence):
    done = machine.run(FAKE_PIP_ERROR=pip_error)
    assert done.returncode == 2
    assert sentence in done.stderr and "No half-made .venv is left" in done.stderr
    assert not machine.venv_is_there()


def test_changed_requirements_update_in_place(machine):
    machine.run()
    with (machine.tree / "requirements.txt").open("a") as file:
        file.write("zest==1.0\n")
    failed = machine.run(FAKE_PIP_ERROR="Network is unreachable")
    assert failed.returncode == 2 and machine.venv_is_there()
    assert machine.run().returncode == 0
    assert [call.split()[0] for call in machine.calls()] == ["venv", "pip", "pip", "pip"]
    assert "zest==1.0" in machine.calls()[-1]


def own_python(machine, version):
    path = machine.bin / "own-python"
    machine.add("own-python", PYTHON.replace("$FAKE_TORCH", version))
    return str(path)


def test_a_python_with_its_own_torch_is_taken_and_remembered(machine):
    python = own_python(machine, "2.12.1+cpu")
    done = machine.run(KHA_PYTHON=python)
    assert done.returncode == 0, done.stderr
    assert "torch 2.12.1+cpu" in done.stdout
    assert "--system-site-packages" in machine.calls()[0]
    assert "torch==" not in machine.calls()[1] and "transformers==" in machine.calls()[1]
    assert "torch 2.12.1+cpu" in machine.run().stdout
    assert len(machine.calls()) == 2


def test_a_virtual_environment_with_its_own_torch_is_seen_and_nothing_below_it(machine):
    done = machine.run(KHA_PYTHON=own_python(machine, "2.12.1"), FAKE_SITE="/env/site-packages")
    assert done.returncode == 0, done.stderr
    assert "--system-site-packages" not in machine.calls()[0]
    assert (machine.tree / "kha-base.pth").read_text() == "/env/site-packages\n"


def constraints(machine):
    return (machine.tree / "build" / "constraints.txt").read_text()


def test_what_comes_with_a_torch_of_its_own_is_not_pinned(machine):
    """torch's CUDA libraries are requirements of it by exact version, and the lock has others'."""
    machine.run()
    assert constraints(machine) == (machine.tree / "requirements.lock").read_text()
    assert machine.run(KHA_PYTHON=own_python(machine, "2.15.0")).returncode == 0
    names = {line.split("==")[0] for line in constraints(machine).splitlines()}
    assert not names & {"torch", "nvidia-cublas", "typing_extensions"}
    assert {"regex", "Jinja2", "nvidia-cufft", "huggingface_hub"} <= names
    for call in machine.calls():
        assert call.startswith("venv") or "-c build/constraints.txt" in call


def test_a_torch_that_pip_puts_in_front_is_refused(machine):
    python = own_python(machine, "2.15.0")
    done = machine.run(KHA_PYTHON=python, FAKE_PIP_TORCH="2.14.1")
    assert done.returncode == 2 and not machine.venv_is_there()
    assert f"pip put torch 2.14.1 in front of torch 2.15.0 of {python}" in done.stderr


@pytest.mark.parametrize(
    "version, sentence", [("", "has no torch"), ("2.9.1", "2.11 or newer is needed")]
)
def test_a_python_without_a_torch_that_will_do(machine, version, sentence):
    done = machine.run(KHA_PYTHON=own_python(machine, version))
    check_stopped(machine, done, sentence)


def test_another_base_python_that_fails_leaves_the_old_venv(machine):
    machine.run()
    failed = machine.run(KHA_PYTHON=own_python(machine, "2.12.0"), FAKE_PIP_ERROR="timed out")
    assert failed.returncode == 2
    assert machine.run().stdout == "setup: ready (Python 3.11, torch 2.11.0)\n"


def test_build_with_an_unknown_preset(machine):
    done = machine.run("build", PRESET="gpu")
    check_stopped(machine, done, "no preset 'gpu'", "cpu ci")
