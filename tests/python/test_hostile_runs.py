"""Checkpoints whose training state is damaged, edited or of another run: said, and nothing lost."""

import json
import shutil

import numpy
import pytest
import xxhash
from safetensors.numpy import load_file, save_file

KEY = "model.layers.0.self_attn.k_proj.weight"
NORM = "model.norm.weight"


def seal(step):
    """Makes the manifest right again, as somebody who edits a checkpoint would have to."""
    manifest = json.loads((step / "MANIFEST.json").read_text())
    for entry in manifest["files"]:
        content = (step / entry["path"]).read_bytes()
        entry |= {"size": len(content), "xxh3": xxhash.xxh3_64_hexdigest(content)}
    (step / "MANIFEST.json").write_text(json.dumps(manifest))


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state(change):
    def edit(step):
        file = step / "trainer/state.json"
        keys = json.loads(file.read_text())
        change(keys)
        file.write_text(json.dumps(keys))

    return edit


def text_of(name):
    """Changes of a file's text."""
    def with_change(change):
        def edit(step):
            file = step / name
            file.write_text(change(file.read_text()))

        return edit

    return with_change


def moments(change):
    def edit(step):
        file = step / "trainer/optimizer.safetensors"
        tensors = dict(load_file(file))
        change(tensors)
        save_file(tensors, file)

    return edit


def renamed(tensors):
    for name in list(tensors):
        tensors[name.replace(".model.", ".other.")] = tensors.pop(name)


def without(name):
    def change(tensors):
        for kind in ("mean.", "square.", "steps."):
            del tensors[kind + name]

    return change


STATE, MOMENTS, TOML = "trainer/state.json", "trainer/optimizer.safetensors", "trainer/config.toml"
state_text, toml = text_of(STATE), text_of(TOML)
DAMAGE = {
    "state cut": (state_text(lambda text: text[:40]), [STATE, "is not valid JSON", "byte"]),
    "state empty": (state_text(lambda text: ""), [STATE, "is an empty file"]),
    "state of a later version": (state(lambda keys: keys.update(version=2)), [
        STATE, "key `version`", "expected: 1", "found:    2", "a later kha wrote it"]),
    "step that is no whole number": (state(lambda keys: keys.update(step=4.5)), [
        STATE, "key `step`", "a whole number from 0", "4.5"]),
    "tokens beyond all": (state(lambda keys: keys.update(tokens=2**64 - 8)), [STATE, "key `tokens`"]),
    "batches below zero": (state(lambda keys: keys.update(batches_left_out=-3)), [
        STATE, "key `batches_left_out`", "-3"]),
    "another step": (state(lambda keys: keys.update(step=3)), [STATE, "key `data.step`"]),
    "another step throughout": (
        state(lambda keys: [keys.update(step=3), keys["data"].update(step=3)]),
        [STATE, "key `step`", "4, as MANIFEST.json says"]),
    "key twice": (state_text(lambda text: text.replace('"step": 4,', '"step": 4, "step": 5,', 1)), [
        STATE, "has the key `step` twice"]),
    "moments cut": (
        lambda step: (step / MOMENTS).write_bytes((step / MOMENTS).read_bytes()[:-5]),
        [MOMENTS, "the file is cut"]),
    "moments of one value": (
        moments(lambda t: t.update({"square." + KEY: numpy.ones(1, "float32")})),
        [MOMENTS, f"tensor `square.{KEY}`", "expected: shape [32, 32]", "found:    [1]"]),
    "moments of another shape": (
        moments(lambda t: t.update({kind + NORM: numpy.ones(33, "float32")
                                    for kind in ("mean.", "square.")})),
        [MOMENTS, f"tensor `mean.{NORM}`", "the shape of its parameter, 32", "found:    33"]),
    "steps of three": (
        moments(lambda t: t.update({"steps." + KEY: numpy.ones(3, "float32")})),
        [MOMENTS, f"tensor `steps.{KEY}`", "expected: shape []"]),
    "moments of another type": (
        moments(lambda t: t.update({"mean." + KEY: t["mean." + KEY].astype("float16")})),
        [MOMENTS, f"tensor `mean.{KEY}`", "expected: float32", "F16"]),
    "moments that are no numbers": (
        moments(lambda t: t["mean." + KEY].fill(numpy.nan)),
        [MOMENTS, f"tensor `mean.{KEY}`", "finite numbers"]),
    "one square is absent": (moments(lambda t: t.pop("square." + KEY)), [
        MOMENTS, f"tensor `square.{KEY}`", "found:    none"]),
    "moments of one parameter are absent": (moments(without(KEY)), [MOMENTS, f"none of {KEY}"]),
    "moments of another model": (moments(renamed), [MOMENTS, "none of model.", "and "]),
    "settings cut": (toml(lambda text: text[:60]), [TOML, "not TOML", "line 3"]),
    "settings of a later version": (toml(lambda text: text + "\n[future]\nx = 1\n"), [
        TOML, "unknown key `future.x`"]),
}
REMEDY = {STATE: "init.from=", MOMENTS: "init.from="}


@pytest.fixture(scope="module")
def base(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(folder, run__name="a", train__steps=4, train__eval_every=0)
    return folder / "a"


@pytest.fixture
def edited(base, tmp_path):
    """Makes a copy of the run with one of the changes in its checkpoint; returns the step folder."""

    def make(change):
        shutil.copytree(base, tmp_path / "a", symlinks=True)
        step = tmp_path / "a/checkpoints/step-00000004"
        change(step)
        seal(step)
        return step

    return make


@pytest.mark.parametrize("name", DAMAGE)
def test_what_a_run_cannot_go_on_from_is_said(train, edited, tmp_path, name):
    change, words = DAMAGE[name]
    step = edited(change)
    before = content(step)
    result = train(tmp_path, run__name="a", train__steps=6, train__eval_every=0, check=False)
    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ") and "Exception raised" not in result.stderr
    for word in [*words, REMEDY.get(words[0], "")]:
        assert word in result.stderr, result.stderr
    assert content(step) == before


def test_a_run_goes_on_from_a_checkpoint_sealed_anew(train, edited, tmp_path):
    """The refusals above are of the changes, not of the manifest."""
    edited(lambda step: None)
    result = train(tmp_path, run__name="a", train__steps=6, train__eval_every=0)
    assert "(4 of 6 steps)" in result.stdout


@pytest.mark.parametrize("name", ["moments of one value", "moments of another shape",
                                  "moments that are no numbers", "one square is absent"])
def test_moments_of_a_model_to_start_from_are_checked_too(train, edited, tmp_path, name):
    change, words = DAMAGE[name]
    step = edited(change)
    start = dict(run__name="b", init__from=step, train__steps=1, train__eval_every=0)
    result = train(tmp_path, check=False, init__optimizer=True, **start)
    assert result.returncode == 2 and "init.optimizer=false" in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
    train(tmp_path, **start)  # without them


def test_a_flipped_byte_is_seen_by_the_manifest(kha, base, tmp_path):
    step = tmp_path / "a/checkpoints/step-00000004"
    shutil.copytree(base, tmp_path / "a", symlinks=True)
    for name in (STATE, MOMENTS, TOML):
        content = bytearray((step / name).read_bytes())
        content[len(content) // 2] ^= 4
        (step / name).write_bytes(content)
        result = kha("inspect", tmp_path / "a")
        assert result.returncode == 2 and "no complete checkpoint" in result.stderr
        assert f"checksum differs: {name}" in result.stderr
        content[len(content) // 2] ^= 4
        (step / name).write_bytes(content)


def test_parameters_that_were_frozen_have_no_moments_yet(train, tmp_path):
    frozen = {"optimizer__groups__knock__freeze": True}
    common = dict(run__name="a", train__eval_every=0)
    train(tmp_path, train__steps=2, **common, **frozen)
    result = train(tmp_path, train__steps=4, **common)
    assert "no optimiser state for model.layers.0.self_attn.knock_v" in result.stdout
    train(tmp_path, train__steps=5, **common, **frozen)  # and back: theirs are not used
