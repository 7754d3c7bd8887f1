"""Makes torchtitan's last checkpoint a kha model folder, and folds its maps.

    python examples/torchtitan/finish.py runs/torchtitan/checkpoint/step-10 --flavor tiny+kha-linear \
        --length 64 --tokenizer runs/tokenizer --to runs/torchtitan/plain

torchtitan writes tensors in the layout of a model folder (checkpoint.last_save_in_hf), but no
config.json. This writes it, from the flavour, and runs `kha fold`, which proves the fold itself.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from knocking_qwen3 import KnockingQwen3Args  # importing it registers the family
from torchtitan.protocols.train_spec import get_train_spec

import knocking_heads as kh
from knocking_heads.description import kha_config


def description(args: KnockingQwen3Args, length: int) -> str:
    """config.json of a flavour; the dense ones."""
    if args.moe_enabled:
        raise SystemExit("finish.py knows the dense flavours only")
    config = transformers.Qwen3Config(
        vocab_size=args.vocab_size, hidden_size=args.dim, intermediate_size=args.hidden_dim,
        num_hidden_layers=args.n_layers, num_attention_heads=args.n_heads,
        num_key_value_heads=args.n_kv_heads, head_dim=args.head_dim, rms_norm_eps=args.norm_eps,
        max_position_embeddings=length, tie_word_embeddings=args.enable_weight_tying,
        rope_parameters={"rope_type": "default", "rope_theta": float(args.rope_theta)})
    with torch.device("meta"):
        model = transformers.Qwen3ForCausalLM(config)
        kh.insert(model, args.knock)
    return kha_config(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="torchtitan's step folder, saved in HF layout")
    parser.add_argument("--flavor", required=True, help="that of the run, for example 0.6B+kha-mlp")
    parser.add_argument("--length", type=int, required=True, help="training.seq_len of the run")
    parser.add_argument("--tokenizer", type=Path, required=True, help="model.hf_assets_path")
    parser.add_argument("--to", type=Path, required=True, help="folder of the folded model")
    given = parser.parse_args()
    flavours = get_train_spec("qwen3_kha").model_args
    if given.flavor not in flavours:
        parser.error(f"no flavour {given.flavor}; there are {', '.join(sorted(flavours))}")
    (given.checkpoint / "config.json").write_text(description(flavours[given.flavor], given.length))
    for file in given.tokenizer.glob("*token*.json"):
        shutil.copyfile(file, given.checkpoint / file.name)
    kha = Path(sys.prefix) / "bin" / "kha"
    program = str(kha) if kha.exists() else "kha"
    raise SystemExit(subprocess.run([program, "fold", given.checkpoint, "--to", given.to]).returncode)


if __name__ == "__main__":
    main()
