#include "model/pass_checks.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "kha/core/error.h"

namespace kha {
namespace {

[[noreturn]] void fail_call(const std::string& what, const std::string& expected,
                            const std::string& found, const std::string& next) {
  fail({.what = what,
        .where = "a pass of the decoder",
        .expected = expected,
        .found = found,
        .next = next});
}

void check_documents(const PackedLayout& layout, int64_t batch, int64_t length,
                     const KvCache* cache) {
  if (layout.lengths.empty()) return;
  int64_t tokens = 0;
  for (const int64_t each : layout.lengths) tokens += each;
  // What comes later would see the documents as one text.
  if (cache) {
    fail_call("documents cannot be read into a cache", "one text a row",
              fmt::format("{} documents and a cache of {} positions", layout.lengths.size(),
                          cache->length()),
              "give the rows without a cache, or each document a row of its own");
  }
  if (tokens != batch * length) {
    fail_call("the documents do not fill the batch", fmt::format("{} tokens", batch * length),
              fmt::format("{} tokens", tokens),
              "name the length of every document's part of a row");
  }
}

void check_padding(const at::Tensor& text, int64_t batch, int64_t cached, int64_t length) {
  if (text.defined() && text.sizes() != at::IntArrayRef{batch, cached + length}) {
    fail_call(
        "the padding is not that of the batch",
        fmt::format("text_BS [{}, {}]: cached positions and new ones", batch, cached + length),
        fmt::format("{} numbers", text.numel()), "say of every position whether it is text");
  }
}

}  // namespace

void check_layout(const PackedLayout& layout, int64_t batch, int64_t length, const KvCache* cache) {
  check_documents(layout, batch, length, cache);
  check_padding(layout.text_BS, batch, cache ? cache->length() : 0, length);
}

void check_positions(const at::Tensor& positions, int64_t tokens, int64_t room) {
  if (positions.numel() != tokens) {
    fail_call("the positions are not those of the batch", fmt::format("{} positions", tokens),
              fmt::format("{}", positions.numel()), "give one for every token");
  }
  // Elsewhere looking at them would wait for the device.
  if (!positions.device().is_cpu() || tokens == 0) return;
  const auto least = positions.min().item<int64_t>(), most = positions.max().item<int64_t>();
  if (least >= 0 && most < room) return;
  fail_call("a position lies outside the decoder's room", fmt::format("0 to {}", room - 1),
            fmt::format("{} to {}", least, most), "make the decoder with more positions");
}

void refuse_length(int64_t length, int64_t room) {
  fail_call("the text is longer than the decoder's room", fmt::format("at most {} positions", room),
            fmt::format("{}", length), "make the decoder with more positions");
}

void check_frequencies(const RotaryScaling& scaling, const RotaryTable& rotary, int64_t cached,
                       int64_t length, int64_t reach) {
  if (rotary.same_frequencies(reach, std::max<int64_t>(reach - length, 0))) return;
  fail_call(
      "the cache holds keys of other rotary frequencies",
      fmt::format("at most {} positions with this cache: the scaling `{}` turns longer texts "
                  "by other frequencies",
                  scaling.original_max_position_embeddings, scaling.kind),
      fmt::format("{} cached positions, {} with the new ones", cached, reach),
      scaling.kind == "dynamic"
          ? "read the whole text again in each step (--no-cache)"
          : "read the whole text again (--no-cache), or give a prompt that is longer already");
}

void refuse_gradient(const CacheEntry& entry) {
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& tensor : entry) {
    if (!tensor.requires_grad()) continue;
    fail_call("gradients cannot be taken through a cache", "a pass without gradients",
              "parameters that require a gradient",
              "hold an at::NoGradGuard while decoding, or give the whole text without a cache");
  }
}

void refuse_cache_with_recomputation() {
  fail_call("a decoder that recomputes its layers has no use for a cache", "recompute none",
            "recompute layer", "make the decoder without recomputation");
}

}  // namespace kha
