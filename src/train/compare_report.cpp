// compare.json and the words of a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"
#include "kha/core/attention_system.h"
#include "kha/core/progress.h"
#include "train/compare.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

// Of a variant where there are some.
Json begin_json(const std::string& variant) {
  return variant.empty() ? Json::object() : Json{{"variant", variant}};
}

Json to_json(const Arm& arm, const std::filesystem::path& folder) {
  const Evaluation& e = *arm.summary.validation;
  Json json = begin_json(arm.variant);
  json.update({{"setting", arm.setting},
               {"seed", arm.seed},
               {"run", std::filesystem::relative(arm.run, folder).string()},
               {"val_loss", e.loss()},
               {"bits_per_byte", e.bits_per_byte()},
               {"targets", e.targets},
               {"documents", e.documents.size()},
               {"parameters", arm.parameters},
               {"knock_parameters", arm.knock_parameters},
               {"flops_per_token", arm.flops},
               {"knock_flops_per_token", arm.knock_flops},
               {"tokens_per_second", arm.summary.tokens_per_second},
               {"mfu", arm.summary.mfu},
               {"peak_bytes", arm.summary.peak_bytes}});
  return json;
}

Json to_json(const ArmDifference& d) {
  Json json = begin_json(d.variant);
  json.update({{"setting", d.setting},
               {"mean", d.interval.mean},
               {"low", d.interval.low},
               {"high", d.interval.high},
               {"kind", d.covers}});
  return json;
}

Json to_json(const std::vector<LeftOut>& left_out) {
  Json list = Json::array();
  for (const LeftOut& left : left_out)
    list.push_back({{"setting", left.setting}, {"reason", left.reason}});
  return list;
}

Json to_json(const VariantModel& variant) {
  const ModelConfig& m = variant.model;
  const auto& system = attention_declaration(m.attention, variant.name);
  Json json{{"name", variant.name},
            {"attention", m.attention},
            {"query_heads", m.num_attention_heads},
            {"kv_heads", m.num_key_value_heads},
            {"latent_heads", m.latent_heads},
            {"kv_latent", m.kv_latent},
            {"cache", Json::array()},
            {"cache_elements", system.cache_elements(m)},
            {"shared_start", variant.shared_start},
            {"left_out", to_json(variant.left_out)}};
  for (const CacheTensor& tensor : system.cache(m)) {
    json["cache"].push_back(
        {{"name", tensor.name}, {"heads", tensor.heads}, {"width", tensor.width}});
  }
  return json;
}

std::string table_line(const Arm& arm, const std::string& before) {
  const Evaluation& e = *arm.summary.validation;
  return before +
         fmt::format("{:<14}{:>5}{:>12.4f}{:>12.4f}{:>12}{:>10}{:>9.2f} %{:>11.0f}{:>7}{:>12}\n",
                     arm.setting, arm.seed, e.loss(), e.bits_per_byte(), arm.parameters,
                     fmt::format("+{}", arm.knock_parameters),
                     100 * arm.knock_flops / (arm.flops - arm.knock_flops),
                     arm.summary.tokens_per_second,
                     arm.summary.mfu > 0 ? fmt::format("{:.0f} %", 100 * arm.summary.mfu) : "-",
                     bytes_text(static_cast<double>(arm.summary.peak_bytes)));
}

// "kha-mlp", with variants "mla, kha-linear".
std::string name_of(const ArmDifference& d) {
  return d.variant.empty() ? d.setting : d.variant + ", " + d.setting;
}

std::string in_words(const ArmDifference& d, const std::string& reference) {
  const Interval& i = d.interval;
  const std::string figures =
      fmt::format("{:+.4f} nats a token, 95 % interval {:+.4f} to {:+.4f}", i.mean, i.low, i.high);
  const std::string verdict =
      !i.excludes_zero()
          ? fmt::format("no difference from {} is shown: 0 is inside the interval", reference)
      : i.mean < 0 ? fmt::format("lower loss than {}", reference)
                   : fmt::format("higher loss than {}", reference);
  return fmt::format("{}: {} ({})\n", name_of(d), verdict, figures);
}

// Of the column in front; 0 without variants.
size_t widest_variant(const Comparison& c) {
  size_t width = c.has_variants() ? std::string("variant  ").size() : 0;
  for (const VariantModel& variant : c.variants)
    if (!variant.name.empty()) width = std::max(width, variant.name.size() + 2);
  return width;
}

}  // namespace

void write_planned_arms(const std::filesystem::path& folder, const std::vector<Variant>& variants) {
  if (variants.front().name.empty()) return;
  Json json{{"version", 1},
            {"seeds", variants.front().config.compare.seeds},
            {"variants", Json::array()}};
  for (const Variant& variant : variants) {
    json["variants"].push_back({{"name", variant.name},
                                {"settings", variant.settings},
                                {"left_out", to_json(variant.left_out)}});
  }
  write_file_atomically(folder / "planned.json", json.dump(2) + "\n");
}

void write_comparison(const Comparison& c) {
  Json json{{"version", 1}, {"reference", c.reference}};
  if (c.has_variants()) {
    json["variants"] = Json::array();
    for (const VariantModel& variant : c.variants) json["variants"].push_back(to_json(variant));
  } else {
    json["shared_start"] = c.variants.front().shared_start;
  }
  json["arms"] = Json::array();
  json["differences"] = Json::array();
  for (const Arm& arm : c.arms) json["arms"].push_back(to_json(arm, c.folder));
  for (const ArmDifference& d : c.differences) json["differences"].push_back(to_json(d));
  write_file_atomically(c.folder / "compare.json", json.dump(2) + "\n");
}

std::string to_text(const Comparison& c) {
  const size_t width = widest_variant(c);
  std::string text =
      fmt::format("{:<{}}{:<14}{:>5}{:>12}{:>12}{:>12}{:>10}{:>11}{:>11}{:>7}{:>12}\n",
                  width ? "variant" : "", width, "setting", "seed", "val loss", "bits/byte",
                  "parameters", "in maps", "map FLOPs", "tokens/s", "MFU", "peak");
  for (const Arm& arm : c.arms) text += table_line(arm, fmt::format("{:<{}}", arm.variant, width));
  const Evaluation& first = *c.arms[0].summary.validation;
  text += fmt::format("\non {} held-out tokens of {} documents, the same in every arm:\n",
                      first.targets, first.documents.size());
  for (const ArmDifference& d : c.differences) text += "  " + in_words(d, c.reference);
  for (const VariantModel& variant : c.variants) {
    for (const LeftOut& left : variant.left_out)
      text += fmt::format("  {}, {}: left out: {}\n", variant.name, left.setting, left.reason);
  }
  if (!c.differences.empty() && c.differences[0].covers == "documents") {
    text +=
        "The interval is over documents: it says how these two trained models differ on such text. "
        "It\n"
        "does not cover training noise; another seed may turn a small difference round. More "
        "seeds:\n"
        "--set compare.seeds=3\n";
  }
  return text;
}

}  // namespace kha
