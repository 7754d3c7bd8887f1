#include "kha/core/run_config.h"

#include <gmock/gmock.h>

#include <map>

#include "core/thrown.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum KnockKind;

RunConfig parse(const std::string& toml, const std::vector<std::string>& sets = {}) {
  return parse_run_config(toml, "run.toml", sets);
}
std::string refusal(const std::string& toml, const std::vector<std::string>& sets = {}) {
  return thrown([&] { parse(toml, sets); });
}

struct Shown {
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return testing::PrintToString(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return *value; }
  template <class Element>
  std::string operator()(const std::vector<Element>* value) const {
    return testing::PrintToString(*value);
  }
  std::string operator()(const std::vector<double>* value) const {
    return testing::PrintToString(*value);
  }
};

std::map<std::string, std::string> values_of(RunConfig config) {
  std::map<std::string, std::string> values;
  for (const Field& field : run_fields(config))
    values[field.key] = std::visit(Shown{}, field.value);
  return values;
}

// Another legal value of the same type, so that no field can be forgotten by writer or reader.
struct Change {
  const Field& field;

  void operator()(int64_t* value) const {
    const bool head_width = field.key == "model.head_dim";
    *value += head_width ? 2 : field.key == "model.num_key_value_heads" ? -1 : 1;
  }
  void operator()(double* value) const {
    if (*value < 0) return void(*value = 0.5);
    *value = *value * 2 + 0.001 <= field.most ? *value * 2 + 0.001 : (field.least + field.most) / 3;
  }
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::string* value) const {
    const std::string other =
        field.choices.empty() ? "a \"quoted\" text\\with\n\ttabs é" : field.choices.back();
    *value = other == *value ? field.choices.front() : other;
  }
  void operator()(std::vector<std::string>* value) const {
    *value = field.key == "compare.settings" ? std::vector<std::string>{"kha-mlp", "baseline"}
                                             : std::vector<std::string>{"a", "b \"c\"", ""};
  }
  void operator()(std::vector<double>* value) const { *value = {0.25, 3}; }
};

// Sizes that only some attention systems have need one that has them.
void choose_system_for(const std::string& key, RunConfig& config) {
  const auto parts = attention_parts(config.model);
  const bool part =
      std::ranges::any_of(parts, [&](const auto& p) { return key == "model." + p.first; });
  if (key != "model.attention" && key != "model.content_bias" && !part) return;
  if (key == "model.shared_key_width" || key == "model.content_bias") {
    config.model.attention = "collaborative";
    config.model.num_key_value_heads = config.model.num_attention_heads;
    config.model.shared_key_width = 100;
    config.knock.setting = "kha-mlp";
    return;
  }
  config.knock.setting = "kha-linear";
  config.model.attention = "gla";
  config.model.num_key_value_heads = config.model.num_attention_heads;
  config.model.rope_head_dim = 4;
  config.model.kv_latent = std::max<int64_t>(config.model.kv_latent, 8);
  config.model.latent_heads = 2;
}

// Sizes of experts fit together, or there are none at all.
void choose_experts_for(const std::string& key, RunConfig& config) {
  if (!key.starts_with("model.experts.")) return;
  ExpertConfig& e = config.model.experts;
  e.count = std::max<int64_t>(e.count, 4);
  e.active = std::max<int64_t>(e.active, 2);
  e.width = std::max<int64_t>(e.width, 8);
  e.groups = std::max(e.groups, e.open_groups);
}

TEST(RunConfig, EveryFieldReadsBackAsWritten) {
  const RunConfig defaults;
  RunConfig probe;
  for (size_t i = 0; i < run_fields(probe).size(); ++i) {
    RunConfig config;
    const Field field = run_fields(config)[i];
    if (field.choices.size() == 1) continue;  // only one legal value
    std::visit(Change{field}, field.value);
    choose_system_for(field.key, config);
    choose_experts_for(field.key, config);
    if (field.key == "model.num_attention_heads") config.model.num_key_value_heads = 3;
    const auto written = values_of(config);
    ASSERT_NE(written.at(field.key), values_of(defaults).at(field.key)) << field.key;
    EXPECT_EQ(values_of(parse(to_toml(config))), written) << field.key;
  }
}

// toml++ asserts in these places instead of refusing.
TEST(RunConfig, KeysThatAreNoneAreRefusedInWords) {
  for (const char* text : {"[!model]\nhidden_size = 32\n", "[model]\n!a = 1\n", "[model.!]\n"}) {
    try {
      parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("this is not TOML"), std::string::npos) << text;
    }
  }
}

TEST(RunConfig, LettersBeyondAsciiStandInQuotesAndComments) {
  const RunConfig config =
      parse("# \u00e4 '\"\n[data]\npaths = [\"\u00e4\", '\u0259', \"\\\"\u00f6\"]\n");
  EXPECT_EQ(config.data.paths, (std::vector<std::string>{"\u00e4", "\u0259", "\"\u00f6"}));
  EXPECT_EQ(parse("[run]\nname = \"\"\"a\u00e4\"\"\"\n").run.name, "a\u00e4");
  for (const char* text : {"[m\u00e4del]\n", "[run]\n\u0259 = 1\n", "[run]\nname = \u00e4\n"}) {
    try {
      parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a letter beyond ASCII"), std::string::npos) << text;
    }
  }
}

TEST(RunConfig, DefaultsReadBackAndNameEveryKey) {
  const RunConfig config = parse(to_toml(RunConfig{}));
  EXPECT_EQ(values_of(config), values_of(RunConfig{}));
  RunConfig probe;
  for (const Field& field : run_fields(probe))
    EXPECT_EQ(config.given.count(field.key), 1u) << field.key;
  EXPECT_TRUE(parse("").given.empty());
}

TEST(RunConfig, DefaultsKeepTheirOwnLimits) {
  RunConfig config;
  for (const Field& field : run_fields(config)) {
    EXPECT_FALSE(field.help.empty()) << field.key;
    if (const auto* value = std::get_if<int64_t*>(&field.value)) {
      EXPECT_GE(**value, field.least) << field.key;
      EXPECT_LE(**value, field.most) << field.key;
    }
    if (const auto* value = std::get_if<std::string*>(&field.value);
        value && !field.choices.empty()) {
      EXPECT_THAT(field.choices, testing::Contains(**value)) << field.key;
    }
  }
}

TEST(RunConfig, UnknownKeyNamesLineAndNearest) {
  EXPECT_THAT(refusal("[train]\nsteps = 5\nbathc = 3\n"),
              AllOf(HasSubstr("unknown key `train.bathc` (did you mean `train.batch`?)"),
                    HasSubstr("run.toml, line 3")));
  EXPECT_THAT(refusal("[trian]\nsteps = 5\n"), HasSubstr("did you mean `train.steps`?"));
  EXPECT_THAT(refusal("seed = 5\n"), HasSubstr("unknown key `seed`"));
}

TEST(RunConfig, EmptySectionsNeedAKnownName) {
  EXPECT_EQ(refusal("[train]\n[optimizer.groups.knock]\n"), "");
  EXPECT_THAT(refusal("[trainn]\n"), AllOf(HasSubstr("unknown key `trainn`"), HasSubstr("line 1")));
}

TEST(RunConfig, WrongTypesNameTheFieldAndItsMeaning) {
  EXPECT_THAT(refusal("[train]\nsteps = \"many\"\n"),
              AllOf(HasSubstr("`train.steps` has the wrong type"), HasSubstr("line 2"),
                    HasSubstr("a whole number (optimiser steps)"), HasSubstr("many")));
  EXPECT_THAT(refusal("[train]\nsteps = 1.5\n"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("[optimizer]\nlr = true\n"), HasSubstr("a number (peak learning rate)"));
  EXPECT_THAT(refusal("[model]\nattention_bias = 1\n"), HasSubstr("true or false"));
  EXPECT_THAT(refusal("[run]\nname = 3\n"), HasSubstr("a text in quotes"));
  EXPECT_THAT(refusal("[data]\npaths = \"a.txt\"\n"), HasSubstr("a list of texts"));
  EXPECT_THAT(refusal("[data]\npaths = [\"a.txt\", 3]\n"), HasSubstr("a list of texts"));
  EXPECT_THAT(refusal("[data]\nweights = 2\n"), HasSubstr("a list of numbers"));
  EXPECT_THAT(refusal("[data]\nweights = [1, \"x\"]\n"), HasSubstr("a list of numbers"));
  EXPECT_EQ(parse("[optimizer]\nlr = 1\n").optimizer.lr, 1.0);
}

TEST(RunConfig, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(refusal("[train]\nbatch = 0\n"),
              AllOf(HasSubstr("`train.batch` is out of range"), HasSubstr("1 to 16777216"),
                    HasSubstr("found:    0"), HasSubstr("line 2")));
  EXPECT_THAT(refusal("[optimizer]\nlr = -0.1\n"), HasSubstr("`optimizer.lr` is out of range"));
  EXPECT_THAT(refusal("[optimizer]\nlr = nan\n"), HasSubstr("`optimizer.lr` is out of range"));
  EXPECT_THAT(refusal("[optimizer]\nclip = inf\n"), HasSubstr("`optimizer.clip` is out of range"));
  EXPECT_THAT(refusal("[train]\nsteps = 9223372036854775807\n"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("[data]\nvalidation_share = 1.5\n"), HasSubstr("0 to 0.9"));
}

TEST(RunConfig, WordsOutsideTheChoicesAreRefused) {
  EXPECT_THAT(refusal("[train]\nprecision = \"fp16\"\n"),
              AllOf(HasSubstr("`fp16` is not a value of `train.precision`"),
                    HasSubstr("one of auto, fp32, bf16")));
  EXPECT_THAT(refusal("[knock]\nsetting = \"kha-mpl\"\n"), HasSubstr("did you mean `kha-mlp`?"));
  EXPECT_THAT(refusal("[compare]\nsettings = [\"baseline\", \"kha-lin\"]\n"),
              AllOf(HasSubstr("unknown setting `kha-lin`"), HasSubstr("compare.settings")));
}

TEST(RunConfig, TextThatIsNotTomlNamesTheLine) {
  EXPECT_THAT(refusal("[train]\nsteps = \n"),
              AllOf(HasSubstr("this is not TOML"), HasSubstr("line 2")));
  EXPECT_THAT(refusal("[train]\nsteps = 1\nsteps = 2\n"), HasSubstr("this is not TOML"));
  EXPECT_NE(refusal("a = " + std::string(100000, '[')), "");
}

TEST(RunConfig, ModelThatDoesNotFitIsRefused) {
  EXPECT_THAT(refusal("[model]\nhead_dim = 15\n"),
              AllOf(HasSubstr("an even number"), HasSubstr("run.toml, [model] and [knock]")));
  EXPECT_THAT(refusal("[model]\nnum_key_value_heads = 3\n"), HasSubstr("a divisor"));
}

TEST(RunConfig, SetsComeOnTop) {
  const RunConfig config =
      parse("[train]\nsteps = 5\nbatch = 2\n",
            {"train.steps=7", "optimizer.lr=3e-4", "model.attention_bias=true", "run.name=my-run",
             "run.folder=\"a b\"", "data.paths=[\"x\", \"y\"]", "knock.setting=kha-linear",
             "optimizer.groups.knock.freeze=true", "train.steps=8"});
  EXPECT_EQ(config.train.steps, 8);
  EXPECT_EQ(config.train.batch, 2);
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_TRUE(config.model.attention_bias);
  EXPECT_EQ(config.run.name, "my-run");
  EXPECT_EQ(config.run.folder, "a b");
  EXPECT_EQ(config.run_folder(), "a b/my-run");
  EXPECT_EQ(config.data.paths, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(config.model.knocks.all, (LayerKnocks{linear, linear, linear}));
  EXPECT_TRUE(config.optimizer.groups[static_cast<size_t>(Role::knock)].freeze);
  EXPECT_EQ(config.given.count("optimizer.lr"), 1u);
  EXPECT_EQ(config.given.count("optimizer.eps"), 0u);
}

TEST(RunConfig, WrongSetsNameThemselves) {
  EXPECT_THAT(refusal("", {"train.steps"}),
              AllOf(HasSubstr("--set wants key=value"), HasSubstr("--set train.steps")));
  EXPECT_THAT(refusal("", {"=3"}), HasSubstr("--set wants key=value"));
  EXPECT_THAT(refusal("", {"train.step=3"}),
              AllOf(HasSubstr("did you mean `train.steps`?"), HasSubstr("--set train.step=3")));
  EXPECT_THAT(refusal("", {"train.steps=many"}),
              AllOf(HasSubstr("a whole number"), HasSubstr("--set")));
  EXPECT_THAT(refusal("", {"train.steps="}), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("", {"a b=3"}), HasSubstr("this is not TOML"));
  EXPECT_THAT(refusal("", {"train.batch=0"}), HasSubstr("out of range"));
}

TEST(RunConfig, MapsOfTheSettingSlotsAndLayers) {
  const RunConfig config = parse(
      "[knock]\nsetting = \"kha-mlp\"\nq = \"linear\"\n"
      "[knock.layers.1]\nv = \"none\"\n[knock.layers.3]\nq = \"none\"\nk = \"gate\"\n",
      {"knock.layers.2.v=gate"});
  EXPECT_EQ(config.model.knocks.at(0), (LayerKnocks{linear, none, mlp}));
  EXPECT_EQ(config.model.knocks.at(1), (LayerKnocks{linear, none, none}));
  EXPECT_EQ(config.model.knocks.at(2), (LayerKnocks{linear, none, gate}));
  EXPECT_EQ(config.model.knocks.at(3), (LayerKnocks{none, gate, mlp}));
  const RunConfig again = parse(to_toml(config));
  EXPECT_EQ(again.model.knocks, config.model.knocks);
  EXPECT_EQ(again.knock.layers, config.knock.layers);
}

TEST(RunConfig, WrongLayersAreRefused) {
  EXPECT_THAT(
      refusal("[knock.layers.x]\nv = \"none\"\n"),
      AllOf(HasSubstr("`knock.layers.x.v` does not name a map of a layer"), HasSubstr("line 2")));
  EXPECT_THAT(refusal("[knock.layers.1]\nw = \"none\"\n"),
              HasSubstr("does not name a map of a layer"));
  EXPECT_THAT(refusal("[knock.layers.1]\nv = 3\n"), HasSubstr("does not name a map of a layer"));
  EXPECT_THAT(refusal("[knock.layers.1]\nv = \"mpl\"\n"), HasSubstr("did you mean `mlp`?"));
  EXPECT_THAT(refusal("[knock.layers.4]\nv = \"none\"\n"), HasSubstr("a layer from 0 to 3"));
}

TEST(RunConfig, ChangesAreClassedForAResume) {
  const RunConfig before = parse("");
  const RunConfig after = parse("", {"train.log_every=3", "optimizer.lr=0.5",
                                     "model.hidden_size=128", "knock.layers.1.v=none"});
  std::map<std::string, OnResume> classes;
  for (const ChangedField& change : changed_fields(before, after))
    classes[change.key] = change.on_resume;
  EXPECT_EQ(classes, (std::map<std::string, OnResume>{{"train.log_every", OnResume::free},
                                                      {"optimizer.lr", OnResume::noted},
                                                      {"model.hidden_size", OnResume::refused},
                                                      {"knock.layers", OnResume::refused}}));
  EXPECT_TRUE(changed_fields(before, before).empty());
  const auto change = changed_fields(before, parse("", {"optimizer.lr=0.5"}));
  ASSERT_EQ(change.size(), 1u);
  EXPECT_EQ(change[0].before, "0.001");
  EXPECT_EQ(change[0].after, "0.5");
}

TEST(RunConfig, WhatMakesAnotherRunIsRefusedOnResume) {
  RunConfig config;
  for (const Field& field : run_fields(config)) {
    if (field.key == "model.preset") continue;  // its sizes are
    if (field.key.starts_with("model.") || field.key == "run.seed" || field.key == "train.batch" ||
        field.key == "data.paths" || field.key == "train.context") {
      EXPECT_EQ(field.on_resume, OnResume::refused) << field.key;
    }
  }
}

TEST(RunConfig, FileThatCannotBeReadIsNamed) {
  EXPECT_THAT(thrown([] { read_run_config("no-such.toml", {}); }),
              AllOf(HasSubstr("cannot read the run's configuration"), HasSubstr("no-such.toml"),
                    HasSubstr("no such file")));
  EXPECT_THAT(thrown([] { read_run_config(".", {}); }), HasSubstr("not a readable file"));
}

TEST(RunConfig, TokensAStepAndContextFollowTheBatch) {
  const RunConfig config = parse("", {"train.context=10", "train.batch=3", "train.accumulate=4"});
  EXPECT_EQ(config.tokens_per_step(), 120);
  EXPECT_EQ(config.model.max_position_embeddings, 10);
}

TEST(RunConfig, DescribedMapsResolveToThemselves) {
  using enum KnockKind;
  ModelKnocks named{named_setting("kha-mlp", "test").knocks, {}};
  ModelKnocks custom{{linear, none, gate}, {{2, {none, mlp, none}}}};
  for (const ModelKnocks& knocks : {named, custom}) {
    EXPECT_EQ(resolve_knocks(describe_knocks(knocks, {}), "test"), knocks);
  }
  EXPECT_EQ(describe_knocks(named, {}).setting, "kha-mlp");
  EXPECT_EQ(describe_knocks(named, {.start = "random"}).start, "random");
}

}  // namespace
}  // namespace kha
