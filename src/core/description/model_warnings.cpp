#include "kha/core/model_warnings.h"

#include <fmt/format.h>

#include "kha/core/attention_system.h"

namespace kha {
namespace {

// Behind K and V of one head a linear map is another name for the projection itself.
void warn_of_lone_heads(const ModelConfig& c, std::vector<std::string>& warnings) {
  for (const KnockPlace& place : attention_declaration(c.attention, "").places) {
    bool linear = false;
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      linear = linear || c.knocks.at(layer).at(place.slot) == KnockKind::linear;
    }
    if (!linear || place.rows(c).heads != 1) continue;
    warnings.push_back(fmt::format(
        "a linear map on {} of one KV head shares with no other head: it is only another form of "
        "{} (the paper still measured a small gain in training); `mlp` adds what a projection "
        "cannot do",
        to_string(place.slot), place.projection(c)));
  }
}

void warn_of_width(const std::string& what, int64_t width, std::vector<std::string>& warnings) {
  if (width % 8 == 0 && width <= 256) return;
  warnings.push_back(fmt::format("{} is {}: {}, and attention kernels are slow or absent for it",
                                 what, width,
                                 width > 256 ? "wider than 256 channels" : "not a multiple of 8"));
}

}  // namespace

std::vector<std::string> model_warnings(const ModelConfig& c) {
  std::vector<std::string> warnings;
  warn_of_lone_heads(c, warnings);
  const bool beside = c.kv_latent > 0;  // rotated channels stand beside the others, not among them
  warn_of_width("the width of a key head", c.head_dim + (beside ? c.rope_head_dim : 0), warnings);
  if (c.value_width() != c.head_dim) {
    warn_of_width("the width of a value head", c.value_width(), warnings);
  }
  return warnings;
}

}  // namespace kha
