#include "train/print_session.h"

#include <fmt/format.h>

#include "kha/core/counts.h"
#include "memory/caching_allocator.h"

namespace kha {

void print_session(const Session& session, Progress& progress) {
  const ModelConfig& m = session.config.model;
  const ParameterCount count = count_parameters(m);
  const FlopCount flops = flops_per_token(m, session.config.train.context);
  progress.line(fmt::format(
      "model: {}, {} parameters ({} in the maps), {:.2f} MFLOP a token forward ({:.2f} % maps)",
      setting_name(m.knocks), count.total, count.knock, flops.forward / 1e6,
      100 * flops.knock / flops.forward));
  if (m.experts.any()) {
    progress.line(fmt::format("experts: {} of {} a token, {} of the parameters at work on it",
                              m.experts.active, m.experts.count, count.active));
  }
  std::string ran;
  for (const auto& [key, value] : session.state.ran)
    ran += (ran.empty() ? "" : ", ") + key + " " + value;
  progress.line("runs on: " + ran + ", allocator " + chosen_allocator());
  for (const auto& group : session.optimizer->groups()) {
    progress.line(
        fmt::format("  group {:<10}{:>4} tensors {:>12} parameters  lr x {}  decay {} to {}{}",
                    group.name, group.tensors, group.parameters, group.lr_scale, group.weight_decay,
                    group.decays_to, group.frozen ? "  frozen" : ""));
  }
}

}  // namespace kha
