#include "core/description/rotary_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/description/require.h"
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

void read_yarn(ObjectReader& in, RotaryScaling& s) {
  read_required(in, s.kind, "factor", s.factor);
  in.read("beta_fast", s.beta_fast);
  in.read("beta_slow", s.beta_slow);
  in.read("attention_factor", s.attention_factor);
  in.read("truncate", s.truncate);
  in.read("mscale", s.mscale);
  in.read("mscale_all_dim", s.mscale_all_dim);
}

void read_factors(ObjectReader& in, const std::string& key, std::vector<double>& factors) {
  const json* list = in.find(key);
  if (!list) in.refuse("rotary scaling `longrope` lacks `" + key + "`", "a list", "nothing");
  if (!list->is_array()) in.wrong_type(key, "a list of numbers", *list);
  factors.clear();
  for (const json& factor : *list) {
    if (!factor.is_number()) in.wrong_type(key, "a list of numbers", *list);
    factors.push_back(factor.get<double>());
  }
}

// Without `factor` it is the ratio of the two lengths.
void read_longrope(ObjectReader& in, int64_t context, RotaryScaling& s) {
  read_factors(in, "short_factor", s.short_factor);
  read_factors(in, "long_factor", s.long_factor);
  in.read("attention_factor", s.attention_factor);
  const auto original =
      static_cast<double>(std::max<int64_t>(s.original_max_position_embeddings, 1));
  s.factor = std::max(static_cast<double>(context) / original, 1.0);
  in.read("factor", s.factor);
}

void read_llama3(ObjectReader& in, RotaryScaling& s) {
  read_required(in, s.kind, "factor", s.factor);
  read_required(in, s.kind, "low_freq_factor", s.low_freq_factor);
  read_required(in, s.kind, "high_freq_factor", s.high_freq_factor);
}

// The context length is what it is stretched from, as in transformers.
void read_dynamic(ObjectReader& in, int64_t context, RotaryScaling& s) {
  read_required(in, s.kind, "factor", s.factor);
  if (s.original_max_position_embeddings == context) return;
  in.refuse("rotary scaling `dynamic` begins at max_position_embeddings",
            fmt::format("`original_max_position_embeddings` {} or absent", context),
            std::to_string(s.original_max_position_embeddings));
}

// `original_max_position_embeddings` defaults to the context length, as in transformers.
void read_scaling(ObjectReader& in, int64_t context, std::optional<int64_t> outside,
                  RotaryScaling& s) {
  in.read("type", s.kind);
  in.read("rope_type", s.kind);  // wins over the older spelling
  if (s.kind == "default") return;
  if (s.kind == "linear") return read_required(in, s.kind, "factor", s.factor);
  s.original_max_position_embeddings = context;
  in.read("original_max_position_embeddings", s.original_max_position_embeddings);
  if (s.kind == "dynamic") return read_dynamic(in, context, s);
  s.original_max_position_embeddings = outside.value_or(s.original_max_position_embeddings);
  if (s.kind == "llama3") return read_llama3(in, s);
  if (s.kind == "yarn") return read_yarn(in, s);
  if (s.kind == "longrope") return read_longrope(in, context, s);
  in.refuse("rotary scaling of this kind is not supported",
            "rope_type `default`, `linear`, `llama3`, `yarn`, `dynamic` or `longrope`", s.kind);
}

const char* const share_key = "partial_rotary_factor";

// The classes of the other types leave the key unread or turn all channels.
void refuse_partial(ObjectReader& in) {
  double share = 1.0;
  in.read(share_key, share);
  if (share == 1.0) return;
  in.refuse("partial rotary is not supported in this kind of model",
            "1.0, or a model_type that turns a part of each head: glm4_moe",
            fmt::format("{}", share));
}

void read_optional(ObjectReader& in, std::optional<double>& share) {
  if (!in.find(share_key)) return;
  double value = 0;
  in.read(share_key, value);
  share = value;
}

// The share of each head's channels that is turned, as Glm4-MoE's class finds it: among the rotary
// parameters, beside them, half.
std::optional<double> glm4_share(ObjectReader& in, std::optional<double> among, bool kha) {
  std::optional<double> share = kha ? std::nullopt : std::optional(0.5);
  read_optional(in, share);
  return among ? among : share;
}

void set_share(ObjectReader& in, double share, bool kha, ModelConfig& c) {
  const bool within = share > 0 && share <= 1;
  const auto turned =
      within ? static_cast<int64_t>(static_cast<double>(c.head_dim) * share) : int64_t{0};
  if (turned < 2 || turned % 2 != 0) {
    in.refuse("`partial_rotary_factor` is no share of a head's channels",
              fmt::format("a share from above 0 to 1 that is an even number of the {} channels",
                          c.head_dim),
              fmt::format("{}", share));
  }
  const int64_t width = turned == c.head_dim ? 0 : turned;
  // Another attention turns what its own sizes say.
  const int64_t own = c.attention == "gqa" ? c.rope_head_dim : 0;
  if (kha && width != own) {
    in.refuse("`partial_rotary_factor` contradicts the object `kha`",
              fmt::format("a share of {} channels, by its `attention` and `rope_head_dim`",
                          own > 0 ? own : c.head_dim),
              fmt::format("{}", share));
  }
  if (!kha) c.rope_head_dim = width;
}

// Absent (nothing) in a file of type `kha`, whose object says it.
void read_share(ObjectReader& in, std::optional<double> among, bool kha, ModelConfig& c) {
  const std::optional<double> share = glm4_share(in, among, kha);
  if (share) set_share(in, *share, kha, c);
}

void add_yarn(nlohmann::ordered_json& object, const RotaryScaling& s) {
  object["beta_fast"] = s.beta_fast;
  object["beta_slow"] = s.beta_slow;
  object["truncate"] = s.truncate;
  if (s.mscale != 0) object["mscale"] = s.mscale;
  if (s.mscale_all_dim != 0) object["mscale_all_dim"] = s.mscale_all_dim;
  // With both, transformers computes the same; a number given would only hide where it is from.
  if (s.attention_factor > 0 || s.mscale == 0 || s.mscale_all_dim == 0) {
    object["attention_factor"] = rotary_amplitude(s);
  }
}

nlohmann::ordered_json scaling_json(const RotaryScaling& s) {
  nlohmann::ordered_json object{{"rope_type", s.kind}};
  if (s.kind == "default") return object;
  object["factor"] = s.factor;
  if (s.kind == "llama3") {
    object["low_freq_factor"] = s.low_freq_factor;
    object["high_freq_factor"] = s.high_freq_factor;
  }
  if (s.kind == "yarn") add_yarn(object, s);
  if (s.kind == "longrope") {
    object["short_factor"] = s.short_factor;
    object["long_factor"] = s.long_factor;
    object["attention_factor"] = rotary_amplitude(s);
  }
  if (s.kind != "linear" && s.kind != "dynamic") {
    object["original_max_position_embeddings"] = s.original_max_position_embeddings;
  }
  return object;
}

void require_number(bool good, const std::string& where, const std::string& key, double value,
                    const std::string& expected) {
  require(good, where, key, fmt::format("{}", value), expected, "rotary scaling: ");
}

void validate_longrope(const RotaryScaling& s, int64_t width, const std::string& where) {
  const auto frequencies = static_cast<size_t>(width / 2);
  for (const auto& [key, factors] :
       {std::pair("short_factor", &s.short_factor), std::pair("long_factor", &s.long_factor)}) {
    require_number(factors->size() == frequencies, where, key, static_cast<double>(factors->size()),
                   fmt::format("{} numbers, one for each rotary frequency", frequencies));
    for (const double factor : *factors)
      require_number(factor > 0, where, key, factor, "numbers above 0");
  }
}

void validate_yarn(const RotaryScaling& s, const std::string& where) {
  require_number(s.beta_slow > 0, where, "beta_slow", s.beta_slow, "above 0");
  require_number(s.beta_fast >= s.beta_slow, where, "beta_fast", s.beta_fast, "at least beta_slow");
  for (const auto& [key, value] :
       {std::pair("mscale", s.mscale), std::pair("mscale_all_dim", s.mscale_all_dim)}) {
    require_number(value >= 0 && value <= 100, where, key, value, "from 0 to 100");
  }
}

}  // namespace

// `rope_parameters` (new) wins over the top level (old), as in transformers.
void read_rotary(ObjectReader& in, const std::string& base, ModelConfig& c) {
  const bool partial = base == "glm4_moe";
  std::optional<double> share;
  in.read("rope_theta", c.rope_theta);
  // An older place of what stands inside now; it wins, as in transformers.
  std::optional<int64_t> original;
  in.read("original_max_position_embeddings", original);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* entry = in.find(key);
    if (!entry) continue;
    if (!entry->is_object()) in.wrong_type(key, "an object or null", *entry);
    ObjectReader rotary(*entry, in.where() + ", " + key);
    c.rotary_scaling = {};
    read_scaling(rotary, c.max_position_embeddings, original, c.rotary_scaling);
    rotary.read("rope_theta", c.rope_theta);
    if (partial) read_optional(rotary, share);
    if (!partial) refuse_partial(rotary);
    rotary.refuse_unknown();
  }
  if (partial) read_share(in, share, in.find("kha") != nullptr, c);
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
  require_number(s.factor >= 1 && s.factor <= 1e6, where, "factor", s.factor,
                 "a number of at least 1");
  if (s.kind == "linear") return;
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  // Of 1 the amplitude that longrope takes by default is infinite.
  const double least = s.kind == "longrope" && s.attention_factor == 0 ? 2 : 1;
  require_number(original >= least, where, "original_max_position_embeddings", original,
                 fmt::format("at least {}", least));
  require_number(s.attention_factor >= 0, where, "attention_factor", s.attention_factor, "above 0");
  if (s.kind == "llama3") {
    require_number(s.low_freq_factor > 0, where, "low_freq_factor", s.low_freq_factor, "above 0");
    require_number(s.high_freq_factor > s.low_freq_factor, where, "high_freq_factor",
                   s.high_freq_factor, "above low_freq_factor");
  }
  if (s.kind == "yarn") validate_yarn(s, where);
  if (s.kind == "longrope") validate_longrope(s, c.rotary_width(), where);
  const auto width = static_cast<double>(c.rotary_width());
  require_number(s.kind != "dynamic" || width > 2, where, "factor", width,
                 "more than 2 rotated channels");
}

}  // namespace kha
