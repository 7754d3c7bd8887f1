"""The condensed results of a plan's runs: docs/NAME.json, from which the document is made."""

import datetime
import importlib.metadata
import json
import math
import struct
import tomllib

from bench.machine import commit, cpu_model
from evidence import folder as run_folder
from evidence.runner import best_rate


def count_parameters(folder):
    """All, and those in maps, from the header of the newest checkpoint; none where there is none."""
    file = folder / "checkpoints" / "latest" / "model.safetensors"
    if not file.is_file():
        return None, None
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    sizes = {name: math.prod(entry["shape"]) for name, entry in header.items()
             if name != "__metadata__"}
    return sum(sizes.values()), sum(n for name, n in sizes.items() if ".knock_" in name)


def rounded(points):
    """Six decimals; a loss that is no number as null, which JSON can hold."""
    return [[tokens, round(loss, 6) if math.isfinite(loss) else None] for tokens, loss in points]


def run_entry(where, run):
    folder = where.folder(run)
    all_parameters, map_parameters = count_parameters(folder)
    return {"arm": run.arm.name, "seed": run.seed, "sweep": run.rate is not None,
            "rate": run.rate or best_rate(where, run.arm), "state": run_folder.state_of(folder),
            "parameters": all_parameters, "map_parameters": map_parameters,
            "points": rounded(run_folder.validation_points(folder))}


def resolved(where):
    """The configuration that all runs share, without paths."""
    fields = run_folder.flat(tomllib.loads(where.print_config([])))
    return {key: value for key, value in fields.items()
            if not key.startswith(("knock.", "run.", "optimizer.lr", "optimizer.groups"))
            and key != "model.attention"}


def facts(where):
    summary = next((json.loads(path.read_text())["of"]
                    for path in sorted(where.runs.glob("*/summary.json"))), {})
    return {"cpu": cpu_model(), "torch": importlib.metadata.version("torch"), "commit": commit(),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "text": summary.get("text"), "runs": where.runs.name}


def collect(where):
    return {"plan": where.plan.name, "facts": facts(where), "config": resolved(where),
            "sweep_steps": where.plan.sweep_steps,
            "runs": [run_entry(where, run) for run in where.plan.all_runs()]}


def to_text(results):
    """JSON with one run a line, so that a later commit shows what changed."""
    head = json.dumps({key: value for key, value in results.items() if key != "runs"}, indent=1)
    lines = ",\n  ".join(json.dumps(run) for run in results["runs"])
    return head[:-2] + ',\n "runs": [\n  ' + lines + "\n ]\n}\n"
