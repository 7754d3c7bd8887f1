"""Runs an exported model in transformers for ``kha export --verify``.

``kha-hf-peer MODEL OURS.safetensors ANSWER.json`` reads the engine's ``ids``, ``logits`` (float32),
``logits_float64`` and ``continuation``, computes the same with ``AutoModelForCausalLM`` and writes
the largest differences of log-probabilities and where greedy continuations part.
"""

import json
import sys
import tempfile
from pathlib import Path

NOT_INSTALLED = """kha export --verify: {name} is not installed
  next: pip install transformers"""


def brings_model_file(folder: Path) -> bool:
    """Whether the model is one of kha's own, whose code the export wrote beside it."""
    return json.loads((folder / "config.json").read_text()).get("model_type") == "kha"


def load(folder: Path, dtype):
    """The model with every tensor of the file in it and no other."""
    from transformers import AutoModelForCausalLM

    # The grouped products of experts know no float64.
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=dtype,
        output_loading_info=True,
        local_files_only=True,
        trust_remote_code=brings_model_file(folder),
        experts_implementation="eager",
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading.get(kind):
            raise ValueError(f"{kind.replace('_', ' ')}: {sorted(map(str, loading[kind]))}")
    return model.eval()


def their_logits(model, ids):
    import torch

    with torch.no_grad():
        return model(ids[None]).logits[0]


def difference(ours, theirs) -> float:
    """The largest of log-probabilities, absolute."""
    return (ours.double().log_softmax(-1) - theirs.double().log_softmax(-1)).abs().max().item()


def continuation(model, ids, ours) -> dict:
    """Where the greedy text of the model, with its cache, leaves ours."""
    from transformers import GenerationConfig

    # An end mark is a token like others here.
    model.generation_config = GenerationConfig(max_new_tokens=len(ours), do_sample=False)
    whole = model.generate(ids[None])[0]
    theirs = whole[len(ids) :].tolist()
    same = [a == b for a, b in zip(ours, theirs)]
    if all(same):
        return {"continuation_agrees": True, "first_difference": None, "gap": 0.0}
    at = same.index(False)
    logits = their_logits(model, whole[: len(ids) + at])[-1].double()
    gap = abs(logits[ours[at]] - logits[theirs[at]]).item()
    return {"continuation_agrees": False, "first_difference": at, "gap": gap}


def compare(folder: Path, ours: dict) -> dict:
    import torch
    import transformers

    ids = ours["ids"]
    exact_model = load(folder, torch.float64)
    exact = their_logits(exact_model, ids)
    del exact_model
    model = load(folder, torch.float32)
    theirs = their_logits(model, ids)
    return {
        "class": type(model).__name__,
        "version": f"transformers {transformers.__version__}",
        "positions": len(ids),
        "float32": difference(ours["logits"], theirs),
        "float64": difference(ours["logits_float64"], exact),
        "rounding_ours": difference(ours["logits"], ours["logits_float64"]),
        "rounding_theirs": difference(theirs, exact),
        "largest_log_probability": exact.log_softmax(-1).abs().max().item(),
        **continuation(model, ids, ours["continuation"].tolist()),
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("kha-hf-peer: MODEL OURS.safetensors ANSWER.json", file=sys.stderr)
        return 2
    try:
        import transformers
        from safetensors.torch import load_file
        from transformers import dynamic_module_utils
    except ImportError as error:
        print(NOT_INSTALLED.format(name=error.name), file=sys.stderr)
        return 2
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder, ours, answer = map(Path, arguments)
    try:
        with tempfile.TemporaryDirectory() as modules:  # transformers copies a model's code there
            dynamic_module_utils.HF_MODULES_CACHE = modules
            answer.write_text(json.dumps(compare(folder, load_file(ours))))
    except Exception as error:  # whatever the other program says of the model
        print(f"kha export --verify: transformers cannot run {folder}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
