"""Parquet files as text: what is no text, what is damaged, what is not what it says."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import settings

SENTENCES = [f"this is the sentence number {i} of the text" for i in range(60)]


@pytest.fixture
def prepare(kha, tmp_path):
    def run(file, **changes):
        given = {"run.folder": tmp_path / "runs", "data.paths": [file], "data.validation_share": 0.0}
        given |= {key.replace("__", "."): value for key, value in changes.items()}
        return kha("data", "prepare", *settings(**given))

    return run


def refused(result, file, words):
    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr
    for word in [str(file), *words]:
        assert word in result.stderr, result.stderr
    assert len(result.stderr) < 2000 and "\x1b" not in result.stderr


DEEP = "x"
for _ in range(60):
    DEEP = {"a": DEEP}
COLUMNS = {
    "numbers": (list(range(60)), ["column `text` is of type int64", "data.text_key=NAME"]),
    "NaN": ([float("nan")] * 60, ["column `text` is of type double"]),
    "lists": ([[each] for each in SENTENCES], ["column `text` is of type list<"]),
    "structures": ([{"a": each} for each in SENTENCES], ["of type struct<a: string>"]),
    "deep structures": ([DEEP] * 40, ["of type struct<a: struct<a:"]),
    # Python's spelling of bytes would be trained on as text.
    "bytes": ([each.encode() for each in SENTENCES], ["of type binary", "write it as text"]),
    "text that is no UTF-8": (
        pa.array([b"right"] * 3 + [b"\xff\xfe abc"] * 57).view(pa.string()),
        ["row 4", "text that is not UTF-8", "byte 0", "anew as UTF-8"]),
    "nothing": (pa.array([None] * 60), ["shorter than one window", "0 tokens", "next:     add text\n"]),
    "no rows": (pa.array([], pa.string()), ["shorter than one window"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_no_text_is_named(prepare, tmp_path, name):
    values, words = COLUMNS[name]
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": values}), file)
    refused(prepare(file), file if "window" not in words[0] else "", words)


@pytest.mark.parametrize("values", [pa.array(SENTENCES, pa.large_string()),
                                    pa.array(SENTENCES).dictionary_encode()],
                         ids=["large", "dictionary"])
def test_every_type_of_text_is_read(prepare, tmp_path, values):
    """To the same tokens as plain text."""
    for name, column in (("plain", pa.array(SENTENCES)), ("other", values)):
        pq.write_table(pa.table({"text": column}), tmp_path / f"{name}.parquet")
    found = [prepare(tmp_path / f"{name}.parquet").stdout.split("tokens")[0] for name in ("plain", "other")]
    assert found[0] == found[1] and "60 documents" in found[0]


def test_columns_are_named_safely(prepare, tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table([[1]] * 300, names=[f"\x1b[2Jc{i}" for i in range(300)]), file)
    refused(prepare(file), file, ["no column `text`", "\\x1b[2Jc0", "and 280 more"])
    pq.write_table(pa.table([SENTENCES, SENTENCES], names=["text", "text"]), file)
    refused(prepare(file), file, ["2 columns of the name `text`", "a name for each"])
    pq.write_table(pa.table({"x": [{"text": each} for each in SENTENCES]}), file)
    refused(prepare(file, data__text_key="x.text"), file, ["no column `x.text`; it has x"])
    pq.write_table(pa.table({}), file)
    refused(prepare(file), file, ["it has none"])


@pytest.fixture
def right(tmp_path):
    pq.write_table(pa.table({"text": SENTENCES}), tmp_path / "right.parquet")
    return (tmp_path / "right.parquet").read_bytes()


@pytest.mark.parametrize("damage, words", [
    (lambda right: right[:-30], "magic bytes not found"),
    (lambda right: right[:100] + right[-8:], "smaller than the size"),
    (lambda right: b"not a table, but a text of some length", "magic bytes not found"),
    (lambda right: right[:4] + bytes(len(right) // 3) + right[4 + len(right) // 3:], "is damaged"),
    *((lambda right, size=size: right[:-8] + size.to_bytes(4, "little") + right[-4:],
       "cannot be read as Parquet") for size in (0, 2**31 - 1, 2**32 - 1)),
], ids=["cut", "half", "text", "zeros", "footer of 0", "footer of 2 GB", "footer of 4 GB"])
def test_a_damaged_file_is_a_sentence(prepare, tmp_path, right, damage, words):
    file = tmp_path / "a.parquet"
    file.write_bytes(damage(right))
    refused(prepare(file), file, [words, "copy, download or write the file again"])


def test_changed_bytes_are_read_or_refused(tmp_path, right):
    """In the footer, where the sizes stand, and in the pages: never anything but a sentence."""
    code = f"""
import io, json, random, sys
from knocking_heads import parquet
right = open({str(tmp_path / "right.parquet")!r}, "rb").read()
path, seen = {str(tmp_path / "changed.parquet")!r}, {{"read": 0, "refused": 0}}
random.seed(7)
for _ in range(400):
    changed = bytearray(right)
    for _ in range(random.choice([1, 1, 2, 4])):
        changed[random.randrange(len(right))] = random.choice([0, 1, 0x7f, 0x80, 0xff, random.randrange(256)])
    open(path, "wb").write(changed)
    try:
        file = parquet.open_file(path)
        parquet.check_columns(file, path, ["text"])
        parquet.write_rows(file, path, ["text"], io.StringIO())
        seen["read"] += 1
    except parquet.ParquetError as error:
        assert path in str(error)
        seen["refused"] += 1
print(json.dumps(seen))
"""
    # As the companion does it: without the package's own start, which loads torch.
    code = code.replace("from knocking_heads import parquet", "sys.path[:0] = [sys.argv[1]]\nimport parquet")
    import knocking_heads

    folder = knocking_heads.__path__[0]
    result = subprocess.run([sys.executable, "-c", code, folder], text=True, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert '"read": 0' not in result.stdout and '"refused": 0' not in result.stdout


def test_a_reader_that_is_killed_is_named(tmp_path, kha):
    """Where memory ends, the system kills it without a word of its own."""
    import shutil

    from conftest import BIN

    pq.write_table(pa.table({"text": SENTENCES}), tmp_path / "a.parquet")
    shutil.copy(BIN / "kha", tmp_path / "kha")
    (tmp_path / "kha-parquet").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "kha-parquet").chmod(0o755)
    words = settings(**{"run.folder": tmp_path / "runs", "data.paths": [tmp_path / "a.parquet"]})
    result = subprocess.run([tmp_path / "kha", "data", "prepare", *words], text=True, capture_output=True)
    assert result.returncode == 2
    for word in ("a.parquet", "ended by a signal: Killed", "not enough memory", "as .jsonl"):
        assert word in result.stderr, result.stderr
