// Attention written out head by head, one text, one row a position: what the formulas share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/tiny_model.h"

namespace kha::test {

inline at::Tensor norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return gain * x / at::sqrt(x.pow(2).mean(-1, true) + eps);
}

// One row a position: channel i turns with channel i + R/2.
inline at::Tensor turn(const at::Tensor& x, double theta) {
  const int64_t half = x.size(1) / 2;
  at::Tensor y = x.clone();
  for (int64_t p = 0; p < x.size(0); ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(theta, -double(i) / double(half));
      const at::Tensor a = x[p][i], b = x[p][i + half];
      y[p][i] = a * std::cos(angle) - b * std::sin(angle);
      y[p][i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return y;
}

// The first `width` channels alone.
inline at::Tensor turn_first(const at::Tensor& x, int64_t width, double theta) {
  const int64_t rest = x.size(1) - width;
  return at::cat({turn(x.narrow(1, 0, width), theta), x.narrow(1, width, rest)}, 1);
}

// One head: each row sees itself and the rows before.
inline at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < q.size(0); ++i) {
    const at::Tensor scores =
        at::mv(k.narrow(0, 0, i + 1), q[i]) / std::sqrt(static_cast<double>(q.size(1)));
    const at::Tensor weights = at::exp(scores - scores.max());
    rows.push_back(at::mv(v.narrow(0, 0, i + 1).t(), weights / weights.sum()));
  }
  return at::stack(rows);
}

// Reads one layer's tensors; x is [T, d], a head is [T, width].
struct ByHand {
  const ModelConfig& c;
  const Parameters& parameters;

  at::Tensor weight(const std::string& name) const {
    return parameters.at(attention_prefix(0) + name + ".weight");
  }
  at::Tensor project(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = at::mm(x, weight(name).t());
    const at::Tensor bias = parameters.find(attention_prefix(0) + name + ".bias");
    return bias.defined() ? y + bias : y;
  }
  at::Tensor map(const at::Tensor& x, KnockSlot slot) const {
    const KnockKind kind = c.knocks.at(0).at(slot);
    const auto times = [&](const at::Tensor& y, const char* suffix) {
      return at::mm(y, parameters.at(knock_name(0, slot, suffix)).t());
    };
    if (kind == KnockKind::none) return x;
    if (kind == KnockKind::linear) return times(x, "weight");
    const at::Tensor gate = 2 * at::sigmoid(times(x, "gate.weight"));
    if (kind == KnockKind::gate) return x * gate;
    return times(times(x, "up.weight") * gate, "down.weight");
  }
  // QK-norm of one head, in models that have it.
  at::Tensor normed(const at::Tensor& x, const char* gain) const {
    return c.qk_norm ? norm(x, weight(gain), c.rms_norm_eps) : x;
  }
  at::Tensor out(const std::vector<at::Tensor>& heads) const {
    return project(at::cat(heads, 1), "o_proj");
  }
};

inline at::Tensor head_of(const at::Tensor& rows, int64_t head, int64_t width) {
  return rows.narrow(1, head * width, width);
}

// Of systems in which heads share more than keys and values (mixing_by_hand.cpp).
at::Tensor talking_by_hand(const ByHand& m, const at::Tensor& x);
at::Tensor collaborative_by_hand(const ByHand& m, const at::Tensor& x);

}  // namespace kha::test
