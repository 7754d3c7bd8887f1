"""The language model that lm-evaluation-harness asks; the engine answers.

Text becomes ids by the model's tokenizer.json. What stands in front of a text is read from it as
well: the begin mark where its post-processor puts one, else nothing; an empty context is the begin
mark, or the end mark where there is none, as before every document in training.
"""

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from user_error import UserError

from .engine import Engine

DEFAULT_GENERATED = 256  # tokens, where a task does not say; as the harness's own adapters


class EngineLM(TemplateLM):
    def __init__(self, engine: Engine, batch_size: int):
        super().__init__()
        self.engine = engine
        self.batch_size = batch_size
        self.max_length = engine.facts["context"]
        self.begin = self._begin_mark()
        self.counts = {"continuations_encoded_apart": 0, "contexts_cut": 0, "windows": 0}

    def _begin_mark(self) -> int | None:
        """What the tokenizer puts in front of a text."""
        text = "a"
        plain, whole = self.engine.encode(text, False), self.engine.encode(text, True)
        before = next((at for at in range(len(whole))
                       if whole[at : at + len(plain)] == plain), 0)
        return whole[0] if before > 0 else None

    @property
    def eot_token_id(self) -> int:
        return self.engine.facts["end"]

    @property
    def prefix_token_id(self) -> int:
        first = self.begin if self.begin is not None else self.eot_token_id
        if first < 0:
            raise UserError("nothing can stand in front of a text without context",
                            expected="a tokenizer with a begin or an end mark",
                            next="name eos_token in tokenizer_config.json")
        return first

    def policy(self) -> str:
        """For people, printed with the result."""
        if self.begin is not None:
            return (f"begin mark {self.begin} in front of every text and every rolling window, "
                    "as tokenizer.json puts it")
        if self.eot_token_id < 0:
            return "no begin mark, as tokenizer.json puts none, and no end mark"
        return (f"no begin mark, as tokenizer.json puts none; end mark {self.eot_token_id} "
                "in front of a text without context")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None,
                   **kwargs) -> list[int]:
        ids = self.engine.encode(string, False)
        wanted = self.begin is not None and add_special_tokens is not False
        if wanted and ids[:1] != [self.begin]:
            return [self.begin, *ids]
        return ids

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Blanks at the end of the context move to the continuation, both are encoded together and
        cut by length; where a token spans the border so that nothing is left, apart."""
        before, behind = super()._encode_pair(context, continuation)
        if not behind:
            self.counts["continuations_encoded_apart"] += 1
            blanks = len(context) - len(context.rstrip())
            moved = context[len(context) - blanks :] + continuation
            before = self.tok_encode(context[: len(context) - blanks])
            behind = self.tok_encode(moved, add_special_tokens=False)
        return before or [self.prefix_token_id], behind

    def _cut(self, before: list[int], behind: list[int]) -> tuple[list[int], int]:
        """The last ids that fit, and where those that are scored begin."""
        if len(behind) > self.max_length:
            raise UserError("a continuation is longer than the model's context",
                            expected=f"at most {self.max_length} tokens", found=str(len(behind)))
        ids = before + behind
        if len(ids) > self.max_length + 1:
            self.counts["contexts_cut"] += 1
            ids = ids[-(self.max_length + 1) :]
        return ids, len(ids) - len(behind)

    def _loglikelihood_tokens(self, requests, **kwargs) -> list[tuple[float, bool]]:
        sequences = [self._cut(before, behind) for _, before, behind in requests]
        # Of like length together; padding is never scored, so the order changes no result.
        order = sorted(range(len(sequences)), key=lambda at: -len(sequences[at][0]))
        scores: list = [None] * len(sequences)
        for first in range(0, len(order), self.batch_size):
            rows = order[first : first + self.batch_size]
            for at, score in zip(rows, self.engine.score([sequences[row] for row in rows])):
                scores[at] = score
        return scores

    def _windows(self, text: str) -> list[tuple[list[int], list[int]]]:
        """Every token of the text is scored once; a begin mark stands in front of each window."""
        marks = 0 if self.begin is None else 1
        pairs = utils.get_rolling_token_windows(
            self.tok_encode(text, add_special_tokens=False), prefix_token=self.prefix_token_id,
            max_seq_len=self.max_length - marks, context_len=1)
        windows = [utils.make_disjoint_window(pair) for pair in pairs]
        if marks:
            windows[1:] = [([self.begin, *before], behind) for before, behind in windows[1:]]
        self.counts["windows"] += len(windows)
        return windows

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False) -> list[float]:
        windows = [self._windows(request.args[0]) for request in requests]
        scores = iter(self._loglikelihood_tokens(
            [(None, before, behind) for each in windows for before, behind in each]))
        return [sum(next(scores)[0] for _ in each) for each in windows]

    def generate_until(self, requests, disable_tqdm: bool = False) -> list[str]:
        return [self._continue(*request.args) for request in requests]

    def _continue(self, context: str, settings: dict) -> str:
        if settings.get("do_sample") or settings.get("temperature"):
            raise UserError("kha harness writes the most likely text alone",
                            found=f"generation settings {settings}",
                            next="set do_sample: false and temperature: 0 in the task")
        until = settings.get("until") or []
        until = [until] if isinstance(until, str) else [text for text in until if text]
        most = min(settings.get("max_gen_toks", DEFAULT_GENERATED), self.max_length - 1)
        ids = self.tok_encode(context) or [self.prefix_token_id]
        if len(ids) > self.max_length - most:
            self.counts["contexts_cut"] += 1
            ids = ids[-(self.max_length - most) :]
        return self.engine.generate(ids, most, until)
