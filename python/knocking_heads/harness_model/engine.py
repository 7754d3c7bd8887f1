"""A resident kha-engine that scores and continues token sequences; one JSON object a line."""

import contextlib
import json
import subprocess
from pathlib import Path

from user_error import UserError


class Engine:
    """``kha-engine score MODEL`` as a child; its first line holds facts about the model."""

    def __init__(self, program: Path, model: str):
        self._child = subprocess.Popen([program, "score", model], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.facts = self._read()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it ended before us; its exit code says why
            self._child.stdin.close()
        self._child.wait()

    def _read(self) -> dict:
        line = self._child.stdout.readline()
        if line:
            return json.loads(line)
        raise UserError("the engine ended early", found=f"exit code {self._child.wait()}",
                        cause="said above")

    def _ask(self, request: dict) -> dict:
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # its exit code is read next
        return self._read()

    def encode(self, text: str, around: bool) -> list[int]:
        """Ids as the tokenizers package gives them; `around`: with what the file puts around."""
        return self._ask({"encode": [text], "around": around})["ids"][0]

    def score(self, sequences: list[tuple[list[int], int]]) -> list[tuple[float, bool]]:
        """Of each (ids, from): the log-probability of ids[from:], and whether it is greedy."""
        asked = [{"ids": ids, "from": first} for ids, first in sequences]
        return [(total, greedy) for total, greedy in self._ask({"score": asked})["scores"]]

    def generate(self, ids: list[int], most: int, until: list[str]) -> str:
        return self._ask({"generate": ids, "most": most, "until": until})["text"]
