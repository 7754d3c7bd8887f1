"""The wheel of the finished build, installed in a virtual environment of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The folders of this Python's packages, first found first: two where torch is another Python's
# (KHA_PYTHON of `make build`).
SITES = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
OURS = ("knocking_heads", "__pycache__", "pip", "kha-base.pth")


def must_run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build_wheel(folder: Path) -> Path:
    """Packs what the build folder holds; nothing is compiled (cmake/from_build)."""
    build = os.environ.get("KHA_BUILD_DIR", str(ROOT / "build" / "cpu"))
    must_run(
        *(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", folder, "--config-settings=cmake.source-dir=cmake/from_build"),
        f"--config-settings=cmake.define.KHA_BUILD={build}",
        cwd=ROOT,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A new virtual environment with the wheel. It sees the packages of this Python, but for the
    package under test: as if they were installed `beside` it, or from another folder."""

    def __init__(self, folder: Path, wheel: Path, beside: bool):
        self.folder, self.bin = folder, folder / "bin"
        must_run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.python = self.bin / "python"
        self.site = Path(self.run("python", "-c", "import sysconfig; "
                                  "print(sysconfig.get_path('purelib'))").stdout.strip())
        if beside:
            for entry in (entry for site in SITES for entry in site.iterdir()):
                link = self.site / entry.name
                if not entry.name.startswith(OURS) and not link.is_symlink():
                    link.symlink_to(entry)
        else:
            (self.site / "other.pth").write_text("".join(f"{site}\n" for site in SITES))
        must_run(sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps",
                 "--no-index", wheel)  # fmt: skip

    def run(self, program, *arguments, **options):
        """Runs a program of the environment from its folder, with nothing else of ours in sight."""
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder)}
        return subprocess.run(
            [program, *map(str, arguments)],
            env={**environment, **options.pop("env", {})},
            executable=str(self.bin / program),
            cwd=self.folder,
            capture_output=True,
            text=True,
            **options,
        )

    def change_record(self, **changes):
        """Changes what the installed library says it was built with."""
        path = self.site / "knocking_heads" / "lib" / "libkha_ops.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
