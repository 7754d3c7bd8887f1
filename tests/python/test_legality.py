"""Where maps may stand: the program's table, the document's, and the messages."""

import json
import re

import pytest
from conftest import ROOT

DOCUMENT = ROOT / "docs/attention.md"


def generated_part() -> str:
    """What stands between the two marks of docs/attention.md."""
    found = re.search(r"<!-- kha inspect --legality --markdown -->\n(.*?)<!-- end -->", DOCUMENT.read_text(), re.S)
    assert found, f"{DOCUMENT} has lost the marks of its generated part"
    return found[1]


def test_the_document_has_the_programs_table(kha):
    printed = kha("inspect", "--legality", "--markdown").stdout
    assert printed.startswith("| attention |")
    assert generated_part() == printed, "write the output of `kha inspect --legality --markdown` there"


def test_text_and_json_say_the_same(kha):
    text = kha("inspect", "--legality").stdout
    systems = json.loads(kha("inspect", "--legality", "--json").stdout)["systems"]
    assert {"gqa", "gta", "mla", "gla", "talking", "collaborative"} <= {s["attention"] for s in systems}
    for system in systems:
        block = text[text.index(f"\n{system['attention']} "):]
        assert ", ".join(["baseline", *system["settings"]]) in block
        assert " + ".join(f"{p['name']} {p['elements']}" for p in system["cache"]) in block
        for place in system["places"]:
            assert place["reason"] in text
            if place["legal"]:
                assert ", ".join(place["legal"]) in block and place["linear_folds_into"][0] in block


def test_it_takes_no_time_and_no_torch(kha):
    assert kha("inspect", "--legality", timeout=5).returncode == 0


@pytest.mark.parametrize("arguments, words", [
    (["inspect"], "kha inspect --legality for where maps may stand"),
    (["inspect", "--markdown"], "--legality"),
])
def test_half_a_question_is_answered(kha, arguments, words):
    result = kha(*arguments)
    assert result.returncode == 2 and words in result.stderr


def test_a_refusal_names_what_would_be_legal(train, tmp_path):
    sizes = {"model.attention": "mla", "model.num_key_value_heads": 4, "model.latent_heads": 1,
             "model.kv_latent": 12, "model.rope_head_dim": 8}
    refused = train(tmp_path, check=False, **sizes, knock__setting="kha-mlp")
    assert refused.returncode == 2 and "only a linear map commutes" in refused.stderr
    assert "next:     --set knock.setting=kha-linear-v, or --set knock.v=linear; also legal: kha-linear" in refused.stderr
    for advice in ({"knock.setting": "kha-linear-v"}, {"knock.v": "linear"}, {"knock.setting": "kha-linear"}):
        followed = train(tmp_path, "--dry-run", **sizes, **{"knock.setting": "kha-mlp", **advice})
        assert followed.returncode == 0
