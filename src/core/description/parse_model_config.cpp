// config.json -> ModelConfig. Every key is known, ignorable or refused; nothing is skipped unseen.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/description/expert_keys.h"
#include "core/description/family_keys.h"
#include "core/description/kha_keys.h"
#include "core/description/object_reader.h"
#include "core/description/rotary_keys.h"
#include "core/store/strict_json.h"
#include "kha/core/error.h"
#include "kha/core/model_config.h"

namespace kha {
namespace {

using nlohmann::json;

void read_sizes(ObjectReader& in, const std::string& base, ModelConfig& c) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    in.require(key, "a whole number");
  }
  in.read("vocab_size", c.vocab_size);
  in.read("hidden_size", c.hidden_size);
  in.read("intermediate_size", c.intermediate_size);
  in.read("num_hidden_layers", c.num_hidden_layers);
  in.read("num_attention_heads", c.num_attention_heads);
  c.num_key_value_heads = c.num_attention_heads;
  in.read("num_key_value_heads", c.num_key_value_heads);
  // The defaults of the classes: Qwen3 has one width, the others divide theirs.
  c.head_dim = base == "qwen3" ? 128 : c.hidden_size / std::max<int64_t>(c.num_attention_heads, 1);
  in.read("head_dim", c.head_dim);
  c.max_position_embeddings = default_context(base);
  in.read("max_position_embeddings", c.max_position_embeddings);
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

void refuse_windows(ObjectReader& in) {
  bool window = false;
  in.read("use_sliding_window", window);
  if (window) in.refuse("sliding windows are not supported", "use_sliding_window false", "true");
  if (const json* types = in.find("layer_types")) {
    if (!types->is_array()) in.wrong_type("layer_types", "a list of texts", *types);
    for (const json& type : *types) {
      if (type != "full_attention") {
        in.refuse("sliding windows are not supported", "layer_types of `full_attention`",
                  type.dump());
      }
    }
  }
}

// What the decoder does not compute is refused here, never ignored.
void refuse_unsupported(ObjectReader& in) {
  std::string activation = "silu";
  in.read("hidden_act", activation);
  if (activation != "silu") in.refuse("unsupported activation", "hidden_act `silu`", activation);
  refuse_windows(in);
  if (const json* quantised = in.find("quantization_config")) {
    fail({.what = "the weights of this model are quantised, which is not supported",
          .where = in.where(),
          .expected = "weights of float32, bfloat16 or float16, and no `quantization_config`",
          .found = quantised->dump().substr(0, 80),
          .next = "take the release in bfloat16, or convert the weights with the tools of the "
                  "model's authors"});
  }
  double dropout = 0;
  in.read("attention_dropout", dropout);
  if (dropout != 0)
    in.refuse("dropout is not supported", "attention_dropout 0.0", fmt::format("{}", dropout));
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

std::string read_type(ObjectReader& in) {
  std::string type = "qwen3";
  in.read("model_type", type);
  if (type == "kha" || is_plain_type(type) || is_latent_type(type)) return type;
  in.refuse("this kind of model is not supported", "model_type " + type_list() + " or kha", type);
}

void read_numbers(ObjectReader& in, const std::string& type, ModelConfig& c) {
  if (type == "glm4_moe") c.rms_norm_eps = 1e-5;  // the class default
  in.read("rms_norm_eps", c.rms_norm_eps);
  c.tie_word_embeddings = false;  // the class default
  in.read("tie_word_embeddings", c.tie_word_embeddings);
  in.read("attention_bias", c.attention_bias);
  in.read("initializer_range", c.initializer_range);
  in.read("torch_dtype", c.dtype);
  in.read("dtype", c.dtype);
}

// What a class of transformers would not compute.
std::string what_is_own(const ModelConfig& c) {
  std::string text = c.knocks.any(c.num_hidden_layers) ? "with maps" : "without maps";
  if (c.attention != "gqa") text += " and attention " + c.attention;
  if (c.attention == "gqa" && c.rope_head_dim > 0) {
    text += fmt::format(" and {} of a head's {} channels turned", c.rope_head_dim, c.head_dim);
  }
  if (c.rotary_layout != "half_split") text += " and rotary layout " + c.rotary_layout;
  if (!c.experts.plain()) {
    text += fmt::format(" and a {} router with {} shared experts and scaling {}", c.experts.router,
                        c.experts.shared, c.experts.scaling);
  }
  return text;
}

void require_one_type(const ModelConfig& c, const std::string& type, const std::string& where) {
  if ((type == "kha") != c.plain() || is_latent_type(type)) return;
  fail({.what = "`model_type` and the object `kha` contradict each other",
        .where = where,
        .expected = "`kha` with maps or parts of its own, or the type of a plain model without",
        .found = "`" + type + "` " + what_is_own(c),
        .cause = "the file was edited by hand"});
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const json object = parse_strict_json(text, where, "the model's configuration");
  ObjectReader in(object, where);
  ModelConfig c;
  const std::string type = read_type(in);
  std::string base = type == "kha" ? "qwen3" : type;
  if (const json* kha = in.find("kha")) base = read_kha(in, *kha, c);
  refuse_unsupported(in);
  read_sizes(in, base, c);
  read_rotary(in, base, c);
  read_token_ids(in, c);
  read_numbers(in, type, c);
  read_family(in, base, c);
  if (!is_latent_type(type)) read_experts(in, base, type == "kha", c);
  require_one_type(c, type, where);
  in.ignore({"architectures", "transformers_version", "use_cache", "sliding_window",
             "max_window_layers", "auto_map", "_name_or_path"});
  in.refuse_unknown();
  validate(c, where);
  return c;
}

ModelConfig read_model_config(const std::filesystem::path& model_folder) {
  const auto path = model_folder / "config.json";
  return parse_model_config(read_text(path), path.string());
}

}  // namespace kha
