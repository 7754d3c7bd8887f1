"""Exported GGUF files run by llama.cpp, where llama-cpp-python is installed."""

import importlib.util
import json
import sys

import pytest
from conftest import ROOT
from gguf_files import FAMILIES, LATENT_MAPS, export, make, write_model
from tokenizer_files import KINDS, mixed_text, real_text

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None,
                       reason="llama-cpp-python is not installed: make test-interop"),
]
LINEAR = {"q": "linear", "k": "linear", "v": "linear"}


@pytest.fixture
def text(tmp_path):
    """Lines of code and of many scripts; more than 200 texts with those that are built in."""
    lines = real_text(20_000)[0].splitlines()[:100] + mixed_text(5, lines=400).splitlines()[:100]
    file = tmp_path / "text.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return file


def verified(kha, tmp_path, text, *arguments):
    out = tmp_path / "out.gguf"
    out.unlink(missing_ok=True)
    result = export(kha, tmp_path / "in", out, "--verify", "--text", text, "--json", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)["verification"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_our_log_probabilities(kha, tmp_path, text, family):
    make(family, tmp_path / "in")
    found = verified(kha, tmp_path, text)
    assert found["positions"] == 256 and found["continuation_agrees"]
    assert found["from_float64"] <= max(1e-4, 4 * found["rounding_ours"])
    assert found["largest_log_probability"] > 5  # a model that says something


@pytest.mark.parametrize("maps", [LINEAR, LATENT_MAPS | LINEAR | {"query_latent": 28}])
def test_folded_maps_run_there(kha, tmp_path, text, maps):
    write_model(tmp_path / "in", maps=maps)
    found = verified(kha, tmp_path, text)
    assert found["from_float64"] < 1e-4 and found["texts"] >= 195 and not found["texts_differ"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "q8_0"])
@pytest.mark.parametrize("family", ["llama", "qwen3, tied"])
def test_every_output_type_passes_the_same_check(kha, tmp_path, text, family, dtype):
    """Rows of 32 and 64, so that every matrix can be cut into blocks."""
    from test_reading import save
    kind, settings = FAMILIES[family]
    save(kind, settings | dict(hidden_size=64, intermediate_size=96, head_dim=16,
                               num_attention_heads=4), tmp_path / "in")
    found = verified(kha, tmp_path, text, "--dtype", dtype)
    assert found["equal"] and found["mean"] <= found["mean_limit"] <= 0.5
    assert (found["from_float64"] > 1e-3) == (dtype != "float32")


def test_rows_that_are_not_permuted_are_found(kha, tmp_path, text, monkeypatch):
    """The check above can fail: without the order of llama.cpp it is another model."""
    make("llama", tmp_path / "in")
    monkeypatch.syspath_prepend(str(ROOT / "python/knocking_heads"))
    import gguf_export
    import gguf_peer
    from gguf_model import tensor_plan
    from safetensors.numpy import load_file

    ours = tmp_path / "ours.safetensors"
    ids = ",".join(str(byte) for byte in text.read_bytes()[:100])
    assert kha("logits", tmp_path / "in", "--ids", ids, "--write", ours, "--continue",
               4).returncode == 0
    assert kha("export", tmp_path / "in", tmp_path / "plain", "--to", "hf").returncode == 0
    assert kha("tokenizer", "train", text, "--vocab-size", 257, "--to", tmp_path / "bytes",
               ).returncode == 0
    (tmp_path / "plain/tokenizer.json").write_text((tmp_path / "bytes/tokenizer.json").read_text())
    for change, same in ((tensor_plan.to_adjacent_pairs, True), (lambda heads: lambda x: x, False)):
        monkeypatch.setattr(tensor_plan, "to_adjacent_pairs", change)
        file = tmp_path / f"{same}.gguf"
        gguf_export.write(tmp_path / "plain", file, "float32", "x")
        found = gguf_peer.compare(file, load_file(ours), [])
        assert (found["from_float64"] < 1e-3) == same
    assert found["mean"] > 0.5  # beyond what any type may do
    sys.modules.pop("gguf_export")


YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)
LATENT = FAMILIES["deepseek"][1] | dict(q_lora_rank=28, rope_interleave=True)
EXPERTS = dict(first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
               moe_intermediate_size=24, n_shared_experts=1, n_group=4, topk_group=2,
               norm_topk_prob=True, routed_scaling_factor=2.0)


@pytest.mark.parametrize("changes", [
    EXPERTS, dict(rope_parameters=YARN | dict(mscale=0.707, mscale_all_dim=0.707))])
def test_a_plain_deepseek_is_that_of_transformers(tmp_path, monkeypatch, changes):
    """Groups of experts, and yarn with its scale of the logits, from the plain folder on."""
    from hf_models import IDS, their_logits
    from test_reading import save

    monkeypatch.syspath_prepend(str(ROOT / "python/knocking_heads"))
    import gguf_export
    import gguf_peer

    save("DeepseekV3", LATENT | changes, tmp_path / "plain")
    bytes_alone = {"model": {"vocab": {chr(256 + id): id for id in range(257)}, "merges": []},
                   "pre_tokenizer": {"type": "ByteLevel", "use_regex": False}}
    (tmp_path / "plain/tokenizer.json").write_text(json.dumps(bytes_alone))
    gguf_export.write(tmp_path / "plain", tmp_path / "x.gguf", "float32", "x")
    llama = gguf_peer.load(tmp_path / "x.gguf", len(IDS) + 1)
    llama.eval(IDS)
    theirs = their_logits(tmp_path / "plain").numpy()
    assert gguf_peer.difference(theirs, llama.scores[: len(IDS)]) < 1e-4


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "qwen3.5", "llama3", "inverted",
                                  "deepseek 3", "o200k", "llama2, every split"])
def test_two_hundred_texts_have_the_same_ids(kha, tmp_path, text, kind):
    tokenizer = KINDS[kind]()
    write_model(tmp_path / "in", vocab_size=tokenizer.get_vocab_size() + 7, eos_token_id=0)
    tokenizer.save(str(tmp_path / "in/tokenizer.json"))
    found = verified(kha, tmp_path, text)
    assert found["texts"] >= 195 and not found["texts_differ"]


@pytest.mark.parametrize("split", ["gpt2", "llama3", "qwen"])
def test_a_tokenizer_of_ours_gives_the_same_ids_there(kha, tmp_path, text, split):
    result = kha("tokenizer", "train", text, "--vocab-size", 300, "--split", split, "--to",
                 tmp_path / "tokenizer")
    assert result.returncode == 0, result.stderr
    write_model(tmp_path / "in", vocab_size=300, eos_token_id=0)
    for file in (tmp_path / "tokenizer").iterdir():
        (tmp_path / "in" / file.name).write_bytes(file.read_bytes())
    found = verified(kha, tmp_path, text)
    assert found["texts"] >= 195 and not found["texts_differ"]
