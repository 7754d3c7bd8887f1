"""The figures that must be reached, and what a result says of each."""

from dataclasses import dataclass

from bench import shapes


def map_rows(result, contender, run, threads="all", **wanted):
    """Rows of maps with the memory settings as installed."""
    for part in result.get("maps", []):
        if part["allocator"] != "installed":
            continue
        count = result["machine"]["threads"] if threads == "all" else threads
        for row in part["rows"]:
            if (row["contender"], row["pass"], row["threads"]) == (contender, run, count) and all(
                    row[key] == value for key, value in wanted.items()):
                yield row


def target_maps(result, contender, run, threads="all"):
    """The mlp map at the head width and the rows of the targets, strided input included."""
    return [row for row in map_rows(result, contender, run, threads, kind="knock_mlp",
                                    dim=shapes.DIM, decode=False)
            if row["rows"] in shapes.TARGET_ROWS]


def step_row(result, part, case, contender):
    rows = result.get("steps", {}).get(part, [])
    return next((row for row in rows if (row["case"], row["contender"]) == (case.name, contender)),
                None)


def least_share(run, threads="all"):
    def value(result):
        # Only wide vectors come near the memory's limit: elsewhere both bounds are one.
        wide = result["machine"]["instruction_set"] == "avx512" and run == "forward"
        key = "share_of_bound" if wide else "share_of_ceiling"
        return min((row[key] for row in target_maps(result, "ours", run, threads)), default=None)

    return value


def least_speedup(contender, run):
    def value(result):
        return min((row["ours_is_faster"]["median"]
                    for row in target_maps(result, contender, run)), default=None)

    return value


def decode_speedup(result):
    rows = list(map_rows(result, "torch eager", "forward", decode=True, dim=shapes.DIM))
    return min((row["ours_is_faster"]["median"] for row in rows), default=None)


def saved_share(result):
    rows = [row for part in result.get("maps", []) for row in part["rows"]
            if row["contender"] == "ours" and row["saved_bytes"] is not None]
    return max((row["saved_bytes"] / row["x_bytes"] for row in rows), default=None)


def of_step(part, case, contender, key, invert=False):
    def value(result):
        row = step_row(result, part, case, contender)
        if row is None or key not in row:
            return None
        number = row[key]["median"] if isinstance(row[key], dict) else row[key]
        return 1 / number if invert else number

    return value


def most_faults(result):
    rows = [row for part in ("maps", "peer") for row in result.get("steps", {}).get(part, [])
            if row["contender"] not in ("transformers", "transformers, memory kept")
            and row["case"] in (shapes.MAPS_STEP.name, shapes.PEER_STEP.name)]
    return max((row["faults_most"] for row in rows), default=None)


def head_peak(result):
    rows = [row for row in result.get("head", []) if row["contender"] == "ours"
            and row["case"] in {case.name for case in shapes.head_cases()}]
    return max((row["peak_to_needed"] for row in rows), default=None)


def slowest_system(result):
    """Our step's time in units of the fastest peer's, of the attention where that is largest."""
    fastest = {}
    for row in result.get("steps", {}).get("systems", []):
        if "time_ratio" in row:
            ratio = 1 / row["time_ratio"]["median"]
            fastest[row["case"]] = max(fastest.get(row["case"], 0), ratio)
    return max(fastest.values(), default=None)


def absorbed_speedup(result):
    return next((row["faster_than_formed"]["median"] for row in result.get("decode", [])
                 if (row["contender"], row["form"]) == ("kha", "absorbed")), None)


def of_files(start, contender):
    """The ratio of a race of files, of the contenders whose name begins so."""
    def value(result):
        rows = [row for row in result.get("files", [])
                if row["case"].startswith(start) and row["contender"].startswith(contender)]
        return min((row["faster"]["median"] for row in rows), default=None)

    return value


def many_against_one(result):
    value = of_files("read", f"kha, {shapes.FILES.read_tensors} tensors")(result)
    return value and 1 / value


def surgery_peak(result):
    rows = [row for row in result.get("files", []) if "shard_bytes" in row
            and not row["contender"].startswith("copy")]
    return max((row["peak_bytes"] / row["shard_bytes"] for row in rows), default=None)


@dataclass(frozen=True)
class Target:
    name: str
    bar: float
    at_least: bool  # else at most
    value: object  # of a result, None where it was not measured
    unit: str = ""

    def judge(self, result):
        value = self.value(result)
        if value is None:
            return {"target": self.name, "bar": self.text_of_bar(), "value": None,
                    "state": "not measured"}
        reached = value >= self.bar if self.at_least else value <= self.bar
        return {"target": self.name, "bar": self.text_of_bar(), "value": value,
                "state": "reached" if reached else "NOT REACHED"}

    def text_of_bar(self):
        return f"{'at least' if self.at_least else 'at most'} {self.bar:g}{self.unit}"


TARGETS = [
    Target("mlp map forward, share of the ceiling", 0.84, True, least_share("forward")),
    Target("mlp map forward, one thread", 0.86, True, least_share("forward", 1)),
    Target("mlp map both passes, share of the ceiling", 0.68, True, least_share("both")),
    Target("mlp map both passes, one thread", 0.71, True, least_share("both", 1)),
    Target("mlp map forward against torch eager", 1.8, True,
           least_speedup("torch eager", "forward"), "x"),
    Target("mlp map both passes against torch eager", 1.5, True,
           least_speedup("torch eager", "both"), "x"),
    Target("mlp map both passes against torch.compile", 1.45, True,
           least_speedup("torch.compile", "both"), "x"),
    Target("decode-size call of a map against torch eager", 5, True, decode_speedup, "x"),
    Target("bytes saved for backward, in units of x", 1, False, saved_share),
    Target("step with KHA-Linear against baseline", 1.01, False,
           of_step("maps", shapes.MAPS_STEP, "kha-linear", "time_ratio"), "x"),
    Target("step with KHA-MLP against baseline", 1.03, False,
           of_step("maps", shapes.MAPS_STEP, "kha-mlp", "time_ratio"), "x"),
    Target("peak memory with KHA-Linear against baseline", 1.01, False,
           of_step("maps", shapes.MAPS_STEP, "kha-linear", "peak_ratio"), "x"),
    Target("peak memory with KHA-MLP against baseline", 1.03, False,
           of_step("maps", shapes.MAPS_STEP, "kha-mlp", "peak_ratio"), "x"),
    Target("step faster than transformers as installed", 1.2, True,
           of_step("peer", shapes.PEER_STEP, "transformers", "time_ratio"), "x"),
    Target("step faster than transformers, memory kept", 1.1, True,
           of_step("peer", shapes.PEER_STEP, "transformers, memory kept", "time_ratio"), "x"),
    Target("peak memory of the step against transformers", 0.5, False,
           of_step("peer", shapes.PEER_STEP, "transformers", "peak_ratio", invert=True), "x"),
    Target("minor faults of a step after the third", 999, False, most_faults),
    Target("step of each attention against the fastest peer", 1.15, False, slowest_system, "x"),
    Target("absorbed decode of MLA against forming keys and values", 5, True, absorbed_speedup, "x"),
    Target("opening a small file against one of 4 GB", 0.8, True,
           of_files("open", "kha, large"), "x"),
    Target("reading 10,000 tensors against one of as many bytes", 2, False, many_against_one, "x"),
    Target("saving against write + fsync", 0.9, True, of_files("save", "kha"), "x"),
    Target("insert against a copy", 0.9, True, of_files("surgery", "insert"), "x"),
    Target("fold against a copy", 0.9, True, of_files("surgery", "fold"), "x"),
    Target("export against a copy", 0.9, True, of_files("surgery", "export as stored"), "x"),
    Target("peak memory of surgery against the largest file", 1, False, surgery_peak, "x"),
    Target("peak memory of head and loss against what it must hold", 1.2, False, head_peak, "x"),
]


def judge_all(result):
    return [target.judge(result) for target in TARGETS]


def losing(result):
    """Sentences that name every case in which another contender is ahead of kha."""
    found = []
    for part in result.get("maps", []):
        for row in part["rows"]:
            ratio = row.get("ours_is_faster")
            if ratio and ratio["median"] < 1:
                found.append(
                    f"map {row['case']}, {row['pass']}, {row['threads']} threads, memory "
                    f"{part['allocator']}: {row['contender']} takes {ratio['median']:.2f} of our "
                    f"time [{ratio['low']:.2f}, {ratio['high']:.2f}]")
    for part in ("peer", "tokens", "systems"):
        for row in result.get("steps", {}).get(part, []):
            for key, what in (("time_ratio", "time"), ("peak_ratio", "peak memory")):
                value = row.get(key)
                number = value["median"] if isinstance(value, dict) else value
                if number is not None and number < 1:
                    found.append(f"step {row['case']}: {row['contender']} takes {number:.2f} of "
                                 f"our {what}")
    return found
