#include "train/nonfinite.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "kha/core/error.h"
#include "model/tensor_bytes.h"
#include "train/gradient.h"

namespace kha {

void stop_for_nonfinite(const NonFinite& event) {
  const auto path = event.folder / fmt::format("failed-step-{:08}.safetensors", event.step);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t i = 0; i < event.batches.size(); ++i) {
    const BatchTensors batch = to_tensors(event.batches[i], {}, at::kCPU);
    tensors.emplace_back(fmt::format("inputs.{}", i), batch.ids);
    tensors.emplace_back(fmt::format("targets.{}", i), batch.targets);
  }
  write_tensors(path, tensors);
  const std::string bad = event.parameter.empty()
                              ? fmt::format("loss {}", event.loss)
                              : fmt::format("loss {}, gradient of {}", event.loss, event.parameter);
  fail({.what = fmt::format("step {} is not finite; no weight was changed", event.step),
        .where = event.folder.string(),
        .expected = "a finite loss and gradient",
        .found = bad,
        .cause = "a learning rate that is too high, or weights that were broken before",
        .next =
            fmt::format("the batch is in {}; continue from the last checkpoint with a lower rate: "
                        "--set optimizer.lr=…",
                        path.string())},
       ExitCode::check_failed);
}

}  // namespace kha
