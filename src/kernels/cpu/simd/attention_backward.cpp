// Causal attention, backward: for each block of keys, all queries that see it.
//
// With p_ts = e^(s_ts - sum_t): dp = dy V^T, ds = p (dp - mean_t), mean_t = dy_t . y_t;
// dV = p^T dy, dK = ds^T (scale Q), dQ = ds (scale K). Scores and p are formed again.
#include "kernels/cpu/simd/attention_block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"

namespace kha::cpu::KHA_SET {
namespace {

struct Workspace {
  float* means;  // [heads, T]
  float *key_panels, *value_panels, *keys;
  float *dkeys, *dvalues;
  float *queries, *grad, *weights, *slopes;
  std::int64_t size;

  Workspace(const AttentionGroup& in, float* space) {
    float* at = space;
    const auto take = [&](std::int64_t count) __attribute__((always_inline)) {
      float* const own = at;
      at += round_up(count, 16);
      return own;
    };
    const std::int64_t dim = in.keys.width, value_dim = in.values.width;
    means = take(in.heads * in.length);
    key_panels = take(panels_size(attention_rows, dim));
    value_panels = take(panels_size(attention_rows, value_dim));
    keys = take(block_size(dim));
    dkeys = take(block_size(dim));
    dvalues = take(block_size(value_dim));
    queries = take(block_size(dim));
    grad = take(block_size(value_dim));
    weights = take(block_size(attention_rows));
    slopes = take(block_size(attention_rows));
    size = at - space;
  }
};

float dot(const float* a, const float* b, std::int64_t count) {
  Vector sum = zero();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = fma(load(a + i), load(b + i), sum);
  if (i < count) sum = fma(load_first(a + i, count - i), load_first(b + i, count - i), sum);
  return sum_of_lanes(sum);
}

// Scores become p, and dp becomes ds; zero where nothing is seen.
void weigh(const Sight& sight, const float* sums, const float* means, float* scores,
           float* slopes) {
  for (std::int64_t r = 0; r < sight.rows; ++r) {
    const Vector sum = all(sums[r]), mean = all(means[r]);
    const std::int64_t seen = sight.seen_by(r);
    for (std::int64_t i = 0; i < seen; i += lanes) {
      const Vector p = falling_exponential(sub(load(scores + i), sum));
      store(scores + i, p);
      store(slopes + i, mul(p, sub(load(slopes + i), mean)));
    }
    fill(scores, seen, sight.columns_read(r), 0.0f);
    fill(slopes, seen, sight.columns_read(r), 0.0f);
    scores += score_stride();
    slopes += score_stride();
  }
}

// gradient [keys, dim] += weights^T rows, over the queries that see each tile of keys.
void add_transposed(const Sight& sight, const float* weights, const float* rows, std::int64_t dim,
                    float* gradient) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t key = 0; key < sight.keys; key += tile_rows) {
    const std::int64_t begin = sight.first_to_see(key);
    if (begin >= sight.rows) break;
    for (std::int64_t column = 0; column < padded_columns(dim); column += tile_columns) {
      tile<tile_rows, Side::transposed>(
          {weights + begin * score_stride() + key, score_stride(), rows + begin * stride + column,
           stride, sight.rows - begin},
          gradient + key * stride + column, stride,
          /*add_to_c=*/true);
    }
  }
}

// A tile of which only a corner exists.
void put_corner(const float* part, Rows<float> to, std::int64_t row, std::int64_t column,
                bool add_to_it) {
  for (std::int64_t r = row; r < smaller(row + tile_rows, to.count); ++r, part += tile_columns) {
    for (std::int64_t c = column; c < smaller(column + tile_columns, to.width); ++c) {
      to[r][c] = add_to_it ? to[r][c] + part[c - column] : part[c - column];
    }
  }
}

// dq [rows, dim] (+)= slopes * keys.
void add_query_gradient(const Sight& sight, const float* slopes, const float* keys, bool add_to_it,
                        Rows<float> dq) {
  const std::int64_t stride = block_stride(dq.width);
  alignas(64) float part[tile_rows * tile_columns];
  for (std::int64_t row = 0; row < sight.rows; row += tile_rows) {
    const float* const a = slopes + row * score_stride();
    const std::int64_t seen = sight.seen_by_tile(row);
    for (std::int64_t column = 0; column < dq.width; column += tile_columns) {
      const TileInput input{a, score_stride(), keys + column, stride, seen};
      if (row + tile_rows <= sight.rows && column + tile_columns <= dq.width) {
        tile<tile_rows, Side::rows>(input, dq[row] + column, dq.stride, add_to_it);
      } else {
        tile<tile_rows, Side::rows>(input, part, tile_columns, /*add_to_c=*/false);
        put_corner(part, dq, row, column, add_to_it);
      }
    }
  }
}

void put_block(const float* block, Rows<float> to, std::int64_t first, std::int64_t count) {
  for (std::int64_t r = 0; r < count; ++r) {
    copy_row(block + r * block_stride(to.width), to.width, to[first + r]);
  }
}

struct Call {
  const AttentionGroup& in;
  const AttentionResults& results;
  const AttentionPart& part;
  const AttentionGradients& gradients;
  const Workspace& space;

  std::int64_t last_query() const { return part.queries.first + part.queries.count; }
};

void note_means(const Call& call) {
  const AttentionGroup& in = call.in;
  for (std::int64_t h = 0; h < in.heads; ++h) {
    for (std::int64_t t = call.part.queries.first; t < call.last_query(); ++t) {
      call.space.means[h * in.length + t] =
          dot(call.results.grad.row(h, t), call.results.y.row(h, t), in.values.width);
    }
  }
}

// Queries and gradients of a block into the workspace, and from them weights and slopes.
void form_slopes(const Call& call, const Sight& sight, std::int64_t head, std::int64_t query) {
  const AttentionGroup& in = call.in;
  const Workspace& space = call.space;
  const GroupRows<const float>& grad = call.results.grad;
  const std::int64_t dim = in.keys.width, value_dim = in.values.width;
  const std::int64_t row = head * in.length + query, end = call.last_query();
  fill_scaled(in.queries.row(head, query), in.queries.stride, sight.rows, dim, in.scale,
              space.queries);
  fill_scaled(grad.row(head, query), grad.stride, sight.rows, value_dim, 1.0f, space.grad);
  const HeadView q = head_view(in.queries, head), dy = head_view(grad, head);
  Prefetch next_queries = prefetch_queries(q, query, end, dim);
  Prefetch next_grad = prefetch_queries(dy, query, end, value_dim);
  score_product(space.queries, space.key_panels, dim, sight, next_queries, space.weights);
  score_product(space.grad, space.value_panels, value_dim, sight, next_grad, space.slopes);
  weigh(sight, call.results.sums + row, space.means + row, space.weights, space.slopes);
}

// The keys of the workspace with one block of queries.
void add_block(const Call& call, std::int64_t head, std::int64_t query, std::int64_t key) {
  const Workspace& space = call.space;
  const std::int64_t dim = call.in.keys.width;
  const std::int64_t count = smaller(call.last_query() - query, attention_rows);
  const Sight sight = sight_of(call.in, {query, count}, key);
  form_slopes(call, sight, head, query);
  if (call.part.key_gradients) {
    add_transposed(sight, space.weights, space.grad, call.in.values.width, space.dvalues);
    add_transposed(sight, space.slopes, space.queries, dim, space.dkeys);
  }
  if (call.part.query_gradients) {
    const GroupRows<float>& dq = call.gradients.queries;
    add_query_gradient(sight, space.slopes, space.keys, /*add_to_it=*/key > 0,
                       {dq.row(head, query), sight.rows, dim, dq.stride});
  }
}

// The first block of the part's queries of which one sees the key.
std::int64_t first_block(const Call& call, std::int64_t key) {
  const std::int64_t first = key - (call.in.keys.count - call.in.length);
  const std::int64_t block = first < 0 ? 0 : first / attention_rows * attention_rows;
  return block < call.part.queries.first ? call.part.queries.first : block;
}

void take_keys(const Call& call, std::int64_t key, std::int64_t count) {
  const AttentionGroup& in = call.in;
  const Workspace& space = call.space;
  pack_panels(in.keys, key, count, space.key_panels);
  pack_panels(in.values, key, count, space.value_panels);
  fill_scaled(in.keys[key], in.keys.stride, count, in.keys.width, in.scale, space.keys);
  fill(space.dkeys, 0, block_size(in.keys.width), 0.0f);
  fill(space.dvalues, 0, block_size(in.values.width), 0.0f);
}

}  // namespace

std::int64_t attention_backward_workspace(const AttentionGroup& in) {
  return Workspace(in, nullptr).size;
}

void causal_attention_backward(const AttentionGroup& in, const AttentionResults& results,
                               const AttentionPart& part, const AttentionGradients& gradients,
                               float* workspace) {
  const Workspace space(in, workspace);
  const Call call{in, results, part, gradients, space};
  note_means(call);
  const std::int64_t end = part.keys.first + part.keys.count;
  for (std::int64_t key = part.keys.first; key < end; key += attention_rows) {
    const std::int64_t count = smaller(in.keys.count - key, attention_rows);
    take_keys(call, key, count);
    for (std::int64_t head = 0; head < in.heads; ++head) {
      for (std::int64_t query = first_block(call, key); query < call.last_query();
           query += attention_rows) {
        add_block(call, head, query, key);
      }
    }
    if (!part.key_gradients) continue;
    put_block(space.dkeys, gradients.keys, key, count);
    put_block(space.dvalues, gradients.values, key, count);
  }
}

}  // namespace kha::cpu::KHA_SET
