#include "kha/core/check_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_set>

#include "core/inspect/shape_in_words.h"
#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

constexpr const char* head_name = "lm_head.weight";
constexpr const char* embedding_name = "model.embed_tokens.weight";

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t most = 4;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(most, names.size()));
  const std::string rest =
      names.size() > most ? fmt::format(" and {} more", names.size() - most) : "";
  return fmt::format("{}{}", fmt::join(first, ", "), rest);
}

bool any_has(const std::vector<std::string>& names, const std::string& part) {
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& name) { return name.find(part) != std::string::npos; });
}

// One more than the largest number behind `mark` in a name.
int64_t numbered(const std::vector<std::string>& names, const std::string& mark) {
  int64_t count = 0;
  for (const std::string& name : names) {
    const auto found = name.find(mark);
    if (found == std::string::npos) continue;
    int64_t number = -1;
    std::from_chars(name.data() + found + mark.size(), name.data() + name.size(), number);
    count = std::max(count, std::min<int64_t>(number, 1 << 30) + 1);
  }
  return count;
}

// Why the names differ, where the names themselves tell.
std::string cause_of(const std::vector<std::string>& names, const std::vector<std::string>& of_file,
                     const ModelConfig& config) {
  const int64_t layers = numbered(of_file, "model.layers.");
  if (layers != config.num_hidden_layers) {
    return fmt::format("the file has {} layers, config.json says {}", layers,
                       config.num_hidden_layers);
  }
  const int64_t experts = numbered(of_file, ".mlp.experts.");
  if (experts != config.experts.count) {
    return fmt::format("the file has {} experts in a layer, config.json says {}", experts,
                       config.experts.count);
  }
  if (any_has(names, ".mlp.")) return "config.json describes other dense layers than the file has";
  if (any_has(names, ".knock_")) return "the maps that config.json describes are not the file's";
  if (any_has(names, "_proj.bias")) {
    return fmt::format("config.json says attention_bias {}", config.attention_bias);
  }
  return "";
}

class Checker {
 public:
  Checker(const ModelFiles& files, const ModelConfig& config)
      : files_(files), config_(config), table_(parameter_table(config)) {
    for (const auto& spec : table_) known_.insert(spec.name);
    where_ = files.names().empty() ? "" : files.file_of(files.names().front()).string();
  }

  TensorCheck run() {
    compare_names();
    compare_shapes();
    for (const auto& spec : table_) require_numbers(spec.name);
    if (config_.tie_word_embeddings && files_.find(head_name)) compare_head();
    if (predictor_tensors_ > 0) tell_predictor();
    if (config_.experts.any() && config_.experts.shared > 0) tell_empty_experts();
    return std::move(check_);
  }

 private:
  void compare_names() {
    std::vector<std::string> missing, unexpected;
    for (const auto& spec : table_) {
      if (!files_.find(spec.name)) missing.push_back(spec.name);
    }
    for (const auto& name : files_.names()) {
      if (known_.count(name)) continue;
      const bool tied_head = name == head_name && config_.tie_word_embeddings;
      const bool predictor = is_of_predictor(name);
      predictor_tensors_ += predictor;
      (tied_head || predictor ? check_.unread : unexpected).push_back(name);
    }
    if (missing == std::vector<std::string>{head_name}) fail_without_head();
    if (!missing.empty()) fail_missing(missing, unexpected);
    if (!unexpected.empty()) fail_unexpected(unexpected);
  }

  // A layer behind the last that joins the embedding of the next token to the hidden state
  // (DeepSeek-V3's and Glm4-MoE's multi-token prediction): no part of the model itself.
  bool is_of_predictor(const std::string& name) const {
    constexpr std::string_view mark = "model.layers.";
    if (!name.starts_with(mark)) return false;
    int64_t layer = -1;
    const auto end = std::from_chars(name.data() + mark.size(), name.data() + name.size(), layer);
    return layer >= config_.num_hidden_layers && end.ptr != name.data() + name.size() &&
           files_.find(fmt::format("{}{}.eh_proj.weight", mark, layer)) != nullptr;
  }

  // Of the file, but those of layers that are not the model's.
  std::vector<std::string> read_names() const {
    std::vector<std::string> names;
    for (const auto& name : files_.names()) {
      if (!is_of_predictor(name)) names.push_back(name);
    }
    return names;
  }

  void tell_predictor() {
    check_.warnings.push_back(fmt::format(
        "{} tensors of layers behind the last predict further tokens (multi-token prediction): "
        "they are not read, and not written again",
        predictor_tensors_));
  }

  bool all_zero(const std::string& name) const {
    const auto bytes = files_.bytes(name);
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  // down(silu(gate) up): a product that is zero where any of the three is.
  void tell_empty_experts() {
    for (int64_t layer = config_.experts.first_dense; layer < config_.num_hidden_layers; ++layer) {
      const std::string prefix = feed_forward_prefix(layer) + "shared_experts.";
      if (!all_zero(prefix + "down_proj.weight") && !all_zero(prefix + "up_proj.weight")) return;
    }
    if (config_.experts.first_dense >= config_.num_hidden_layers) return;
    check_.warnings.push_back(
        "the shared experts of every layer are zeros, which compute nothing: an export for a class "
        "that always builds them; they are kept and cost their products");
  }

  [[noreturn]] void fail_without_head() const {
    fail(
        {.what = "`lm_head.weight` is not in the file, and config.json does not tie the embeddings",
         .where = where_,
         .expected = "lm_head.weight " + shape_text({config_.vocab_size, config_.hidden_size}),
         .found = "no such tensor",
         .next = "set tie_word_embeddings to true in config.json if the head is the embedding; "
                 "else get a file that holds lm_head.weight"});
  }

  [[noreturn]] void fail_missing(const std::vector<std::string>& missing,
                                 const std::vector<std::string>& unexpected) const {
    const std::string hint = did_you_mean(missing.front(), unexpected);
    fail({.what = fmt::format("{} of the {} tensors that config.json describes {} missing: {}{}",
                              missing.size(), table_.size(), missing.size() == 1 ? "is" : "are",
                              listed(missing), hint),
          .where = where_,
          .found = unexpected.empty() ? "" : "instead: " + listed(unexpected),
          .cause = cause_of(missing, read_names(), config_),
          .next = "use the config.json that was saved with these weights"});
  }

  [[noreturn]] void fail_unexpected(const std::vector<std::string>& names) const {
    fail({.what =
              fmt::format("the file holds {} that the model of config.json would not read: {}",
                          names.size() == 1 ? "a tensor" : fmt::format("{} tensors", names.size()),
                          listed(names)),
          .where = files_.file_of(names.front()).string(),
          .cause = cause_of(names, read_names(), config_),
          .next = "use the config.json that was saved with these weights"});
  }

  void compare_shapes() const {
    std::vector<OtherShape> others;
    for (const auto& spec : table_) {
      const auto& found = files_.at(spec.name).shape;
      if (found != spec.shape) others.push_back({spec, found});
    }
    if (!others.empty()) fail_shapes(others);
  }

  // A map is a square of its slot's head width, and follows no size of its own.
  void check_maps(const std::vector<OtherShape>& others) const {
    const auto& system = attention_declaration(config_.attention, "");
    for (const OtherShape& other : others) {
      if (other.expected.role != Role::knock) return;  // the heads differ, not the maps alone
    }
    const OtherShape& shown = others.front();
    const std::string& name = shown.expected.name;
    for (const KnockPlace& place : system.places) {
      if (name.find(".knock_" + to_string(place.slot) + ".") == std::string::npos) continue;
      const bool values = config_.value_width() != config_.head_dim && place.values;
      fail({.what = fmt::format("{} does not fit the heads that it maps", name),
            .where = files_.file_of(name).string(),
            .expected =
                fmt::format("{}: the map of {} is a square of {} {}",
                            shape_text(shown.expected.shape), to_string(place.slot),
                            values ? "value_head_dim" : "head_dim", place.rows(config_).width),
            .found = shape_text(shown.found),
            .cause = "maps on q and k are as wide as keys, a map on v is as wide as values",
            .next = "use the maps that were saved with these weights"});
    }
  }

  [[noreturn]] void fail_shapes(const std::vector<OtherShape>& others) const {
    check_maps(others);
    const auto size = size_in_words(others, config_);
    const OtherShape& shown = size ? size->tensor : others.front();
    const std::string& name = shown.expected.name;
    Diagnosis d{
        .what = name + " has another shape than config.json describes",
        .where = files_.file_of(name).string(),
        .expected = shape_text(shown.expected.shape),
        .found = shape_text(shown.found) +
                 (others.size() > 1 ? fmt::format("; {} tensors differ", others.size()) : ""),
        .next = "use the config.json that was saved with these weights"};
    if (size) {
      d.what = fmt::format("{}: the file has {}, config.json says {}", name, size->words,
                           size->configured);
      d.cause = "config.json was edited: it describes the weights, it does not convert them";
      d.next = fmt::format("set `{}` to {} in config.json", size->key, size->found);
      if (size->key == "num_key_value_heads") {
        d.next += "; then convert the weights: kha convert MODEL OUT --kv-heads N";
      }
    }
    fail(d);
  }

  void require_numbers(const std::string& name) const {
    const TensorInfo& info = files_.at(name);
    if (is_convertible(info.dtype)) return;
    fail({.what = name + " holds no numbers that a model can use",
          .where = files_.file_of(name).string(),
          .expected = "F64, F32, F16 or BF16",
          .found = std::string(safetensors_name(info.dtype)),
          .cause = "the model is quantised"});
  }

  // A tied model reads the embedding; a stored head is only accepted silently when it is a copy.
  void compare_head() {
    require_numbers(head_name);
    const TensorInfo& head = files_.at(head_name);
    const TensorInfo& embedding = files_.at(embedding_name);
    if (head.shape == embedding.shape && same_values(head, embedding)) return;
    check_.warnings.push_back(fmt::format(
        "{} differs from {}, although config.json ties them: the embedding is used as the head and "
        "the stored head is not read. If the stored head is the right one, set tie_word_embeddings "
        "to false in config.json",
        head_name, embedding_name));
  }

  bool same_values(const TensorInfo& a, const TensorInfo& b) const {
    if (a.dtype != b.dtype) return files_.as_double(a.name) == files_.as_double(b.name);
    const auto one = files_.bytes(a.name), other = files_.bytes(b.name);
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0;
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  std::vector<ParameterSpec> table_;
  std::unordered_set<std::string> known_;
  std::string where_;
  int64_t predictor_tensors_ = 0;
  TensorCheck check_;
};

}  // namespace

TensorCheck check_tensors(const ModelFiles& files, const ModelConfig& config) {
  return Checker(files, config).run();
}

}  // namespace kha
