#!/usr/bin/env python3
"""Writes unicode_categories.cpp and unicode_ranges.cpp of src/core/tokenizer: character classes.

Asks the `tokenizers` package itself over all code points, so that the tables are of the Unicode
versions that it really uses: one for its regular expressions, one for numbers, an older one for
punctuation, a still older one for normalisation. Not run by the build; run it again when the pinned
version of the package changes:

    .venv/bin/python scripts/unicode_tables.py
"""

from pathlib import Path

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

FOLDER = Path(__file__).resolve().parents[1] / "src/core/tokenizer"
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co "
              "Cn").split()
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
TEXT = "".join(map(chr, CODE_POINTS))


def removed_by(pre_tokenizer):
    """The code points that a pre-tokenizer with behaviour "removed" takes out of TEXT."""
    kept = set()
    for _, (start, end) in pre_tokenizer.pre_tokenize_str(TEXT):
        kept.update(CODE_POINTS[start:end])
    return set(CODE_POINTS) - kept


def matched_by(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def numeric():
    """What Digits takes: code points that are cut off from a letter on both sides."""
    pieces = pre_tokenizers.Digits().pre_tokenize_str("a".join(TEXT))
    return {ord(text) for text, _ in pieces if len(text) == 1 and text != "a"}


def word_of_whitespace():
    """What Whitespace and single_word call a letter of a word."""
    pieces = pre_tokenizers.Whitespace().pre_tokenize_str("a".join(TEXT))
    others = {ord(text) for text, _ in pieces if len(text) == 1 and text != "a"}
    return set(CODE_POINTS) - others - matched_by(r"\s")


def normalisation():
    """The code points that normalisation does anything with, and those that NFC can change.

    Marks that are reordered, what decomposes, and what decompositions consist of; for NFC the first
    letters of compositions are left out.
    """
    nfc, nfd, nfkd = (form().normalize_str for form in
                      (normalizers.NFC, normalizers.NFD, normalizers.NFKD))
    active, unstable = set(), set()
    for code in CODE_POINTS:
        letter = chr(code)
        low, high = letter + "\u0334", "\u0345" + letter  # combining classes 1 and 240
        if nfd(low) != nfd(letter) + "\u0334" or nfd(high) != "\u0345" + nfd(letter):
            active.add(code)
            unstable.add(code)
        if nfkd(letter) != letter:
            active.add(code)
            active.update(map(ord, nfd(letter)))
        if nfd(letter) != letter:
            unstable.update(map(ord, nfd(letter)[1:]))
        if nfc(letter) != letter:
            unstable.add(code)
    return active | {0x334, 0x345}, unstable | {0x334, 0x345}


def ranges(members):
    found = []
    for code in sorted(members):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def category_runs():
    of = [CATEGORIES.index("Cn")] * 0x110000
    for number, name in enumerate(CATEGORIES):
        for code in matched_by(rf"\p{{{name}}}"):
            of[code] = number
    return [(code << 8) | of[code] for code in range(0x110000)
            if code == 0 or of[code] != of[code - 1]]


def wrapped(words):
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {word},"
    return "\n".join([*lines, line])


def table(kind, name, words):
    return f"constexpr {kind} {name}_table[] = {{\n{wrapped(words)}\n}};\n"


def range_table(name, members):
    return table("CodePointRange", name, [f"{{{a:#x}, {b:#x}}}" for a, b in ranges(members)])


def write(name, tables, spans):
    text = (f"// Written by scripts/unicode_tables.py from tokenizers {tokenizers.__version__}.\n"
            "// clang-format off\n"
            '#include "core/tokenizer/unicode_tables.h"\n\n'
            "namespace kha::unicode_tables {\nnamespace {\n\n" + "\n".join(tables) +
            "\n}  // namespace\n\n" + "\n".join(spans) +
            "\n\n}  // namespace kha::unicode_tables\n")
    (FOLDER / name).write_text(text)
    print(f"{FOLDER / name}: {len(text.splitlines())} lines")


def main():
    sets = {
        "numeric": numeric(),
        "punctuation": removed_by(pre_tokenizers.Punctuation("removed")),
        "regex_word": matched_by(r"\w"),
        "word": word_of_whitespace(),
        "han": matched_by(r"\p{Han}"),
    }
    active, unstable = normalisation()
    # Marks, letters and numbers are most of a word: only what differs is written down.
    letters = matched_by(r"[\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]")
    numbers = matched_by(r"\p{N}")
    written = {
        "numeric_beside_n": sets["numeric"] ^ numbers,
        "punctuation": sets["punctuation"],
        "regex_word_beside_letters": sets["regex_word"] ^ letters,
        "word_beside_letters": sets["word"] ^ letters,
        "han": sets["han"],
        "normalised": active,
        "unstable_in_nfc": unstable,
    }
    write("unicode_categories.cpp",
          [table("std::uint32_t", "category_runs", [f"{run:#x}" for run in category_runs()])],
          ["const std::span<const std::uint32_t> category_runs{category_runs_table};"])
    write("unicode_ranges.cpp", [range_table(*entry) for entry in written.items()],
          [f"const std::span<const CodePointRange> {name}{{{name}_table}};" for name in written])


if __name__ == "__main__":
    main()
