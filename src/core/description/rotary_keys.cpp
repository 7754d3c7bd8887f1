#include "core/description/rotary_keys.h"

#include <fmt/format.h>

#include "kha/core/error.h"

namespace kha {
namespace {

using nlohmann::json;

template <class Number>
void read_required(ObjectReader& in, const std::string& kind, const std::string& key,
                   Number& value) {
  if (!in.find(key)) {
    in.refuse("rotary scaling `" + kind + "` lacks `" + key + "`", "a number", "nothing");
  }
  in.read(key, value);
}

// `original_max_position_embeddings` defaults to the context length, as in transformers.
void read_yarn(ObjectReader& in, RotaryScaling& s) {
  read_required(in, s.kind, "factor", s.factor);
  in.read("beta_fast", s.beta_fast);
  in.read("beta_slow", s.beta_slow);
  in.read("attention_factor", s.attention_factor);
  in.read("truncate", s.truncate);
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    double value = 0;
    in.read(key, value);
    if (value == 0) continue;
    in.refuse("a scale of the logits by the stretched length is not supported",
              fmt::format("`{}` 0 or absent", key), fmt::format("{}", value));
  }
}

void read_scaling(ObjectReader& in, int64_t context, RotaryScaling& s) {
  in.read("type", s.kind);
  in.read("rope_type", s.kind);  // wins over the older spelling
  if (s.kind == "default") return;
  if (s.kind != "linear" && s.kind != "llama3" && s.kind != "yarn") {
    in.refuse("rotary scaling of this kind is not supported",
              "rope_type `default`, `linear`, `llama3` or `yarn`", s.kind);
  }
  if (s.kind == "yarn") {
    read_yarn(in, s);
  } else {
    read_required(in, s.kind, "factor", s.factor);
  }
  if (s.kind == "linear") return;
  if (s.kind == "llama3") {
    read_required(in, s.kind, "low_freq_factor", s.low_freq_factor);
    read_required(in, s.kind, "high_freq_factor", s.high_freq_factor);
  }
  s.original_max_position_embeddings = context;
  in.read("original_max_position_embeddings", s.original_max_position_embeddings);
}

void refuse_partial(ObjectReader& in) {
  double share = 1.0;
  in.read("partial_rotary_factor", share);
  if (share != 1.0) in.refuse("partial rotary is not supported", "1.0", fmt::format("{}", share));
}

nlohmann::ordered_json scaling_json(const RotaryScaling& s) {
  nlohmann::ordered_json object{{"rope_type", s.kind}};
  if (s.kind == "default") return object;
  object["factor"] = s.factor;
  if (s.kind == "llama3") {
    object["low_freq_factor"] = s.low_freq_factor;
    object["high_freq_factor"] = s.high_freq_factor;
  }
  if (s.kind == "yarn") {
    object["beta_fast"] = s.beta_fast;
    object["beta_slow"] = s.beta_slow;
    object["attention_factor"] = rotary_amplitude(s);
    object["truncate"] = s.truncate;
  }
  if (s.kind != "linear") {
    object["original_max_position_embeddings"] = s.original_max_position_embeddings;
  }
  return object;
}

void require(bool good, const std::string& where, const std::string& key, double value,
             const std::string& expected) {
  if (good) return;
  fail({.what = "rotary scaling: `" + key + "` does not make a model",
        .where = where,
        .expected = expected,
        .found = fmt::format("{}", value)});
}

}  // namespace

// `rope_parameters` (new) wins over the top level (old), as in transformers.
void read_rotary(ObjectReader& in, ModelConfig& c) {
  in.read("rope_theta", c.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* entry = in.find(key);
    if (!entry) continue;
    if (!entry->is_object()) in.wrong_type(key, "an object or null", *entry);
    ObjectReader rotary(*entry, in.where() + ", " + key);
    c.rotary_scaling = {};
    read_scaling(rotary, c.max_position_embeddings, c.rotary_scaling);
    rotary.read("rope_theta", c.rope_theta);
    refuse_partial(rotary);
    rotary.refuse_unknown();
  }
}

void write_rotary(nlohmann::ordered_json& json, const ModelConfig& c) {
  json["rope_theta"] = c.rope_theta;
  const bool plain = c.rotary_scaling.kind == "default";
  const auto scaling = scaling_json(c.rotary_scaling);
  json["rope_scaling"] = plain ? nlohmann::ordered_json() : scaling;
  json["rope_parameters"] = scaling;
  json["rope_parameters"]["rope_theta"] = c.rope_theta;
}

void validate_rotary(const ModelConfig& c, const std::string& where) {
  const RotaryScaling& s = c.rotary_scaling;
  if (s.kind == "default") return;
  require(s.factor >= 1 && s.factor <= 1e6, where, "factor", s.factor, "a number of at least 1");
  if (s.kind == "linear") return;
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  require(original >= 1, where, "original_max_position_embeddings", original, "at least 1");
  if (s.kind == "llama3") {
    require(s.low_freq_factor > 0, where, "low_freq_factor", s.low_freq_factor, "above 0");
    require(s.high_freq_factor > s.low_freq_factor, where, "high_freq_factor", s.high_freq_factor,
            "above low_freq_factor");
    return;
  }
  require(s.beta_slow > 0, where, "beta_slow", s.beta_slow, "above 0");
  require(s.beta_fast >= s.beta_slow, where, "beta_fast", s.beta_fast, "at least beta_slow");
  require(s.attention_factor >= 0, where, "attention_factor", s.attention_factor, "above 0");
}

}  // namespace kha
