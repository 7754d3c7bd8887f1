"""The KV cache as a user meets it: what it costs a token, what int8 costs in loss, what is refused."""

import json

import pytest

from test_attention_systems import SYSTEMS

# Elements of one token in one layer, and the heads that int8 keeps a scale for.
ELEMENTS = {"gqa": (2 * 2 * 16, 4), "gta": (2 * 16 + 8, 3), "mla": (12 + 8, 2), "gla": (2 * 12 + 8, 3)}


@pytest.fixture(scope="module")
def runs(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    for system in ELEMENTS:
        train(folder, **SYSTEMS.get(system, {}), knock__setting="baseline", run__name=system,
              optimizer__lr=0.02, train__steps=30, train__eval_every=0, train__save_every=0)
    return {system: folder / system for system in ELEMENTS}


@pytest.fixture
def text(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"the heads of layer {number} share one small map " * 9)
    return tmp_path


@pytest.mark.parametrize("system", ELEMENTS)
def test_generate_says_what_its_cache_costs(kha, runs, system):
    elements, heads = ELEMENTS[system]
    words = ["generate", runs[system], "--prompt", "the heads", "--max-tokens", 5, "--temperature", 0]
    for more, a_token in (([], 2 * 4 * elements), (["--kv-cache", "int8"], 2 * (elements + 4 * heads))):
        cache = json.loads(kha(*words, *more, "--json").stdout)["kv_cache"]
        assert cache["bytes_a_token"] == a_token
        assert cache["bytes"] == cache["positions"] * a_token
        summary = kha(*words, *more).stderr
        assert f"{a_token} bytes a token, {cache['bytes']} bytes for {cache['positions']} positions" in summary
        assert ("int8 with a float32 scale a head" if more else "float32") in summary
    assert json.loads(kha(*words, "--no-cache", "--json").stdout)["kv_cache"] is None
    assert "no cache" in kha(*words, "--no-cache").stderr


@pytest.mark.parametrize("system", ELEMENTS)
def test_eval_prints_what_int8_costs_in_loss(kha, runs, text, system):
    elements, heads = ELEMENTS[system]
    plain = json.loads(kha("eval", runs[system], text, "--json").stdout)
    result = kha("eval", runs[system], text, "--kv-cache", "int8", "--stretch", 5, "--json")
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    exact, int8 = figures["caches"]
    assert exact["loss"] == pytest.approx(plain["loss"], rel=2e-5)  # the same sums in another order
    assert [each["bytes_a_token"] for each in (exact, int8)] == [8 * elements, 2 * (elements + 4 * heads)]
    difference = figures["difference"]
    assert difference["nats_a_token"] == pytest.approx(int8["loss"] - exact["loss"], abs=1e-9)
    assert 0 < abs(difference["nats_a_token"]) < 0.01 * exact["loss"]
    low, high = difference["nats_a_token_95"]
    assert low < difference["nats_a_token"] < high
    share = figures["targets"] / figures["bytes"]
    assert difference["nats_a_byte"] == pytest.approx(difference["nats_a_token"] * share)
    assert difference["perplexity_ratio"] == pytest.approx(int8["perplexity"] / exact["perplexity"])
    words = kha("eval", runs[system], text, "--kv-cache", "int8", "--stretch", 5).stdout
    for part in ("int8 with a float32 scale a head", "float32", f"{difference['nats_a_token']:+.6f}",
                 "decoded through the cache 5 tokens at once", "95 % over documents"):
        assert part in words


def test_the_stretches_change_rounding_alone(kha, runs, text):
    losses = []
    for stretch in (1, 7, 32):
        words = ["eval", runs["mla"], text, "--kv-cache", "int8", "--stretch", stretch, "--context", 32]
        losses.append(json.loads(kha(*words, "--json").stdout)["caches"][1]["loss"])
    assert max(losses) - min(losses) < 1e-3 * losses[0]


def test_one_kind_alone_and_one_document(kha, runs, text):
    one = text / "0.txt"
    alone = json.loads(kha("eval", runs["gqa"], one, "--kv-cache", "model", "--json").stdout)
    assert len(alone["caches"]) == 1 and "difference" not in alone
    both = kha("eval", runs["gqa"], one, "--kv-cache", "int8").stdout
    assert "no interval: one document" in both


def test_refusals(kha, runs, text):
    for words, reasons in [
            (["generate", runs["gqa"], "--kv-cache", "int9"], ["unknown kind of KV cache `int9`", "int8"]),
            (["eval", runs["gqa"], text, "--kv-cache", "int"], ["unknown kind of KV cache `int`"]),
            (["generate", runs["gqa"], "--kv-cache", "int8", "--no-cache"], ["--no-cache"]),
            (["eval", runs["gqa"], text, "--stretch", 4], ["--kv-cache"]),
            (["eval", runs["gqa"], text, "--kv-cache", "int8", "--document-mask"],
             ["cached positions are one text", "--document-mask"])]:
        result = kha(*words)
        assert result.returncode != 0
        for reason in reasons:
            assert reason in result.stderr
