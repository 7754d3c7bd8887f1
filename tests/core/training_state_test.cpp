// What a checkpoint keeps of the training, cut, edited, of another version, of other values.
#include "kha/core/training_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/store/manifest.h"
#include "core/store_testing.h"

namespace kha {
namespace {

using namespace kha::testing;
namespace fs = std::filesystem;
using nlohmann::json;

const TrainingState state{.step = 7,
                          .tokens = 900,
                          .seconds = 1.5,
                          .data = {.step = 9, .sequence_index = 36, .epoch = 1, .window_begin = 64},
                          .batches_left_out = 2,
                          .ran = {{"device", "cpu"}, {"threads", "2"}}};

class TrainingStateTest : public ::testing::Test {
 protected:
  TrainingStateTest() { fs::create_directories(folder_ / "trainer"); }

  void put_state(std::string_view text) { put(folder_ / "trainer/state.json", text); }

  std::string refusal(std::string_view text) {
    put_state(text);
    return message_of([&] { read_training_state(folder_.path()); });
  }

  // The right text with another value at a place; null leaves the key out.
  std::string refusal(const std::string& pointer, const json& value) {
    json keys = json::parse(to_json(state));
    keys[json::json_pointer(pointer)] = value;
    return refusal(keys.dump());
  }

  void expect_refusal(const std::string& pointer, const json& value,
                      std::vector<std::string> parts) {
    SCOPED_TRACE(pointer + " " + value.dump().substr(0, 40));
    parts.insert(parts.end(), {"error: the training state cannot be used", "trainer/state.json",
                               "init.from=" + folder_.path().string()});
    expect_parts("error: " + refusal(pointer, value), parts);
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingStateTest, ReadsBackAsWritten) {
  put_state(to_json(state));
  const TrainingState read = read_training_state(folder_.path());
  EXPECT_EQ(to_json(read), to_json(state));
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.batch(), 9);
  EXPECT_EQ(read.tokens, 900);
  EXPECT_EQ(read.seconds, 1.5);
  EXPECT_EQ(read.data, state.data);
  EXPECT_EQ(read.ran, state.ran);
}

TEST_F(TrainingStateTest, AnOlderFileHasNoBatchesLeftOut) {
  TrainingState older = state;
  older.batches_left_out = 0;
  older.data.step = 7;
  json keys = json::parse(to_json(older));
  keys.erase("batches_left_out");
  put_state(keys.dump());
  EXPECT_EQ(to_json(read_training_state(folder_.path())), to_json(older));
}

TEST_F(TrainingStateTest, AbsentIsAModelAlone) {
  expect_parts(message_of([&] { read_training_state(folder_.path()); }),
               {"has no training state", "trainer/state.json", "kha fold", "--set init.from="});
}

TEST_F(TrainingStateTest, EveryBeginningIsRefusedInWords) {
  const std::string whole = to_json(state);
  expect_parts(refusal(""), {"the training state is an empty file", "state.json", "init.from="});
  for (std::size_t size = 1; size + 2 < whole.size(); ++size) {
    expect_parts(refusal(std::string_view(whole).substr(0, size)),
                 {"the training state is not valid JSON", "state.json, byte", "init.from="});
  }
}

TEST_F(TrainingStateTest, WhatIsNoObjectOrHasAKeyTwiceIsRefused) {
  expect_parts(refusal("[]"), {"is not a JSON object", "state.json", "array", "init.from="});
  expect_parts(refusal(R"({"version":1,"step":4,"step":5})"),
               {"has the key `step` twice", "state.json", "init.from="});
  expect_parts(refusal(std::string(3000, '[')), {"nested too deeply", "init.from="});
  expect_parts(refusal(R"({"version":1e999})"), {"a number that is too large", "init.from="});
}

TEST_F(TrainingStateTest, AnotherVersionIsNotGuessedAt) {
  expect_refusal("/version", 2, {"key `version`", "expected: 1", "found:    2", "a later kha"});
  expect_refusal("/version", 0, {"key `version`", "found:    0", "edited or is damaged"});
  expect_refusal("/version", "1", {"key `version`", "found:    \"1\""});
}

TEST_F(TrainingStateTest, CountsAreWholeAndNotNegative) {
  for (const char* key : {"step", "tokens", "batches_left_out", "data/step", "data/sequence_index",
                          "data/epoch", "data/window_begin"}) {
    std::string name = key;
    std::ranges::replace(name, '/', '.');
    for (const json& value :
         {json(-1), json(4.5), json("4"), json(nullptr), json(true), json(json::array({1})),
          json(18446744073709551608u), json(9223372036854775808u)}) {
      expect_refusal("/" + std::string(key), value,
                     {"key `" + name + "`", "a whole number from 0 to 9223372036854775807"});
    }
  }
  expect_refusal("/seconds", -0.5, {"key `seconds`", "a number from 0 on"});
  expect_refusal("/seconds", nullptr, {"key `seconds`", "found:    null"});
}

TEST_F(TrainingStateTest, AbsentKeysAreNamed) {
  const json whole = json::parse(to_json(state));
  for (const char* key : {"version", "step", "tokens", "seconds", "data", "ran"}) {
    json keys = whole;
    keys.erase(key);
    expect_parts(refusal(keys.dump()), {std::string("key `") + key + "`", "expected: this key"});
  }
}

TEST_F(TrainingStateTest, OtherTypesInsideAreRefused) {
  expect_refusal("/data", 3, {"key `data`", "an object", "found:    3"});
  expect_refusal("/ran", json::array({"cpu"}), {"key `ran`", "an object"});
  expect_refusal("/ran/threads", 2, {"key `ran.threads`", "a text", "found:    2"});
  expect_refusal("/ran/\x1b[2J", 2, {"key `ran.\\x1b[2J`"});  // steers no terminal
}

TEST_F(TrainingStateTest, TheStepIsTheDatasAndTheManifests) {
  expect_refusal("/step", 8, {"key `data.step`", "`step` and `batches_left_out` say"});
  expect_refusal("/batches_left_out", 9223372036854775807,
                 {"key `data.step`", "`step` and `batches_left_out` say"});
  expect_refusal("/data/step", 6, {"key `data.step`"});
  put_state(to_json(state));
  seal_folder(folder_.path(), 7);
  read_training_state(folder_.path());
  seal_folder(folder_.path(), 8);
  expect_parts(message_of([&] { read_training_state(folder_.path()); }),
               {"key `step`", "expected: 8, as MANIFEST.json says", "found:    7"});
}

struct Values {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  DType dtype = DType::f32;
};

class MomentsTest : public TrainingStateTest {
 protected:
  void write(const std::vector<Values>& tensors) {
    std::vector<TensorSpec> specs;
    for (const Values& t : tensors) specs.push_back({t.name, t.dtype, t.shape});
    SafetensorsWriter writer(folder_ / "trainer/optimizer.safetensors", specs);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto bytes = std::as_bytes(std::span(tensors[i].values));
      writer.write(specs[i].name, bytes.first(specs[i].byte_size()));
    }
    writer.finish();
  }

  void expect_refused(const std::vector<Values>& tensors, std::vector<std::string> parts) {
    write(tensors);
    parts.insert(parts.end(), {"the optimiser state cannot be used", "optimizer.safetensors",
                               "init.from=" + folder_.path().string(), "init.optimizer=false"});
    expect_parts(message_of([&] { open_moments(folder_.path()); }), parts);
  }

  const Values mean_{"mean.a", {2}, {0.5f, -1.0f}};
  const Values square_{"square.a", {2}, {0.25f, 0.0f}};
  const Values steps_{"steps.a", {}, {4.0f}};
};

TEST_F(MomentsTest, RightOnesOpen) {
  write({mean_, square_, steps_});
  EXPECT_EQ(open_moments(folder_.path()).tensors().size(), 3u);
  write({mean_, {"square.a", {2}, {std::numeric_limits<float>::infinity(), 0}}, steps_});
  EXPECT_EQ(open_moments(folder_.path()).tensors().size(), 3u) << "a square that overflowed";
  write({});
  EXPECT_EQ(open_moments(folder_.path()).tensors().size(), 0u) << "of a run that froze all";
}

TEST_F(MomentsTest, EachOfTheThreeIsNeeded) {
  expect_refused({mean_, square_}, {"tensor `steps.a`", "found:    none"});
  expect_refused({mean_, steps_}, {"tensor `square.a`", "found:    none"});
  expect_refused({square_, steps_}, {"tensor `mean.a`", "found:    none"});
  expect_refused({mean_, square_, steps_, {"model.a", {1}, {0}}},
                 {"tensor `model.a`", "mean.NAME, square.NAME or steps.NAME"});
}

TEST_F(MomentsTest, ShapesAndTypesAreThoseOfTheMoments) {
  // One value would be copied to all places.
  expect_refused({mean_, {"square.a", {1}, {1}}, steps_},
                 {"tensor `square.a`", "expected: shape [2]", "found:    [1]"});
  expect_refused({mean_, square_, {"steps.a", {3}, {1, 2, 3}}},
                 {"tensor `steps.a`", "expected: shape []", "found:    [3]"});
  expect_refused({{"mean.a", {2}, {0}, DType::f16}, square_, steps_},
                 {"tensor `mean.a`", "expected: float32", "found:    F16"});
  expect_refused({mean_, {"square.a", {2}, {0}, DType::i8}, steps_},
                 {"tensor `square.a`", "expected: float32", "found:    I8"});
}

TEST_F(MomentsTest, ValuesThatNoTrainingLeavesAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf}) {
    expect_refused({{"mean.a", {2}, {0, bad}}, square_, steps_},
                   {"tensor `mean.a`", "finite numbers"});
  }
  for (const float bad : {nan, -inf, -1e-30f}) {
    expect_refused({mean_, {"square.a", {2}, {bad, 0}}, steps_},
                   {"tensor `square.a`", "numbers from 0 on"});
  }
  for (const float bad : {nan, inf, -1.0f, 2.5f}) {
    expect_refused({mean_, square_, {"steps.a", {}, {bad}}},
                   {"tensor `steps.a`", "a whole number from 0 on"});
  }
}

}  // namespace
}  // namespace kha
