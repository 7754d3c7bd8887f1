"""`scripts/evidence` and `make evidence`: run what is missing, then write the figures."""

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

from evidence import collect, document
from evidence import folder as run_folder
from evidence import plan as plans
from evidence.progress import Progress
from evidence.runner import ROOT, Runner, RunnerError, Where


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/evidence",
        description="Trains the arms of a plan with paired seeds and judges the paper's orderings. "
                    "A stopped or killed plan goes on with the same command. Writes NAME.json, "
                    "NAME.md and NAME.png.")
    parser.add_argument("--plan", type=Path, default=ROOT / "evidence" / "plan.toml", metavar="FILE",
                        help="arms, seeds and orderings (default: evidence/plan.toml)")
    parser.add_argument("--runs", type=Path, metavar="DIR",
                        help="folder of the runs (default: runs/ and the plan's name)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="runs at a time (default: all cores; a run takes train.threads)")
    parser.add_argument("--minutes", type=float, metavar="M",
                        help="stop after so many minutes: what runs then is saved, and the figures "
                             "are made of what is finished")
    parser.add_argument("--text", metavar="FOLDER",
                        help="text to train on (default: the Python sources of the installed torch)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a field of every run, on top of the plan's; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="DIR",
                        help="folder of the results (default: docs)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="print the state of every run and stop")
    only.add_argument("--collect", action="store_true",
                      help="train nothing: make the figures of the runs that are finished now")
    only.add_argument("--tables", action="store_true",
                      help="make document and picture again from NAME.json, which needs no run")
    return parser.parse_args(arguments)


def default_text():
    found = importlib.util.find_spec("torch")
    if not found:
        raise RunnerError("this Python has no torch, whose sources are the text\n"
                          "  next: name a folder of text with --text")
    return found.submodule_search_locations[0]


def open_runs(plan, options):
    kha = Path(os.environ.get("KHA", ROOT / ".venv" / "bin" / "kha"))
    if not kha.is_file():
        raise RunnerError(f"there is no program {kha}\n  next: make build, or name it with KHA=FILE")
    if options.jobs < 1:
        raise RunnerError(f"--jobs {options.jobs}: at least 1")
    return Where(plan=plan, kha=kha, text=options.text or default_text(),
                 runs=(options.runs or ROOT / "runs" / plan.name).absolute(), sets=options.set)


def show_list(where):
    for run in where.plan.all_runs():
        folder = where.folder(run)
        points = run_folder.validation_points(folder)
        loss = f"{points[-1][1]:.4f}" if points else ""
        print(f"{run.name:<28}{run_folder.state_of(folder):<12}"
              f"{run_folder.last_step(folder):>7} of {where.steps(run)}{loss:>10}")


def write(plan, results, out):
    """Document and picture of the results; returns their paths."""
    paths = [out / f"{plan.name}.md", out / f"{plan.name}.png"]
    paths[0].write_text(document.text(plan, results, paths[1].name))
    try:
        from evidence import picture
    except ImportError as error:
        print(f"no picture: {error}; --tables draws it where matplotlib is", file=sys.stderr)
        return paths[:1]
    picture.write(plan, results, paths[1])
    return paths


def write_collected(where, out):
    if not any(run_folder.state_of(where.folder(run)) == "finished" for run in where.plan.runs):
        raise RunnerError(f"no run of {where.runs} is finished yet, so there is nothing to tabulate"
                          "\n  next: the same command without --collect trains them")
    out.mkdir(parents=True, exist_ok=True)
    results = collect.collect(where)
    file = out / f"{where.plan.name}.json"
    file.write_text(collect.to_text(results))
    return [file, *write(where.plan, results, out)]


def tables(plan, out):
    file = out / f"{plan.name}.json"
    if not file.is_file():
        raise RunnerError(f"there is no {file}\n  next: --collect makes it of finished runs")
    return write(plan, json.loads(file.read_text()), out)


def say_written(paths):
    print(f"written: {', '.join(map(str, paths))}")


def train(where, options):
    """Exit code."""
    print(f"evidence: {len(where.plan.all_runs())} runs into {where.runs}, {options.jobs} at a "
          "time; Ctrl-C saves them, the same command goes on", flush=True)
    runner = Runner(where, options.jobs, Progress(where), options.minutes and 60 * options.minutes)
    whole = runner.run()
    if whole or runner.stopped_by == "time":
        say_written(write_collected(where, options.out))
        return 0
    print("stopped; every run is saved. next: the same command goes on, with --collect it makes "
          "the figures of what is finished")
    return 128 + runner.stopped_by


def main(arguments=None):
    options = parse(arguments)
    try:
        plan = plans.read(options.plan)
        if options.tables:
            say_written(tables(plan, options.out))
            return 0
        where = open_runs(plan, options)
        if options.list:
            show_list(where)
        elif options.collect:
            say_written(write_collected(where, options.out))
        else:
            return train(where, options)
    except (plans.PlanError, RunnerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
