"""`kha data`: prepare, check and show; data formats through the programs."""

import gzip
import json
import subprocess
import sys

import pytest
from conftest import BIN, settings


@pytest.fixture
def data(kha, tmp_path):
    """Runs `kha data PART ARGUMENTS` with settings; the cache is in tmp_path."""

    def run(part, *arguments, check=True, **changes):
        given = {"run.folder": tmp_path / "runs", **changes}
        given = {key.replace("__", "."): value for key, value in given.items()}
        result = kha("data", part, *arguments, *settings(**given))
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    return run


def lines_of(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


SENTENCES = [f"this is the sentence number {i} of the text" for i in range(100)]


def test_prepare_says_what_it_made_and_finds_it_again(data, tiny_text):
    first = data("prepare", data__paths=[tiny_text]).stdout
    assert "40 documents" in first and "shards written to" in first
    assert "shards were there" in data("prepare", data__paths=[tiny_text]).stdout


def test_train_takes_what_prepare_made(data, train, tiny_text, tmp_path):
    data("prepare", data__paths=[tiny_text])
    assert "shards were there" in train(tmp_path / "runs", run__name="x").stdout


def test_every_form_gives_the_same_batches(data, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(SENTENCES))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines_of(SENTENCES).encode()))
    shown = []
    for name in ("a.jsonl", "b.jsonl.gz"):
        text = data("show", "--step", 3, data__paths=[tmp_path / name],
                    data__validation_share=0.0).stdout
        shown.append([line for line in text.splitlines() if not line.startswith("row")])
    assert shown[0] == shown[1]
    assert any("sentence number" in line for line in shown[0])


def test_show_marks_documents_and_prompts(data, tmp_path):
    rows = [{"q": f"what is {i}? ", "a": f"it is {i}."} for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    keys = {"data.prompt_key": "q", "data.answer_key": "a", "data.validation_share": 0.0}
    text = data("show", "--step", 0, "--row", 1, data__paths=[tmp_path / "a.jsonl"], **keys).stdout
    assert "row 1:" in text and "row 0:" not in text
    assert any(line.strip().startswith("not learned") and "what is" in line
               for line in text.splitlines()), text
    assert any(line.strip().startswith("learned") and "it is" in line and "end mark" in line
               for line in text.splitlines()), text
    assert "-- document" in text


def test_show_reads_a_document_of_a_shard(data, kha, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(SENTENCES))
    text = data("prepare", data__paths=[tmp_path / "a.jsonl"], data__validation_share=0.0).stdout
    folder = text.split("written to ")[1].split(")")[0]
    shown = kha("data", "show", f"{folder}/train.tokens", "--document", 7)
    assert "document 7 of 100" in shown.stdout and SENTENCES[7] in shown.stdout
    missing = kha("data", "show", f"{folder}/train.tokens", "--document", 100)
    assert missing.returncode == 2 and "no such document" in missing.stderr


def test_check_counts_what_a_text_has(data, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\xff\xfe")
    (tmp_path / "t/b.jsonl").write_text(lines_of(SENTENCES + ["", "  "]))
    (tmp_path / "t/empty.txt").write_text("")
    report = json.loads(data("check", tmp_path / "t", "--json", data__validation_share=0.2).stdout)
    source = report[0]
    assert source["text"] == {"carriage_returns": 2, "byte_order_marks": 1, "invalid_bytes": 2}
    assert source["empty_documents"] == 2 and source["skipped"]["empty"] == 1
    sides = source["train"], source["validation"]
    assert sum(side["documents"] for side in sides) == 101
    assert max(side["longest"] for side in sides) == len(SENTENCES[99]) + 1
    assert max(side["largest_id"] for side in sides) == 256
    plain = data("check", tmp_path / "t", data__validation_share=0.2).stdout
    assert "2 carriage returns, 1 byte order marks, 2 bytes that are not UTF-8" in plain


def test_check_says_in_tokens_what_is_too_small(data, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(SENTENCES[:40]))
    few = data("check", tmp_path / "a.jsonl", data__validation_share=0.001, check=False)
    assert few.returncode == 1
    assert "too small: 0 tokens, and one window needs 33" in few.stdout
    refused = data("prepare", data__paths=[tmp_path / "a.jsonl"], data__validation_share=0.001,
                   check=False)
    assert refused.returncode == 2
    assert "validation split is too small" in refused.stderr and "33 tokens" in refused.stderr


def test_short_documents_are_packed(data, tmp_path):
    (tmp_path / "t").mkdir()
    for i in range(20):
        (tmp_path / f"t/{i}.txt").write_text("One sentence a file, no more than this.")
    data("prepare", data__paths=[tmp_path / "t"], train__context=256, data__validation_share=0.0)
    refused = data("prepare", data__paths=[tmp_path / "t"], train__context=4096, check=False)
    assert refused.returncode == 2
    assert "4097 tokens" in refused.stderr and "800 tokens in 20 documents" in refused.stderr


def test_bad_lines_stop_or_are_skipped(data, tmp_path):
    lines = lines_of(SENTENCES).splitlines()
    lines[4] = '{"body": "x"}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    stopped = data("prepare", data__paths=[tmp_path / "a.jsonl"], check=False)
    assert stopped.returncode == 2
    for part in ("no key `text`", "line 5, byte", "found:    body", "data.bad_lines=10"):
        assert part in stopped.stderr
    skipped = data("prepare", data__paths=[tmp_path / "a.jsonl"], data__bad_lines=1).stdout
    assert "1 bad lines" in skipped and "line 5" in skipped


def write_parquet(file, columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=30)


def test_parquet_gives_the_documents_of_its_column(data, tmp_path):
    write_parquet(tmp_path / "a.parquet",
                  {"id": list(range(102)), "text": SENTENCES + ["", None]})
    (tmp_path / "a.jsonl").write_text(lines_of(SENTENCES))
    rows = data("prepare", data__paths=[tmp_path / "a.parquet"], data__validation_share=0.0).stdout
    assert "100 documents" in rows and "2 documents without text" in rows
    other = data("prepare", data__paths=[tmp_path / "a.parquet"], data__text_key="body",
                 check=False)
    assert other.returncode == 2
    assert "no column `body`; it has id, text" in other.stderr


def test_parquet_without_pyarrow_says_so(data, tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", {"text": SENTENCES})
    (tmp_path / "hidden/pyarrow").mkdir(parents=True)
    (tmp_path / "hidden/pyarrow/__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    refused = data("prepare", data__paths=[tmp_path / "a.parquet"], check=False)
    assert refused.returncode == 2 and "pip install pyarrow" in refused.stderr


def test_a_damaged_parquet_file_is_a_sentence(data, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
    refused = data("prepare", data__paths=[tmp_path / "a.parquet"], check=False)
    assert refused.returncode == 2
    assert "cannot be read as Parquet" in refused.stderr and "Traceback" not in refused.stderr


def test_weights_make_each_path_a_source(data, train, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(SENTENCES))
    (tmp_path / "b.jsonl").write_text(lines_of(s.upper() for s in SENTENCES))
    mixed = {"data__paths": [tmp_path / "a.jsonl", tmp_path / "b.jsonl"],
             "data__weights": [0.75, 0.25]}
    assert "75.00 % of the sequences" in data("prepare", **mixed).stdout
    for step in (0, 5):  # batches of 4 sequences
        text = data("show", "--step", step, **mixed).stdout
        rows = [line for line in text.splitlines() if line.startswith("row")]
        assert sum("a.jsonl" in row for row in rows) == 3
        assert sum("b.jsonl" in row for row in rows) == 1
    wrong = data("prepare", data__paths=[tmp_path / "a.jsonl"], data__weights=[1, 2], check=False)
    assert "1 weights, one a path" in wrong.stderr
    train(tmp_path / "runs", run__name="mixed", **mixed)
    log = (tmp_path / "runs/mixed/metrics.jsonl").read_text().splitlines()
    last = json.loads([line for line in log if "val/loss" in line][-1])
    assert f"val/loss/{tmp_path / 'b.jsonl'}" in last and "val/loss" in last


def test_memory_does_not_grow_with_the_text(tmp_path):
    def peak(megabytes):
        line = json.dumps({"text": "some words that are neither short nor long " * 60}) + "\n"
        text = tmp_path / f"{megabytes}.jsonl"
        text.write_text(line * (megabytes * 1_000_000 // len(line)))
        command = [BIN / "kha", "data", "prepare", *settings(
            **{"run.folder": tmp_path / "runs", "data.paths": [text]})]
        # A child's peak begins with that of the process it is forked from: a small one asks.
        asker = ("import resource, subprocess, sys; "
                 "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                 "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        asked = subprocess.run([sys.executable, "-c", asker, *map(str, command)], check=True,
                               capture_output=True, text=True)
        return int(asked.stdout) / 1000

    small, large = peak(60), peak(240)
    assert large < 500
    assert large < 1.5 * small + 20
