"""A contender in a process of its own: one command a line to it, one JSON object a line back."""

import json
import os
import subprocess
import tempfile
from collections import deque


class ChildError(RuntimeError):
    """The child ended or refused; the message holds its last words."""


def environment(changes):
    """This process's environment; a change to None removes the variable."""
    merged = {**os.environ, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in merged.items() if changes.get(key, "") is not None}


class Child:
    def __init__(self, name, command, changes=None, cwd=None):
        self.name = name
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.others = deque(maxlen=20)  # lines that are no answers, such as warnings
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, cwd=cwd,
                                        env=environment(changes or {}))
        self.ready = self._answer("its start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, command):
        """The answer to a command. Raises ChildError where the child ends instead."""
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; what it said is in the message below
        return self._answer(command[:60])

    def close(self):
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def _answer(self, asked):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
            self.others.append(line.rstrip())
        code = self.process.wait()
        self.errors.seek(0)
        words = [*self.others, *self.errors.read().splitlines()[-12:]]
        raise ChildError(f"{self.name} ended with code {code} at {asked!r}:\n  "
                         + "\n  ".join(words))
