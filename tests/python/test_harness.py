"""kha harness: lm-evaluation-harness on the engine."""

import json
import os
from types import SimpleNamespace

import pytest
from conftest import BIN, ROOT
from hf_models import IDS, LATENT, our_logits, write_model
from tokenizer_files import KINDS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ[name] = "1"
TEXT = "The heads of a layer share one small map, and knock on each other in the dark. 1234 times!"
CONTEXTS = ["The heads ", "The heads\n", "The heads", " ", "Question: 12?\n\nAnswer:"]


def asked(*arguments):
    return SimpleNamespace(args=arguments)


@pytest.fixture
def language_model(monkeypatch):
    """Opens a model folder behind the harness's interface; closes it behind the test."""
    monkeypatch.syspath_prepend(str(ROOT / "python/knocking_heads"))
    from harness_model.engine import Engine
    from harness_model.language_model import EngineLM

    opened = []

    def open_model(folder, batch_size=4):
        opened.append(Engine(BIN / "kha-engine", str(folder)))
        return EngineLM(opened[-1], batch_size)

    yield open_model
    for engine in opened:
        engine.close()


def with_tokenizer(folder, tokenizer, **changes):
    changes = {"vocab_size": tokenizer.get_vocab_size(), "eos_token_id": 0} | changes
    write_model(folder, **changes)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}))


def spelt_out(logits, ids, first):
    """log p(ids[first:] | ids[:first]) in double, and whether each is the most likely one."""
    rows = logits.double().log_softmax(-1)
    total = sum(rows[at - 1, ids[at]].item() for at in range(first, len(ids)))
    return total, all(rows[at - 1].argmax().item() == ids[at] for at in range(first, len(ids)))


@pytest.mark.parametrize("maps", [{"v": "mlp"}, {"q": "linear"}, LATENT | {"v": "linear"},
                                  {"attention": "gta", "rope_head_dim": 4}])
def test_scores_are_sums_of_log_probabilities(kha, train, tmp_path, language_model, maps):
    if maps.get("attention") == "gta":
        train(tmp_path, run__name="m", train__steps=4, model__attention="gta",
              model__rope_head_dim=8)
        folder = tmp_path / "m/checkpoints/latest"
    else:
        write_model(tmp_path / "m", maps=maps)
        folder = tmp_path / "m"
    model, ids = language_model(folder), IDS[:30]
    exact = our_logits(kha, folder, tmp_path, ids)[1]
    greedy = ids[:8] + [exact[7].argmax().item()]
    wanted = [spelt_out(exact, ids, first) for first in (1, 12, 29)]
    wanted.append((exact.log_softmax(-1)[7].max().item(), True))
    found = model.engine.score([(ids, 1), (ids, 12), (ids, 29), (greedy, 8)])
    for (total, is_greedy), (value, most_likely) in zip(found, wanted):
        assert total == pytest.approx(value, abs=2e-4) and is_greedy == most_likely


def test_scores_do_not_depend_on_the_batch(tmp_path, language_model):
    """20 requests of unequal length, one by one, in fours and in sixteens."""
    write_model(tmp_path / "m", maps={"v": "mlp", "q": "linear"})
    requests = [asked(TEXT[: 3 * i + 1], TEXT[3 * i + 1 : 3 * i + 2 + i % 7]) for i in range(20)]
    one, four, sixteen = (language_model(tmp_path / "m", size).loglikelihood(
        requests, disable_tqdm=True) for size in (1, 4, 16))
    for a, b, c in zip(one, four, sixteen):
        assert a[1] == b[1] == c[1]
        assert abs(a[0] - b[0]) < 1e-5 and abs(a[0] - c[0]) < 1e-5


def test_a_token_over_the_border_is_encoded_apart_and_counted(kha, tmp_path, language_model):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: id for id, letter in enumerate(["<|endoftext|>", *letters, ":Ġ", ":ĠC"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(":", "Ġ"), (":Ġ", "C")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    with_tokenizer(tmp_path / "m", tokenizer)
    model = language_model(tmp_path / "m")
    before, behind = model._encode_pair("A:", " C")
    assert before == tokenizer.encode("A:").ids and behind == tokenizer.encode(" C").ids
    assert len(behind) == 2 and model.counts["continuations_encoded_apart"] == 1
    (total, _), = model.loglikelihood([asked("A:", " C")], disable_tqdm=True)
    ids = before + behind
    exact = our_logits(kha, tmp_path / "m", tmp_path, ids)[1]
    assert total == pytest.approx(spelt_out(exact, ids, 2)[0], abs=1e-4)
    assert model._encode_pair("A", ": C") == (tokenizer.encode("A").ids, [vocabulary[":ĠC"]])
    assert model.counts["continuations_encoded_apart"] == 2


def test_blanks_at_the_end_of_a_context_move(tmp_path, language_model):
    tokenizer = KINDS["gpt2"]()
    with_tokenizer(tmp_path / "m", tokenizer)
    model = language_model(tmp_path / "m")
    whole = tokenizer.encode("The heads share").ids
    before = tokenizer.encode("The heads").ids
    assert model._encode_pair("The heads ", "share") == (before, whole[len(before):])
    assert model._encode_pair("The heads", " share") == (before, whole[len(before):])
    # A context of blanks alone leaves the end mark in front, as no context does.
    assert model._encode_pair(" ", "share") == ([0], tokenizer.encode(" share").ids)


def their_adapter(folder, **settings):
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=2, **settings)


def test_the_harness_s_own_adapter_gives_the_same(kha, tmp_path, language_model):
    """Contexts that end in a blank, a newline and nothing; rolling windows; greedy text."""
    with_tokenizer(tmp_path / "m", KINDS["gpt2"](), maps={"q": "linear", "v": "linear"},
                   max_position_embeddings=64)
    assert kha("export", tmp_path / "m", tmp_path / "plain", "--to", "hf").returncode == 0
    ours, theirs = language_model(tmp_path / "m"), their_adapter(tmp_path / "plain", max_length=64)
    requests = [asked(context, word) for context in CONTEXTS if context.strip()
                for word in ("share one map", " knock", "\n")] + [asked("", "The heads")]
    for a, b in zip(ours.loglikelihood(requests, disable_tqdm=True),
                    theirs.loglikelihood(requests, disable_tqdm=True)):
        assert a[0] == pytest.approx(b[0], abs=1e-4) and a[1] == b[1]
    texts = [asked(TEXT), asked(TEXT * 6)]
    for a, b in zip(ours.loglikelihood_rolling(texts, disable_tqdm=True),
                    theirs.loglikelihood_rolling(texts, disable_tqdm=True)):
        assert a == pytest.approx(b, abs=1e-3)  # a sum over some 200 tokens
    assert ours.counts["windows"] > 3
    written = [asked(TEXT[:20], {"until": ["zzz"], "max_gen_toks": 12, "do_sample": False})]
    assert ours.generate_until(written) == theirs.generate_until(written, disable_tqdm=True)


def test_a_begin_mark_stands_in_front_of_every_window(kha, tmp_path, language_model):
    tokenizer = KINDS["gpt2"]()
    tokenizer.add_special_tokens(["<s>"])
    mark = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", mark)])
    with_tokenizer(tmp_path / "m", tokenizer, max_position_embeddings=24)
    model = language_model(tmp_path / "m")
    assert f"begin mark {mark} in front of every text" in model.policy()
    assert model.tok_encode("The heads") == tokenizer.encode("The heads").ids
    assert model.tok_encode("<s>The heads") == tokenizer.encode("The heads").ids  # not twice
    ids = model.tok_encode(TEXT, add_special_tokens=False)
    windows = model._windows(TEXT)
    assert len(windows) >= 2 and [token for _, behind in windows for token in behind] == ids
    total = 0.0
    for before, behind in windows:
        assert before[0] == mark and len(before) + len(behind) <= 25
        row = before + behind
        exact = our_logits(kha, tmp_path / "m", tmp_path, row[:-1] if len(row) > 24 else row)[1]
        total += spelt_out(exact, row, len(before))[0]
    assert model.loglikelihood_rolling([asked(TEXT)], disable_tqdm=True)[0] == pytest.approx(
        total, abs=1e-3)


def test_text_is_written_up_to_a_stop(kha, tmp_path, language_model):
    write_model(tmp_path / "m")
    model = language_model(tmp_path / "m")
    settings = {"until": [], "max_gen_toks": 20}
    whole, = model.generate_until([asked("knock", settings)])
    assert whole
    stop = whole[len(whole) // 2]
    cut, = model.generate_until([asked("knock", settings | {"until": [stop]})])
    assert cut == whole.split(stop)[0]
    with pytest.raises(Exception, match="the most likely text alone"):
        model.generate_until([asked("knock", {"do_sample": True, "temperature": 0.7})])


@pytest.fixture
def tasks(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows = [{"question": f"{i} and {i} make", "choices": [str(2 * i), "none"], "answer": 0}
            for i in range(6)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(f"""task: sums
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
metric_list:
  - metric: acc
""")
    (folder / "reading.yaml").write_text(f"""task: reading
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/rows.jsonl
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{question}}}}"
metric_list:
  - metric: bits_per_byte
""")
    return folder


def test_local_tasks_run_without_a_network(kha, tmp_path, tasks, tiny_run):
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache")}
    result = kha("harness", "sums,reading", tiny_run, "--include-path", tasks, "--json",
                 env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert 0 <= found["tasks"]["sums"]["acc,none"] <= 1
    assert found["tasks"]["reading"]["bits_per_byte,none"] > 1
    assert found["begin_mark"] is None and found["prefix"] == 256


def test_the_table_and_what_is_said_of_bad_input(tmp_path, tasks, monkeypatch, capfd):
    """In this process, which has loaded the harness already."""
    monkeypatch.syspath_prepend(str(ROOT / "python/knocking_heads"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    import harness

    write_model(tmp_path / "m", maps={"v": "mlp"})
    common = ["--include-path", str(tasks)]
    assert harness.main(["sums", str(tmp_path / "m"), "--limit", "2", *common]) == 0
    text = capfd.readouterr().out
    assert "no begin mark, as tokenizer.json puts none" in text
    assert "|sums" in text.replace(" ", "") and "in float32" in text
    assert harness.main(["nothing", str(tmp_path / "m"), *common]) == 2
    assert "there is no task of this name" in capfd.readouterr().err
    assert harness.main(["sums", str(tmp_path / "none"), *common]) == 2
    assert "the engine ended early" in capfd.readouterr().err
