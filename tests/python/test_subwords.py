"""A model on sub-words from its first text to transformers: one tokenizer all the way."""

import json
import shutil

import pytest

WORDS = 300  # ids of the tokenizer


@pytest.fixture(scope="module")
def tokenizer(kha, tiny_text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    result = kha("tokenizer", "train", tiny_text, "--vocab-size", WORDS, "--to", folder / "t")
    assert result.returncode == 0, result.stderr
    return folder / "t"


@pytest.fixture(scope="module")
def run(train, tokenizer, tmp_path_factory):
    """A finished run on sub-words, its rows padded to a multiple of 64."""
    folder = tmp_path_factory.mktemp("subwords")
    train(folder, run__name="words", knock__setting="kha-linear", data__tokenizer=tokenizer,
          data__vocab_multiple=64, optimizer__lr=0.01, train__steps=30)
    return folder / "words"


def test_the_checkpoint_has_the_tokenizer_and_its_rows(run, tokenizer):
    latest = run / "checkpoints/latest"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (latest / name).read_bytes() == (tokenizer / name).read_bytes()
    config = json.loads((latest / "config.json").read_text())
    assert config["vocab_size"] == 320 and config["eos_token_id"] == 0


def test_bits_a_byte_are_of_bytes_and_not_of_tokens(kha, run, tiny_text):
    figures = json.loads(kha("eval", run, tiny_text, "--json").stdout)
    text = b"".join(sorted(path.read_bytes() for path in tiny_text.iterdir()))
    assert figures["bits_per_byte"] < figures["loss"] / 0.6931 / 1.5  # tokens are longer than bytes
    assert abs(figures["bytes"] - len(text)) < 40  # a document's first token may stand at no target


def test_transformers_reads_and_writes_the_same(kha, run, tmp_path):
    import transformers

    assert kha("fold", run, "--to", tmp_path / "folded").returncode == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folded")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "folded")
    prompt = reader("the heads of", return_tensors="pt")
    theirs = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt.input_ids.shape[1]:]
    ours = json.loads(kha("generate", run, "--prompt", "the heads of", "--max-tokens", 12,
                          "--temperature", 0, "--json").stdout)
    assert ours["prompt_tokens"] == prompt.input_ids.shape[1]
    assert ours["ids"] == theirs.tolist()
    assert ours["text"] == reader.decode(theirs, skip_special_tokens=True)


def test_a_run_from_its_weights_takes_its_tokenizer(train, run, tmp_path):
    result = train(tmp_path, run__name="on", init__from=run, knock__setting="kha-linear",
                   train__steps=2)
    assert "starts from" in result.stdout
    config = json.loads((tmp_path / "on/checkpoints/latest/config.json").read_text())
    assert config["vocab_size"] == 320


def test_a_run_does_not_go_on_with_another_tokenizer(kha, train, tokenizer, tmp_path):
    shutil.copytree(tokenizer, tmp_path / "t")
    train(tmp_path, run__name="a", data__tokenizer=tmp_path / "t", train__steps=4)
    file = tmp_path / "t/tokenizer.json"
    file.write_text(file.read_text() + "\n")  # the same ids, but nobody has looked
    refused = train(tmp_path, run__name="a", data__tokenizer=tmp_path / "t", train__steps=8, check=False)
    assert refused.returncode == 2
    assert "the tokenizer is not the one that this run began with" in refused.stderr


def letters_of(number):
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


@pytest.fixture
def other_tokenizer(kha, tmp_path):
    """Of another text, with so many ids."""

    def learn(ids):
        text = tmp_path / f"{ids}.txt"
        text.write_text(" ".join(letters_of(7919 * n) for n in range(900)) * 3)
        learnt = kha("tokenizer", "train", text, "--vocab-size", ids, "--to", tmp_path / f"t{ids}")
        assert learnt.returncode == 0 and f"{ids} tokens" in learnt.stdout, learnt.stdout
        return tmp_path / f"t{ids}"

    return learn


def test_starting_from_a_model_of_another_tokenizer_is_said(train, run, other_tokenizer, tmp_path):
    result = train(tmp_path, run__name="x", init__from=run, data__tokenizer=other_tokenizer(310),
                   knock__setting="kha-linear", train__steps=1)
    assert "warning: data.tokenizer is not the tokenizer of the model" in result.stdout


def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_refused(train, run, other_tokenizer, tmp_path):
    refused = train(tmp_path, run__name="x", init__from=run, data__tokenizer=other_tokenizer(400),
                    knock__setting="kha-linear", check=False)
    assert refused.returncode == 2
    assert "ids for which the model has no row" in refused.stderr and "320 '" in refused.stderr


def test_written_out_marks_do_not_end_a_document(kha, train, tokenizer, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("one <|endoftext|> two\n" * 40)
    shown = kha("tokenizer", "encode", tokenizer, tmp_path / "text/a.txt").stdout.split()
    assert "0" not in shown
