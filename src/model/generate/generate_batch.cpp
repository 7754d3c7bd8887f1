#include "model/generate/generate_batch.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kha/core/error.h"
#include "model/decoder.h"
#include "model/generate/next_logits.h"
#include "model/generate/one_text.h"

namespace kha {
namespace {

// The growing rows of a batch, and the logits behind their last column.
class PaddedRows {
 public:
  // Prompts of any length; room for `columns` tokens a row.
  PaddedRows(const LoadedModel& model, const GenerateOptions& options,
             const std::vector<OneText>& texts, std::int64_t columns)
      : device_(options.device),
        decoder_(model.config, model.parameters.to(device_).cast(options.dtype), options.plan,
                 columns) {
    const auto batch = static_cast<std::int64_t>(texts.size());
    if (options.use_cache) {
      cache_.emplace(model.config, batch, columns, options.dtype, device_, options.kv_cache);
    }
    std::int64_t longest = 0;
    for (const OneText& text : texts) longest = std::max(longest, length_of(text));
    ids_ = at::zeros({batch, longest}, at::kLong);
    text_ = at::zeros({batch, longest}, at::kBool);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t length = length_of(texts[b]), begin = longest - length;
      ids_[b].narrow(0, begin, length).copy_(at::tensor(texts[b].ids(), at::kLong));
      text_[b].narrow(0, begin, length).fill_(true);
    }
  }

  // The first `count` of each row, float32 on the CPU.
  at::Tensor logits(std::int64_t count) {
    const std::int64_t seen = cache_ ? cache_->length() : 0, columns = ids_.size(1);
    const at::Tensor hidden = decoder_.hidden(ids_.narrow(1, seen, columns - seen).to(device_),
                                              cache_ ? &*cache_ : nullptr, layout());
    return decoder_.logits(hidden.select(1, hidden.size(1) - 1))
        .narrow(1, 0, count)
        .to(at::kCPU, at::kFloat)
        .contiguous();
  }

  std::optional<CacheUse> cache_use() const { return use_of(cache_); }

  // The last id of each text that goes on; padding behind one that has ended.
  void add_column(const std::vector<OneText>& texts) {
    std::vector<std::int64_t> ids;
    at::Tensor text = at::zeros({ids_.size(0), 1}, at::kBool);
    for (const OneText& each : texts) {
      if (!each.ended()) text[static_cast<std::int64_t>(ids.size())].fill_(true);
      ids.push_back(each.ended() ? 0 : each.ids().back());
    }
    ids_ = at::cat({ids_, at::tensor(ids, at::kLong).unsqueeze(1)}, 1);
    text_ = at::cat({text_, text}, 1);
  }

 private:
  static std::int64_t length_of(const OneText& text) {
    return static_cast<std::int64_t>(text.ids().size());
  }

  // None where there is no padding: one long sum less.
  std::shared_ptr<const PackedLayout> layout() const {
    if (text_.all().item<bool>()) return nullptr;
    return std::make_shared<const PackedLayout>(
        PackedLayout{.lengths = {}, .positions_N = {}, .text_BS = text_.to(device_)});
  }

  at::Device device_;
  Decoder decoder_;
  std::optional<KvCache> cache_;
  at::Tensor ids_, text_;  // [B, columns], on the CPU
};

std::vector<OneText> begin_texts(const LoadedModel& model,
                                 const std::vector<std::vector<std::int64_t>>& prompts,
                                 const GenerateOptions& options) {
  std::vector<OneText> texts;
  const auto choosable = choosable_ids(model);
  for (const auto& prompt : prompts) texts.emplace_back(model, prompt, options, nullptr, choosable);
  return texts;
}

// The longest prompt in front, the longest text behind it.
std::int64_t columns_for(const std::vector<OneText>& texts) {
  std::int64_t longest = 0, written = 0;
  for (const OneText& text : texts) {
    const auto prompt = static_cast<std::int64_t>(text.ids().size());
    longest = std::max(longest, prompt);
    written = std::max(written, text.positions() - prompt);
  }
  return longest + written;
}

void write_column(std::vector<OneText>& texts, const at::Tensor& logits_BV) {
  const std::int64_t count = logits_BV.size(1);
  const float* row = logits_BV.const_data_ptr<float>();
  for (OneText& text : texts) {
    if (!text.ended()) text.continue_with({row, row + count});
    row += count;
  }
}

}  // namespace

std::vector<GenerateResult> generate_batch(const LoadedModel& model,
                                           const std::vector<std::vector<std::int64_t>>& prompts,
                                           const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  if (prompts.size() > 1 && model.config.rotary_scaling.depends_on_length()) {
    fail({.what = "several texts at once cannot be generated with this model",
          .expected = "one prompt, where rotary frequencies follow the length of the text",
          .found = fmt::format("{} prompts, rotary scaling `{}`", prompts.size(),
                               model.config.rotary_scaling.kind),
          .next = "kha generate MODEL --prompt TEXT, one text after the other"});
  }
  std::vector<OneText> texts = begin_texts(model, prompts, options);
  std::vector<GenerateResult> results;
  const auto all_ended = [&] {
    return std::all_of(texts.begin(), texts.end(), [](const OneText& t) { return t.ended(); });
  };
  std::optional<CacheUse> use;
  if (!texts.empty() && !all_ended()) {
    PaddedRows rows(model, options, texts, columns_for(texts));
    while (true) {
      write_column(texts, rows.logits(texts.front().vocabulary()));
      if (all_ended()) break;
      rows.add_column(texts);
    }
    use = rows.cache_use();
  }
  for (OneText& text : texts) {
    results.push_back(text.finish());
    results.back().cache = use;
  }
  return results;
}

}  // namespace kha
