"""The byte tokenizer written beside a model gives bytes as ids in the public tokenizer packages."""

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

END = 256

TEXTS = [
    "",
    "plain text",
    "  leading, trailing and   inner blanks  ",
    "line\nline\r\nline\rtab\tend",
    "NUL \0 inside",
    "".join(chr(code) for code in range(0x80)),
    "".join(chr(code) for code in range(0x80, 0x250)),
    "emoji \N{GRINNING FACE} \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
    "\ufeffmark, \N{COMBINING ACUTE ACCENT}e and \N{LATIN SMALL LETTER E WITH ACUTE} stay apart",
    "\N{HIRAGANA LETTER A}\N{MATHEMATICAL BOLD CAPITAL A}\U0010fffd",
]


@pytest.fixture
def byte_tokenizer_dir(tiny_run):
    return tiny_run / "checkpoints" / "latest"


@pytest.fixture
def tokenizer(byte_tokenizer_dir):
    return Tokenizer.from_file(str(byte_tokenizer_dir / "tokenizer.json"))


@pytest.fixture
def auto_tokenizer(byte_tokenizer_dir):
    return AutoTokenizer.from_pretrained(byte_tokenizer_dir)


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizers_gives_bytes(tokenizer, text):
    ids = tokenizer.encode(text).ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", TEXTS)
def test_transformers_gives_bytes(auto_tokenizer, text):
    ids = auto_tokenizer(text)["input_ids"]
    assert ids == list(text.encode())
    assert auto_tokenizer.decode(ids) == text


def test_every_byte_has_its_token(tokenizer):
    # Some bytes are in no UTF-8 text, so the vocabulary is asked by id.
    tokens = [tokenizer.id_to_token(byte) for byte in range(256)]
    assert len(set(tokens)) == 256
    assert all(len(token) == 1 for token in tokens)
    assert tokenizer.decode([0xF0, 0x9F, 0x98, 0x80]) == "\N{GRINNING FACE}"
    assert tokenizer.get_vocab_size() == 257


def test_end_mark(tokenizer, auto_tokenizer):
    assert tokenizer.token_to_id("<|end|>") == END
    assert auto_tokenizer.eos_token_id == END
    assert tokenizer.decode([97, END, 98]) == "ab"
    assert auto_tokenizer.decode([97, END, 98], skip_special_tokens=True) == "ab"
