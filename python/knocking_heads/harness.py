"""Runs lm-evaluation-harness on a model of kha's: ``kha harness TASKS MODEL``.

The engine scores, so that every attention system and every map can be asked, unfolded. Nothing is
downloaded: tasks are those of a folder (``--include-path``), or the harness's own where their data
lies in the local cache.
"""

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not as a package, which loads operators

for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[name] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from user_error import UserError, print_error, program_beside  # noqa: E402

try:
    import lm_eval
except ImportError:
    print("error: kha harness needs the package lm-eval\n  next:     pip install lm-eval",
          file=sys.stderr)
    sys.exit(2)

from harness_model.engine import Engine  # noqa: E402
from harness_model.language_model import EngineLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from lm_eval.utils import make_table  # noqa: E402

RESAMPLINGS = 1000  # for standard errors that have no formula; the harness's 100,000 take minutes


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kha harness", description=__doc__.splitlines()[0])
    parser.add_argument("tasks", help="names of tasks or groups, comma-separated")
    parser.add_argument("model", help="a model folder, or a run (its latest checkpoint)")
    parser.add_argument("--include-path", help="a folder with tasks of your own (YAML)")
    parser.add_argument("--num-fewshot", type=int, help="examples in front of each question")
    parser.add_argument("--limit", type=int, help="so many questions of each task")
    parser.add_argument("--batch-size", type=int, default=8, help="sequences at once (8)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser.parse_args(words)


def manager_of(asked: argparse.Namespace, tasks: list[str]) -> TaskManager:
    if asked.include_path and not Path(asked.include_path).is_dir():
        raise UserError("the folder with tasks does not exist", where=asked.include_path)
    manager = TaskManager(include_path=asked.include_path)
    unknown = [task for task in tasks if task not in manager.all_tasks]
    if unknown:
        raise UserError("there is no task of this name", found=", ".join(unknown),
                        next="name a folder with its YAML file: --include-path DIR")
    return manager


def evaluate(model: EngineLM, asked: argparse.Namespace) -> dict:
    tasks = asked.tasks.split(",")
    manager = manager_of(asked, tasks)
    try:
        return lm_eval.simple_evaluate(model=model, tasks=tasks, task_manager=manager,
                                       num_fewshot=asked.num_fewshot, limit=asked.limit,
                                       log_samples=False, batch_size=asked.batch_size,
                                       bootstrap_iters=RESAMPLINGS)
    except (ConnectionError, FileNotFoundError) as error:
        raise UserError("the data of a task is not on this machine, and nothing is downloaded",
                        found=str(error).splitlines()[0],
                        next="put its data beside a task of your own: --include-path DIR") from error


def report(asked: argparse.Namespace, model: EngineLM, found: dict) -> dict:
    return {"model": asked.model, "tasks": found["results"], "groups": found.get("groups"),
            "versions": found["versions"], "num_fewshot": found["n-shot"],
            "begin_mark": model.begin,
            "prefix": model.begin if model.begin is not None else model.eot_token_id, "policy": model.policy(),
            "precision": "float32", "batch_size": asked.batch_size, **model.counts,
            "harness": f"lm-eval {lm_eval.__version__}"}


def print_report(model: EngineLM, found: dict) -> None:
    print(make_table(found))
    print(model.policy())
    apart, cut = model.counts["continuations_encoded_apart"], model.counts["contexts_cut"]
    if apart:
        print(f"{apart} continuations share a token with their context and were encoded apart")
    if cut:
        print(f"{cut} contexts were cut on the left to the model's {model.max_length} tokens")
    print(f"scored by the engine in float32, lm-eval {lm_eval.__version__}")


def main(words: list[str]) -> int:
    asked = parse(words)
    engine = None
    try:
        engine = Engine(program_beside("kha-engine"), asked.model)
        model = EngineLM(engine, asked.batch_size)
        with contextlib.redirect_stdout(sys.stderr):  # what tasks say is no part of the answer
            found = evaluate(model, asked)
    except UserError as error:
        return print_error(error)
    finally:
        if engine:
            engine.close()
    if asked.json:
        print(json.dumps(report(asked, model, found), indent=2, default=str))
    else:
        print_report(model, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
