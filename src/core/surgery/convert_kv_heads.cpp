#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/surgery/changed_model.h"
#include "core/surgery/head_count.h"
#include "core/surgery/new_folder.h"
#include "kha/core/attention_system.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/convert.h"
#include "kha/core/error.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// The numbers of KV heads that a model can be converted to.
std::vector<int64_t> reachable(const ModelConfig& c) {
  const int64_t now = c.num_key_value_heads;
  std::vector<int64_t> numbers;
  for (int64_t heads = 1; heads <= c.num_attention_heads; ++heads) {
    const bool fits = c.num_attention_heads % heads == 0;
    if (fits && heads != now && (now % heads == 0 || heads % now == 0)) numbers.push_back(heads);
  }
  return numbers;
}

void check_system(const ModelConfig& c, const fs::path& in) {
  if (c.attention == "gqa") return;
  fail({.what = fmt::format("the KV heads of attention `{}` cannot be converted", c.attention),
        .where = (in / "config.json").string(),
        .expected = "attention `gqa`, whose K and V heads are rows of their own projections",
        .found = c.attention + ": " + attention_declaration(c.attention, in.string()).meaning,
        .cause = "pooling is defined for K and V heads; tied states and latents are neither",
        .next = "train another size from scratch: kha compare configs/variants.toml"});
}

void check_number(const ModelConfig& c, const fs::path& in, int64_t wanted) {
  const auto numbers = reachable(c);
  if (std::find(numbers.begin(), numbers.end(), wanted) != numbers.end()) return;
  const bool same = wanted == c.num_key_value_heads;
  fail({.what = same ? fmt::format("nothing to convert: the model has {} KV heads already", wanted)
                     : fmt::format("the model cannot be converted to {} KV heads", wanted),
        .where = (in / "config.json").string(),
        .expected = fmt::format("one of {}: divisors of the query heads that divide the KV heads "
                                "or are multiples of them",
                                fmt::join(numbers, ", ")),
        .found = fmt::format("{} query heads, {} KV heads", c.num_attention_heads,
                             c.num_key_value_heads),
        .next = "nothing was written; give --kv-heads one of these numbers"});
}

// K's and V's projections, weights and biases; all their rows are heads.
std::map<std::string, TensorReshape> reshape_heads(const ModelConfig& before,
                                                   const ModelConfig& after) {
  const auto& system = attention_declaration(before.attention, "");
  const int64_t from = before.num_key_value_heads, to = after.num_key_value_heads;
  const auto change = [=](const std::vector<double>& rows) {
    return change_head_count(rows, from, to);
  };
  std::map<std::string, TensorReshape> changes;
  for (int64_t layer = 0; layer < before.num_hidden_layers; ++layer) {
    for (const AttentionTensor& tensor : system.tensors(after)) {
      if (tensor.name != "k_proj" && tensor.name != "v_proj") continue;
      const std::string name = attention_prefix(layer) + tensor.name;
      changes[name + ".weight"] = {{tensor.outputs, tensor.inputs}, change};
      if (tensor.may_have_bias && before.attention_bias)
        changes[name + ".bias"] = {{tensor.outputs}, change};
    }
  }
  return changes;
}

}  // namespace

ConvertReport convert_kv_heads(const fs::path& in, const fs::path& out, int64_t kv_heads) {
  require_free(out);
  const ModelConfig before = read_model_config(in);
  check_system(before, in);
  check_number(before, in, kv_heads);
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  const auto warnings = check_tensors(files, before).warnings;
  ModelConfig after = before;
  after.num_key_value_heads = kv_heads;
  const SideFiles side = write_changed_model(
      in, files, after, {.edits = {}, .reshaped = reshape_heads(before, after)}, out);
  return {.before = before,
          .after = after,
          .exact = kv_heads > before.num_key_value_heads,
          .warnings = warnings,
          .copied = side.copied,
          .left_out = side.left_out};
}

}  // namespace kha
