"""How far the plan is and when it will be done: one live line on a terminal, else one a minute."""

import sys
import time

from evidence import folder as run_folder


def in_words(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


class Progress:
    def __init__(self, where, stream=None):
        self.where = where
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.every = 1.0 if self.live else 60.0
        self.shown = 0.0
        self.begin = None  # time and steps when this session's first line was shown
        self.finished = {}  # steps of runs that need no more reading

    def line(self, text):
        self.stream.write(("\r\x1b[K" if self.live else "") + text + "\n")
        self.stream.flush()

    def ended(self, run, state):
        loss = run_folder.validation_points(self.where.folder(run))[-1:]
        self.line(f"  {run.name}: {state}"
                  + (f", validation loss {loss[0][1]:.4f} nats a token" if loss else ""))

    def steps_done(self):
        total = 0
        for run in self.where.plan.all_runs():
            if run not in self.finished:
                folder = self.where.folder(run)
                step = run_folder.last_step(folder)
                if run_folder.state_of(folder) == "diverged":
                    step = self.where.steps(run)  # nothing of it is left to do
                if step >= self.where.steps(run):
                    self.finished[run] = step
                else:
                    total += step
        return total + sum(self.finished.values())

    def show(self, runner):
        now = time.monotonic()
        if now - self.shown < self.every:
            return
        self.shown = now
        done = self.steps_done()
        total = sum(self.where.steps(run) for run in self.where.plan.all_runs())
        self.begin = self.begin or (now, done)
        elapsed, made = now - self.begin[0], done - self.begin[1]
        left = f"{in_words(elapsed / made * (total - done))} left" if made else "time left not known"
        text = (f"evidence: {len(self.finished)} of {len(self.where.plan.all_runs())} runs, "
                f"{100 * done / total:.0f} % of the steps, {left}; running: "
                + (", ".join(run.name for run in runner.active) or "none"))
        if self.live:
            self.stream.write("\r\x1b[K" + text[:120])
            self.stream.flush()
        else:
            self.line(text)
