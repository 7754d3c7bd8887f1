"""Tokenizers of SentencePiece's kind: pieces merged by score, what is in none of them as bytes.

tokenizer.json has the merges in their order, GGUF a score for each piece. Both say the same where
every way to make a piece of two others is a merge, and those of one piece stand together.
"""

import gguf
from user_error import UserError

BLANK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NORMALISER = [{"type": "Prepend", "prepend": BLANK},
              {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}]
REMEDY = "use the model with transformers: kha export --to hf"


def refuse(what: str, where: str, expected: str, found: str) -> None:
    raise UserError(what, where=f"tokenizer.json, {where}", expected=expected, found=found,
                    next=REMEDY)


def has_pieces(file: dict) -> bool:
    model = file["model"]
    return model.get("type") == "BPE" and bool(model.get("byte_fallback"))


def check_pieces(file: dict) -> None:
    """Text to pieces as llama.cpp does it: a blank in front, nothing cut before merges."""
    model, normaliser = file["model"], file.get("normalizer") or {}
    steps = normaliser.get("normalizers", [normaliser])
    if steps != NORMALISER:
        refuse("llama.cpp puts one blank in front of a text and changes no other character",
               "normalizer", "Prepend and Replace, as files of Llama 2 have it",
               ", ".join(step.get("type", "none") for step in steps))
    if file.get("pre_tokenizer"):
        refuse("llama.cpp cuts nothing before the merges of pieces", "pre_tokenizer", "none",
               file["pre_tokenizer"].get("type", "?"))
    missing = [byte for byte in BYTES if byte not in model["vocab"]]
    if missing:
        refuse("there is no piece for a byte", "model.vocab", "<0x00> to <0xFF>",
               f"no {missing[0]}")
    for key in ("ignore_merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            refuse("llama.cpp has no such part of a tokenizer", f"model.{key}", "none",
                   str(model[key]))


def groups_of(model: dict) -> dict[str, int]:
    """Every merged piece with the place of its merges among those of the others."""
    places: dict[str, int] = {}
    last = None
    for number, merge in enumerate(model.get("merges") or []):
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        piece = left + right
        if piece != last and piece in places:
            refuse("the merges of a piece do not stand together, so it has no one score",
                   f"model.merges, {number}", "merges in the order of their pieces' scores",
                   f"{left!r} {right!r}")
        places.setdefault(piece, len(places))
        last = piece
    return places


def check_every_split(model: dict, special: set[str], warnings: list[str]) -> None:
    """llama.cpp joins two pieces wherever the vocabulary has their text."""
    vocabulary = model["vocab"]
    merges = {tuple(merge.split(" ", 1) if isinstance(merge, str) else merge)
              for merge in model.get("merges") or []}
    for piece in vocabulary:
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left not in vocabulary or right not in vocabulary or (left, right) in merges:
                continue
            if piece not in special:
                refuse("llama.cpp joins two pieces that this tokenizer leaves apart", "model.merges",
                       f"a merge of {left!r} and {right!r}, whose text {piece!r} is a piece", "none")
            warnings.append(f"a text that spells {piece} may get its id in llama.cpp")
            break


def scores_and_types(file: dict, tokens: list[str], types: list[int],
                     warnings: list[str]) -> tuple[list[float], list[int]]:
    """Of every row: the score, and the type as pieces have it."""
    check_pieces(file)
    special = {token["content"] for token in file.get("added_tokens") or []}
    check_every_split(file["model"], special, warnings)
    places = groups_of(file["model"])
    kinds = dict.fromkeys(BYTES, int(gguf.TokenType.BYTE))
    kinds[file["model"].get("unk_token")] = int(gguf.TokenType.UNKNOWN)
    scores = [float(-places.get(text, len(places))) for text in tokens]
    return scores, [kinds.get(text, kind) for text, kind in zip(tokens, types)]
