// Which windows of a token shard make up each batch: a pure function of (tokens, context, batch
// size, seed), so that any step can be asked for directly and a resumed run sees the same data.
//
// A window is context + 1 tokens: `context` inputs and, one further, `context` targets. Neighbours
// share one token, so every token is a target once. An epoch visits each of its windows once, in an
// order keyed by (seed, epoch), and starts at an offset below `context` keyed the same way, so that
// the cuts between windows fall elsewhere in every epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kha {

class MixtureOrder;

// `targets` predictions: inputs are tokens [begin, begin + targets), targets one further.
struct Window {
  std::int64_t begin = 0;
  std::int64_t targets = 0;
  std::int64_t source = 0;  // the shard that it lies in
  bool operator==(const Window&) const = default;
};

// Where the data of a run stands, saved in checkpoints: the next step, the first sequence it takes
// (counted from the start of training), and the epoch and token position where that lies.
struct DataPosition {
  std::int64_t step = 0;
  std::int64_t sequence_index = 0;
  std::int64_t epoch = 0;
  std::int64_t window_begin = 0;
  bool operator==(const DataPosition&) const = default;
};

// One of the shards that a run draws from.
struct PlanSource {
  std::int64_t tokens = 0;
  double weight = 1;  // its share of the sequences, when divided by the sum of all weights
};

class BatchPlan {
 public:
  // Several sources. After any number of sequences, each source has given its share of them to
  // within one sequence; each has epochs and an order of its own. One source gives what the other
  // constructor does. Throws Error as that one does, and for a weight that is not above 0.
  BatchPlan(std::span<const PlanSource> sources, std::int64_t context,
            std::int64_t sequences_per_batch, std::uint64_t seed);

  // Throws Error when context or sequences_per_batch is below 1, or tokens below context + 1.
  BatchPlan(std::int64_t tokens, std::int64_t context, std::int64_t sequences_per_batch,
            std::uint64_t seed);

  // Windows of sequences [first, first + count) of a step: a micro-batch. Throws Error when these
  // lie outside the step's [0, sequences_per_batch), or step is negative.
  std::vector<Window> windows(std::int64_t step, std::int64_t first, std::int64_t count) const;

  // All sequences of a step.
  std::vector<Window> windows(std::int64_t step) const;

  DataPosition position(std::int64_t step) const;

  // Throws Error when a saved position is not where this plan is at that step, which means that the
  // data, context, batch size or seed changed since it was saved.
  void check(const DataPosition& saved) const;

  // Of the first source, the same in every epoch: as many as fit behind the largest offset, and at
  // least one.
  std::int64_t windows_per_epoch() const { return sources_.front().windows_per_epoch; }
  std::int64_t context() const { return context_; }
  std::int64_t sequences_per_batch() const { return sequences_per_batch_; }

 private:
  std::int64_t first_sequence(std::int64_t step) const;
  Window window(std::int64_t sequence_index) const;

  // The windows of one source; `index` counts its own sequences.
  struct Source {
    std::int64_t tokens = 0;
    std::int64_t context = 0;
    std::uint64_t seed = 0;
    std::int64_t windows_per_epoch = 0;

    std::int64_t window_begin(std::int64_t index) const;
    std::int64_t epoch_offset(std::int64_t epoch) const;
  };

  std::int64_t context_;
  std::int64_t sequences_per_batch_;
  std::vector<Source> sources_;
  std::shared_ptr<const MixtureOrder> order_;
};

// Windows for measuring a loss: they share no target, and the last one is shorter when the tokens
// do not fill it. When the shard has more than max_tokens targets, max_tokens / context windows
// (at least one) spread evenly over it; max_tokens 0 takes all. Fewer than two tokens give none.
// Throws Error when context is below 1 or another number is negative.
std::vector<Window> evaluation_windows(std::int64_t tokens, std::int64_t context,
                                       std::int64_t max_tokens);

}  // namespace kha
