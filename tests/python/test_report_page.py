"""The page of a report: whole, readable, and the same in a browser."""

import re
import shutil
import subprocess
import sys

import numpy
import pytest
from drawn_reports import PROGRAM, SHIFTS, duel, page, report, table  # noqa: F401, F811
from made_runs import write_comparison, write_run


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
