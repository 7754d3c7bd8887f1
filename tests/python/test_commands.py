"""The other commands as a user meets them."""

import json
import os
import re

import pytest
from conftest import BIN


@pytest.fixture(scope="module")
def mlp_run(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(folder, run__name="m", train__steps=40, optimizer__lr=0.02, train__eval_every=0, train__save_every=0)
    return folder / "m"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspect", "RUN"], ["fold", "--help"], ["doctor", "--help"]])
def test_light_commands_map_no_torch_library(kha, tiny_run, arguments):
    arguments = [str(tiny_run) if word == "RUN" else word for word in arguments]
    result = kha(*arguments, env={**os.environ, "LD_DEBUG": "libs"})
    assert result.returncode == 0, result.stdout
    assert "libstdc++" in result.stderr  # the trace is there
    assert "libtorch" not in result.stderr and "libc10" not in result.stderr


def test_help_lists_every_command(kha):
    text = kha("--help").stdout
    for name in ("train", "compare", "generate", "eval", "diff", "logits", "fold", "inspect", "doctor"):
        assert re.search(rf"^ +{name} ", text, re.M), name


@pytest.mark.parametrize("name", ["train", "compare", "generate", "eval", "diff", "logits", "fold", "inspect", "doctor"])
def test_every_command_has_help(kha, name):
    result = kha(name, "--help")
    assert result.returncode == 0 and result.stdout


def test_an_unknown_command_names_the_nearest(kha):
    result = kha("trian")
    assert result.returncode == 2 and "did you mean `train`" in result.stderr


def test_a_companion_beside_the_program_is_a_command(kha, tiny_run):
    result = kha("curves", tiny_run)
    assert result.returncode == 0, result.stderr
    assert (tiny_run / "curves.png").exists()


def test_eval_agrees_with_the_runs_own_validation(kha, train, tmp_path):
    one = tmp_path / "text.txt"
    one.write_text("knock knock " * 300)
    train(tmp_path, run__name="a", train__steps=3)
    result = kha("eval", tmp_path / "a", one, "--json")
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert figures["targets"] == 3600 and figures["bytes"] == 3599 and figures["documents"] == 1
    assert figures["bits_per_byte"] == pytest.approx(figures["loss"] * 3600 / 3599 / 0.6931471805599453)
    wide = json.loads(kha("eval", tmp_path / "a", one, "--json", "--batch", 3).stdout)
    assert wide["loss"] == pytest.approx(figures["loss"], rel=1e-6)
    words = kha("eval", tmp_path / "a", one).stdout
    assert "nats a token" in words and "bits a byte" in words


def test_diff_of_a_model_with_itself_is_zero(kha, tiny_run):
    result = kha("diff", tiny_run, tiny_run, "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["largest"] == 0


def test_diff_of_two_models_fails_and_says_so(kha, tiny_run, mlp_run):
    result = kha("diff", tiny_run, mlp_run)
    assert result.returncode == 1 and "NOT EQUAL" in result.stdout


def test_the_mlp_folds_into_a_gate_with_equal_logits(kha, mlp_run, tmp_path):
    result = kha("fold", mlp_run, "--to", tmp_path / "gate")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "equal to rounding" in result.stdout
    config = json.loads((tmp_path / "gate/config.json").read_text())
    assert config["model_type"] == "kha" and config["kha"]["v"] == "gate"
    prompt = ["--prompt", "the heads", "--max-tokens", 40, "--temperature", 0]
    assert kha("generate", tmp_path / "gate", *prompt).stdout == kha("generate", mlp_run, *prompt).stdout


@pytest.mark.parametrize("setting", ["kha-linear", "kha-linear-v", "kha-mlp", "kha-mlp-qkv"])
@pytest.mark.parametrize("kv_heads, bias", [(2, False), (4, True), (1, True)])
def test_every_setting_folds_with_equal_logits_and_text(kha, train, tmp_path, setting, kv_heads, bias):
    """Prefill by the proof inside the fold, decode by the generated text."""
    train(tmp_path, run__name="a", knock__setting=setting, model__num_key_value_heads=kv_heads,
          model__attention_bias=bias, train__steps=20, optimizer__lr=0.02, train__eval_every=0, train__save_every=0)
    folded = kha("fold", tmp_path / "a", "--to", tmp_path / "folded")
    assert folded.returncode == 0, folded.stdout + folded.stderr
    assert "equal to rounding" in folded.stdout
    prompt = ["--prompt", "the heads", "--max-tokens", 24, "--temperature", 0]
    assert kha("generate", tmp_path / "folded", *prompt).stdout == kha("generate", tmp_path / "a", *prompt).stdout
    again = kha("fold", tmp_path / "folded", "--to", tmp_path / "twice")
    assert again.returncode == 2 and "nothing" in again.stderr


def test_a_failed_verification_exits_with_1(kha, mlp_run, tmp_path):
    result = kha("fold", mlp_run, "--to", tmp_path / "gate", "--limit", "0")
    assert result.returncode == 1 and "NOT EQUAL" in result.stdout


def test_folding_nothing_is_refused(kha, train, tmp_path):
    train(tmp_path, run__name="b", train__steps=1, knock__setting="baseline")
    result = kha("fold", tmp_path / "b", "--to", tmp_path / "c")
    assert result.returncode == 2 and "nothing to fold" in result.stderr
    assert not (tmp_path / "c").exists()


def test_inspect_prints_the_maps(kha, mlp_run):
    result = kha("inspect", mlp_run)
    assert result.returncode == 0
    for word in ("up", "gate", "down", "condition", "parameters"):
        assert word in result.stdout
    figures = json.loads(kha("inspect", mlp_run, "--json").stdout)
    assert figures


def test_a_checkpoint_of_another_shape_is_a_sentence(kha, mlp_run, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree((mlp_run / "checkpoints/latest").resolve(), copy)
    config = json.loads((copy / "config.json").read_text())
    config["num_key_value_heads"] = 4
    (copy / "config.json").write_text(json.dumps(config))
    for command in (["inspect", copy], ["generate", copy, "--prompt", "a"]):
        result = kha(*command)
        assert result.returncode == 2
        assert "k_proj.weight" in result.stderr and "KV heads" in result.stderr


def test_generate_is_reproducible_and_the_cache_changes_nothing(kha, mlp_run):
    prompt = ["generate", mlp_run, "--prompt", "the heads", "--max-tokens", 20]
    sampled = [kha(*prompt, "--temperature", 0.9, "--seed", 7).stdout for _ in range(2)]
    assert sampled[0] == sampled[1] and sampled[0]
    greedy = [kha(*prompt, "--temperature", 0, *more).stdout for more in ([], ["--no-cache"])]
    assert greedy[0] == greedy[1]


@pytest.mark.parametrize("temperature", ["-1", "nan", "inf"])
def test_generate_refuses_such_temperatures(kha, mlp_run, temperature):
    result = kha("generate", mlp_run, "--prompt", "a", f"--temperature={temperature}")
    assert result.returncode == 2 and "temperature" in result.stderr


def test_generate_stops_at_a_text(kha, mlp_run):
    base = ["generate", mlp_run, "--prompt", "the heads", "--max-tokens", 20, "--temperature", 0]
    whole = kha(*base).stdout
    stop = whole[4:7]
    cut = kha(*base, "--stop", stop)
    assert cut.stdout.rstrip("\n") == whole[:whole.index(stop)].rstrip("\n")


def test_doctor_reports_and_tests_itself(kha):
    plain = kha("doctor")
    assert plain.returncode == 0
    for word in ("torch", "cpu", "kha", "ceiling", "GFLOP/s on one thread", "memory is read at"):
        assert word in plain.stdout
    engine = json.loads(kha("doctor", "--json").stdout)["engine"]
    ceiling = engine["ceiling"]
    assert ceiling["one_thread_gflops"] > 0.1 and ceiling["all_threads_gflops"] > 0.1
    assert ceiling["instruction_set"] in ("scalar", "avx2", "avx512")
    assert engine["read_bandwidth"] > 1e8
    tested = kha("doctor", "--self-test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "FAILED" not in tested.stdout and "ok" in tested.stdout


@pytest.mark.parametrize("chosen", ["caching", "system"])
def test_doctor_shows_what_the_allocator_saves(kha, chosen):
    engine = json.loads(kha("doctor", "--json", env={**os.environ, "KHA_ALLOCATOR": chosen}).stdout)["engine"]
    assert engine["allocator"] == chosen
    rounds = engine["allocator_round"]
    assert rounds["caching"]["faults"] < 100 and rounds["caching"]["seconds"] > 0
    assert rounds["system"]["faults"] > rounds["caching"]["faults"]


def test_a_wrong_choice_of_kernels_is_refused_at_the_start(kha, tiny_run):
    result = kha("generate", tiny_run, env={**os.environ, "KHA_CPU": "avx9"})
    assert result.returncode == 2
    for words in ("KHA_CPU is \"avx9\"", "expected one of: auto, aten, scalar", "unset KHA_CPU"):
        assert words in result.stderr


def test_an_unknown_allocator_is_refused(kha, tiny_run):
    result = kha("generate", tiny_run, env={**os.environ, "KHA_ALLOCATOR": "cashing"})
    assert result.returncode == 2
    for words in ("`cashing` is not an allocator (did you mean `caching`?)", "environment variable KHA_ALLOCATOR"):
        assert words in result.stderr


@pytest.mark.parametrize("content, words", [
    (b"", ["empty"]), (b"\0\1\2" * 50, ["binary"]),
])
def test_text_that_is_none_is_a_sentence(kha, mlp_run, tmp_path, content, words):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    result = kha("eval", mlp_run, path)
    assert result.returncode == 2
    for word in words:
        assert word in result.stderr


def test_programs_are_installed():
    for name in ("kha", "kha-engine", "kha-curves", "kha-report"):
        assert (BIN / name).exists(), name


def test_options_that_may_be_repeated_take_one_value_each(kha, mlp_run, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("the heads of a layer " * 20)
    assert kha("diff", "--text", text, "--text", text, mlp_run, mlp_run).returncode == 0
    assert kha("generate", "--stop", "zz", mlp_run, "--max-tokens", 2).returncode == 0
    assert kha("fold", "--text", text, mlp_run, "--to", tmp_path / "x").returncode == 0


@pytest.mark.parametrize("command", [["generate", "MODEL"], ["eval", "MODEL", "TEXT"], ["diff", "MODEL", "MODEL"]])
def test_another_tokenizer_is_refused(kha, mlp_run, tmp_path, command):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree((mlp_run / "checkpoints/latest").resolve(), copy)
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["model"] = {"type": "WordPiece", "vocab": {"a": 0, "b": 1}}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = tmp_path / "t.txt"
    text.write_text("the heads")
    words = {"MODEL": copy, "TEXT": text}
    result = kha(*[words.get(word, word) for word in command])
    assert result.returncode == 2
    assert "tokenizer.json" in result.stderr
