"""Files of a model folder that are damaged, hostile or of another kind, as a user meets them."""

import json
import shutil

import pytest
from conftest import settings
from hf_models import write_model
from safetensors.torch import load_file, save_file

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2776833\n"


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "m")
    return tmp_path / "m"


def refused(result, words):
    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ") and len(result.stderr) < 3000
    assert not any(character < " " for character in result.stderr.replace("\n", ""))
    for word in words:
        assert word in result.stderr, result.stderr


def config_with(**changes):
    return lambda text: json.dumps(json.loads(text) | changes)


def replaced(old, new):
    return lambda text: text.replace(old, new)


CONFIGS = {
    "NaN": (config_with(rope_theta=float("nan")), ["is not valid JSON", "byte", "download"]),
    "Infinity": (config_with(rms_norm_eps=float("inf")), ["is not valid JSON"]),
    "1e999": (replaced("5000.0", "1e999"), ["a number that is too large", "1e999"]),
    "400 digits": (replaced('"hidden_size": 40', '"hidden_size": ' + "9" * 400), ["too large"]),
    "1e308": (config_with(rope_theta=1e308), ["`rope_theta` does not make a model"]),
    "2^63": (config_with(hidden_size=2**63), ["`hidden_size` does not make a model"]),
    "40.0": (config_with(hidden_size=40.0), ["`hidden_size` has the wrong type", "40.0", "next:"]),
    "a list": (config_with(hidden_size=[40]), ["`hidden_size` has the wrong type", "[40]"]),
    "an object": (config_with(hidden_size={"a": 40}), ["`hidden_size` has the wrong type"]),
    "true": (config_with(hidden_size=True), ["`hidden_size` has the wrong type"]),
    "a key twice": (replaced('"hidden_size": 40', '"hidden_size": 40, "hidden_size": 48'), [
        "has the key `hidden_size` twice", "keep one"]),
    "brackets": (lambda text: "[" * 300000, ["nested too deeply"]),
    "90 levels": (config_with(rope_scaling=json.loads("[" * 90 + "]" * 90)), ["`rope_scaling`"]),
    "controls in a key": (config_with(**{"\x1b[2J\x9b": 1}), ["unknown key `\\x1b[2J", "remove the key"]),
    "controls in a value": (config_with(hidden_act="\x1b[31mred"), ["activation", "\\x1b[31mred"]),
    "a long key": (config_with(**{"k" * 100000: 1}), ["unknown key `kkk", "(100000 bytes)"]),
    "a long value": (config_with(hidden_size="k" * 100000), ["`hidden_size` has the wrong type"]),
    "a thousand keys": (config_with(**{f"k{i}": 1 for i in range(1000)}), ["unknown key"]),
    "cut": (lambda text: text[:60], ["is not valid JSON", "byte 61", "cut"]),
    "a comment": (lambda text: "// by hand\n" + text, ["is not valid JSON"]),
    "two bytes a character": (lambda text: text.encode("utf-16"), ["is not valid JSON"]),
    "zeros": (lambda text: bytes(300), ["is not valid JSON"]),
    "nothing": (lambda text: b"", ["is an empty file", "unfinished download"]),
    "a pointer of git-lfs": (lambda text: LFS, ["is no JSON file", "2776833 bytes", "git lfs pull"]),
    "a web page": (lambda text: b"<!DOCTYPE html><html>", ["is no JSON file", "a web page"]),
    "GGUF": (lambda text: b"GGUF\3" + bytes(90), ["is no JSON file", "a GGUF file"]),
    "a zip archive": (lambda text: b"PK\3\4" + bytes(90), ["is no JSON file", "a zip archive"]),
}


def change_file(file, change):
    found = change(file.read_text() if file.exists() else "")
    file.write_bytes(found if isinstance(found, bytes) else found.encode())


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_refused_in_words(kha, model, tmp_path, name):
    change, words = CONFIGS[name]
    change_file(model / "config.json", change)
    for command in (["inspect", model], ["export", model, tmp_path / "out", "--to", "hf"],
                    ["fold", model, "--to", tmp_path / "out"]):
        refused(kha(*command), [str(model / "config.json"), *words])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def bpe(vocab, merges="[]"):
    return f'{{"model":{{"type":"BPE","vocab":{vocab},"merges":{merges}}}}}'.encode()


TOKENIZERS = {
    "GGUF": (b"GGUF" + bytes(30), ["is no JSON file", "a GGUF file"]),
    "a pointer of git-lfs": (LFS, ["is no JSON file", "git lfs pull"]),
    "nothing": (b"", ["is an empty file", "download"]),
    "a list": (b"[]", ["is not a JSON object", "array"]),
    "cut": (bpe('{"a":0}')[:30], ["is not valid JSON", "byte 31", "cut"]),
    "no UTF-8": (bpe('{"\\u0000":0,"X":1}').replace(b"X", b"\xff"), ["is not valid JSON", "\\xff"]),
    "no model": (b"{}", ["at /model", "an object", "nothing"]),
    "a vocabulary that is a list": (bpe("[]"), ["at /model/vocab", "an object"]),
    "an id below zero": (bpe('{"a":-1}'), ["at /model/vocab/a", "-1"]),
    "an id beyond all": (bpe('{"a":18446744073709551615}'), ["at /model/vocab/a", "2^28 - 1"]),
    "an id twice": (bpe('{"a":0,"b":0}'), ["at /model/vocab/b", "two tokens have the same id"]),
    "a merge that is a number": (bpe('{"a":0}', "[3]"), ["at /model/merges/0", "found:    3"]),
    "a merge of nothing": (bpe('{"a":0}', '["a b"]'), ["at /model/merges/0"]),
    "brackets": (b'{"model":' + b"[" * 300000, ["nested too deeply"]),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_is_refused_in_words(kha, tmp_path, name):
    content, words = TOKENIZERS[name]
    (tmp_path / "tokenizer.json").write_bytes(content)
    refused(kha("tokenizer", "encode", tmp_path, "--text", "a"), [str(tmp_path / "tokenizer.json"), *words])


def test_gguf_is_no_model_folder(kha, model, tmp_path):
    gguf = tmp_path / "model-Q8_0.gguf"
    gguf.write_bytes(b"GGUF\3" + bytes(500))
    refused(kha("inspect", gguf), [str(gguf), "a GGUF file", "does not read it", "safetensors model"])
    (model / "model.safetensors").unlink()
    shutil.copy(gguf, model)
    refused(kha("inspect", model), [str(model), gguf.name + " is there", "does not read it"])
    shutil.move(gguf, model / "model.safetensors")
    refused(kha("inspect", model), [str(model / "model.safetensors"), "a GGUF file",
                                    "give the safetensors model it was made from"])


def in_two_shards(model):
    tensors = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"model-0000{1 + (i % 2)}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == file}, model / file)
    return {"metadata": {}, "weight_map": places}


SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
INDEXES = {
    "cut": (lambda text: text[:60], ["is not valid JSON", "byte"]),
    "a pointer of git-lfs": (lambda text: LFS, ["is no JSON file", "git lfs pull"]),
    "a list": (lambda text: "[]", ["is not a JSON object"]),
    "no map": (lambda text: "{}", ["weight_map"]),
    "numbers": (lambda text: '{"weight_map": {"a": 3}}', ["tensor a", "found:    3"]),
    "another folder": (replaced(SHARDS[0], "../../etc/passwd"), ["../../etc/passwd"]),
    "an absolute path": (replaced(SHARDS[0], "/etc/passwd"), ["/etc/passwd"]),
    "a shard that is not there": (replaced(SHARDS[0], "other.safetensors"), [
        "other.safetensors", "absent"]),
    "a hundred thousand tensors": (
        lambda text: json.dumps({"weight_map": {f"t{i}": SHARDS[i % 2] for i in range(100000)}}),
        ["do not agree", "and 1000"]),
    "brackets": (lambda text: '{"weight_map":' + "[" * 300000, ["nested too deeply"]),
}


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_is_refused_in_words(kha, model, name):
    change, words = INDEXES[name]
    file = model / "model.safetensors.index.json"
    file.write_text(json.dumps(in_two_shards(model)))
    assert kha("inspect", model).returncode == 0
    change_file(file, change)
    refused(kha("inspect", model), [str(file), *words])


def test_token_shards_are_refused_in_words(kha, tiny_text, tmp_path):
    words = settings(**{"run.folder": tmp_path / "runs", "data.paths": [tiny_text]})
    assert kha("data", "prepare", *words).returncode == 0
    whole = next((tmp_path / "runs").rglob("train.tokens")).read_bytes()
    file = tmp_path / "a.tokens"
    flipped = bytearray(whole)
    flipped[70] ^= 4
    # Its checksum is known to whoever reads all of it, not to who shows a document.
    for content, words in ((whole[:-8], ["damaged"]), (whole[:20], ["damaged"]), (b"", ["empty"]),
                           (bytes(flipped), ["checksum"]), (LFS, ["git-lfs"]),
                           (b"GGUF" + whole[4:], ["GGUF"])):
        file.write_bytes(content)
        given = settings(**{"run.folder": tmp_path / "runs", "data.paths": [file]})
        refused(kha("data", "prepare", *given), [str(file), *words])
        if content != bytes(flipped):
            refused(kha("data", "show", file, "--document", 0), [str(file), *words])
