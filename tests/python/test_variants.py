"""`kha compare` over variants: what is trained, paired, left out, written, gone on with, drawn."""

import csv
import json
import re
import shutil
import sys

import pytest
from conftest import ROOT
from test_train import losses

sys.path.insert(0, str(ROOT / "python/knocking_heads"))
from run_report.study import read_study  # noqa: E402
from run_report.summary import summarise  # noqa: E402
from run_report.variants import cells, rows_of  # noqa: E402

MLA = ["model.attention=mla", "model.num_key_value_heads=4", "model.latent_heads=1",
       "model.kv_latent=12", "model.rope_head_dim=8"]  # fmt: skip
VARIANTS = {
    "compare.variants.gqa": [],
    "compare.variants.mqa": ["model.num_key_value_heads=1"],
    "compare.variants.gta": ["model.attention=gta", "model.rope_head_dim=8"],
    "compare.variants.mla": MLA,
}
LINEAR = 'compare.settings=["baseline", "kha-linear"]'
COMMON = {**VARIANTS, "run.name": "v", "compare.settings": ["baseline", "kha-mlp"], "train.steps": 8}


def lists(changes):
    """Texts in lists as TOML literals: they hold quotes themselves."""
    def literal(value):
        return "[" + ", ".join(f"'{each}'" for each in value) + "]"

    return {key: value for key, value in changes.items() if "variants" not in key}, [
        word for key, value in changes.items() if "variants" in key
        for word in ("--set", f"{key}={literal(value)}")]  # fmt: skip


def compare(train, folder, check=True, env=None, **changes):
    values, words = lists({**COMMON, **changes})
    return train(folder, *words, command="compare", check=check, env=env, **values)


def figures_of(folder):
    return json.loads((folder / "compare.json").read_text())


@pytest.fixture(scope="module")
def comparison(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    result = compare(train, folder)
    return folder / "v", result.stdout


def test_every_legal_setting_is_trained_on_every_variant(comparison):
    folder, _ = comparison
    arms = [(arm["variant"], arm["setting"]) for arm in figures_of(folder)["arms"]]
    assert arms == [("gqa", "baseline"), ("gqa", "kha-mlp"), ("mqa", "baseline"), ("mqa", "kha-mlp"),
                    ("gta", "baseline"), ("gta", "kha-mlp"), ("mla", "baseline")]
    for arm in figures_of(folder)["arms"]:
        assert arm["run"] == f"arms/{arm['variant']}/{arm['setting']}-s1"
        config = json.loads((folder / arm["run"] / "checkpoints/latest/config.json").read_text())
        assert config.get("kha", {}).get("attention", "gqa") == {"mqa": "gqa"}.get(arm["variant"], arm["variant"])


def test_what_is_not_legal_is_left_out_and_said(comparison):
    folder, text = comparison
    assert "kha-mlp is left out: a `mlp` map may not stand on v of mla" in text
    mla = next(v for v in figures_of(folder)["variants"] if v["name"] == "mla")
    assert [left["setting"] for left in mla["left_out"]] == ["kha-mlp"]
    assert "legal there: kha-linear-v, kha-linear" in mla["left_out"][0]["reason"]
    assert "mla, kha-mlp: left out" in text


@pytest.mark.parametrize("variant, elements", [("gqa", 4 * 16), ("mqa", 2 * 16), ("gta", 2 * 16 + 8), ("mla", 12 + 8)])
def test_caches_are_counted(comparison, variant, elements):
    found = next(v for v in figures_of(comparison[0])["variants"] if v["name"] == variant)
    assert found["cache_elements"] == elements
    assert sum(part["heads"] * part["width"] for part in found["cache"]) == elements


def test_differences_are_from_the_baseline_of_the_same_variant(comparison):
    figures = figures_of(comparison[0])
    losses_of = {(arm["variant"], arm["setting"]): arm["val_loss"] for arm in figures["arms"]}
    assert [(d["variant"], d["setting"]) for d in figures["differences"]] == [
        (v, "kha-mlp") for v in ("gqa", "mqa", "gta")]
    for d in figures["differences"]:
        own = losses_of[d["variant"], "kha-mlp"] - losses_of[d["variant"], "baseline"]
        assert d["mean"] == pytest.approx(own, abs=1e-9)
        assert f"{d['variant']}, kha-mlp: " in comparison[1]


def test_all_arms_see_the_same_text_and_start_as_their_baseline(comparison):
    folder, _ = comparison
    for variant in ("gqa", "mqa", "gta"):
        first = {losses(folder / f"arms/{variant}/{s}-s1")[1] for s in ("baseline", "kha-mlp")}
        assert len(first) == 1
    text = {re.search(r'fingerprint = "(.*?)"|paths = (.*)', (folder / arm["run"] / "config.toml").read_text())[0]
            for arm in figures_of(folder)["arms"]}
    targets = {arm["targets"] for arm in figures_of(folder)["arms"]}
    assert len(text) == 1 and len(targets) == 1
    tokens = {tuple(line["tokens"] for line in map(json.loads, (folder / arm["run"] / "metrics.jsonl").open())
                    if "train/loss" in line) for arm in figures_of(folder)["arms"]}
    assert len(tokens) == 1


def test_an_arm_is_an_ordinary_run_of_that_variant(comparison, train, tmp_path):
    """The same settings by hand give the same weights."""
    folder, _ = comparison
    sizes = dict(pair.split("=") for pair in VARIANTS["compare.variants.gta"])
    train(tmp_path, **{**sizes, "model.rope_head_dim": 8}, run__name="hand", train__steps=8, knock__setting="kha-mlp")
    by_hand = tmp_path / "hand/checkpoints/latest/model.safetensors"
    assert by_hand.read_bytes() == (folder / "arms/gta/kha-mlp-s1/checkpoints/latest/model.safetensors").read_bytes()


def test_doing_it_again_trains_nothing(comparison, train):
    folder, _ = comparison
    before = (folder / "compare.json").read_bytes()
    again = compare(train, folder.parent)
    assert (folder / "compare.json").read_bytes() == before and "validation loss" not in again.stdout


def test_a_killed_comparison_goes_on_to_the_same_losses(comparison, train, tmp_path):
    folder, _ = comparison
    killed = compare(train, tmp_path, check=False, env={"KHA_FAIL_POINT": "step-6"})
    assert killed.returncode == 86 and not (tmp_path / "v/compare.json").exists()
    compare(train, tmp_path)
    whole, cut = ({(a["variant"], a["setting"]): a["val_loss"] for a in figures_of(place)["arms"]}
                  for place in (folder, tmp_path / "v"))
    assert whole == cut


def test_the_run_folder_names_the_comparison(comparison, kha):
    folder, _ = comparison
    config = kha("compare", folder, "--print-config")
    assert config.returncode == 0, config.stderr
    assert '[compare.variants]\ngqa = []\n' in config.stdout and '"model.attention=mla"' in config.stdout


def test_a_changed_variant_is_not_gone_on_with(comparison, train, tmp_path):
    shutil.copytree(comparison[0], tmp_path / "v", symlinks=True)
    changed = compare(train, tmp_path, check=False, **{"compare.variants.mqa": ["model.num_key_value_heads=4"]})
    assert changed.returncode == 2 and "model.num_key_value_heads" in changed.stderr


def test_a_variant_with_settings_and_seeds_of_its_own(train, tmp_path):
    compare(train, tmp_path, **{"compare.variants.mla": [*MLA, LINEAR], "compare.seeds": 2, "train.steps": 4})
    figures = figures_of(tmp_path / "v")
    d = next(d for d in figures["differences"] if d["variant"] == "mla")
    assert d["setting"] == "kha-linear" and d["kind"] == "seeds"
    assert len(figures["arms"]) == 16 and not any(v["left_out"] for v in figures["variants"])


def test_a_dry_run_says_what_would_be_trained(train, tmp_path):
    values, words = lists(COMMON)
    said = train(tmp_path, *words, "--dry-run", command="compare", **values).stdout
    assert "variant mla: attention mla, cache 20 elements a token and layer; baseline" in said
    assert "kha-mlp is left out" in said and not (tmp_path / "v").exists()


@pytest.mark.parametrize("changes, words", [
    ({"compare.variants.mla": ["model.attention=mla"]}, ["compare.variants.mla", "rope_head_dim"]),
    ({"compare.variants.mla": ["train.batch=2"]}, ["may not differ between variants", "same text in the same order"]),
    ({"compare.settings": ["kha-mlp", "baseline"]}, ["the reference `kha-mlp` is not legal in a variant"]),
    ({"knock.v": "mlp"}, ["have no meaning in a comparison"]),
])
def test_what_does_not_fit_is_a_sentence(train, tmp_path, changes, words):
    result = compare(train, tmp_path, check=False, **changes)
    assert result.returncode == 2 and not (tmp_path / "v").exists()
    for word in words:
        assert word in result.stderr


def test_the_model_of_a_comparison_need_not_allow_the_default_maps(train, tmp_path):
    sizes = {key: value for key, value in (pair.split("=") for pair in MLA)}
    result = train(tmp_path, command="compare", check=False, run__name="m", train__steps=2,
                   **{**sizes, **{k: int(v) for k, v in sizes.items() if v.isdigit()}},
                   compare__settings=["baseline", "kha-linear-v"])
    assert result.returncode == 0, result.stderr
    refused = train(tmp_path, command="compare", check=False, run__name="n",
                    **{**sizes, **{k: int(v) for k, v in sizes.items() if v.isdigit()}},
                    compare__settings=["baseline", "kha-mlp"])
    assert refused.returncode == 2 and "may not stand on v of mla" in refused.stderr


# The report.


def test_the_table_has_the_papers_columns(comparison):
    study = read_study([comparison[0]])
    table = {row.group.variant: [c if isinstance(c, str) else c[0] for c in cells(row)] for row in rows_of(study)}
    losses_of = {(a["variant"], a["setting"]): a["val_loss"] for a in figures_of(comparison[0])["arms"]}
    assert list(table) == ["gqa", "mqa", "gta", "mla"]
    assert table["gqa"][1:3] == ["2", "64"] and table["mla"][1:3] == ["1 × 12", "20"]
    for variant in ("gqa", "mqa", "gta"):
        base, own = losses_of[variant, "baseline"], losses_of[variant, "kha-mlp"]
        assert table[variant][4:7] == [f"{base:.4f}", "kha-mlp", f"{own:.4f}"]
        assert table[variant][7] == f"{own - base:+.4f}".replace("-", "−")
    assert table["mla"][5:8] == ["–", "–", "–"]


def test_the_report_has_table_figure_and_data(comparison, kha):
    folder, _ = comparison
    assert kha("report", folder).returncode == 0
    page = (folder / "report.html").read_text()
    body = page[page.index('<table class="variants">'):]
    body = body[:body.index("</table>")]
    assert body.count("<tbody>") == 4 and "keys 2 × 16 + values 2 × 16" in body
    assert 'id="figure-variants"' in page and "kha-mlp was left out" in page
    rows = list(csv.DictReader((folder / "report/variants.csv").open()))
    assert [row["variant"] for row in rows] == ["gqa", "mqa", "gta", "mla"]
    assert rows[3]["loss"] == "" and rows[3]["cache_elements"] == "20"
    assert float(rows[0]["difference"]) == pytest.approx(float(rows[0]["loss"]) - float(rows[0]["baseline_loss"]))


def test_its_words_name_the_variants(comparison):
    said = summarise(read_study([comparison[0]]))
    assert [v.setting for v in said.verdicts] == ["gqa: kha-mlp", "mqa: kha-mlp", "gta: kha-mlp"]
    for verdict, variant in zip(said.verdicts, ("gqa", "mqa", "gta")):
        assert f"{variant}: baseline" in verdict.text
    assert any("mla: kha-mlp was left out" in text for text in said.cautions)


def test_a_report_before_the_end_counts_what_is_missing(train, tmp_path):
    killed = compare(train, tmp_path, check=False, env={"KHA_FAIL_POINT": "step-7"})
    assert killed.returncode == 86
    study = read_study([tmp_path / "v"])
    assert [group.variant for group in study.groups] == ["gqa"]
    assert study.missing_arms == 6 and study.unfinished


def test_curves_pair_within_variants(comparison):
    rows = list(csv.DictReader((comparison[0] / "curves.csv").open()))
    assert {row["arm"] for row in rows} == {
        *(f"{v}: {s}" for v in ("gqa", "mqa", "gta") for s in ("baseline", "kha-mlp")), "mla: baseline"}
    assert (comparison[0] / "curves.png").stat().st_size > 10000


def test_the_ready_configuration_is_whole(kha, tiny_text, tmp_path):
    result = kha("compare", ROOT / "configs/variants.toml", "--dry-run", "--set", f'data.paths=["{tiny_text}"]',
                 "--set", 'data.extensions=[]', "--set", f"run.folder={tmp_path}",
                 "--set", "data.validation_share=0.3")
    assert result.returncode == 0, result.stderr
    names = re.findall(r"^variant (\w+):", result.stdout, re.M)
    assert names == ["mha", "gqa", "mqa", "gta", "mla", "gla", "talking", "collaborative"] and "left out" not in result.stdout
