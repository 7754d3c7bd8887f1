"""Gives the ids of the `tokenizers` package to ``kha tokenizer verify``.

``kha-tokenizer-peer DIR TEXTS.json IDS.json`` reads a list of texts and writes, for each, the ids of
the text as a document (special tokens stay text), the ids with special tokens and what the
tokenizer puts around a text, and the first ones decoded. Stands alone: loads no torch.
"""

import json
import sys
from pathlib import Path


def tokenizer_file(path: Path) -> Path:
    return path / "tokenizer.json" if path.is_dir() else path


def answers(tokenizer, texts: list[str]) -> list[dict]:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = []
    for text in texts:
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        special = tokenizer.encode(text, add_special_tokens=True).ids
        found.append({"plain": plain, "special": special, "decoded": tokenizer.decode(plain)})
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("kha-tokenizer-peer: DIR TEXTS.json IDS.json", file=sys.stderr)
        return 2
    try:
        import tokenizers
    except ImportError:
        print(
            "kha tokenizer verify: the tokenizers package is not installed\n"
            "  next: pip install tokenizers",
            file=sys.stderr,
        )
        return 2
    folder, asked, answered = map(Path, arguments)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file(folder)))
    except Exception as error:  # the package raises plain Exceptions
        print(f"kha tokenizer verify: the package cannot read {folder}: {error}", file=sys.stderr)
        return 2
    texts = json.loads(asked.read_text())
    answered.write_text(
        json.dumps({"version": tokenizers.__version__, "texts": answers(tokenizer, texts)})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
