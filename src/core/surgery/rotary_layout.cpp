#include "core/surgery/rotary_layout.h"

#include <algorithm>
#include <numeric>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

using Order = std::vector<int64_t>;

// Of a projection: the rotated rows of its heads, or the columns that weigh them. Of a norm: the
// gain of its rotated channels, one head.
struct RotatedTensor {
  std::string name;
  HeadRows rows;
  bool columns = false;
};

// A map in front of the rotation: of its head, `width` channels from `begin` on are rotated.
struct RotatedMap {
  KnockSlot slot;
  int64_t begin, width;
};

struct RotatedParts {
  std::vector<RotatedTensor> tensors;
  std::vector<RotatedMap> maps = {};
};

HeadRows one_head(int64_t width, int64_t begin = 0) {
  return {.heads = 1, .width = width, .stride = width, .begin = begin};
}

// The first rotary_width() channels of each head, which may be all.
RotatedParts whole_heads_parts(const ModelConfig& c) {
  const int64_t width = c.rotary_width();
  const auto heads = [&](int64_t count) { return HeadRows{count, width, c.head_dim, 0}; };
  return {.tensors = {{"q_proj", heads(c.num_attention_heads)},
                      {"k_proj", heads(c.num_key_value_heads)},
                      {"q_norm", one_head(width)},
                      {"k_norm", one_head(width)}},
          .maps = {{KnockSlot::q, 0, width}, {KnockSlot::k, 0, width}}};
}

// Whole blocks of D among the shared channels; each head's row of `mixing` weighs those of queries.
RotatedParts shared_parts(const ModelConfig& c) {
  const HeadRows blocks{c.shared_key_width / c.head_dim, c.head_dim, c.head_dim, 0};
  return {
      .tensors = {{"q_proj", blocks}, {"k_proj", blocks}, {"mixing", blocks, /*columns=*/true}}};
}

// The last d_R channels of a query's D, and one key.
RotatedParts tied_parts(const ModelConfig& c) {
  const int64_t rotated = c.rope_head_dim, plain = c.head_dim - rotated;
  return {.tensors = {{"q_proj", {c.num_attention_heads, rotated, c.head_dim, plain}},
                      {"k_rope_proj", one_head(rotated)},
                      {"q_rope_norm", one_head(rotated)},
                      {"k_rope_norm", one_head(rotated)}},
          .maps = {{KnockSlot::q, plain, rotated}}};
}

// The d_R channels behind a query's D, and one key behind the latents. No map is rotated.
RotatedParts latent_parts(const ModelConfig& c) {
  const int64_t rotated = c.rope_head_dim, stride = c.head_dim + rotated;
  return {.tensors = {{c.query_latent > 0 ? "q_b_proj" : "q_proj",
                       {c.num_attention_heads, rotated, stride, c.head_dim}},
                      {"kv_a_proj_with_mqa", one_head(rotated, c.latent_heads * c.kv_latent)}}};
}

bool has_tensors(const ModelConfig& c, const std::vector<std::string>& names) {
  const auto tensors = attention_declaration(c.attention, "").tensors(c);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const AttentionTensor& tensor) { return tensor.name == name; });
  });
}

RotatedParts rotated_parts(const ModelConfig& c, const std::string& where) {
  if (has_tensors(c, {"kv_a_proj_with_mqa"})) return latent_parts(c);
  if (has_tensors(c, {"kv_proj", "k_rope_proj"})) return tied_parts(c);
  if (has_tensors(c, {"q_proj", "k_proj", "mixing"})) return shared_parts(c);
  if (has_tensors(c, {"q_proj", "k_proj"})) return whole_heads_parts(c);
  fail({.what = "the rotary layout of attention `" + c.attention + "` cannot be converted",
        .where = where,
        .expected = "an attention whose rotated channels are rows of its projections",
        .found = c.attention});
}

void permute_rows(std::span<double> weight, const HeadRows& rows, const Order& source,
                  int64_t inputs) {
  std::vector<double> moved(static_cast<size_t>(rows.width * inputs));
  for (int64_t head = 0; head < rows.heads; ++head) {
    double* block = weight.data() + (rows.begin + head * rows.stride) * inputs;
    for (int64_t c = 0; c < rows.width; ++c) {
      std::copy_n(block + source[c] * inputs, inputs, moved.data() + c * inputs);
    }
    std::copy(moved.begin(), moved.end(), block);
  }
}

// The channels of a map's head, `rotated` of them from `begin` on in another order.
Order channels_of_map(int64_t head_width, int64_t begin, const Order& source) {
  Order order(static_cast<size_t>(head_width));
  std::iota(order.begin(), order.end(), 0);
  for (size_t c = 0; c < source.size(); ++c) order[begin + c] = begin + source[c];
  return order;
}

// M of y = M x, [n, n]: where its channels are those of the head they move, hidden ones stay.
TensorEdit permute_matrix(Order order, bool rows, bool columns) {
  return [order = std::move(order), rows, columns](std::span<double> matrix) {
    const size_t n = order.size();
    const std::vector<double> old(matrix.begin(), matrix.end());
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        matrix[i * n + j] = old[(rows ? order[i] : i) * n + (columns ? order[j] : j)];
      }
    }
  };
}

class Planner {
 public:
  Planner(const ModelConfig& config, const std::string& layout, const std::string& where)
      : config_(config), parts_(rotated_parts(config, where)), layout_(layout) {
    plan_.after = config;
    plan_.after.rotary_layout = layout;
  }

  RotaryPlan run() {
    for (layer_ = 0; layer_ < config_.num_hidden_layers; ++layer_) {
      for (const RotatedTensor& tensor : parts_.tensors) add_tensor(tensor);
      for (const RotatedMap& map : parts_.maps) add_map(map);
    }
    return std::move(plan_);
  }

 private:
  void add_tensor(const RotatedTensor& rotated) {
    const auto& system = attention_declaration(config_.attention, "");
    const std::string name = attention_prefix(layer_) + rotated.name;
    for (const AttentionTensor& tensor : system.tensors(config_)) {
      if (tensor.name != rotated.name) continue;
      if (rotated.columns) {
        add_columns(name + ".weight", rotated.rows, tensor.inputs);
        continue;
      }
      add_rows(name + ".weight", rotated.rows, std::max<int64_t>(tensor.inputs, 1));
      if (tensor.may_have_bias && config_.attention_bias) add_rows(name + ".bias", rotated.rows, 1);
    }
  }

  void add_rows(const std::string& name, const HeadRows& rows, int64_t inputs) {
    plan_.edits[name] = [rows, inputs,
                         source = rotary_sources(rows.width, layout_)](std::span<double> weight) {
      permute_rows(weight, rows, source, inputs);
    };
  }

  // Each row of the weight is a column of one input to permute_rows.
  void add_columns(const std::string& name, const HeadRows& columns, int64_t width) {
    plan_.edits[name] = [columns, width, source = rotary_sources(columns.width, layout_)](
                            std::span<double> weight) {
      for (size_t row = 0; row < weight.size(); row += width) {
        permute_rows(weight.subspan(row, width), columns, source, 1);
      }
    };
  }

  // `up` and `gate` of an mlp give hidden channels, `down` takes them; a gate alone gives those of
  // the head, as a linear map does.
  void add_map(const RotatedMap& map) {
    const KnockKind kind = config_.knocks.at(layer_).at(map.slot);
    const bool hidden = kind == KnockKind::mlp;
    const Order order =
        channels_of_map(config_.head_dim, map.begin, rotary_sources(map.width, layout_));
    for (const KnockTensor& tensor : knock_tensors(kind)) {
      const bool gives = !hidden || tensor.suffix == "down.weight";
      const bool takes = !hidden || tensor.suffix != "down.weight";
      plan_.edits[knock_name(layer_, map.slot, tensor.suffix)] =
          permute_matrix(order, gives, takes);
    }
  }

  const ModelConfig& config_;
  RotatedParts parts_;
  std::string layout_;
  int64_t layer_ = 0;
  RotaryPlan plan_;
};

}  // namespace

std::vector<int64_t> rotary_sources(int64_t width, const std::string& to_layout) {
  const int64_t half = width / 2;
  Order source;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t interleaved = c < half ? 2 * c : 2 * (c - half) + 1;
    source.push_back(to_layout == "half_split" ? interleaved : c % 2 * half + c / 2);
  }
  return source;
}

RotaryPlan plan_rotary_layout(const ModelConfig& config, const std::string& to_layout,
                              const std::string& where) {
  if (to_layout != "half_split" && to_layout != "interleaved") {
    fail({.what = "unknown rotary layout `" + to_layout + "`",
          .where = where,
          .expected = "half_split or interleaved",
          .found = to_layout});
  }
  if (config.rotary_layout == to_layout) {
    fail({.what = "nothing to convert: the rotary layout is " + to_layout + " already",
          .where = where,
          .found = to_layout,
          .next = "nothing was written; use the model as it is"});
  }
  return Planner(config, to_layout, where).run();
}

}  // namespace kha
