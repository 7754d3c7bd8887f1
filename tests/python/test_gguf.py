"""kha export --to gguf: tensors, types, keys and tokenizer of the file, read by the gguf package."""

import json
import math
import shutil
import subprocess
import sys

import gguf
import numpy as np
import pytest
import torch
from conftest import BIN, ROOT
from gguf_files import (FAMILIES, LATENT_MAPS, expected, export, keys_of, make, plain_folder,
                        tensors_of, write_model)
from safetensors.torch import load_file, save_file
from tokenizer_files import KINDS

LINEAR = {"q": "linear", "k": "linear", "v": "linear"}
HALF_STEPS = {"F16": 2.0**-11, "BF16": 2.0**-8}


def written(kha, tmp_path, *arguments):
    result = export(kha, tmp_path / "in", tmp_path / "out.gguf", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def check_values(found, wanted, kind, name):
    """Rounded once to the type: half a step, or half a step of the block's scale."""
    assert found.shape == wanted.shape, name
    if kind == "F32":
        assert np.array_equal(found, wanted.astype(np.float32)), name
    elif kind == "Q8_0":
        blocks, error = wanted.reshape(-1, 32), np.abs(found - wanted).reshape(-1, 32)
        step = np.abs(blocks).max(1, keepdims=True) / 127
        assert (error <= step * (0.5 + 127 * 2**-11) + 1e-7).all(), name
        assert error.max() > 0, name
    else:
        assert (np.abs(found - wanted) <= np.abs(wanted) * HALF_STEPS[kind] + 1e-7).all(), name
        assert kind == "F16" or not np.array_equal(found, wanted), name


def stays_float32(name, shape):
    return len(shape) < 2 or "norm" in name or "ffn_gate_inp" in name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_is_that_of_the_plain_model(kha, tmp_path, family):
    make(family, tmp_path / "in")
    text = written(kha, tmp_path)
    config, source = plain_folder(kha, tmp_path / "in", tmp_path / "plain")
    keys, tensors = keys_of(tmp_path / "out.gguf"), tensors_of(tmp_path / "out.gguf")
    llama = keys["general.architecture"] == "llama"
    factors = tensors.pop("rope_freqs.weight", None)
    assert (factors is not None) == (family == "llama, stretched")
    for name, (kind, values) in tensors.items():
        wanted = expected(name, source, config, llama)
        if "another epsilon" in family and name.split(".")[-2] in ("attn_q_a", "attn_kv_a_mqa"):
            rows = 28 if "q_a" in name else 20
            wanted = wanted.copy()
            wanted[:rows] *= math.sqrt(1e-3 / 1e-6)
        assert kind == "F32"
        check_values(values, wanted, kind, name)
    embedding, head = source["model.embed_tokens.weight"], source.get("lm_head.weight")
    copied = head is not None and np.array_equal(head, embedding)
    assert ("output.weight" in tensors) == (head is not None and not copied)
    if copied:
        del source["lm_head.weight"]
    assert sum(values.size for _, values in tensors.values()) == sum(
        value.size for value in source.values())  # nothing else left out
    count = len(tensors) + (factors is not None)
    assert f"{count} tensors ({count} in F32)" in text
    assert f"{(tmp_path / 'out.gguf').stat().st_size} bytes" in text


@pytest.mark.parametrize("dtype, kind", [("float16", "F16"), ("bfloat16", "BF16"),
                                         ("q8_0", "Q8_0")])
@pytest.mark.parametrize("family", ["llama", "qwen3 moe", "glm4 moe", "deepseek"])
def test_narrow_types_round_once_and_keep_small_tensors(kha, tmp_path, family, dtype, kind):
    make(family, tmp_path / "in")
    text = written(kha, tmp_path, "--dtype", dtype)
    config, source = plain_folder(kha, tmp_path / "in", tmp_path / "plain")
    llama = family == "llama"
    found = set()
    for name, (got, values) in tensors_of(tmp_path / "out.gguf").items():
        wanted = expected(name, source, config, llama)
        cannot = dtype == "q8_0" and values.shape[-1] % 32
        assert got == ("F32" if stays_float32(name, values.shape) else "F16" if cannot else kind)
        check_values(values, wanted, got, name)
        found.add(got)
        shown = "blk.*." + name.split(".", 2)[2] if name.startswith("blk") else name
        if cannot and not stays_float32(name, values.shape):
            assert f"{shown} stays F16: its rows are no multiple of 32" in text
    assert kind in found or family in ("llama", "deepseek") and dtype == "q8_0"


def test_linear_maps_are_folded_and_the_head_stays_tied(kha, tmp_path):
    write_model(tmp_path / "in", maps=LINEAR)
    assert "folded on the way: 9 linear maps" in written(kha, tmp_path)
    config, source = plain_folder(kha, tmp_path / "in", tmp_path / "plain")
    tensors = tensors_of(tmp_path / "out.gguf")
    assert "output.weight" not in tensors
    for name, (kind, values) in tensors.items():
        check_values(values, expected(name, source, config, False), kind, name)


def test_a_copied_head_is_left_out(kha, tmp_path):
    write_model(tmp_path / "in", tie_word_embeddings=False)
    tensors = load_file(tmp_path / "in/model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, tmp_path / "in/model.safetensors", metadata={"format": "pt"})
    written(kha, tmp_path)
    assert "output.weight" not in tensors_of(tmp_path / "out.gguf")


def test_keys_of_experts_with_a_shared_one(kha, tmp_path):
    make("glm4 moe", tmp_path / "in")
    written(kha, tmp_path, "--dtype", "bfloat16")
    keys = keys_of(tmp_path / "out.gguf")
    wanted = {"block_count": 3, "context_length": 512, "embedding_length": 48,
              "feed_forward_length": 56, "attention.head_count": 6, "attention.head_count_kv": 2,
              "attention.key_length": 10, "attention.value_length": 10, "rope.freq_base": 1e4,
              "rope.dimension_count": 10, "expert_count": 8, "expert_used_count": 3,
              "expert_feed_forward_length": 32, "expert_shared_count": 1,
              "leading_dense_block_count": 0, "expert_weights_norm": True,
              "expert_weights_scale": 1.0, "expert_gating_func": 2}
    for key, value in wanted.items():
        assert keys["glm4moe." + key] == pytest.approx(value), key
    assert keys["general.file_type"] == 32
    assert keys["general.name"] == "out"


def test_keys_of_latent_attention_are_written_once(kha, tmp_path):
    write_model(tmp_path / "in", maps=LATENT_MAPS)
    written(kha, tmp_path)
    keys = keys_of(tmp_path / "out.gguf")
    wanted = {"attention.head_count": 6, "attention.head_count_kv": 1, "attention.q_lora_rank": 0,
              "attention.kv_lora_rank": 20, "attention.key_length": 26,
              "attention.value_length": 20, "attention.key_length_mla": 14,
              "attention.value_length_mla": 8, "rope.dimension_count": 6,
              "leading_dense_block_count": 3, "expert_shared_count": 0}
    assert {key: keys["deepseek2." + key] for key in wanted} == wanted
    names = [field.parts[1].tobytes() for field in gguf.GGUFReader(
        tmp_path / "out.gguf").fields.values() if len(field.parts) > 2]
    assert len(names) == len(set(names))


def test_the_writer_refuses_a_second_value_of_a_key(tmp_path):
    sys.path.insert(0, str(ROOT / "python/knocking_heads"))
    try:
        from gguf_model.strict_keys import KeyWriter
    finally:
        sys.path.pop(0)
    writer = KeyWriter(tmp_path / "x.gguf", "deepseek2")
    writer.add_head_count_kv(6)
    with pytest.raises(ValueError, match="attention.head_count_kv is written a second time"):
        writer.add_head_count_kv(1)


def test_bytes_are_a_tokenizer_without_merges(kha, tmp_path):
    write_model(tmp_path / "in")
    assert "pre gpt-2, 257 tokens, 0 merges, begin mark not added" in written(kha, tmp_path)
    keys = keys_of(tmp_path / "out.gguf")
    assert keys["tokenizer.ggml.model"] == "gpt2" and keys["tokenizer.ggml.merges"] == []
    assert keys["tokenizer.ggml.tokens"][97] == "a" and keys["tokenizer.ggml.tokens"][32] == "Ġ"
    assert keys["tokenizer.ggml.token_type"] == [1] * 256 + [3]
    assert keys["tokenizer.ggml.eos_token_id"] == 256
    assert keys["tokenizer.ggml.add_bos_token"] is False


def with_tokenizer(tmp_path, kind, **changes):
    tokenizer = KINDS[kind]()
    changes = {"vocab_size": tokenizer.get_vocab_size() + 7, "eos_token_id": 0} | changes
    write_model(tmp_path / "in", **changes)
    tokenizer.save(str(tmp_path / "in/tokenizer.json"))
    return tokenizer


@pytest.mark.parametrize("kind, pre, adds", [("gpt2", "gpt-2", False), ("qwen2", "qwen2", False),
                                             ("qwen3.5", "qwen35", False),
                                             ("llama3", "llama-bpe", True),
                                             ("deepseek 3", "deepseek-v3", False),
                                             ("o200k", "granite-embed-multi-97m", False),
                                             ("inverted", "qwen2", False)])
def test_split_patterns_have_the_name_that_llama_cpp_gives_them(kha, tmp_path, kind, pre, adds):
    tokenizer = with_tokenizer(tmp_path, kind)
    (tmp_path / "in/tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|endoftext|>", "chat_template": "{{ messages }}"}))
    assert f"pre {pre}, " in written(kha, tmp_path)
    keys, count = keys_of(tmp_path / "out.gguf"), tokenizer.get_vocab_size()
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert keys["tokenizer.ggml.pre"] == pre
    assert tokens[:count] == [tokenizer.id_to_token(id) for id in range(count)]
    assert tokens[count:] == [f"[PAD{id}]" for id in range(count, count + 7)]
    assert types[count:] == [5] * 7 and types[0] == 3 and types[1] == 1
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    assert keys["tokenizer.ggml.merges"] == [" ".join(pair) for pair in merges]
    assert keys["tokenizer.ggml.add_bos_token"] is adds
    assert keys.get("tokenizer.ggml.bos_token_id", 0) == 0
    assert keys["tokenizer.ggml.eos_token_id"] == 0
    assert keys["tokenizer.chat_template"] == "{{ messages }}"


def test_pieces_have_the_scores_of_their_merges(kha, tmp_path):
    tokenizer = with_tokenizer(tmp_path, "llama2, every split")
    assert "pre SentencePiece, " in written(kha, tmp_path)
    keys, count = keys_of(tmp_path / "out.gguf"), tokenizer.get_vocab_size()
    assert keys["tokenizer.ggml.model"] == "llama" and keys["tokenizer.ggml.add_space_prefix"]
    assert "tokenizer.ggml.merges" not in keys
    tokens, scores = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"]
    assert tokens[:count] == [tokenizer.id_to_token(id) for id in range(count)]
    joined = ["".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    place = {piece: number for number, piece in enumerate(dict.fromkeys(joined))}
    assert [scores[tokens.index(piece)] for piece in place] == [-number for number in place.values()]
    types = keys["tokenizer.ggml.token_type"]
    assert types[0] == 2 and types[1] == types[2] == 3  # unknown, control
    assert all(types[tokens.index(f"<0x{byte:02X}>")] == 6 for byte in range(256))
    assert types[count:] == [5] * 7
    assert keys["tokenizer.ggml.add_bos_token"] is True
    assert keys["tokenizer.ggml.bos_token_id"] == 1
    assert keys["tokenizer.ggml.unknown_token_id"] == 0


@pytest.mark.parametrize("change, words", [
    (lambda file: file["model"]["merges"].pop(), "joins two pieces that this tokenizer leaves"),
    (lambda file: file["model"].update(merges=sorted(file["model"]["merges"])),
     "the merges of a piece do not stand together"),
    (lambda file: file.update(normalizer=None), "puts one blank in front of a text"),
    (lambda file: file.update(pre_tokenizer=dict(type="Whitespace")), "cuts nothing before"),
    (lambda file: file["model"]["vocab"].update({"no byte": file["model"]["vocab"].pop("<0x07>")}),
     "no <0x07>"),
    (lambda file: file["model"].update(ignore_merges=True), "model.ignore_merges")])
def test_pieces_that_llama_cpp_would_join_otherwise_are_refused(kha, tmp_path, change, words):
    with_tokenizer(tmp_path, "llama2, every split")
    file = json.loads((tmp_path / "in/tokenizer.json").read_text())
    change(file)
    (tmp_path / "in/tokenizer.json").write_text(json.dumps(file))
    result = subprocess.run([BIN / "kha-gguf-export", "--check-tokenizer", tmp_path / "in",
                             "--rows", "2000"], capture_output=True, text=True)
    assert result.returncode == 2 and words in result.stderr, result.stderr
    assert "tokenizer.json, " in result.stderr and "kha export --to hf" in result.stderr


@pytest.mark.parametrize("kind", ["deepseek", "gpt2 with a blank before", "llama2",
                                  "merged with next", "words and symbols"])
def test_a_tokenizer_that_llama_cpp_does_not_have_is_refused_early(kha, tmp_path, kind):
    with_tokenizer(tmp_path, kind)
    (tmp_path / "in/model.safetensors").unlink()  # so early that no tensor is looked at
    result = export(kha, tmp_path / "in", tmp_path / "out.gguf")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "kha tokenizer train --split" in result.stderr or kind == "llama2"
    assert "kha export --to hf" in result.stderr
    assert "tokenizer.json, " in result.stderr and "no GGUF file was written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_architectures_that_would_compute_another_model_are_refused(kha, tmp_path):
    family, settings = FAMILIES["qwen3 moe"]
    from test_reading import save
    save(family, settings | dict(norm_topk_prob=False), tmp_path / "in")
    result = export(kha, tmp_path / "in", tmp_path / "out.gguf")
    assert result.returncode == 2 and "norm_topk_prob is false" in result.stderr
    assert "kha export --to hf" in result.stderr
    family, settings = FAMILIES["deepseek"]
    save(family, settings | dict(rope_parameters=dict(
        rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)),
        tmp_path / "yarn")
    result = export(kha, tmp_path / "yarn", tmp_path / "out.gguf")
    assert result.returncode == 2 and "yarn with mscale None" in result.stderr
    write_model(tmp_path / "biased", attention_bias=True)
    result = export(kha, tmp_path / "biased", tmp_path / "out.gguf")
    assert result.returncode == 2 and "self_attn.o_proj.bias" in result.stderr
    write_model(tmp_path / "mlp", maps={"v": "mlp"})
    result = export(kha, tmp_path / "mlp", tmp_path / "out.gguf")
    assert result.returncode == 2 and "the mlp map on v of layer 0" in result.stderr
    assert not list(tmp_path.glob("*.gguf")) and not list(tmp_path.glob(".*"))


def test_values_and_names_are_checked(kha, tmp_path):
    write_model(tmp_path / "in")
    tensors = load_file(tmp_path / "in/model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name][3, 4] = 1e5
    save_file(tensors, tmp_path / "in/model.safetensors", metadata={"format": "pt"})
    result = export(kha, tmp_path / "in", tmp_path / "out.gguf", "--dtype", "float16")
    assert result.returncode == 2 and f"{name} would not be finite" in result.stderr
    assert not (tmp_path / "out.gguf").exists()
    (tmp_path / "out.gguf").write_text("mine")
    result = export(kha, tmp_path / "in", tmp_path / "out.gguf")
    assert result.returncode == 2 and "exists already" in result.stderr
    assert (tmp_path / "out.gguf").read_text() == "mine"
    result = kha("export", tmp_path / "in", tmp_path / "new", "--to", "hf", "--dtype", "q8_0")
    assert result.returncode == 2 and "q8_0 is a type of GGUF files alone" in result.stderr


def test_the_type_is_the_stored_one_unless_named(kha, tmp_path):
    write_model(tmp_path / "in", dtype=torch.bfloat16, torch_dtype="bfloat16")
    found = json.loads(written(kha, tmp_path, "--json"))
    assert found["types"].keys() == {"BF16", "F32"} and found["verification"] is None
    assert found["architecture"] == "qwen3" and found["tokenizer"]["marks"] == {"eos": 256}


ANSWER = dict(version="llama.cpp 0", float32=1e-6, from_float64=1e-6, mean=1e-7, positions=9,
              rounding_ours=1e-6, largest_log_probability=9.0, texts=200, texts_differ=[],
              continuation_agrees=True, first_difference=None, gap=0.0) | {"class": "X"}


@pytest.mark.parametrize("change, code", [
    ({}, 0), ({"from_float64": 1.1e-4}, 1), ({"from_float64": 0.9e-4}, 0),
    ({"mean": 1.1e-4}, 1),
    ({"texts_differ": [{"text": "a b", "ids": [1], "theirs": [2]}]}, 1),
    ({"continuation_agrees": False, "first_difference": 3, "gap": 0.5}, 1), (None, 3)])
def test_what_the_program_makes_of_the_companion(kha, tmp_path, change, code):
    """With a companion that finds a difference, or no llama.cpp (None)."""
    write_model(tmp_path / "in")
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(BIN / "kha", programs)
    export_script = f'#!/bin/sh\nexec "{BIN}/kha-gguf-export" "$@"\n'
    answer = f"cat > $4 <<'END'\n{json.dumps(ANSWER | (change or {}))}\nEND\n"
    scripts = {"kha-engine": "#!/bin/sh\n", "kha-gguf-export": export_script,
               "kha-gguf-peer": "#!/bin/sh\n" + (answer if change is not None else "exit 3\n")}
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "text.txt").write_text("some text\n")
    result = subprocess.run([programs / "kha", "export", tmp_path / "in", tmp_path / "out.gguf",
                             "--to", "gguf", "--verify", "--text", tmp_path / "text.txt"],
                            capture_output=True, text=True)
    assert result.returncode == code, result.stdout + result.stderr
    assert ("NOT EQUAL" in result.stdout) == (code == 1)
    if change == {}:
        assert ("1e-06 from float64 (limit 0.0001), mean 1e-07 (limit 0.0001), over 9 positions"
                in result.stdout)
    if change is None:
        last = result.stdout[result.stdout.index("NOT VERIFIED: "):].splitlines()
        assert "llama-cpp-python is not installed" in last[0]
        assert last[1].startswith("  next: make test-interop ARGS=--install")
    else:
        assert "NOT VERIFIED" not in result.stdout
    assert (tmp_path / "out.gguf").exists()
