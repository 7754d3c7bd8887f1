#include "cli/score_sequences.h"

#include <ATen/Functions.h>

#include <algorithm>

namespace kha::cli {
namespace {

// Every id but the last of each, [sequences, longest].
at::Tensor padded_inputs(const std::vector<ScoredSequence>& sequences) {
  std::size_t longest = 1;
  for (const auto& each : sequences) longest = std::max(longest, each.ids.size() - 1);
  at::Tensor inputs =
      at::zeros({static_cast<int64_t>(sequences.size()), static_cast<int64_t>(longest)}, at::kLong);
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    const auto& ids = sequences[row].ids;
    auto* to = inputs[static_cast<int64_t>(row)].mutable_data_ptr<int64_t>();
    std::copy(ids.begin(), ids.end() - 1, to);
  }
  return inputs;
}

SequenceScore score_of(const at::Tensor& logits_TV, const at::Tensor& targets_T) {
  const at::Tensor columns = targets_T.unsqueeze(1);
  const at::Tensor scores = at::log_softmax(logits_TV.to(at::kDouble), -1).gather(1, columns);
  return {scores.sum().item<double>(), logits_TV.argmax(-1).equal(targets_T)};
}

}  // namespace

std::vector<SequenceScore> score_sequences(const Decoder& decoder,
                                           const std::vector<ScoredSequence>& sequences) {
  const at::Tensor hidden = decoder.hidden(padded_inputs(sequences));
  std::vector<SequenceScore> scores;
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    const auto& [ids, from] = sequences[row];
    const int64_t count = static_cast<int64_t>(ids.size()) - from;
    if (count == 0) {
      scores.push_back({});
      continue;
    }
    const at::Tensor targets = at::tensor(at::IntArrayRef(ids.data() + from, count), at::kLong);
    const at::Tensor places = hidden[static_cast<int64_t>(row)].narrow(0, from - 1, count);
    scores.push_back(score_of(decoder.logits(places), targets));
  }
  return scores;
}

}  // namespace kha::cli
