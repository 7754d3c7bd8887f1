"""Tokenizers made with the `tokenizers` package on the spot, and texts to try them on."""

import json
import random
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
NEWLINES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          + NEWLINES)
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          + NEWLINES)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + NEWLINES)
DEEPSEEK = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             r'[!"#$%&' r"'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
             r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + NEWLINES]
# Its file has the line breaks themselves.
DEEPSEEK3[2] = DEEPSEEK3[2].replace(r"\r", "\r").replace(r"\n", "\n")
PACKAGES = Path(sysconfig.get_path("purelib"))


def real_text(size: int) -> list[str]:
    """Python sources of transformers, about `size` bytes of them."""
    texts, total = [], 0
    folder = Path(find_spec("transformers").origin).parent  # maybe another Python's: KHA_PYTHON
    for file in sorted(folder.glob("*.py")):
        text = file.read_text()
        texts.append(text)
        total += len(text)
        if total >= size:
            break
    return texts


def mixed_text(seed: int, lines: int = 60) -> str:
    """Runs of many scripts, with blanks, marks, numbers and newlines in between."""
    choose = random.Random(seed)
    starts = [0x20, 0x20, 0xC0, 0x300, 0x400, 0x5D0, 0x620, 0x905, 0xE01, 0x1100, 0x1AB0, 0x1DC0,
              0x1E00, 0x2000, 0x2150, 0x3041, 0x4E00, 0xAC00, 0xA7C0, 0xFB00, 0xFF10, 0x10D40,
              0x11380, 0x11F00, 0x16D40, 0x1D400, 0x1E4D0, 0x1F1E6, 0x1F600, 0x20000]
    extra = " \n\r\t'’ſ1٣½.!\u0301\u0323\u0334\u0345\u200d\u00a0\u3000sStTmd"
    out = []
    for _ in range(lines):
        start = choose.choice(starts)
        for _ in range(choose.randrange(2, 30)):
            some = chr(start + choose.randrange(60))
            out.append(some if choose.random() < 0.7 else choose.choice(extra))
    return "".join(out)


def random_code_points(seed: int, count: int = 4000) -> str:
    choose = random.Random(seed)
    planes = [range(0x3000), range(0x10000), range(0x10000, 0x20000), range(0x110000)]
    codes = (choose.choice(choose.choice(planes)) for _ in range(count))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def every_code_point() -> str:
    """All of them but for the inside of large blocks whose characters are all alike."""
    alike = [range(0x3500, 0x4D00), range(0x4F00, 0x9F00), range(0xAD00, 0xD700),
             range(0xD800, 0xE000), range(0xE100, 0xF800), range(0x17100, 0x18700),
             range(0x20100, 0x2A500), range(0x2A800, 0x2F700), range(0x30000, 0x31300),
             range(0x33600, 0xE0000), range(0xE0300, 0x10FF00)]
    skipped = {code for block in alike for code in block}
    return "".join(chr(code) for code in range(0x110000) if code not in skipped)


def texts_to_learn_from() -> list[str]:
    return real_text(100_000) + [mixed_text(seed) for seed in range(40)]


def with_marks(tokenizer):
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False),
                          AddedToken("Édith", normalized=True)])
    return tokenizer


def byte_level(steps, nfc=False, texts=None, **options):
    tokenizer = Tokenizer(models.BPE(**options.pop("model", {})))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    options = {"vocab_size": 1000, "special_tokens": ["<|endoftext|>"], **options}
    tokenizer.train_from_iterator(
        texts or texts_to_learn_from(),
        trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                            show_progress=False, **options))
    return tokenizer


def plain_bytes(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(pattern, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behaviour, invert)


def sentencepiece(pre_tokenizer=None, decoder=None):
    """Byte fallback, merges over whole lines or texts, as files of Llama 2 and Mistral have it."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoder or decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)])
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    lines = [line for text in texts_to_learn_from()[:20] for line in text.splitlines(True)]
    tokenizer.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=1000, limit_alphabet=300, show_progress=False,
                                   special_tokens=["<unk>", "<s>", "</s>", *pieces]))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [one for one in file["added_tokens"] if one["content"] not in pieces]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def with_every_split(tokenizer):
    """Every way to make a piece of two others is a merge, in the order of the pieces, as files that
    were made of SentencePiece's have it."""
    file = json.loads(tokenizer.to_str())
    ids = file["model"]["vocab"]
    learned = sorted({"".join(pair) for pair in file["model"]["merges"]}, key=ids.get)
    splits = ([(piece[:at], piece[at:]) for at in range(1, len(piece))] for piece in learned)
    file["model"]["merges"] = [list(pair) for pairs in splits for pair in sorted(
        (pair for pair in pairs if pair[0] in ids and pair[1] in ids),
        key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return Tokenizer.from_str(json.dumps(file))


def llama3():
    tokenizer = byte_level([split(LLAMA3), plain_bytes()])
    file = json.loads(tokenizer.to_str())
    file["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False),
         processors.TemplateProcessing(single="<|endoftext|> $A",
                                       special_tokens=[("<|endoftext|>", 0)])])
    return tokenizer


KINDS = {
    "gpt2": lambda: byte_level([plain_bytes(regex=True)]),
    "gpt2 with a blank before": lambda: byte_level([plain_bytes(prefix=True, regex=True)]),
    "llama3": llama3,
    "qwen2": lambda: byte_level([split(QWEN2), plain_bytes()], nfc=True),
    "qwen3.5": lambda: byte_level([split(QWEN35), plain_bytes()], nfc=True),
    "inverted": lambda: byte_level([split(QWEN2, "removed", True), plain_bytes()]),
    "o200k": lambda: byte_level([split(O200K), plain_bytes()]),
    "deepseek": lambda: byte_level(
        [*map(split, DEEPSEEK), pre_tokenizers.Digits(True), plain_bytes()]),
    "deepseek 3": lambda: byte_level([*map(split, DEEPSEEK3), plain_bytes()]),
    "digits and punctuation": lambda: byte_level(
        [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False), plain_bytes()]),
    "words and symbols": lambda: byte_level([pre_tokenizers.Whitespace(), plain_bytes()]),
    "merged with previous": lambda: byte_level(
        [split(r"\s", "merged_with_previous"), plain_bytes()]),
    "merged with next": lambda: byte_level([split(r"[\s\p{P}]+", "merged_with_next"), plain_bytes()]),
    "empty matches": lambda: byte_level([split(r"(?=(\p{N}{3})+(?!\p{N}))"), plain_bytes()]),
    "llama2": sentencepiece,
    "llama2, every split": lambda: with_every_split(sentencepiece()),
    "mistral": lambda: sentencepiece(pre_tokenizers.Metaspace("▁", "first", False)),
    "metaspace": lambda: sentencepiece(pre_tokenizers.Metaspace("▁", "always", True),
                                       decoders.Metaspace("▁", "always", True)),
}
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
