"""A tokenizer.json and what stands beside it, as the tokenizer keys of GGUF."""

from dataclasses import dataclass, field
from pathlib import Path

import gguf
from user_error import UserError

from .pieces import has_pieces, scores_and_types
from .plain_folder import read_json
from .split_pattern import REMEDY, pre_name
from .strict_keys import KeyWriter

MARKS = {"eos": "eos_token", "bos": "bos_token", "pad": "pad_token"}


@dataclass
class Vocabulary:
    pre: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    marks: dict[str, int]  # eos, bos, pad: ids
    adds: dict[str, bool]  # bos, eos: around every text
    chat_template: str | None
    padding: int  # rows of the model behind the tokenizer's last id
    normalises: bool = False  # text to NFC first
    warnings: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # of pieces, which have no merges

    def add_keys(self, writer: KeyWriter) -> None:
        writer.add_tokenizer_model("llama" if self.scores else "gpt2")
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        self.add_joins(writer)
        for name, add in (("eos", writer.add_eos_token_id), ("bos", writer.add_bos_token_id),
                          ("pad", writer.add_pad_token_id)):
            if name in self.marks:
                add(self.marks[name])
        writer.add_add_bos_token(self.adds["bos"])
        writer.add_add_eos_token(self.adds["eos"])
        if self.chat_template:
            writer.add_chat_template(self.chat_template)

    def add_joins(self, writer: KeyWriter) -> None:
        if not self.scores:
            writer.add_key_value(gguf.Keys.Tokenizer.MERGES, self.merges, gguf.GGUFValueType.ARRAY,
                                 gguf.GGUFValueType.STRING)
            return
        writer.add_token_scores(self.scores)
        writer.add_add_space_prefix(True)
        unknown = int(gguf.TokenType.UNKNOWN)
        if unknown in self.types:
            writer.add_unk_token_id(self.types.index(unknown))


def refuse(what: str, where: str, found: str) -> None:
    raise UserError(what, where=f"tokenizer.json, {where}", found=found, next=REMEDY)


def check_model(model: dict) -> None:
    if model.get("type", "BPE") != "BPE":
        refuse("this kind of tokenizer is not written as GGUF", "model", model["type"])
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token", "dropout"):
        if model.get(key):
            refuse("llama.cpp has no such part of a tokenizer", f"model.{key}", str(model[key]))


def check_normaliser(file: dict, warnings: list[str]) -> bool:
    """Whether it brings text to NFC, which is the one thing that is let pass."""
    steps = file.get("normalizer") or {"type": "Sequence", "normalizers": []}
    kinds = [step["type"] for step in steps.get("normalizers", [steps])]
    if any(kind != "NFC" for kind in kinds):
        refuse("llama.cpp does not normalise text", "normalizer", ", ".join(kinds))
    if kinds:
        warnings.append("the tokenizer brings text to NFC first and llama.cpp does not: text in "
                        "another form gets other ids there")
    return bool(kinds)


def merge_lines(model: dict) -> list[str]:
    lines = []
    for number, merge in enumerate(model.get("merges") or []):
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        if " " in left or " " in right:
            refuse("GGUF cannot hold a merge of tokens with blanks", f"model.merges, {number}",
                   f"{left!r} {right!r}")
        lines.append(f"{left} {right}")
    return lines


def listed_tokens(file: dict, rows: int, warnings: list[str]) -> tuple[list[str], list[int]]:
    """Every row's text and type; rows without an id are unused."""
    texts = {id: text for text, id in file["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, gguf.TokenType.NORMAL)
    for token in file.get("added_tokens") or []:
        id, special = token["id"], token.get("special")
        texts[id] = token["content"]
        kinds[id] = gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED
        if token.get("lstrip") or token.get("rstrip") or token.get("single_word"):
            warnings.append(f"{token['content']}: llama.cpp does not know what it does to the "
                            "text beside it (lstrip, rstrip, single_word)")
    beyond = sorted(id for id in texts if id >= rows)
    if beyond:
        raise UserError("the tokenizer has ids for which the model has no row",
                        expected=f"ids below vocab_size {rows}",
                        found=", ".join(f"{id} {texts[id]!r}" for id in beyond[:5]),
                        next="use the tokenizer that came with the model")
    tokens = [texts.get(id, f"[PAD{id}]") for id in range(rows)]
    return tokens, [int(kinds.get(id, gguf.TokenType.UNUSED)) for id in range(rows)]


def around(file: dict) -> dict[str, str | None]:
    """The special tokens that the post-processor puts before and behind a text."""
    post = file.get("post_processor") or {}
    steps = post.get("processors", [post])
    found = {"bos": None, "eos": None}
    for step in steps:
        kind = step.get("type")
        if kind in ("RobertaProcessing", "BertProcessing"):
            found = {"bos": step["cls"][0], "eos": step["sep"][0]}
        elif kind not in (None, "ByteLevel", "TemplateProcessing"):
            refuse("what this puts around a text is not known", "post_processor", kind)
        parts = step.get("single", []) if kind == "TemplateProcessing" else []
        text = next((i for i, part in enumerate(parts) if "Sequence" in part), None)
        for i, part in enumerate(parts):
            if "SpecialToken" not in part:
                continue
            side = "bos" if i < text else "eos"
            if found[side] is not None:
                refuse("llama.cpp puts one token around a text", "post_processor", str(parts))
            found[side] = part["SpecialToken"]["id"]
    return found


def token_text(value) -> str | None:
    return value.get("content") if isinstance(value, dict) else value


def mark_ids(folder: Path, ids: dict[str, int], put: dict[str, str | None]) -> dict[str, int]:
    """End, begin and padding: what the post-processor puts, else config.json, else the
    tokenizer's own settings."""
    configs = [read_json(folder / name) for name in ("config.json", "generation_config.json")]
    settings = [read_json(folder / name)
                for name in ("tokenizer_config.json", "special_tokens_map.json")]
    marks = {}
    for mark, key in MARKS.items():
        given = [config.get(f"{mark}_token_id") for config in configs]
        named = [ids.get(token_text(each.get(key))) for each in settings]
        for value in [ids.get(put.get(mark)), *given, *named]:
            if isinstance(value, list):
                value = value[0] if value else None
            if value is not None:
                marks[mark] = value
                break
    return marks


def template_of(folder: Path) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):
        template = {each["name"]: each["template"] for each in template}.get("default")
    return template


def vocabulary_of(folder: Path, rows: int) -> Vocabulary:
    """Of a folder with tokenizer.json, for a model of so many rows."""
    file = read_json(folder / "tokenizer.json")
    warnings: list[str] = []
    pieces, normalises, scores = has_pieces(file), False, []
    if not pieces:
        check_model(file["model"])
        normalises = check_normaliser(file, warnings)
    tokens, types = listed_tokens(file, rows, warnings)
    if pieces:
        scores, types = scores_and_types(file, tokens, types, warnings)
    ids = {text: id for id, text in enumerate(tokens)}
    put = around(file)
    marks = mark_ids(folder, ids, put)
    if "eos" not in marks:
        warnings.append("the model names no end mark (eos_token_id): llama.cpp then takes id 11")
    adds = {side: text is not None for side, text in put.items()}
    return Vocabulary("default" if pieces else pre_name(file), tokens, types,
                      [] if pieces else merge_lines(file["model"]), marks, adds,
                      template_of(folder), types.count(int(gguf.TokenType.UNUSED)), normalises,
                      warnings, scores)
