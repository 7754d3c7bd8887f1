// Talking heads and collaborative attention written out, a position and a head at a time.
#include "model/attention_by_hand.h"

namespace kha::test {
namespace {

at::Tensor softmax(const at::Tensor& scores) {
  const at::Tensor weights = at::exp(scores - scores.max());
  return weights / weights.sum();
}

}  // namespace

// One position: J_m = K_m q_m / sqrt(D), L_a = sum_m P[a, m] J_m, W_a = softmax(L_a),
// U_v = sum_a R[v, a] W_a, o_v = V_v^T U_v.
at::Tensor talking_by_hand(const ByHand& m, const at::Tensor& x) {
  const int64_t width = m.c.head_dim, count = m.c.num_attention_heads;
  const at::Tensor q = m.project(x, "q_proj"), k = m.project(x, "k_proj"),
                   v = m.project(x, "v_proj"), p = m.weight("logit_mix"),
                   r = m.weight("weight_mix");
  const auto feature = [&](const at::Tensor& rows, int64_t head, KnockSlot slot, const char* gain) {
    return turn(m.normed(m.map(head_of(rows, head, width), slot), gain), m.c.rope_theta);
  };
  std::vector<at::Tensor> queries, keys, values;
  for (int64_t h = 0; h < count; ++h) {
    queries.push_back(feature(q, h, KnockSlot::q, "q_norm"));
    keys.push_back(feature(k, h / m.c.group(), KnockSlot::k, "k_norm"));
    values.push_back(m.map(head_of(v, h / m.c.group(), width), KnockSlot::v));
  }
  std::vector<std::vector<at::Tensor>> rows(count);
  for (int64_t i = 0; i < x.size(0); ++i) {
    std::vector<at::Tensor> weights;
    for (int64_t a = 0; a < count; ++a) {
      at::Tensor logits = at::zeros({i + 1}, at::kDouble);
      for (int64_t b = 0; b < count; ++b) {
        logits = logits + p[a][b] * at::mv(keys[b].narrow(0, 0, i + 1), queries[b][i]);
      }
      weights.push_back(softmax(logits / std::sqrt(static_cast<double>(width))));
    }
    for (int64_t a = 0; a < count; ++a) {
      at::Tensor mixed = at::zeros({i + 1}, at::kDouble);
      for (int64_t b = 0; b < count; ++b) mixed = mixed + r[a][b] * weights[b];
      rows[a].push_back(at::mv(values[a].narrow(0, 0, i + 1).t(), mixed));
    }
  }
  std::vector<at::Tensor> heads;
  for (const auto& of_head : rows) heads.push_back(at::stack(of_head));
  return m.out(heads);
}

// Head i: logits ((x Q * m_i) turned . (y K) turned + y . w_i) / sqrt(D); blocks of D channels
// turn.
at::Tensor collaborative_by_hand(const ByHand& m, const at::Tensor& x) {
  const int64_t width = m.c.head_dim, shared = m.c.shared_key_width;
  const auto turn_blocks = [&](const at::Tensor& rows) {
    std::vector<at::Tensor> blocks;
    int64_t begin = 0;
    for (; begin + width <= shared; begin += width) {
      blocks.push_back(turn(rows.narrow(1, begin, width), m.c.rope_theta));
    }
    blocks.push_back(rows.narrow(1, begin, shared - begin));
    return at::cat(blocks, 1);
  };
  const at::Tensor q = m.project(x, "q_proj"), k = turn_blocks(m.project(x, "k_proj")),
                   v = m.project(x, "v_proj");
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < m.c.num_attention_heads; ++h) {
    const at::Tensor query = turn_blocks(q * m.weight("mixing")[h]);
    const at::Tensor value = m.map(head_of(v, h, width), KnockSlot::v);
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < x.size(0); ++i) {
      at::Tensor logits = at::mv(k.narrow(0, 0, i + 1), query[i]);
      if (m.c.content_bias) {
        logits = logits + at::mv(x.narrow(0, 0, i + 1), m.weight("content_bias")[h]);
      }
      rows.push_back(at::mv(value.narrow(0, 0, i + 1).t(),
                            softmax(logits / std::sqrt(static_cast<double>(width)))));
    }
    heads.push_back(at::stack(rows));
  }
  return m.out(heads);
}

}  // namespace kha::test
