#include "cli/model_summary.h"

#include <fmt/format.h>

#include "cli/grouped_number.h"
#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string flops_text(double flops) {
  static const char* const units[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(units); ++unit) flops /= 1000;
  return fmt::format("{:.4g} {}FLOP", flops, units[unit]);
}

std::string knocks_text(const LayerKnocks& knocks) {
  std::string text;
  for (const KnockSlot slot : knock_slots) {
    if (knocks.at(slot) == KnockKind::none) continue;
    text += (text.empty() ? "" : ", ") + to_string(knocks.at(slot)) + " on " + to_string(slot);
  }
  return text.empty() ? "none" : text;
}

double percent(double part, double whole) { return 100 * part / whole; }

void print_line(const char* label, const std::string& text) {
  fmt::print("{:<11}{}\n", label, text);
}

void print_maps(const ModelSummary& s) {
  const ModelConfig& c = s.config;
  if (!c.knocks.any(c.num_hidden_layers)) return print_line("maps", "none");
  print_line("maps",
             fmt::format("{} ({}), {} parameters ({:.3g} % of all)", knocks_text(c.knocks.all),
                         setting_name(c.knocks), grouped(s.parameters.knock),
                         percent(s.parameters.knock, s.parameters.total)));
  for (const auto& [layer, knocks] : c.knocks.layers) {
    print_line("", fmt::format("layer {}: {}", layer, knocks_text(knocks)));
  }
}

void print_experts(const ModelSummary& s) {
  const ExpertConfig& e = s.config.experts;
  if (!e.any()) return;
  print_line("experts",
             fmt::format("{} of width {}, {} a token, {} shared, {} dense layers in front", e.count,
                         e.width, e.active, e.shared, e.first_dense));
  print_line("router",
             fmt::format("{}{}{}, weights {} times {}", e.router,
                         e.selection_bias() ? " with a selection bias" : "",
                         e.groups > 1 ? fmt::format(", the best {} of {} groups of experts",
                                                    e.open_groups, e.groups)
                                      : "",
                         e.normalise ? "normalised" : "as scored", e.scaling));
  print_line("active",
             fmt::format("{} parameters a token, {} without the embedding",
                         grouped(s.parameters.active), grouped(s.parameters.active_body)));
}

void print_kind(const ModelSummary& s) {
  const ModelConfig& c = s.config;
  print_line("model", s.folder.string());
  print_line("kind",
             fmt::format("{}{}, attention {}: {}", c.plain() ? "" : "kha on ", c.base_type(),
                         c.attention, attention_declaration(c.attention, "").meaning));
  print_line("sizes", fmt::format("{} layers, width {}, feed-forward {}, vocabulary {}{}",
                                  c.num_hidden_layers, c.hidden_size, c.intermediate_size,
                                  grouped(c.vocab_size), c.tie_word_embeddings ? " (tied)" : ""));
}

std::string scaling_in_words(const RotaryScaling& scaling) {
  if (scaling.kind == "default") return "";
  const int64_t original = scaling.original_max_position_embeddings;
  return fmt::format(", {} scaling by {:g}{}", scaling.kind, scaling.factor,
                     original > 0 ? fmt::format(" from {} positions", grouped(original)) : "");
}

// Which channels of a head are turned, where it is not all.
std::string turned_in_words(const ModelConfig& c) {
  if (c.attention != "gqa" || c.rope_head_dim == 0) return "";
  return fmt::format(", {} of {} channels turned", c.rope_head_dim, c.head_dim);
}

void print_attention(const ModelConfig& c) {
  print_line("heads", fmt::format("{} query, {} KV, {} wide{}{}", c.num_attention_heads,
                                  c.num_key_value_heads, c.head_dim,
                                  c.attention != "gqa" ? ""
                                  : c.qk_norm          ? ", QK-norm per head"
                                                       : ", no QK-norm",
                                  c.attention_bias ? ", with biases" : ""));
  print_line("context",
             fmt::format("{} tokens, rotary base {:g}, {}{}", grouped(c.max_position_embeddings),
                         c.rope_theta, c.rotary_layout,
                         turned_in_words(c) + scaling_in_words(c.rotary_scaling)));
}

void print_costs(const ModelSummary& s) {
  print_line("arithmetic",
             fmt::format("{} a token at the full context, {} in training; maps {:.3g} %",
                         flops_text(s.flops.forward), flops_text(s.flops.training()),
                         percent(s.flops.knock, s.flops.forward)));
  print_line("KV cache", fmt::format("{} bytes a token in {}", grouped(s.cache_bytes),
                                     safetensors_name(s.dtype)));
  print_line("weights", fmt::format("{} bytes in {} file{}", grouped(s.data_bytes), s.files,
                                    s.files == 1 ? "" : "s"));
}

}  // namespace

ModelSummary summarise(const std::filesystem::path& folder, const ModelConfig& c,
                       const ModelFiles& files) {
  const auto& system = attention_declaration(c.attention, folder.string());
  const std::string key =
      attention_prefix(0) + system.place(KnockSlot::k).projection(c) + ".weight";
  const DType dtype = files.at(key).dtype;
  const auto element = static_cast<int64_t>(size_of(dtype));
  return {folder,
          c,
          count_parameters(c),
          flops_per_token(c, c.max_position_embeddings),
          c.num_hidden_layers * system.cache_elements(c) * element,
          dtype,
          files.data_bytes(),
          files.files().size()};
}

void print_summary(const ModelSummary& s) {
  print_kind(s);
  print_attention(s.config);
  print_line("parameters", fmt::format("{}, of which {} embed", grouped(s.parameters.total),
                                       grouped(s.parameters.embedding)));
  print_experts(s);
  print_maps(s);
  print_costs(s);
}

Json summary_json(const ModelSummary& s) {
  return {{"model", s.folder.string()},
          {"config", Json::parse(to_config_json(s.config))},
          {"setting", setting_name(s.config.knocks)},
          {"parameters",
           {{"total", s.parameters.total},
            {"maps", s.parameters.knock},
            {"embedding", s.parameters.embedding},
            {"experts", s.parameters.experts},
            {"active", s.parameters.active}}},
          {"flops_per_token",
           {{"context", s.config.max_position_embeddings},
            {"forward", s.flops.forward},
            {"training", s.flops.training()},
            {"maps", s.flops.knock}}},
          {"kv_cache_bytes_per_token", s.cache_bytes},
          {"dtype", safetensors_name(s.dtype)},
          {"weight_bytes", s.data_bytes},
          {"files", s.files}};
}

}  // namespace kha::cli
