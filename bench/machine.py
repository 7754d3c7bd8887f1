"""The machine and the software that figures belong to."""

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit():
    """The commit, with "+" behind it where files differ from it."""
    try:
        head = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, text=True,
                              capture_output=True, check=True).stdout.strip()
        dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, text=True,
                               capture_output=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")


def facts(ops, threads, arguments):
    """What the JSON carries beside the figures."""
    import torch

    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "instruction_set": ops.widest_instruction_set(),
        "cpu_implementation": ops.cpu_implementation(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": "scripts/bench " + " ".join(arguments),
        "load_at_start": os.getloadavg()[0],
    }


def warn_of_load(facts_):
    """Readings beside other work are low for everyone, and their ratios wide."""
    if facts_["load_at_start"] > 0.5 * facts_["cores"]:
        print(f"note: load average {facts_['load_at_start']:.1f} on {facts_['cores']} cores; other "
              "work runs here, so shares of the ceiling will read low", file=sys.stderr)
