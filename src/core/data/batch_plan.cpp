#include "kha/core/batch_plan.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/data/keyed_order.h"
#include "core/data/mixture_order.h"
#include "kha/core/error.h"

namespace kha {
namespace {

// Two streams of one (seed, epoch) key: the visiting order and the start offset.
constexpr std::uint64_t order_stream = 1;
constexpr std::uint64_t offset_stream = 2;

void require_at_least(std::int64_t least, std::int64_t value, const std::string& name) {
  if (value >= least) return;
  fail({.what = name + " is too small",
        .where = name,
        .expected = "at least " + std::to_string(least),
        .found = std::to_string(value)});
}

std::string describe(const DataPosition& position) {
  return "step " + std::to_string(position.step) + " starts with sequence " +
         std::to_string(position.sequence_index) + ", in epoch " + std::to_string(position.epoch) +
         " at token " + std::to_string(position.window_begin);
}

// Giving up one window per epoch lets the offset reach every value below `context`; where there is
// only one window, it moves within the tokens left over.
std::int64_t count_windows(std::int64_t tokens, std::int64_t context) {
  return std::max<std::int64_t>(1, (tokens - 1) / context - 1);
}

}  // namespace

BatchPlan::BatchPlan(std::int64_t tokens, std::int64_t context, std::int64_t sequences_per_batch,
                     std::uint64_t seed)
    : BatchPlan(std::vector<PlanSource>{{.tokens = tokens}}, context, sequences_per_batch, seed) {}

BatchPlan::BatchPlan(std::span<const PlanSource> sources, std::int64_t context,
                     std::int64_t sequences_per_batch, std::uint64_t seed)
    : context_(context), sequences_per_batch_(sequences_per_batch) {
  require_at_least(1, context, "context");
  require_at_least(1, sequences_per_batch, "sequences per batch");
  std::vector<double> weights;
  for (const PlanSource& source : sources) {
    if (source.tokens - 1 < context) {
      fail({.what = "the training data is shorter than one window",
            .expected = "at least context + 1 tokens, with context " + std::to_string(context),
            .found = std::to_string(source.tokens) + " tokens",
            .next = "add text or lower the context"});
    }
    // The first source has the seed itself, as a run with one source always had.
    const std::uint64_t own = sources_.empty() ? seed : mix(seed, sources_.size());
    sources_.push_back({.tokens = source.tokens,
                        .context = context,
                        .seed = own,
                        .windows_per_epoch = count_windows(source.tokens, context)});
    weights.push_back(source.weight);
  }
  order_ = std::make_shared<const MixtureOrder>(weights);
}

std::vector<Window> BatchPlan::windows(std::int64_t step, std::int64_t first,
                                       std::int64_t count) const {
  const std::int64_t step_begin = first_sequence(step);
  if (first < 0 || count < 0 || first > sequences_per_batch_ ||
      count > sequences_per_batch_ - first) {
    fail({.what = "the micro-batch lies outside its batch",
          .where = "step " + std::to_string(step),
          .expected = "sequences within [0, " + std::to_string(sequences_per_batch_) + ")",
          .found = std::to_string(count) + " sequences from " + std::to_string(first)});
  }
  std::vector<Window> result;
  result.reserve(count);
  for (std::int64_t i = first; i < first + count; ++i) {
    result.push_back(window(step_begin + i));
  }
  return result;
}

std::vector<Window> BatchPlan::windows(std::int64_t step) const {
  return windows(step, 0, sequences_per_batch_);
}

Window BatchPlan::window(std::int64_t sequence_index) const {
  const std::int64_t source = order_->source(sequence_index);
  const std::int64_t index = order_->before(sequence_index, source);
  return {sources_[source].window_begin(index), context_, source};
}

DataPosition BatchPlan::position(std::int64_t step) const {
  const std::int64_t sequence = first_sequence(step);
  const std::int64_t source = order_->source(sequence);
  const std::int64_t index = order_->before(sequence, source);
  return {.step = step,
          .sequence_index = sequence,
          .epoch = index / sources_[source].windows_per_epoch,
          .window_begin = sources_[source].window_begin(index)};
}

void BatchPlan::check(const DataPosition& saved) const {
  const DataPosition now = position(saved.step);
  if (saved == now) return;
  fail({.what = "the saved data position does not fit this data",
        .where = "data position of the checkpoint, step " + std::to_string(saved.step),
        .expected = describe(saved),
        .found = describe(now),
        .cause = saved.sequence_index != now.sequence_index
                     ? "the number of sequences per batch changed"
                     : "the text, its weights, the context length, the held-out share or the data "
                       "seed changed",
        .next = "resume with the settings and text of the run, or start a new run from the "
                "checkpoint's weights (init.from)"});
}

std::int64_t BatchPlan::first_sequence(std::int64_t step) const {
  require_at_least(0, step, "step");
  // A step read from a damaged file must not overflow; half of the range is far beyond any run.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2 / sequences_per_batch_;
  if (step > most) {
    fail({.what = "step is too large",
          .where = "step",
          .expected = "at most " + std::to_string(most),
          .found = std::to_string(step)});
  }
  return step * sequences_per_batch_;
}

std::int64_t BatchPlan::Source::epoch_offset(std::int64_t epoch) const {
  const std::int64_t slack = tokens - 1 - windows_per_epoch * context;
  const std::int64_t choices = std::min(context, slack + 1);
  const std::uint64_t word = mix(mix(seed, static_cast<std::uint64_t>(epoch)), offset_stream);
  return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(choices), word));
}

std::int64_t BatchPlan::Source::window_begin(std::int64_t index) const {
  const std::int64_t epoch = index / windows_per_epoch;
  const std::uint64_t key = mix(mix(seed, static_cast<std::uint64_t>(epoch)), order_stream);
  const std::uint64_t window = keyed_permutation(index % windows_per_epoch, windows_per_epoch, key);
  return epoch_offset(epoch) + static_cast<std::int64_t>(window) * context;
}

std::vector<Window> evaluation_windows(std::int64_t tokens, std::int64_t context,
                                       std::int64_t max_tokens) {
  require_at_least(1, context, "context");
  require_at_least(0, tokens, "number of tokens");
  require_at_least(0, max_tokens, "most tokens to evaluate");
  if (tokens < 2) return {};
  const std::int64_t targets = tokens - 1;
  const std::int64_t all = (targets - 1) / context + 1;
  const bool limited = max_tokens > 0 && max_tokens < targets;
  const std::int64_t count = limited ? std::max<std::int64_t>(1, max_tokens / context) : all;
  std::vector<Window> result;
  result.reserve(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto window = static_cast<std::int64_t>(static_cast<__int128>(i) * all / count);
    const std::int64_t begin = window * context;
    result.push_back({begin, std::min(context, targets - begin)});
  }
  return result;
}

}  // namespace kha
