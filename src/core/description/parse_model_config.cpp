// config.json -> ModelConfig. Every key is known, ignorable or refused; nothing is skipped unseen.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "kha/core/error.h"
#include "kha/core/model_config.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

using nlohmann::json;

// Reads keys of one JSON object and remembers which were asked for.
class ObjectReader {
 public:
  ObjectReader(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  // Null and absent are one thing: the default stays.
  const json* find(const std::string& key) {
    known_.insert(key);
    const auto entry = object_.find(key);
    return entry == object_.end() || entry->is_null() ? nullptr : &*entry;
  }

  void read(const std::string& key, int64_t& value) {
    if (const json* entry = find(key)) {
      if (!entry->is_number_integer()) wrong_type(key, "a whole number", *entry);
      value = entry->get<int64_t>();
    }
  }
  void read(const std::string& key, double& value) {
    if (const json* entry = find(key)) {
      if (!entry->is_number()) wrong_type(key, "a number", *entry);
      value = entry->get<double>();
    }
  }
  void read(const std::string& key, bool& value) {
    if (const json* entry = find(key)) {
      if (!entry->is_boolean()) wrong_type(key, "true or false", *entry);
      value = entry->get<bool>();
    }
  }
  void read(const std::string& key, std::string& value) {
    if (const json* entry = find(key)) {
      if (!entry->is_string()) wrong_type(key, "a text", *entry);
      value = entry->get<std::string>();
    }
  }
  void read(const std::string& key, std::optional<int64_t>& value) {
    if (find(key)) {
      int64_t id = 0;
      read(key, id);
      value = id;
    }
  }
  void ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }

  void refuse_unknown() const {
    const std::vector<std::string> names(known_.begin(), known_.end());
    for (const auto& [key, value] : object_.items()) {
      if (!known_.count(key)) {
        fail({.what = "unknown key `" + key + "`" + did_you_mean(key, names),
              .where = where_,
              .found = value.dump().substr(0, 80),
              .next = "correct the name, or remove the key"});
      }
    }
  }

  [[noreturn]] void wrong_type(const std::string& key, const std::string& expected,
                               const json& found) const {
    fail({.what = "`" + key + "` has the wrong type",
          .where = where_,
          .expected = expected,
          .found = found.dump().substr(0, 80)});
  }

  const std::string& where() const { return where_; }

 private:
  const json& object_;
  std::string where_;
  std::set<std::string> known_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& expected, const std::string& found) {
  fail({.what = what, .where = where, .expected = expected, .found = found});
}

void read_sizes(ObjectReader& in, ModelConfig& c) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    if (!in.find(key)) {
      refuse(std::string("`") + key + "` is missing", in.where(), "a whole number", "nothing");
    }
  }
  in.read("vocab_size", c.vocab_size);
  in.read("hidden_size", c.hidden_size);
  in.read("intermediate_size", c.intermediate_size);
  in.read("num_hidden_layers", c.num_hidden_layers);
  in.read("num_attention_heads", c.num_attention_heads);
  c.num_key_value_heads = c.num_attention_heads;
  in.read("num_key_value_heads", c.num_key_value_heads);
  c.head_dim = 128;  // the default of Qwen3's class, whatever the width
  in.read("head_dim", c.head_dim);
  c.max_position_embeddings = 32768;
  in.read("max_position_embeddings", c.max_position_embeddings);
}

// `rope_parameters` (new) wins over the top level (old), as in transformers.
void read_rotary(ObjectReader& in, ModelConfig& c) {
  in.read("rope_theta", c.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* entry = in.find(key);
    if (!entry) continue;
    if (!entry->is_object()) in.wrong_type(key, "an object or null", *entry);
    ObjectReader rotary(*entry, in.where() + ", " + key);
    std::string kind = "default";
    rotary.read("type", kind);
    rotary.read("rope_type", kind);
    if (kind != "default") {
      refuse("rotary scaling is not supported", rotary.where(), "rope_type `default`", kind);
    }
    rotary.read("rope_theta", c.rope_theta);
    double share = 1.0;
    rotary.read("partial_rotary_factor", share);
    if (share != 1.0)
      refuse("partial rotary is not supported", rotary.where(), "1.0", fmt::format("{}", share));
    rotary.refuse_unknown();
  }
}

void read_token_ids(ObjectReader& in, ModelConfig& c) {
  in.read("bos_token_id", c.bos_token_id);
  in.read("pad_token_id", c.pad_token_id);
  const json* entry = in.find("eos_token_id");
  if (!entry) return;
  for (const json& id : entry->is_array() ? *entry : json::array({*entry})) {
    if (!id.is_number_integer()) in.wrong_type("eos_token_id", "an id or a list of ids", *entry);
    c.eos_token_id.push_back(id.get<int64_t>());
  }
}

LayerKnocks read_knocks(ObjectReader& in, LayerKnocks knocks) {
  for (const KnockSlot slot : knock_slots) {
    std::string kind = to_string(knocks.at(slot));
    in.read(to_string(slot), kind);
    knocks.at(slot) = parse_knock_kind(kind, in.where() + ", `" + to_string(slot) + "`");
  }
  return knocks;
}

int64_t layer_number(const std::string& text, const std::string& where) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || text.size() > 6 || (text[0] == '0' && text.size() > 1)) {
    refuse("`layers` has a key that is not a layer number", where, "\"0\", \"1\", …", text);
  }
  return std::stoll(text);
}

void read_kha(const json& object, const std::string& where, ModelConfig& c) {
  if (!object.is_object()) refuse("`kha` has the wrong type", where, "an object", object.dump());
  ObjectReader in(object, where + ", kha");
  int64_t version = 1;
  in.read("version", version);
  if (version != 1) {
    fail({.what = "this model was written by a newer kha",
          .where = in.where(),
          .expected = "version 1",
          .found = std::to_string(version),
          .next = "update kha"});
  }
  std::string base = "qwen3";
  in.read("base", base);
  if (base != "qwen3") refuse("unknown base model", in.where(), "qwen3", base);
  in.read("attention", c.attention);
  in.read("rope_head_dim", c.rope_head_dim);
  in.read("kv_latent", c.kv_latent);
  in.read("latent_heads", c.latent_heads);
  in.read("query_latent", c.query_latent);
  c.knocks.all = read_knocks(in, {});
  if (const json* layers = in.find("layers")) {
    if (!layers->is_object()) in.wrong_type("layers", "an object", *layers);
    for (const auto& [key, value] : layers->items()) {
      if (!value.is_object())
        in.wrong_type("layers." + key, "an object such as {\"v\": \"none\"}", value);
      ObjectReader layer(value, in.where() + ".layers." + key);
      c.knocks.layers[layer_number(key, in.where())] = read_knocks(layer, c.knocks.all);
      layer.refuse_unknown();
    }
  }
  in.refuse_unknown();
}

// What the decoder does not compute is refused here, never ignored.
void refuse_unsupported(ObjectReader& in) {
  std::string activation = "silu";
  in.read("hidden_act", activation);
  if (activation != "silu")
    refuse("unsupported activation", in.where(), "hidden_act `silu`", activation);
  bool window = false;
  in.read("use_sliding_window", window);
  if (window)
    refuse("sliding windows are not supported", in.where(), "use_sliding_window false", "true");
  if (const json* types = in.find("layer_types")) {
    if (!types->is_array()) in.wrong_type("layer_types", "a list of texts", *types);
    for (const json& type : *types) {
      if (type != "full_attention") {
        refuse("sliding windows are not supported", in.where(), "layer_types of `full_attention`",
               type.dump());
      }
    }
  }
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (in.find(key))
      refuse("experts are not supported by this reader", in.where(),
             std::string("no `") + key + "`", in.find(key)->dump());
  }
  double dropout = 0;
  in.read("attention_dropout", dropout);
  if (dropout != 0)
    refuse("dropout is not supported", in.where(), "attention_dropout 0.0",
           fmt::format("{}", dropout));
}

json parse_object(const std::string& text, const std::string& where) {
  json object = json::parse(text, nullptr, false);
  if (object.is_discarded() || !object.is_object()) {
    fail({.what = "this is not a JSON object",
          .where = where,
          .expected = "the config.json of a model",
          .found = text.empty() ? "an empty file" : "`" + text.substr(0, 40) + "`"});
  }
  return object;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail({.what = "no config.json here",
          .where = path.string(),
          .expected = "a model folder: config.json beside model.safetensors",
          .found = "no readable file",
          .next = "name a step folder, for example RUN/checkpoints/latest"});
  }
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const json object = parse_object(text, where);
  ObjectReader in(object, where);
  ModelConfig c;
  std::string type = "qwen3";
  in.read("model_type", type);
  if (type != "qwen3" && type != "kha") {
    refuse("this kind of model is not supported", where, "model_type `qwen3` or `kha`", type);
  }
  refuse_unsupported(in);
  read_sizes(in, c);
  read_rotary(in, c);
  read_token_ids(in, c);
  in.read("rms_norm_eps", c.rms_norm_eps);
  c.tie_word_embeddings = false;  // the class default
  in.read("tie_word_embeddings", c.tie_word_embeddings);
  in.read("attention_bias", c.attention_bias);
  in.read("initializer_range", c.initializer_range);
  in.read("torch_dtype", c.dtype);
  in.read("dtype", c.dtype);
  if (const json* kha = in.find("kha")) read_kha(*kha, where, c);
  if ((type == "kha") == c.plain()) {
    fail({.what = "`model_type` and the object `kha` contradict each other",
          .where = where,
          .expected = "`kha` with maps or an attention of its own, or `qwen3` without",
          .found = "`" + type + "` " + (c.plain() ? "without" : "with") + " maps" +
                   (c.attention == "gqa" ? "" : " and attention " + c.attention),
          .cause = "the file was edited by hand"});
  }
  in.ignore({"architectures", "transformers_version", "use_cache", "sliding_window",
             "max_window_layers", "auto_map", "_name_or_path", "num_experts_per_tok"});
  in.refuse_unknown();
  validate(c, where);
  return c;
}

ModelConfig read_model_config(const std::filesystem::path& model_folder) {
  const auto path = model_folder / "config.json";
  return parse_model_config(read_text(path), path.string());
}

}  // namespace kha
