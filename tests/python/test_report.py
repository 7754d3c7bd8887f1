"""`kha report` on made-up runs: its words, its figures' data, the page, its errors."""

import csv
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from made_runs import LAYERS, TOKENS, write_comparison, write_lines, write_run

PROGRAM = Path(__file__).resolve().parents[2] / "python/knocking_heads/report.py"
sys.path.insert(0, str(PROGRAM.parent))
statistics = importlib.import_module("run_report.statistics")
study = importlib.import_module("run_report.study")
summary = importlib.import_module("run_report.summary")

SHIFTS = {"baseline": [0.0, 0.0, 0.0], "kha-linear": [-0.05, -0.06, -0.055],
          "kha-mlp": [0.05, 0.04, 0.06], "kha-gate-v": [0.01, -0.012, 0.001]}  # fmt: skip


def report(*arguments, cwd=None):
    command = [sys.executable, "-P", str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def table(folder, name):
    return list(csv.DictReader((folder / "report" / f"{name}.csv").open()))


def words_of(svg: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())


@pytest.fixture(scope="module")
def duel(tmp_path_factory):
    """Three seeds: one setting clearly better, one clearly worse, one undecided."""
    folder = write_comparison(tmp_path_factory.mktemp("report") / "duel", SHIFTS)
    compare = json.loads((folder / "compare.json").read_text())
    for entry in compare["differences"]:
        made = study.difference_of(study.read_group(folder), entry["setting"]).bands[-1]
        entry["low"], entry["high"] = made.low, made.high
    (folder / "compare.json").write_text(json.dumps(compare))
    done = report(folder)
    assert done.returncode == 0, done.stderr
    assert f"{folder}/report.html" in done.stdout
    return folder


@pytest.fixture(scope="module")
def page(duel):
    return (duel / "report.html").read_text()


def summarised(*folders):
    return summary.summarise(study.read_study([Path(folder) for folder in folders]))


# The words.


def test_clearly_better_clearly_worse_and_undecided(duel):
    said = summarised(duel)
    assert [v.outcome for v in said.verdicts] == ["better", "worse", "undecided"]
    assert "kha-linear ended below baseline" in said.headline
    assert "kha-mlp ended above baseline" in said.headline
    assert "for kha-gate-v no difference is shown" in said.headline
    assert "lower validation loss than baseline (−0.05" in said.verdicts[0].text
    assert "95 % interval over 3 seeds" in said.verdicts[0].text
    assert "higher validation loss than baseline (+0.05" in said.verdicts[1].text
    assert "0 is inside" in said.verdicts[2].text
    assert any("3 intervals at 95 % each" in text for text in said.cautions)
    assert any("this size of model" in text for text in said.cautions)


@pytest.mark.parametrize(
    "interval, outcome, words",
    [
        ((-0.03, -0.01), "better", "kha-mlp ended below baseline"),
        ((0.01, 0.03), "worse", "kha-mlp ended above baseline"),
        ((-0.01, 0.03), "undecided", "No difference from baseline is shown."),
    ],
)
def test_one_seed_never_speaks_of_more_than_these_two_models(tmp_path, interval, outcome, words):
    folder = write_comparison(
        tmp_path / "c", {"baseline": [0.0], "kha-mlp": [sum(interval) / 2]}, interval=interval
    )
    said = summarised(folder)
    assert said.verdicts[0].outcome == outcome and words in said.headline
    assert "interval over documents" in said.verdicts[0].text
    assert any("does not cover training noise" in text for text in said.cautions)
    if outcome != "undecided":
        assert said.headline.startswith("In one run of each: ")
        assert "One seed does not tell" in said.headline


def test_without_a_baseline_it_does_not_judge(tmp_path):
    write_run(tmp_path / "solo")
    said = summarised(tmp_path / "solo")
    assert said.headline == (
        "This page describes one run. There is no baseline beside it, so it does not judge."
    )
    assert said.verdicts == []


def test_unfinished_arms_decide_nothing(tmp_path):
    folder = write_comparison(
        tmp_path / "c", {"baseline": [0.0, 0.0], "kha-mlp": [-0.5, -0.5]}, finished=False
    )
    for name in ("baseline-s2", "kha-mlp-s2"):
        shutil.rmtree(folder / "arms" / name)
    shutil.rmtree(folder / "arms/kha-mlp-s1")
    write_run(folder / "arms/kha-mlp-s1", "kha-mlp", -0.5, done=100)
    said = summarised(folder)
    assert said.headline == "The comparison has not finished, so nothing is concluded yet."
    assert said.verdicts[0].outcome == "open" and "nothing is concluded" in said.verdicts[0].text
    assert any("Not finished: kha-mlp seed 1" in text for text in said.cautions)
    assert any("2 arms have not begun" in text for text in said.cautions)


def test_an_interval_that_does_not_exist_decides_nothing(tmp_path):
    """One held-out document: kha compare writes an interval without ends."""
    folder = write_comparison(tmp_path / "c", {"baseline": [0.0], "kha-mlp": [-0.5]}, whole=False)
    content = json.loads((folder / "compare.json").read_text())
    content["differences"][0].update(low=None, high=None)
    (folder / "compare.json").write_text(json.dumps(content))
    for run in ("baseline", "kha-mlp"):
        path = folder / f"arms/{run}-s1/summary.json"
        validation = json.loads(path.read_text())
        validation["validation"]["documents"] = {"0": [1.0, 1]}
        path.write_text(json.dumps(validation))
    said = summarised(folder)
    assert said.verdicts[0].outcome == "open" and "has no interval" in said.verdicts[0].text


# The statistics are those of kha compare.


def test_student_quantiles_and_the_interval_over_seeds():
    assert statistics.student_t_95(1) == pytest.approx(12.7062047, abs=1e-6)
    assert statistics.student_t_95(9) == pytest.approx(2.2621572, abs=1e-6)
    made = statistics.over_seeds([-0.1, -0.2, -0.3])
    half = 4.302652730 * 0.1 / 3**0.5
    assert (made.mean, made.high - made.mean) == (pytest.approx(-0.2), pytest.approx(half))
    assert statistics.over_seeds([0.1]) is None


def test_the_interval_over_documents_is_that_of_a_ratio():
    generator = numpy.random.default_rng(1)
    targets = generator.integers(10, 200, 40)
    each = generator.normal(0.02, 0.05, 40) * targets
    base = {str(i): [3.0 * n, int(n)] for i, n in enumerate(targets)}
    arm = {str(i): [3.0 * n + d, int(n)] for i, (n, d) in enumerate(zip(targets, each))}
    made = statistics.over_documents(arm, base)
    mean = each.sum() / targets.sum()
    error = numpy.sqrt(40 / 39 * ((each - mean * targets) ** 2).sum()) / targets.sum()
    assert made.mean == pytest.approx(mean)
    assert made.high == pytest.approx(mean + 2.0226909 * error)
    del arm["0"]
    assert statistics.over_documents(arm, base) is None


def test_smoothing_leaves_gaps_and_evens_out_a_short_run_too():
    noisy = [1.0, -1.0] * 25
    smooth = statistics.smooth(noisy)
    assert max(map(abs, smooth[2:])) < 0.4 and smooth[0] == 1.0
    gapped = statistics.smooth_between_gaps([1.0] * 20 + [None] + [3.0] * 20)
    assert gapped == pytest.approx([1.0] * 20 + [None] + [3.0] * 20)


# The figures' data and labels.


def test_loss_has_every_point_of_every_arm(duel):
    rows = table(duel, "loss")
    own = [row for row in rows if (row["setting"], row["seed"]) == ("kha-mlp", "2")]
    training = [row for row in own if row["what"] == "training loss"]
    validation = [row for row in own if row["what"] == "validation loss"]
    assert len(rows) == 12 * (100 + 10) and len(training) == 100 and len(validation) == 10
    lines = map(json.loads, (duel / "arms/kha-mlp-s2/metrics.jsonl").read_text().splitlines())
    logged = {line["tokens"]: line["train/loss"] for line in lines if "train/loss" in line}
    assert {int(row["tokens"]): float(row["value"]) for row in training} == logged
    assert training[5]["smoothed"] != "" and validation[5]["smoothed"] == ""
    words = words_of(duel / "report/loss.svg")
    for label in ("training tokens", "loss (nats per token)", "training", "validation", *SHIFTS):
        assert label in words, label


def test_difference_is_paired_by_seed_and_step_with_its_band(duel):
    rows = [row for row in table(duel, "difference") if row["setting"] == "kha-linear"]
    assert [int(row["tokens"]) for row in rows] == [TOKENS * 20 * i for i in range(1, 11)]
    means = [float(row["difference"]) for row in rows]
    assert means == pytest.approx([-0.055 * i / 10 for i in range(1, 11)])
    last = statistics.over_seeds(SHIFTS["kha-linear"])
    assert float(rows[-1]["low"]) == pytest.approx(last.low)
    assert {row["interval over"] for row in rows} == {"seeds"}
    assert "Band: 95 % interval over 3 seeds" in (duel / "report/difference.svg").read_text()


def test_of_one_seed_the_band_is_over_documents(tmp_path):
    folder = write_comparison(tmp_path / "c", {"baseline": [0.0], "kha-mlp": [-0.02]})
    assert report(folder).returncode == 0
    rows = table(folder, "difference")
    assert len(rows) == 10 and all(float(row["low"]) < float(row["high"]) for row in rows)
    assert {row["interval over"] for row in rows} == {"documents"}
    assert "over documents (of one seed" in (folder / "report.html").read_text()


def test_rate_and_speed_have_units(duel):
    assert {row["what"] for row in table(duel, "rate")} == {"learning rate", "gradient norm"}
    speed = table(duel, "speed")
    assert {row["value"] for row in speed if row["what"] == "memory"} == {"0.4"}
    words = words_of(duel / "report/speed.svg")
    assert "tokens per second" in words and "resident memory (GB)" in words
    assert "Made-up CPU" in (duel / "report/speed.svg").read_text()


def test_heat_maps_are_the_checkpoints_matrices_the_papers_way(duel):
    rows = table(duel, "map-change-kha-linear")
    assert len(rows) == 3 * LAYERS * 64
    off = {(r["layer"], r["matrix"], r["row"], r["column"]): float(r["value"]) for r in rows
           if float(r["value"])}  # fmt: skip
    # Output 0 takes a quarter of input 1 in layer 0: row 1, column 0.
    assert off["0", "T on Q", "1", "0"] == 0.25 and off["2", "T on V", "1", "0"] == 0.75
    assert len(off) == 3 * LAYERS
    whole = {(r["matrix"], r["row"], r["column"]): float(r["value"]) for r in table(duel, "maps-kha-mlp")}
    assert whole["U on V", "3", "3"] == 1 and whole["G on V", "3", "3"] == 0
    words = words_of(duel / "report/map-change-kha-mlp.svg")
    assert {"U on V, layer 0", "G on V, layer 1", "W on V, layer 2", "M − start"} <= set(words)


def test_the_colour_range_is_one_for_all_settings(duel):
    ticks = []
    for setting in ("kha-linear", "kha-mlp", "kha-gate-v"):
        words = words_of(duel / f"report/map-change-{setting}.svg")
        ticks.append([word for word in words if re.fullmatch(r"[−-]?\d\.\d+", word)])
    assert ticks[0] == ticks[1] == ticks[2] and ticks[0][0][1:] == ticks[0][-1]


def test_distance_condition_and_similarity(duel):
    rows = table(duel, "map-course-kha-mlp")
    last = {(r["layer"], r["matrix"], r["what"]): float(r["value"]) for r in rows}
    assert last["2", "U on V", "distance from start"] == pytest.approx(0.3)
    assert last["1", "G on V", "condition number"] == pytest.approx(11)
    heads = {(r["setting"], r["layer"], r["slot"], r["when"]): float(r["mean |cosine|"])
             for r in table(duel, "similarity")}  # fmt: skip
    assert heads["kha-mlp", "2", "v", "before"] == 0.2
    assert heads["kha-mlp", "2", "v", "after"] == pytest.approx(0.4)
    assert ("baseline", "2", "v", "before") not in heads
    assert (duel / "report/heads-kha-mlp.png").read_bytes()[:4] == b"\x89PNG"


# The page.


def test_the_page_needs_nothing_else(page):
    assert not re.search(r'(?:src|srcset|href|url\()\s*=?\s*["\']?(?:https?:)?//', page)
    assert "<script" not in page and "@import" not in page
    sources = re.findall(r'(?:src|srcset)="([^"]{0,30})', page)
    assert len(sources) > 20 and all(source.startswith("data:image/") for source in sources)


def test_every_figure_has_an_alt_text_a_caption_and_what_made_it(page):
    figures = re.findall(r"<figure.*?</figure>", page, re.S)
    assert len(figures) > 10
    for figure in figures:
        assert len(re.search(r'alt="([^"]*)"', figure)[1]) > 20
        assert "0123abcdef" in figure and "kha compare demo.toml --set compare.seeds=3" in figure
        assert "/duel" in figure
        assert figure.count("<source media=") == 1


def test_links_lead_to_files(page, duel):
    links = re.findall(r'href="(report/[^"]+)"', page)
    assert len(links) > 30
    for link in links:
        assert (duel / link).stat().st_size > 0, link


def test_the_table_has_winners_and_losers_alike(page):
    body = page[page.index("<table>") : page.index("</table>")]
    for setting in SHIFTS:
        assert f"</span>{setting}</td>" in body
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    assert len(rows) == 1 + 12
    for row in rows[1:]:
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
        assert "9,050" in cells and "0.41 GB" in cells and "200" in cells
    assert "1,100<small>100</small>" in body and "+5.00 %" in body and "over 3 seeds" in body


def test_names_are_escaped(tmp_path):
    write_run(tmp_path / "<b>&run", steps=20, whole=False)
    assert report(tmp_path / "<b>&run").returncode == 0
    page = (tmp_path / "<b>&run/report.html").read_text()
    assert "<b>" not in page and "&lt;b&gt;&amp;run" in page


def test_what_has_no_data_says_why(tmp_path):
    write_run(tmp_path / "old", "baseline", steps=20, whole=False)
    assert report(tmp_path / "old").returncode == 0
    page = (tmp_path / "old/report.html").read_text()
    assert page.count("Not shown.") == 6
    assert "an older kha wrote them" in page and "nothing to compare with" in page
    assert not (tmp_path / "old/report/similarity.csv").exists()


def test_several_runs_are_one_report(tmp_path):
    shifts = {"baseline": [0.0], "kha-mlp": [0.1]}
    for name in ("one", "two"):
        write_comparison(tmp_path / name, shifts, steps=20, whole=False)
    write_run(tmp_path / "solo", "kha-mlp", steps=20, whole=False)
    folders = [tmp_path / name for name in ("one", "two", "solo")]
    assert report(*folders, "--out", tmp_path / "all").returncode == 0
    page = (tmp_path / "all/report.html").read_text()
    assert "one + two + solo" in page and "two: kha-mlp: higher validation loss than two: b" in page
    settings = {row["setting"] for row in table(tmp_path / "all", "loss")}
    assert settings == {"solo", *(f"{name}: {s}" for name in ("one", "two") for s in shifts)}


def test_the_same_run_makes_the_same_page(tmp_path):
    write_run(tmp_path / "a", steps=20)
    pages = []
    for _ in range(2):
        assert report(tmp_path / "a").returncode == 0
        pages.append((tmp_path / "a/report.html").read_bytes())
    assert pages[0] == pages[1]


def test_neither_torch_nor_the_operators_are_loaded(tmp_path):
    write_run(tmp_path / "a", steps=20)
    code = f"""import runpy, sys
sys.argv = ["report", {str(tmp_path / "a")!r}]
try:
    runpy.run_path({str(PROGRAM)!r}, run_name="__main__")
except SystemExit as end:
    assert end.code == 0
assert "torch" not in sys.modules, "torch was loaded"
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# In a browser.

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH to open the page")


def browse(*arguments):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_it_opens_in_a_browser_without_running_out_of_the_window(page, tmp_path, width):
    measure = """<script>addEventListener("load", () => { const d = document.documentElement;
      const images = [...document.images];
      document.title = `width ${d.scrollWidth} of ${innerWidth}, loaded ${
        images.filter((i) => i.complete && i.naturalWidth > 50).length} of ${images.length}`; })
      </script></body>"""
    copy = tmp_path / "page.html"
    copy.write_text(page.replace("</body>", measure))
    shown = browse("--dump-dom", f"--window-size={width},900", "--virtual-time-budget=5000", copy.as_uri())
    title = re.search(r"<title>(.*?)</title>", shown.stdout)[1]
    wide, window, loaded, images = map(int, re.findall(r"\d+", title))
    assert wide <= window, title
    assert loaded == images > 10, title


@needs_chromium
def test_it_is_not_a_blank_sheet(duel, tmp_path):
    from PIL import Image

    picture = tmp_path / "phone.png"
    browse(f"--screenshot={picture}", "--window-size=390,4000", (duel / "report.html").as_uri())
    pixels = numpy.asarray(Image.open(picture).convert("L"))
    assert pixels.shape == (4000, 390)
    strips = pixels.reshape(8, 500, 390)
    assert all((strip < 128).mean() > 0.002 for strip in strips)


# Bad input.


@pytest.mark.parametrize(
    "files, parts",
    [
        ({}, ["there is no folder", "next:"]),
        ({"a/x": ""}, ["there is no metrics.jsonl in", "compare.json"]),
        ({"a/metrics.jsonl": '{"step": 1}\n'}, ["no losses", "1 lines", "first log step"]),
        ({"a/metrics.jsonl": "{}\nnot\n"}, ["line 2", "is not JSON", "found: not"]),
        ({"a/compare.json": "{}"}, ["compare.json lists no arms"]),
        ({"a/compare.json": '{"arms": [{"seed": 1}]}'}, ["without `setting` or `run`"]),
        ({"a/arms/x": ""}, ["no arm of", "has begun"]),
        ({"a/metrics.jsonl": '{"step":1,"tokens":8,"train/loss":2}\n', "a/config.toml": "= 3"},
         ["config.toml is not TOML"]),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence_and_exit_code_2(tmp_path, files, parts):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = report("a", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kha report: ") and "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr
    assert not (tmp_path / "a/report.html").exists()


def test_losses_that_are_no_number_are_gaps_and_said(tmp_path):
    lines = [{"step": i, "tokens": 8 * i, "train/loss": 3.0 - i / 40} for i in range(1, 41)]
    lines[19]["train/loss"] = None
    write_run(tmp_path / "a", steps=20, whole=False)
    write_lines(tmp_path / "a/metrics.jsonl", lines)
    with (tmp_path / "a/metrics.jsonl").open("a") as file:
        file.write('{"step": 41, "tok')
    assert report(tmp_path / "a").returncode == 0
    rows = table(tmp_path / "a", "loss")
    assert len(rows) == 40 and rows[19]["value"] == "" and rows[19]["smoothed"] == ""
    page = (tmp_path / "a/report.html").read_text()
    assert "1 logged loss is not a number, shown as gaps" in page
    assert "half written" in page


def test_a_damaged_checkpoint_is_named(tmp_path):
    write_run(tmp_path / "a", steps=20)
    (tmp_path / "a/checkpoints/latest/model.safetensors").write_bytes(b"nothing")
    done = report(tmp_path / "a")
    assert done.returncode == 2 and "model.safetensors cannot be read" in done.stderr
    assert "kha inspect" in done.stderr


def test_out_that_cannot_be_written_is_a_sentence(tmp_path):
    write_run(tmp_path / "a", steps=20)
    (tmp_path / "file").write_text("")
    done = report(tmp_path / "a", "--out", tmp_path / "file")
    assert done.returncode == 2 and "cannot write" in done.stderr and "--out" in done.stderr


# At the end of a command.


def test_a_report_is_drawn_at_the_end(train, kha, tmp_path):
    done = train(tmp_path, run__name="a", run__report=True, train__steps=4)
    page = tmp_path / "a/report.html"
    assert f"kha report: {page}" in done.stdout and "heads-a" in page.read_text()
    page.unlink()
    done = kha("report", tmp_path / "a")
    assert done.returncode == 0 and page.exists()


def test_a_comparison_draws_one_too(train, tmp_path):
    done = train(tmp_path, command="compare", run__name="c", run__report=True, train__steps=4,
                 compare__settings=["baseline", "kha-linear-v"])
    page = (tmp_path / "c/report.html").read_text()
    assert f"kha report: {tmp_path / 'c/report.html'}" in done.stdout
    assert "kha-linear-v" in page and "over documents" in page
    assert not (tmp_path / "c/arms/baseline-s1/report.html").exists()
