#include "kha/core/counts.h"

#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

// Experts are alike: the first k of them stand for those that a token chooses.
bool passes_a_token(const ParameterSpec& parameter, const ModelConfig& config) {
  return parameter.expert < config.experts.active;
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  for (const auto& parameter : parameter_table(config)) {
    if (!parameter.trained) continue;
    const int64_t elements = parameter.elements();
    count.total += elements;
    if (parameter.role == Role::knock) count.knock += elements;
    if (parameter.expert >= 0) count.experts += elements;
    if (parameter.role == Role::embedding || parameter.role == Role::head) {
      count.embedding += elements;
    } else if (passes_a_token(parameter, config)) {
      count.active_body += elements;
    }
  }
  count.active = count.active_body + config.vocab_size * config.hidden_size;
  return count;
}

FlopCount flops_per_token(const ModelConfig& c, int64_t sequence_length) {
  FlopCount count;
  for (const auto& parameter : parameter_table(c)) {
    const bool multiplies = parameter.role == Role::matrix || parameter.role == Role::expert;
    if (multiplies && passes_a_token(parameter, c)) count.forward += 2.0 * parameter.elements();
  }
  const auto& system = attention_declaration(c.attention, "");
  for (const AttentionTensor& tensor : system.tensors(c)) {
    const double elements = static_cast<double>(tensor.outputs) * tensor.inputs;
    count.forward += c.num_hidden_layers * (tensor.token_flops - 2) * elements;
  }
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    for (const KnockPlace& place : system.places) {
      const HeadRows rows = place.rows(c);
      const double matrices = knock_tensors(c.knocks.at(layer).at(place.slot)).size();
      count.knock += 2.0 * matrices * static_cast<double>(rows.heads * rows.width * rows.width);
    }
  }
  const double attended = (sequence_length + 1) / 2.0;
  count.forward += c.num_hidden_layers * system.context_flops(c) * attended;
  count.forward += 2.0 * c.vocab_size * c.hidden_size;  // the head, tied or not
  count.forward += count.knock;
  return count;
}

double attention_decode_flops(const ModelConfig& c, int64_t positions) {
  const auto& system = attention_declaration(c.attention, "");
  double flops = system.decode_context_flops(c) * static_cast<double>(positions);
  for (const AttentionTensor& tensor : system.tensors(c)) {
    flops += tensor.token_flops * static_cast<double>(tensor.outputs * tensor.inputs);
  }
  return flops;
}

PaperFlops paper_flops(double tokens, double width, double heads) {
  return {.attention = 8 * tokens * width * width + 4 * tokens * tokens * width,
          .feed_forward = 18 * tokens * width * width,
          .knock = 6 * tokens * width * width / heads};
}

}  // namespace kha
