"""`python -m bench.tokenizer`: kha's tokenizer beside the `tokenizers` package, in turns.

Encodes and learns from the same files, each reading a process of its own that times the work alone,
without start, reading of files and loading. Nothing is timed while ids or merges differ (exit code
1). Ratios are package / kha, so above 1 kha is faster.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from bench.paired import paired_ratio, rotated

BIN = Path(sys.executable).parent
VOCABULARY = 8000
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SCRIPTS = [(0x41, 26), (0xC0, 60), (0x391, 70), (0x410, 64), (0x5D0, 27), (0x621, 40), (0x905, 50),
           (0xE01, 45), (0x3041, 80), (0x4E00, 900), (0xAC00, 900), (0x1F600, 60)]


def code_text(size):
    """Python sources of installed packages."""
    texts, total = [], 0
    for file in sorted(glob.glob(sysconfig.get_path("purelib") + "/t*/**/*.py", recursive=True)):
        text = Path(file).read_text(errors="replace").replace("\0", "")
        if text.strip() and total < size:
            texts.append(text)
            total += len(text.encode())
    return texts


def mixed_text(size):
    """Words of twelve scripts, some frequent and most rare, in documents of about 20 kB."""
    import random

    choose = random.Random(1)
    words = ["".join(chr(start + choose.randrange(count)) for _ in range(choose.randrange(1, 9)))
             for _ in range(3000) for start, count in SCRIPTS]
    texts, total = [], 0
    while total < size:
        some = (words[int(len(words) * choose.random() ** 3)] for _ in range(3000))
        texts.append("".join(word + choose.choice("     ,.\n") for word in some))
        total += len(texts[-1].encode())
    return texts


def package_tokenizer(learnt_from=None):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=2, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(learnt_from, trainer)
    return tokenizer


def child(work, folder, result):
    """One reading of the package; the environment says how many threads it takes."""
    from tokenizers import Tokenizer

    texts = [Path(file).read_bytes().decode() for file in sorted(glob.glob(f"{folder}/text*"))]
    if work == "train":
        begin = time.perf_counter()
        tokenizer = package_tokenizer(texts)
        seconds = time.perf_counter() - begin
        tokenizer.save(f"{result}/tokenizer.json")
    else:
        tokenizer = Tokenizer.from_file(f"{result}/tokenizer.json")
        begin = time.perf_counter()
        tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds}))


def output_of(command, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads),
                   "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    done = subprocess.run(list(map(str, command)), env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


class Contest:
    """One text: where it lies, what reads it."""

    def __init__(self, folder, texts):
        self.folder = folder
        for number, text in enumerate(texts):
            (folder / f"text{number:05}").write_bytes(text.encode())
        self.files = sorted(folder.glob("text*"))
        self.bytes = sum(file.stat().st_size for file in self.files)
        self.theirs, self.ours = folder / "theirs", folder / "ours"
        self.theirs.mkdir()
        self.ours.mkdir()

    def read(self, who, work, threads):
        if who == "package":
            return output_of([sys.executable, "-m", "bench.tokenizer", "--child", work, self.folder,
                              self.theirs], threads)["seconds"]
        if work == "train":
            command = [BIN / "kha", "tokenizer", "train", *self.files, "--vocab-size", VOCABULARY,
                       "--to", self.ours, "--overwrite"]
        else:
            command = [BIN / "kha", "tokenizer", "encode", self.theirs, *self.files, "--count"]
        return output_of([*command, "--threads", threads, "--json"], threads)["seconds"]

    def equal(self):
        """Both learn the same merges, and give the same ids."""
        self.read("package", "train", 1)
        self.read("kha", "train", 1)
        theirs, ours = (json.loads((folder / "tokenizer.json").read_text())["model"]
                        for folder in (self.theirs, self.ours))
        if ours["merges"] != theirs["merges"] or ours["vocab"] != theirs["vocab"]:
            return False
        command = [BIN / "kha", "tokenizer", "verify", self.theirs, *self.files, "--against",
                   "tokenizers"]
        return subprocess.run(list(map(str, command)), capture_output=True).returncode == 0

    def race(self, work, threads, rounds):
        seconds = {"package": [], "kha": []}
        for turn in range(rounds):
            for who in rotated(["package", "kha"], turn):
                seconds[who].append(self.read(who, work, threads))
        return {"work": work, "threads": threads, "bytes": self.bytes, "seconds": seconds,
                "ratio": str(paired_ratio(seconds["package"], seconds["kha"]))}


def line(name, race):
    fast = {who: race["bytes"] / min(times) / 1e6 for who, times in race["seconds"].items()}
    return (f"{name:6} {race['work']:6} {race['threads']} thread{'s' * (race['threads'] > 1):1}  "
            f"package {fast['package']:7.1f} MB/s   kha {fast['kha']:7.1f} MB/s   "
            f"package / kha {race['ratio']}")


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--child"]:
        return child(*arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench.tokenizer", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=8, help="of each text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--text", choices=["code", "mixed"], help="only this one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the readings go")
    options = parser.parse_args(arguments)
    size, results = int(options.megabytes * 1e6), []
    for name, make in (("code", code_text), ("mixed", mixed_text)):
        if options.text not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            contest = Contest(Path(folder), make(size))
            if not contest.equal():
                print(f"{name}: kha and the package differ; nothing is timed", file=sys.stderr)
                return 1
            for work in ("encode", "train"):
                for threads in (1, os.cpu_count()):
                    race = contest.race(work, threads, options.rounds)
                    results.append({"text": name, **race})
                    print(line(name, race), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
