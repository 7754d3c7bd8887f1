#include "core/description/kha_keys.h"

#include "core/description/family_keys.h"
#include "kha/core/attention_system.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using nlohmann::json;

LayerKnocks read_knocks(ObjectReader& in, LayerKnocks knocks) {
  for (const KnockSlot slot : knock_slots) {
    std::string kind = to_string(knocks.at(slot));
    in.read(to_string(slot), kind);
    knocks.at(slot) = parse_knock_kind(kind, in.where() + ", `" + to_string(slot) + "`");
  }
  return knocks;
}

int64_t layer_number(const ObjectReader& in, const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || text.size() > 6 || (text[0] == '0' && text.size() > 1)) {
    in.refuse("`layers` has a key that is not a layer number", "\"0\", \"1\", …", text);
  }
  return std::stoll(text);
}

void require_version(ObjectReader& in) {
  int64_t version = 1;
  in.read("version", version);
  if (version == 1) return;
  fail({.what = "this model was written by a newer kha",
        .where = in.where(),
        .expected = "version 1",
        .found = std::to_string(version),
        .next = "update kha"});
}

void read_attention(ObjectReader& in, ModelConfig& c) {
  in.read("attention", c.attention);
  in.read("rope_head_dim", c.rope_head_dim);
  in.read("kv_latent", c.kv_latent);
  in.read("latent_heads", c.latent_heads);
  in.read("query_latent", c.query_latent);
  in.read("value_head_dim", c.value_head_dim);
  in.read("shared_key_width", c.shared_key_width);
  in.read("content_bias", c.content_bias);
  in.read("rotary_layout", c.rotary_layout);
  in.read("latent_norm_eps", c.latent_norm_eps);
  in.read("output_bias", c.output_bias);
}

// The setting of all layers, and those that differ.
void read_maps(ObjectReader& in, ModelKnocks& knocks) {
  knocks.all = read_knocks(in, {});
  const json* layers = in.find("layers");
  if (!layers) return;
  if (!layers->is_object()) in.wrong_type("layers", "an object", *layers);
  for (const auto& [key, value] : layers->items()) {
    if (!value.is_object())
      in.wrong_type("layers." + key, "an object such as {\"v\": \"none\"}", value);
    ObjectReader layer(value, in.where() + ".layers." + key);
    knocks.layers[layer_number(in, key)] = read_knocks(layer, knocks.all);
    layer.refuse_unknown();
  }
}

nlohmann::ordered_json knocks_json(const LayerKnocks& knocks, const LayerKnocks* base) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const KnockSlot slot : knock_slots) {
    if (!base || knocks.at(slot) != base->at(slot)) {
      object[to_string(slot)] = to_string(knocks.at(slot));
    }
  }
  return object;
}

}  // namespace

std::string read_kha(ObjectReader& outer, const nlohmann::json& object, ModelConfig& c) {
  if (!object.is_object()) outer.wrong_type("kha", "an object", object);
  ObjectReader in(object, outer.where() + ", kha");
  require_version(in);
  std::string base = "qwen3";
  in.read("base", base);
  if (!is_plain_type(base)) in.refuse("unknown base model", type_list(), base);
  read_attention(in, c);
  read_maps(in, c.knocks);
  in.refuse_unknown();
  return base;
}

void write_kha(nlohmann::ordered_json& json, const ModelConfig& c) {
  nlohmann::ordered_json object{
      {"version", 1}, {"base", c.base_type()}, {"attention", c.attention}};
  for (const auto& [key, value] : attention_parts(c)) {
    if (value > 0) object[key] = value;
  }
  if (c.content_bias) object["content_bias"] = true;
  if (c.rotary_layout != "half_split") object["rotary_layout"] = c.rotary_layout;
  if (c.latent_norm_eps > 0) object["latent_norm_eps"] = c.latent_norm_eps;
  // To the class of qwen2 it goes without saying.
  if (c.attention_bias && !c.output_bias && c.base_type() != "qwen2") object["output_bias"] = false;
  object.update(knocks_json(c.knocks.all, nullptr));
  for (const auto& [layer, knocks] : c.knocks.layers) {
    object["layers"][std::to_string(layer)] = knocks_json(knocks, &c.knocks.all);
  }
  json["kha"] = std::move(object);
}

}  // namespace kha
