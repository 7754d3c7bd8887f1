"""`kha tokenizer`: the ids and merges of the `tokenizers` package, its own files, its refusals."""

import json
import random
import shutil
import stat
import subprocess
import unicodedata

import pytest
from conftest import BIN
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokenizer_files as files


def save(tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a tokenizer of files.KINDS, made when it is first asked for."""
    root, known = tmp_path_factory.mktemp("tokenizers"), {}

    def make(kind):
        if kind not in known:
            tokenizer = files.with_marks(files.KINDS[kind]())
            known[kind] = save(tokenizer, root / kind.replace(" ", "-"))
        return known[kind]

    return make


@pytest.fixture(scope="module")
def hard_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for seed in range(20):
        (folder / f"mixed{seed}").write_bytes(files.mixed_text(1000 + seed).encode())
        (folder / f"random{seed}").write_bytes(files.random_code_points(seed).encode())
    (folder / "real").write_text("".join(files.real_text(200_000)))
    (folder / "Édith").write_text("x Édith, E\u0301dith; <think>a</think> <|im_start|>b <s>c</s>")
    return folder


def report(kha, folder, *texts):
    result = kha("tokenizer", "verify", folder, *texts, "--against", "tokenizers", "--json")
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def ids_of(kha, folder, text, *options):
    result = kha("tokenizer", "encode", folder, "--json", *options,
                 **({"input": text} if text is not None else {}))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["documents"][0]["ids"]


@pytest.mark.parametrize("kind", files.KINDS)
def test_ids_are_those_of_the_package(kha, made, hard_texts, kind):
    found = report(kha, made(kind), hard_texts)
    assert found["differences"] == []
    assert found["texts"] > 70 and found["bytes"] > 200_000


@pytest.mark.parametrize("kind", ["gpt2", "qwen3.5", "o200k", "digits and punctuation",
                                  "words and symbols"])
def test_every_code_point(kha, made, tmp_path, kind):
    text = tmp_path / "text"
    text.write_bytes(files.every_code_point().encode())
    assert report(kha, made(kind), text)["differences"] == []


@pytest.mark.parametrize("form", files.FORMS)
def test_normal_forms(kha, tmp_path, form):
    """Every code point alone, and behind and before marks, as the package normalises it."""
    tokenizer = files.byte_level([files.plain_bytes()], texts=["a"], vocab_size=257)
    tokenizer.normalizer = getattr(normalizers, form)()
    folder = save(tokenizer, tmp_path / "tokenizer")
    codes = [code for code in range(0x300, 0x30000) if code % 64 == 0 or
             unicodedata.category(chr(code))[0] == "M" or unicodedata.decomposition(chr(code))]
    codes = [code for code in codes if not 0xD800 <= code < 0xE000]
    for number, pattern in enumerate(["\u0345{}\u0334\u0301", "a{}\u0323", "\u1100{}\u11a8"]):
        text = "\n".join(pattern.format(chr(code)) for code in codes)
        (tmp_path / f"text{number}").write_bytes(text.encode())
    assert report(kha, folder, *tmp_path.glob("text?"))["differences"] == []


def test_a_long_text_of_several_megabytes(kha, made, tmp_path):
    (tmp_path / "text").write_text("".join(files.real_text(2_000_000)))
    found = report(kha, made("qwen2"), tmp_path / "text")
    assert found["equal"] and found["bytes"] > 1_000_000


@pytest.mark.parametrize("seed", range(4))
def test_added_tokens_with_any_flags(kha, tmp_path, seed):
    choose = random.Random(seed)
    tokenizer = files.byte_level([files.plain_bytes(regex=True)], nfc=True, texts=["x"])
    contents = ["<u>", "<u", "u>é", "ab", "abc", "É", " x", "x ", "<|end|>"]
    for content in contents:
        flags = {name: choose.random() < 0.5
                 for name in ("lstrip", "rstrip", "single_word", "normalized")}
        token = files.AddedToken(content, **flags)
        add = tokenizer.add_special_tokens if choose.random() < 0.3 else tokenizer.add_tokens
        add([token])
    folder = save(tokenizer, tmp_path / "tokenizer")
    for number in range(20):
        pieces = [*contents, " ", "  ", "\n", "_", "1", "E\u0301", "\u0301", "é", "日", "\u00a0"]
        text = "".join(choose.choice(pieces) for _ in range(60))
        (tmp_path / f"text{number}").write_bytes(text.encode())
    assert report(kha, folder, *tmp_path.glob("text*"))["differences"] == []


def test_byte_fallback_is_all_or_nothing(kha, tmp_path):
    vocab = {token: number for number, token in
             enumerate(["<unk>", "a", "b", "<0x0A>", "<0xF0>", "<0x9F>", "c", "ab"])}
    folder = save(Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b")], unk_token="<unk>",
                                       fuse_unk=True, byte_fallback=True)), tmp_path / "t")
    assert ids_of(kha, folder, "a\n\nb") == [1, 3, 3, 2]
    texts = ["a\n\nb", "😀", "a😀😀b", "x\ny", "xy\n\nzab", "😀\n"]
    words = [word for text in texts for word in ("--text", text)]
    found = report(kha, folder, *words)
    assert [one for one in found["differences"] if one["of"] != "the decoded text"] == []


def test_merges_in_both_spellings_and_tokens_with_blanks(kha, tmp_path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator(["a b a b a b c"] * 3, trainers.BpeTrainer(
        vocab_size=20, show_progress=False))
    file = json.loads(tokenizer.to_str())
    assert any(" " in side for merge in file["model"]["merges"] for side in merge)
    folder = save(tokenizer, tmp_path / "pairs")
    assert ids_of(kha, folder, "a b c a") == tokenizer.encode("a b c a").ids
    file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    result = kha("tokenizer", "encode", tmp_path, "--text", "a")
    assert result.returncode == 2 and "/model/merges/0" in result.stderr


@pytest.mark.parametrize("nfc", [False, True])
@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "qwen"])
def test_trained_merges_are_those_of_the_package(kha, tmp_path, pattern, nfc):
    texts = [text.replace("\0", "") for text in files.texts_to_learn_from()]
    for number, text in enumerate(texts):
        (tmp_path / f"text{number:03}").write_bytes(text.encode())
    steps = {"gpt2": [files.plain_bytes(regex=True)],
             "llama3": [files.split(files.LLAMA3), files.plain_bytes()],
             "qwen": [files.split(files.QWEN2), files.plain_bytes()]}[pattern]
    theirs = files.byte_level(steps, nfc, texts, vocab_size=1500, min_frequency=2)
    result = kha("tokenizer", "train", *sorted(tmp_path.glob("text*")), "--to", tmp_path / "out",
                 "--vocab-size", 1500, "--split", pattern, *(["--nfc"] if nfc else []), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["vocab_size"] == 1500
    ours = json.loads((tmp_path / "out/tokenizer.json").read_text())
    theirs = json.loads(theirs.to_str())
    assert ours["model"]["merges"] == theirs["model"]["merges"]
    assert ours["model"]["vocab"] == theirs["model"]["vocab"]
    assert ours["normalizer"] == theirs["normalizer"]


@pytest.mark.parametrize("frequency", [0, 1, 3])
def test_training_stops_where_the_text_does(kha, tmp_path, frequency):
    text = "aaaa aaa aab abab baba abcabc cab\n" * 2 + files.mixed_text(5, 10).replace("\0", "")
    (tmp_path / "text").write_bytes(text.encode())
    theirs = files.byte_level([files.plain_bytes(regex=True)], texts=[text], vocab_size=5000,
                              min_frequency=frequency)
    result = kha("tokenizer", "train", tmp_path / "text", "--to", tmp_path / "out", "--vocab-size",
                 5000, "--split", "gpt2", "--min-frequency", frequency)
    assert result.returncode == 0 and "fewer tokens than the 5000" in result.stdout
    ours = json.loads((tmp_path / "out/tokenizer.json").read_text())
    assert ours["model"]["merges"] == json.loads(theirs.to_str())["model"]["merges"]


@pytest.fixture(scope="module")
def trained(kha, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_text("".join(files.real_text(100_000)))
    result = kha("tokenizer", "train", folder / "text", "--vocab-size", 600, "--to",
                 folder / "tokenizer", "--special", "<|im_start|>")
    assert result.returncode == 0, result.stderr
    return folder / "tokenizer"


def test_transformers_opens_what_was_trained(kha, trained):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert tokenizer.eos_token == "<|endoftext|>" and tokenizer.eos_token_id == 0
    text = "def f(x):\n    return x  # é 日本 12345 😀"
    ids = ids_of(kha, trained, text)
    assert tokenizer(text)["input_ids"] == ids and tokenizer.decode(ids) == text
    assert tokenizer.convert_tokens_to_ids("<|im_start|>") == 1
    assert report(kha, trained)["equal"]


def test_a_tokenizer_is_not_replaced_unasked(kha, trained):
    arguments = ("tokenizer", "train", trained.parent / "text", "--vocab-size", 300, "--to", trained)
    result = kha(*arguments)
    assert result.returncode == 2 and "--overwrite" in result.stderr
    assert len(json.loads((trained / "tokenizer.json").read_text())["model"]["vocab"]) == 600


@pytest.mark.parametrize("arguments, message", [
    (["--vocab-size", "100"], "257"),
    (["--vocab-size", "300", "--split", "lama3"], "llama3"),
    (["--vocab-size", "300", "--special", "<|endoftext|>"], "named twice"),
])
def test_training_refuses(kha, trained, tmp_path, arguments, message):
    result = kha("tokenizer", "train", trained.parent / "text", "--to", tmp_path / "x", *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert not (tmp_path / "x").exists()


def test_marks_in_text_stay_text_unless_asked(kha, trained):
    text = "a<|endoftext|>b"
    assert 0 not in ids_of(kha, trained, text)
    assert ids_of(kha, trained, text, "--special").count(0) == 1


def test_bytes_that_are_no_text_come_back(kha, made, tmp_path):
    data = bytes(range(256)) * 3 + b"\xed\xa0\x80 \xf0\x9f caf\xc3\xa9 \xc3"
    (tmp_path / "data").write_bytes(data)
    for kind in ("gpt2", "llama3", "o200k"):
        encoded = kha("tokenizer", "encode", made(kind), tmp_path / "data")
        assert encoded.returncode == 0, encoded.stderr
        decode = [BIN / "kha", "tokenizer", "decode", made(kind)]
        back = subprocess.run(decode, input=encoded.stdout.encode(), capture_output=True)
        assert back.stdout == data
    found = report(kha, made("gpt2"), tmp_path / "data")
    assert found["not_utf8"] == [str(tmp_path / "data")] and found["equal"]


def test_documents_on_several_threads(kha, made, hard_texts):
    one, many = (json.loads(kha("tokenizer", "encode", made("qwen2"), hard_texts, "--json",
                                "--threads", threads).stdout)["documents"] for threads in (1, 4))
    assert one == many and len(one) == 42


def test_counts(kha, made):
    result = kha("tokenizer", "encode", made("gpt2"), "--text", "  ab", "--text", "", "--count")
    assert result.stdout.startswith("2 documents, 4 bytes, ")
    found = json.loads(kha("tokenizer", "decode", made("gpt2"), 0, 66, "--json").stdout)
    assert [one["bytes"] for one in found["tokens"]] == [0, 1] and len(found["text"]) == 1


def test_decoding_refuses_ids_that_are_none(kha, made):
    result = kha("tokenizer", "decode", made("gpt2"), "12", "99999")
    assert result.returncode == 2 and "99999" in result.stderr
    result = kha("tokenizer", "decode", made("gpt2"), input="1 2x")
    assert result.returncode == 2 and "2x" in result.stderr


@pytest.mark.parametrize("change, place, message", [
    ({"model": {"type": "WordPiece", "vocab": {}}}, "/model/type", "BPE"),
    ({"normalizer": {"type": "Lowercase"}}, "/normalizer", "NFC"),
    ({"pre_tokenizer": {"type": "BertPreTokenizer"}}, "/pre_tokenizer", "ByteLevel"),
    ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel"}, {"type": "Digits"}]}}, "/pre_tokenizer/pretokenizers/1", "last step"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{Greek}"}, "behavior": "Isolated"}},
     "/pre_tokenizer/pattern/Regex", "\\p{Greek}"),
    ({"decoder": {"type": "WordPiece"}}, "/decoder", "ByteFallback"),
    ({"post_processor": {"type": "Other"}}, "/post_processor", "TemplateProcessing"),
])
def test_what_is_not_understood_is_refused_by_name(kha, made, tmp_path, change, place, message):
    file = json.loads((made("gpt2") / "tokenizer.json").read_text()) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    result = kha("tokenizer", "encode", tmp_path, "--text", "a")
    assert result.returncode == 2
    assert f"tokenizer.json at {place}" in result.stderr and message in result.stderr


@pytest.mark.parametrize("key, value", [("dropout", 0.1), ("continuing_subword_prefix", "##"),
                                        ("end_of_word_suffix", "</w>"), ("unk_token", "<none>")])
def test_options_of_the_model_that_would_change_ids_are_refused(kha, made, tmp_path, key, value):
    file = json.loads((made("gpt2") / "tokenizer.json").read_text())
    file["model"][key] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    result = kha("tokenizer", "encode", tmp_path, "--text", "a")
    assert result.returncode == 2 and f"/model/{key}" in result.stderr


@pytest.fixture
def own_programs(tmp_path):
    """A folder with kha alone, and a way to put a companion of one's own beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(BIN / "kha", folder / "kha")

    def companion(script):
        file = folder / "kha-tokenizer-peer"
        file.write_text(script)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    return folder / "kha", companion


def verify_with(program, folder):
    return subprocess.run([program, "tokenizer", "verify", folder, "--against", "tokenizers"],
                          text=True, capture_output=True)


def test_verify_shows_the_first_difference(made, own_programs):
    kha, companion = own_programs
    companion(f"""#!/bin/sh
{BIN / "kha-tokenizer-peer"} "$@" || exit
{BIN / "python"} - "$3" <<'END'
import json, sys
answer = json.load(open(sys.argv[1]))
answer["texts"][4]["plain"][3] += 1
json.dump(answer, open(sys.argv[1], "w"))
END
""")
    result = verify_with(kha, made("gpt2"))
    assert result.returncode == 1, result.stderr
    assert "contractions: the ids of a document differ" in result.stdout
    assert "first at: id 3" in result.stdout and "NOT EQUAL: 1 of " in result.stdout


def test_verify_says_what_is_missing(made, own_programs):
    kha, companion = own_programs
    result = verify_with(kha, made("gpt2"))
    assert result.returncode == 2 and "kha-tokenizer-peer" in result.stderr
    companion(f"""#!/bin/sh
exec {BIN / "python"} -S -P {files.PACKAGES}/knocking_heads/tokenizer_peer.py "$@"
""")
    result = verify_with(kha, made("gpt2"))
    assert result.returncode == 2 and "the tokenizers package is not installed" in result.stderr
