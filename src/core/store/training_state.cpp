#include "kha/core/training_state.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/store/manifest.h"
#include "core/store/strict_json.h"
#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t state_version = 1;

std::string weights_alone(const fs::path& checkpoint) {
  return "use another checkpoint of the run, or start from this one's weights: --set init.from=" +
         checkpoint.string();
}

json parse_state(const fs::path& path, const fs::path& checkpoint) {
  if (!fs::exists(path)) {
    fail({.what = "this checkpoint has no training state",
          .where = path.string(),
          .cause = "the folder is a model without a trainer/ part, as `kha fold` writes it",
          .next = "start from its weights instead: --set init.from=" + checkpoint.string()});
  }
  try {
    const MappedFile file = MappedFile::open(path);
    const auto bytes = file.bytes();
    return parse_strict_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path,
                             "the training state");
  } catch (const Error& error) {
    Diagnosis diagnosis = error.diagnosis();
    diagnosis.next = weights_alone(checkpoint);
    fail(std::move(diagnosis));
  }
}

// The keys of one object of the file; errors name them from the top ("data.step").
class Keys {
 public:
  Keys(const json& object, const fs::path& path, const fs::path& checkpoint,
       std::string inside = "")
      : object_(object), path_(path), checkpoint_(checkpoint), inside_(std::move(inside)) {}

  // Whole and from zero on.
  std::int64_t count(const std::string& key) const {
    const json& value = at(key);
    const bool whole = value.is_number_integer();
    const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= most;
    if (!whole || !fits || value.get<std::int64_t>() < 0) {
      refuse(key, "a whole number from 0 to " + std::to_string(most), value);
    }
    return value.get<std::int64_t>();
  }

  double seconds(const std::string& key) const {
    const json& value = at(key);
    if (!value.is_number() || value.get<double>() < 0) refuse(key, "a number from 0 on", value);
    return value.get<double>();
  }

  std::string word(const std::string& key) const {
    const json& value = at(key);
    if (!value.is_string()) refuse(key, "a text", value);
    return value.get<std::string>();
  }

  Keys object(const std::string& key) const {
    const json& value = at(key);
    if (!value.is_object()) refuse(key, "an object", value);
    return {value, path_, checkpoint_, inside_ + key + "."};
  }

  const json& raw() const { return object_; }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found, const std::string& cause) const {
    fail({.what = "the training state cannot be used",
          .where = path_.string() + ", key `" + shown(inside_ + key) + "`",
          .expected = expected,
          .found = found,
          .cause = cause,
          .next = weights_alone(checkpoint_)});
  }

 private:
  static constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();

  const json& at(const std::string& key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      refuse(key, "this key", "none of its name", "the file was edited or is damaged");
    }
    return *found;
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const json& found) const {
    const auto text = found.dump(-1, ' ', false, json::error_handler_t::replace);
    refuse(key, expected, shown(text), "the file was edited or is damaged");
  }

  const json& object_;
  const fs::path& path_;
  const fs::path& checkpoint_;
  std::string inside_;
};

void check_version(const Keys& keys) {
  const std::int64_t version = keys.count("version");
  if (version == state_version) return;
  keys.refuse("version", std::to_string(state_version), std::to_string(version),
              version > state_version ? "a later kha wrote it, and means something else by it"
                                      : "the file was edited or is damaged");
}

// The step stands in three places, and a run goes on from all of them.
void check_step(const TrainingState& state, const Keys& keys, const fs::path& checkpoint) {
  const auto differs = [&](const std::string& key, std::int64_t expected, std::int64_t found,
                           const std::string& with) {
    keys.refuse(key, std::to_string(expected) + ", as " + with, std::to_string(found),
                "the file was edited, or is that of another checkpoint");
  };
  if (state.data.step < state.step || state.data.step - state.step != state.batches_left_out) {
    differs("data.step", state.step, state.data.step, "`step` and `batches_left_out` say");
  }
  const auto manifest = read_manifest(checkpoint).manifest;
  if (manifest && manifest->step != state.step) {
    differs("step", manifest->step, state.step, "MANIFEST.json says");
  }
}

}  // namespace

std::string to_json(const TrainingState& state) {
  const nlohmann::ordered_json keys{{"version", state_version},
                                    {"step", state.step},
                                    {"tokens", state.tokens},
                                    {"seconds", state.seconds},
                                    {"data",
                                     {{"step", state.data.step},
                                      {"sequence_index", state.data.sequence_index},
                                      {"epoch", state.data.epoch},
                                      {"window_begin", state.data.window_begin}}},
                                    {"batches_left_out", state.batches_left_out},
                                    {"ran", state.ran}};
  return keys.dump(2) + "\n";
}

TrainingState read_training_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "trainer" / "state.json";
  const json parsed = parse_state(path, checkpoint);
  const Keys keys(parsed, path, checkpoint);
  check_version(keys);
  const Keys data = keys.object("data"), ran = keys.object("ran");
  TrainingState state{.step = keys.count("step"),
                      .tokens = keys.count("tokens"),
                      .seconds = keys.seconds("seconds"),
                      .data = {.step = data.count("step"),
                               .sequence_index = data.count("sequence_index"),
                               .epoch = data.count("epoch"),
                               .window_begin = data.count("window_begin")}};
  // Files of before there was going back have none.
  if (parsed.contains("batches_left_out")) state.batches_left_out = keys.count("batches_left_out");
  for (const auto& [key, value] : ran.raw().items()) state.ran[key] = ran.word(key);
  check_step(state, keys, checkpoint);
  return state;
}

}  // namespace kha
