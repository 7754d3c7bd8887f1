"""The name that llama.cpp gives to the way a tokenizer.json cuts text before merges."""

from user_error import UserError

SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CONTRACTIONS = SHORT + "|"
NEWLINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + WORDS + r"\p{N}{1,3}|" + SYMBOLS + NEWLINES
QWEN2 = CONTRACTIONS + WORDS + r"\p{N}|" + SYMBOLS + NEWLINES
QWEN35 = (CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
          r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + NEWLINES)
# One behind the other: digits by three, runs of Chinese and Japanese, then words.
DEEPSEEK3 = (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             r'[!"#$%&' r"'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"
             r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + NEWLINES)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}?|"
         rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + NEWLINES)

# By patterns and by ignore_merges, which llama.cpp ties to the name. Of o200k it has the pattern
# under the name of one model; `gpt-4o` and `llama4` only come near it (other letters than a to z
# count as both cases).
NAMES = {
    ((GPT2,), False): "gpt-2",
    ((LLAMA3,), True): "llama-bpe",
    ((LLAMA3,), False): "smaug-bpe",
    ((QWEN2,), False): "qwen2",
    ((QWEN35,), False): "qwen35",
    (DEEPSEEK3, False): "deepseek-v3",
    ((O200K,), False): "granite-embed-multi-97m",
}
REMEDY = ("train the tokenizer with kha tokenizer train --split gpt2, llama3 or qwen, "
          "or use the model with transformers: kha export --to hf")


def refuse(found: str) -> None:
    raise UserError("llama.cpp has no split pattern that cuts text as this tokenizer does",
                    where="tokenizer.json, pre_tokenizer",
                    expected="the pattern of GPT-2, Llama 3, Qwen 2, Qwen 3.5, DeepSeek-V3 or o200k",
                    found=found,
                    next=REMEDY)


def steps_of(pre_tokenizer: dict | None) -> list[dict]:
    if not pre_tokenizer:
        return []
    if pre_tokenizer.get("type") == "Sequence":
        return pre_tokenizer["pretokenizers"]
    return [pre_tokenizer]


def pattern_of(split: dict) -> str:
    """The regular expression of a step whose matches are the pieces, line breaks written as the
    patterns above have them: some files hold the characters themselves."""
    pieces = (split.get("behavior"), split.get("invert")) in (("Isolated", False),
                                                              ("Removed", True))
    expression = split.get("pattern", {}).get("Regex")
    if split.get("type") != "Split" or not pieces or expression is None:
        refuse(f"{split.get('type')} {split.get('behavior', '')} {split.get('pattern', '')}".strip())
    return expression.replace("\r", r"\r").replace("\n", r"\n")


def pre_name(file: dict) -> str:
    """Of a byte-level BPE file."""
    steps = steps_of(file.get("pre_tokenizer"))
    if not steps or steps[-1].get("type") != "ByteLevel":
        refuse(", ".join(step.get("type", "?") for step in steps) or "none")
    byte_level, before = steps[-1], steps[:-1]
    if byte_level.get("add_prefix_space"):
        refuse("ByteLevel with add_prefix_space: llama.cpp puts no blank in front")
    uses_pattern = byte_level.get("use_regex", True)
    if not before and not uses_pattern and not file["model"].get("merges"):
        return "gpt-2"  # nothing to merge, so every cut gives the same ids
    if bool(before) == bool(uses_pattern):
        refuse("ByteLevel " + ("behind another pattern" if before else "without a pattern"))
    patterns = tuple(pattern_of(step) for step in before) or (GPT2,)
    skips = bool(file["model"].get("ignore_merges"))
    name = NAMES.get((patterns, skips))
    if name is None:
        refuse(", then ".join(patterns) + (" with ignore_merges" if skips else ""))
    return name
