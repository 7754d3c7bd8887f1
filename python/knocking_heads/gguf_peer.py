"""Runs an exported GGUF file in llama.cpp for ``kha export --to gguf --verify``.

``kha-gguf-peer MODEL.gguf OURS.safetensors TEXTS.json ANSWER.json`` reads the engine's ``ids``,
``logits``, ``logits_float64`` and ``continuation`` and a list of texts with our ids, computes the
same through llama-cpp-python with a KV cache in float32, and writes the largest differences. Exit
code 3: llama-cpp-python is not installed.
"""

import json
import sys
from pathlib import Path

import numpy as np

NOT_INSTALLED = 3
F32 = 0  # as llama.cpp numbers the types of a cache


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    exact = logits.astype(np.float64)
    exact = exact - exact.max(-1, keepdims=True)
    return exact - np.log(np.exp(exact).sum(-1, keepdims=True))


def differences(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Of log-probabilities, absolute."""
    return np.abs(log_probabilities(ours) - log_probabilities(theirs))


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(differences(ours, theirs).max())


def load(model: Path, length: int):
    import llama_cpp

    # Threads: one, so that a verification costs what it says and gives the same bits again.
    return llama_cpp.Llama(str(model), n_ctx=length, n_batch=length, n_ubatch=length,
                           logits_all=True, type_k=F32, type_v=F32, flash_attn=False, n_threads=1,
                           n_threads_batch=1, verbose=False)


def continuation(llama, given: int, ours: list[int]) -> dict:
    """Where the greedy text of llama.cpp, with its cache, leaves ours. An end mark is a token like
    others here."""
    for at, expected in enumerate(ours):
        row = llama.scores[given + at - 1]
        chosen = int(row.argmax())
        if chosen != expected:
            gap = abs(float(row[expected]) - float(row[chosen]))
            return {"continuation_agrees": False, "first_difference": at, "gap": gap}
        llama.eval([chosen])
    return {"continuation_agrees": True, "first_difference": None, "gap": 0.0}


def tokens_that_differ(llama, texts: list[dict]) -> list[dict]:
    """Texts whose ids are not ours; as documents, in which no special token is read."""
    differing = []
    for each in texts:
        theirs = llama.tokenize(each["text"].encode(), add_bos=False, special=False)
        if theirs != each["ids"]:
            differing.append({**each, "theirs": theirs})
    return differing


def compare(model: Path, ours: dict, texts: list[dict]) -> dict:
    import llama_cpp

    ids, follows = ours["ids"].tolist(), ours["continuation"].tolist()
    llama = load(model, len(ids) + len(follows) + 1)
    llama.eval(ids)
    theirs = llama.scores[: len(ids)].copy()
    exact = ours["logits_float64"]
    return {
        "class": llama.metadata.get("general.architecture"),
        "version": f"llama.cpp (llama-cpp-python {llama_cpp.__version__})",
        "positions": len(ids),
        "float32": difference(ours["logits"], theirs),
        "from_float64": difference(exact, theirs),
        "mean": float(differences(exact, theirs).mean()),
        "rounding_ours": difference(ours["logits"], exact),
        "largest_log_probability": float(np.abs(log_probabilities(exact)).max()),
        "texts": len(texts),
        "texts_differ": tokens_that_differ(llama, texts),
        **continuation(llama, len(ids), follows),
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 4:
        print("kha-gguf-peer: MODEL.gguf OURS.safetensors TEXTS.json ANSWER.json", file=sys.stderr)
        return 2
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        return NOT_INSTALLED
    from safetensors.numpy import load_file

    model, ours, texts, answer = map(Path, arguments)
    try:
        found = compare(model, load_file(ours), json.loads(texts.read_text(encoding="utf-8")))
    except Exception as error:  # whatever the other program says of the file
        print(f"error: llama.cpp cannot run {model}: {error}", file=sys.stderr)
        return 2
    answer.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
