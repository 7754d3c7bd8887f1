"""Writes the first files of each target's corpus: right ones of every kind, and a wrong one.

    .venv/bin/python tests/fuzz/make_seeds.py [tests/fuzz/corpus]

They are small, made by the packages whose files kha reads. `scripts/fuzz keep` adds what libFuzzer
finds from them.
"""

import gzip
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

TEXT = "low lower lowest, a b 12 \u00e9\U0001f600\n\nnew newer's "


def safetensors_files():
    import numpy
    from safetensors.numpy import save

    values = {"a": numpy.ones((2, 3), "float32"), "b": numpy.zeros(0, "float16"),
              "c.weight": numpy.arange(4, dtype="int64")}
    whole = save(values, {"format": "pt"})
    yield "whole", whole
    yield "no-metadata", save({"a": numpy.ones(3, "uint8")})
    yield "cut", whole[:-1]
    yield "pickle", b"\x80\x04\x95" + whole
    yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 123\n"


def header_files():
    entry = '"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
    yield "plain", ('{"__metadata__":{"format":"pt"},' + entry + "}  ").encode()
    yield "escaped", ('{"\\u0061\u00e9":{"data_offsets":[0,2],"dtype":"BF16","shape":[1]}}').encode()
    yield "null", b'{"__metadata__":null}'
    yield "twice", ("{" + entry + "," + entry + "}").encode()


def index_files():
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    right = {"metadata": {"total_size": 4}, "weight_map": dict(zip("ab", names))}
    yield "right", json.dumps(right).encode()
    yield "outside", json.dumps({"weight_map": {"a": "../x"}}).encode()
    yield "absent", json.dumps({"weight_map": {"a": names[0], "b": "z.safetensors"}}).encode()


def config_files():
    from hf_models import LATENT, SIZES

    def text(**changes):
        return json.dumps({**SIZES, **changes}).encode()

    yield "qwen3", text(model_type="qwen3")
    yield "maps", text(model_type="kha", kha={"q": "linear", "v": "mlp"})
    yield "latent", text(model_type="kha", num_key_value_heads=6, kha={**LATENT, "q": "linear"})
    for name in ("llama", "mistral", "qwen2"):
        yield name, text(model_type=name)
    yield "experts", text(model_type="qwen3_moe", num_experts=4, num_experts_per_tok=2,
                          moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[0])
    for kind, more in (("yarn", {"factor": 2.0}), ("linear", {"factor": 2.0}),
                       ("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 64})):
        yield kind, text(model_type="llama", rope_scaling={"rope_type": kind, **more})
    yield "unknown", text(model_type="qwen3", hidden_sizes=3)


def tokenizer_files():
    import tokenizers as t

    def trained(model, pre, decoder, normalizer=None, **options):
        tokenizer = t.Tokenizer(model)
        tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoder
        if normalizer:
            tokenizer.normalizer = normalizer
        trainer = t.trainers.BpeTrainer(vocab_size=60, special_tokens=["<|x|>"],
                                        show_progress=False, **options)
        tokenizer.train_from_iterator([TEXT], trainer)
        return tokenizer.to_str().encode()

    split = t.pre_tokenizers.Sequence([
        t.pre_tokenizers.Split(t.Regex(r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"), "isolated"),
        t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    levels = t.decoders.ByteLevel()
    yield "bytes", trained(t.models.BPE(), split, levels, t.normalizers.NFC())
    yield "gpt2", trained(t.models.BPE(), t.pre_tokenizers.ByteLevel(add_prefix_space=False), levels)
    yield "fallback", trained(
        t.models.BPE(byte_fallback=True, unk_token="<|x|>", fuse_unk=True),
        t.pre_tokenizers.Metaspace(), t.decoders.Metaspace())
    yield "wordpiece", t.Tokenizer(t.models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")).to_str().encode()


def manifest_files():
    def text(**changes):
        file = {"path": "file", "size": 2, "xxh3": "a24397f855976886"}  # of "xy"
        return json.dumps({"version": 1, "step": 7, "files": [{**file, **changes}]}).encode()

    yield "right", text()
    yield "absent", text(path="trainer/state.json")
    yield "changed", text(xxh3="a24397f855976887")
    yield "outside", text(path="../../etc/passwd")


STATE = {"version": 1, "step": 4, "tokens": 512, "seconds": 0.5,
         "data": {"step": 4, "sequence_index": 16, "epoch": 0, "window_begin": 70},
         "batches_left_out": 0, "ran": {"device": "cpu", "threads": "1"}}


def state_files():
    def text(**changes):
        return json.dumps({**STATE, **changes}).encode()

    yield "right", text()
    yield "left-out", text(step=3, batches_left_out=1)
    yield "before-there-was-going-back", json.dumps(
        {key: value for key, value in STATE.items() if key != "batches_left_out"}).encode()
    yield "later", text(version=2)
    yield "negative", text(tokens=-1)
    yield "cut", text()[:-9]


def moments_files():
    import numpy
    from safetensors.numpy import save

    def moments(name, shape, square=0.25):
        return {"mean." + name: numpy.full(shape, 0.5, "float32"),
                "square." + name: numpy.full(shape, square, "float32"),
                "steps." + name: numpy.array(4, "float32")}

    whole = {**moments("a", (2, 3)), **moments("b.weight", (4,))}
    yield "whole", save(whole, {"format": "pt"})
    yield "negative", save(moments("a", (2,), square=-1))
    yield "alone", save({"mean.a": whole["mean.a"]})
    yield "half", save({**whole, "mean.a": whole["mean.a"].astype("float16")})


def run_files():
    for file in sorted((ROOT / "configs").glob("*.toml")):
        yield file.stem, file.read_bytes()
    yield "wrong", b'[run]\nname = "a"\nsede = 1\n'


def metrics_files():
    lines = [{"step": step, "train/loss": 3.5 - step, "grad_norm": 1.0} for step in (1, 2, 3)]
    lines.append({"step": 3, "spike/action": "note", "spike/step": 2})
    yield "run", "".join(json.dumps(line) + "\n" for line in lines).encode()
    yield "falling", b'{"step": 2, "train/loss": 1}\n{"step": 1, "train/loss": 1}\n'


def shard_files():
    """By `kha data prepare`, whose output is what the reader reads."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.jsonl"
        text.write_text("".join(json.dumps({"text": word}) + "\n" for word in TEXT.split() * 3))
        cache = Path(folder) / "cache"
        sets = {"data.paths": json.dumps([str(text)]), "data.cache": json.dumps(str(cache)),
                "data.validation_share": 0.3, "train.context": 4}
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        subprocess.run([ROOT / ".venv/bin/kha", "data", "prepare", *words], check=True,
                       stdout=subprocess.DEVNULL)
        whole = next(cache.rglob("train.tokens")).read_bytes()
    yield "whole", whole
    yield "cut", whole[:-8]
    yield "flipped", whole[:70] + bytes([whole[70] ^ 1]) + whole[71:]


def line_files(first, second):
    right = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (first, second))
    yield "lines", right.encode()
    yield "escapes", json.dumps(first).encode() + b"\r\n\n" + json.dumps(second).encode()
    yield "wrong", right.encode()[:-4] + b"\xff\n{"


def packed_files(pack):
    whole = pack((json.dumps({"text": TEXT}) + "\n").encode())
    yield "whole", whole
    yield "two", whole + whole
    yield "cut", whole[:-5]


def zstd_pack(data):
    """One raw frame, written out: magic, a header of a single segment with its size, one block."""
    block = struct.pack("<I", len(data) << 3 | 1)[:3] + data
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + block


SEEDS = {
    "safetensors": safetensors_files, "header": header_files, "index": index_files,
    "config": config_files, "tokenizer": tokenizer_files, "manifest": manifest_files,
    "state": state_files, "moments": moments_files,
    "run": run_files, "metrics": metrics_files, "shard": shard_files,
    "lines": lambda: line_files({"text": TEXT}, {"id": 3, "text": None}),
    "prompts": lambda: line_files({"p": "why?", "a": TEXT}, {"a": "yes", "p": ""}),
    "gzip": lambda: packed_files(lambda data: gzip.compress(data, mtime=0)),
    "zstd": lambda: packed_files(zstd_pack),
}


def main(corpus):
    for target, seeds in SEEDS.items():
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (folder / f"seed-{name}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "fuzz" / "corpus")
