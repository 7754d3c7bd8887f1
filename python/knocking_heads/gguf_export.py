"""Writes a plain Hugging Face folder as one GGUF file for ``kha export --to gguf``.

``kha-gguf-export PLAIN OUT.gguf --dtype TYPE --report FILE`` writes the file and says in JSON what
it holds. ``kha-gguf-export --check-tokenizer FOLDER --rows N`` only looks whether llama.cpp cuts
text as the tokenizer does, before anything large is written. Loads neither torch nor the operators.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not as a package, which loads torch

from user_error import UserError, print_error  # noqa: E402

try:
    import gguf
except ImportError:
    print("error: writing GGUF needs the package gguf\n  next:     pip install gguf",
          file=sys.stderr)
    sys.exit(2)

from gguf_model.architecture import add_architecture_keys, architecture_of  # noqa: E402
from gguf_model.plain_folder import PlainFolder  # noqa: E402
from gguf_model.strict_keys import KeyWriter  # noqa: E402
from gguf_model.tensor_data import OUTPUT_TYPES, summary, write_tensors  # noqa: E402
from gguf_model.tensor_plan import TensorPlanner  # noqa: E402
from gguf_model.vocabulary import Vocabulary, vocabulary_of  # noqa: E402


def add_general_keys(writer: KeyWriter, name: str, dtype: str) -> None:
    writer.add_name(name)
    writer.add_file_type(OUTPUT_TYPES[dtype][1])
    if dtype == "q8_0":
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def write(plain: Path, out: Path, dtype: str, name: str) -> dict:
    folder = PlainFolder(plain)
    architecture = architecture_of(folder)
    vocabulary = vocabulary_of(plain, folder.config["vocab_size"])
    plan = TensorPlanner(folder, architecture).plan()
    writer = KeyWriter(out, architecture.name)
    add_general_keys(writer, name, dtype)
    add_architecture_keys(writer, architecture, folder.config)
    vocabulary.add_keys(writer)
    write_tensors(writer, folder, plan, dtype)
    return {"architecture": architecture.name, **summary(out, plan, dtype),
            "tokenizer": tokenizer_facts(vocabulary), "warnings": vocabulary.warnings}


def tokenizer_facts(vocabulary: Vocabulary) -> dict:
    pre = "SentencePiece" if vocabulary.scores else vocabulary.pre
    return {"pre": pre, "tokens": len(vocabulary.tokens), "unused": vocabulary.padding, "merges": len(vocabulary.merges),
            "marks": vocabulary.marks, "adds_bos": vocabulary.adds["bos"],
            "normalises": vocabulary.normalises,
            "chat_template": vocabulary.chat_template is not None}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kha-gguf-export")
    parser.add_argument("plain", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--dtype", choices=OUTPUT_TYPES, default="float32")
    parser.add_argument("--name", default="kha")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--check-tokenizer", type=Path)
    parser.add_argument("--rows", type=int)
    asked = parser.parse_args(words)
    if not asked.check_tokenizer and not (asked.plain and asked.out):
        parser.error("name the plain model's folder and the new file")
    return asked


def main(words: list[str]) -> int:
    asked = parse(words)
    try:
        if asked.check_tokenizer:
            vocabulary_of(asked.check_tokenizer, asked.rows)
            return 0
        report = write(asked.plain, asked.out, asked.dtype, asked.name)
    except UserError as error:
        return print_error(error)
    if asked.report:
        asked.report.write_text(json.dumps(report))
    else:
        print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
