"""Runs what the plan still lacks, a few at a time, each as a normal `kha train`."""

import ctypes
import math
import os
import signal
import subprocess
import time
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evidence import folder as run_folder

ROOT = Path(__file__).resolve().parents[1]
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class RunnerError(Exception):
    """What stops the whole plan, said in whole sentences."""


def die_with_parent():
    """In the child: if this program is killed, its runs save their state and end too."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Where:
    """Programs and folders of a plan's runs."""

    plan: object
    kha: Path
    text: str
    runs: Path  # the folder that holds one folder a run
    sets: list

    def folder(self, run):
        return self.runs / run.name

    def steps(self, run):
        return self.plan.sweep_steps if run.rate else self.full_steps

    @cached_property
    def full_steps(self):
        return tomllib.loads(self.print_config([]))["train"]["steps"]

    def command(self, sets):
        words = [str(self.kha), "train", str(ROOT / self.plan.config)]
        for text in [f'run.folder="{self.runs}"', f'data.paths=["{self.text}"]',
                     f'data.cache="{self.runs / ".data"}"', *self.plan.sets, *self.sets, *sets]:
            words += ["--set", text]
        return words

    def sets_of(self, run, rate):
        return [f'run.name="{run.name}"', f"run.seed={run.seed}", f"optimizer.lr={rate!r}",
                *run.arm.sets, *([f"train.steps={self.plan.sweep_steps}"] if run.rate else [])]

    def print_config(self, sets):
        done = subprocess.run([*self.command(sets), "--print-config"], text=True,
                              capture_output=True)
        if done.returncode:
            raise RunnerError(f"kha refuses the configuration:\n{done.stderr.rstrip()}")
        return done.stdout


def last_loss(folder):
    """Of the last evaluation; infinite where the run has none, so that no rate is chosen for it."""
    points = run_folder.validation_points(folder)
    loss = points[-1][1] if points else math.nan
    return loss if math.isfinite(loss) else math.inf


def best_rate(where, arm):
    """The swept rate of the lowest mean over its seeds; None while a run of the sweep is open."""
    losses = {}
    for run in where.plan.sweep_of(arm):
        state = run_folder.state_of(where.folder(run))
        if state not in ("finished", "diverged"):
            return None
        loss = last_loss(where.folder(run)) if state == "finished" else math.inf
        losses.setdefault(run.rate, []).append(loss)
    best = min(losses, key=lambda rate: sum(losses[rate]))
    if math.isinf(sum(losses[best])):
        raise RunnerError(f"no rate of the sweep of {arm.rate_of} ended with a number\n"
                          "  next: lower [sweep] rates in the plan")
    return best


def check_unchanged(where, run, rate):
    changes = run_folder.changed(where.folder(run), where.print_config(where.sets_of(run, rate)))
    if changes:
        raise RunnerError(f"{where.folder(run)} was made with another configuration:\n  "
                          + "\n  ".join(changes) + "\n  next: give this plan another place with "
                          "--runs DIR, or remove that folder")


class Runner:
    def __init__(self, where, jobs, progress, seconds=None):
        self.where, self.jobs, self.progress = where, jobs, progress
        self.deadline = time.monotonic() + seconds if seconds else None
        self.active = {}  # run: process
        self.open = [run for run in where.plan.all_runs()]
        self.stopped_by = None

    def run(self):
        """True where every run is finished or diverged, False where it was stopped before."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.remember)
        self.prepare_text()
        try:
            while (self.open or self.active) and not self.stopped_by:
                self.collect()
                self.start_what_can()
                self.progress.show(self)
                time.sleep(0.5)
                if self.deadline and time.monotonic() > self.deadline:
                    self.stopped_by = "time"
        finally:
            self.stop_all()
        return not self.stopped_by

    def remember(self, number, _):
        self.stopped_by = number

    def prepare_text(self):
        """Once, before two runs would do it side by side."""
        done = subprocess.run([*self.where.command([]), "--dry-run"], text=True,
                              capture_output=True)
        if done.returncode:
            raise RunnerError(f"the text cannot be prepared:\n{done.stderr.rstrip()}")

    def start_what_can(self):
        for run in list(self.open):
            if len(self.active) >= self.jobs:
                return
            rate = run.rate or best_rate(self.where, run.arm)
            if rate is None:
                continue
            self.open.remove(run)
            check_unchanged(self.where, run, rate)
            if run_folder.state_of(self.where.folder(run)) in ("finished", "diverged"):
                continue
            self.start(run, rate)

    def start(self, run, rate):
        logs = self.where.runs / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{run.name}.log").open("a") as log:
            # A group of its own: a Ctrl-C in the terminal reaches it once, from stop_all.
            self.active[run] = subprocess.Popen(
                [*self.where.command(self.where.sets_of(run, rate)), "--resume", "auto"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0,
                preexec_fn=die_with_parent)

    def collect(self):
        for run, process in list(self.active.items()):
            code = process.poll()
            if code is None:
                continue
            del self.active[run]
            state = run_folder.state_of(self.where.folder(run))
            if state not in ("finished", "diverged"):
                log = self.where.runs / "logs" / f"{run.name}.log"
                raise RunnerError(f"{run.name} ended with code {code}\n"
                                  + "\n".join(log.read_text().splitlines()[-8:])
                                  + f"\n  next: see {log}; the same command goes on from there")
            self.progress.ended(run, state)

    def stop_all(self):
        """Asks the runs to save and end."""
        for process in self.active.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
        for process in self.active.values():
            process.wait()
