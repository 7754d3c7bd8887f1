#include "core/exchange/architecture_edits.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "core/surgery/rotary_layout.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

void append(std::map<std::string, TensorEdit>& edits, const std::string& name, TensorEdit edit) {
  edits[name] = [before = edits[name], edit = std::move(edit)](std::span<double> values) {
    if (before) before(values);
    edit(values);
  };
}

// x s / sqrt(mean(x^2) s^2 + e) is x / sqrt(mean(x^2) + e / s^2): another epsilon is a factor of
// the rows in front of the norm, and of their bias.
void scale_latents(const ModelConfig& c, double factor, std::map<std::string, TensorEdit>& edits) {
  const auto system = attention_declaration(c.attention, "").tensors(c);
  const std::map<std::string, int64_t> rows{{"q_a_proj", c.query_latent},
                                            {"kv_a_proj_with_mqa", c.kv_latent}};
  for (const AttentionTensor& tensor : system) {
    const auto scaled = rows.find(tensor.name);
    if (scaled == rows.end()) continue;
    const auto first = [factor](int64_t count) -> TensorEdit {
      return [factor, count](std::span<double> values) {
        for (double& value : values.first(static_cast<size_t>(count))) value *= factor;
      };
    };
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      const std::string name = attention_prefix(layer) + tensor.name;
      append(edits, name + ".weight", first(scaled->second * tensor.inputs));
      if (tensor.may_have_bias && c.attention_bias) {
        append(edits, name + ".bias", first(scaled->second));
      }
    }
  }
}

// The choice of experts does not change with a bias that all have in common, and small numbers keep
// their digits.
void centre(std::span<double> bias) {
  const double mean =
      std::accumulate(bias.begin(), bias.end(), 0.0) / static_cast<double>(bias.size());
  for (double& value : bias) value -= mean;
}

void centre_selection_biases(const ModelConfig& c, std::map<std::string, TensorEdit>& edits,
                             std::vector<std::string>& changes) {
  // Older releases of transformers fill closed groups with 0, below which a shifted score may fall.
  if (!c.experts.selection_bias() || c.experts.groups > 1) return;
  for (int64_t layer = c.experts.first_dense; layer < c.num_hidden_layers; ++layer) {
    append(edits, feed_forward_prefix(layer) + "gate.e_score_correction_bias", centre);
  }
  changes.push_back(
      "selection biases shifted by their mean, which changes no choice, and in float32");
}

}  // namespace

void add_architecture_edits(const ModelConfig& c, std::map<std::string, TensorEdit>& edits,
                            std::vector<std::string>& changes) {
  const std::string layout = c.attention == "mla" ? "interleaved" : "half_split";
  if (c.rotary_layout != layout) {
    for (const auto& [name, edit] : plan_rotary_layout(c, layout, "the exported model").edits) {
      append(edits, name, edit);
    }
    changes.push_back("rotary rows brought from " + c.rotary_layout + " to " + layout + " order");
  }
  centre_selection_biases(c, edits, changes);
  if (c.attention != "mla" || c.latent_eps() == deepseek_latent_eps) return;
  scale_latents(c, std::sqrt(deepseek_latent_eps / c.latent_eps()), edits);
  changes.push_back(fmt::format(
      "rows in front of the latents' norms scaled: their epsilon is {:g} here and {:g} there",
      c.latent_eps(), deepseek_latent_eps));
}

}  // namespace kha
