// Causal attention, forward: blocks of queries over blocks of keys, the softmax kept up to date as
// keys come (no row of scores is ever whole).
#include "kernels/cpu/simd/attention_block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"

namespace kha::cpu::KHA_SET {
namespace {

constexpr float minus_infinity = -__builtin_inff();

// Of each query of a block: the largest score so far, the sum of e^(score - largest), and what the
// sums before the present keys are to be multiplied by.
struct Softmax {
  alignas(64) float largest[attention_rows];
  alignas(64) float sum[attention_rows];
  alignas(64) float decline[attention_rows];
};

// fill_scaled ends with a whole tile.
std::int64_t values_size(std::int64_t keys, std::int64_t dim) {
  return round_up(keys, tile_rows) * block_stride(dim);
}

struct Workspace {
  float *keys, *values, *queries, *scores, *y;

  Workspace(const AttentionGroup& in, float* space) : keys(space) {
    values = keys + round_up(panels_size(in.keys.count, in.keys.width), 16);
    queries = values + values_size(in.keys.count, in.values.width);
    scores = queries + block_size(in.keys.width);
    y = scores + block_size(attention_rows);
  }
};

KHA_INLINE float largest_score(const float* scores, std::int64_t width) {
  Vector most = load(scores);
  for (std::int64_t i = lanes; i < width; i += lanes) most = max(most, load(scores + i));
  alignas(64) float parts[lanes];
  store(parts, most);
  float largest = parts[0];
  for (std::int64_t i = 1; i < lanes; ++i) largest = parts[i] > largest ? parts[i] : largest;
  return largest;
}

// Scores that are not seen become minus infinity, and the largest scores known.
void note_largest(const Sight& sight, float* scores, Softmax& softmax) {
  for (std::int64_t r = 0; r < sight.rows; ++r, scores += score_stride()) {
    const std::int64_t seen = sight.seen_by(r);
    softmax.decline[r] = 0.0f;
    fill(scores, seen, sight.columns_read(r), minus_infinity);
    if (seen == 0) continue;
    const float before = softmax.largest[r], own = largest_score(scores, round_up(seen, lanes));
    softmax.largest[r] = own > before ? own : before;
    softmax.decline[r] = before - softmax.largest[r];
  }
  for (std::int64_t r = 0; r < attention_rows; r += lanes) {
    store(softmax.decline + r, falling_exponential(load(softmax.decline + r)));
  }
}

// Scores become e^(score - largest).
void exponentiate(const Sight& sight, float* scores, Softmax& softmax) {
  for (std::int64_t r = 0; r < sight.rows; ++r, scores += score_stride()) {
    const Vector largest = all(softmax.largest[r]);
    Vector sum = zero();
    for (std::int64_t i = 0; i < sight.columns_read(r); i += lanes) {
      const Vector e = falling_exponential(sub(load(scores + i), largest));
      store(scores + i, e);
      sum = add(sum, e);
    }
    softmax.sum[r] = softmax.sum[r] * softmax.decline[r] + sum_of_lanes(sum);
  }
}

void scale_rows(const Sight& sight, const Softmax& softmax, std::int64_t stride, float* y) {
  for (std::int64_t r = 0; r < sight.rows; ++r) {
    if (softmax.decline[r] == 1.0f) continue;
    const Vector by = all(softmax.decline[r]);
    for (std::int64_t i = 0; i < stride; i += lanes) {
      store(y + r * stride + i, mul(load(y + r * stride + i), by));
    }
  }
}

// y += weights * values, over the keys that each tile of queries sees.
void add_values(const Sight& sight, const float* weights, const float* values, std::int64_t dim,
                bool add_to_y, float* y) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t row = 0; row < sight.rows; row += tile_rows) {
    const std::int64_t seen = sight.seen_by_tile(row);
    for (std::int64_t column = 0; column < padded_columns(dim); column += tile_columns) {
      tile<tile_rows, Side::rows>(
          {weights + row * score_stride(), score_stride(), values + column, stride, seen},
          y + row * stride + column, stride, add_to_y);
    }
  }
}

void begin(Softmax& softmax) {
  for (std::int64_t r = 0; r < attention_rows; ++r) {
    softmax.largest[r] = minus_infinity;
    softmax.sum[r] = softmax.decline[r] = 0.0f;
  }
}

// One block of queries, already in the workspace, over all keys that it sees.
void attend_block(const AttentionGroup& in, RowRange queries, const Workspace& space,
                  const Prefetch& next, Softmax& softmax) {
  const std::int64_t dim = in.values.width, stride = block_stride(dim);
  begin(softmax);
  for (std::int64_t key = 0; key < in.keys.count; key += attention_rows) {
    const Sight sight = sight_of(in, queries, key);
    if (sight.seen_by(sight.rows - 1) == 0) break;
    score_product(space.queries, space.keys + key * in.keys.width, in.keys.width, sight, next,
                  space.scores);
    note_largest(sight, space.scores, softmax);
    exponentiate(sight, space.scores, softmax);
    if (key > 0) scale_rows(sight, softmax, stride, space.y);
    add_values(sight, space.scores, space.values + key * stride, dim, key > 0, space.y);
  }
}

void put_rows(const float* block, const Softmax& softmax, std::int64_t count, std::int64_t dim,
              float* y, std::int64_t y_stride, float* sums) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t r = 0; r < count; ++r, y += y_stride, block += stride) {
    const Vector by = all(softmax.sum[r]);
    std::int64_t i = 0;
    for (; i + lanes <= dim; i += lanes) store(y + i, div(load(block + i), by));
    if (i < dim) store_first(y + i, div(load(block + i), by), dim - i);
    sums[r] = static_cast<float>(static_cast<double>(softmax.largest[r]) +
                                 __builtin_log(static_cast<double>(softmax.sum[r])));
  }
}

}  // namespace

std::int64_t attention_workspace(const AttentionGroup& in) {
  return round_up(panels_size(in.keys.count, in.keys.width), 16) +
         values_size(in.keys.count, in.values.width) + block_size(in.keys.width) +
         block_size(attention_rows) + block_size(in.values.width);
}

void causal_attention(const AttentionGroup& in, RowRange range, GroupRows<float> y, float* sums,
                      float* workspace) {
  const Workspace space(in, workspace);
  const std::int64_t dim = in.keys.width, end = range.first + range.count;
  const std::int64_t seen = in.keys.count - in.length + end;
  pack_panels(in.keys, 0, seen, space.keys);
  fill_scaled(in.values.data, in.values.stride, seen, in.values.width, 1.0f, space.values);
  Softmax softmax;
  for (std::int64_t head = 0; head < in.heads; ++head, sums += in.length) {
    const HeadView rows = head_view(in.queries, head);
    for (std::int64_t query = range.first; query < end; query += attention_rows) {
      const std::int64_t count = smaller(end - query, attention_rows);
      fill_scaled(in.queries.row(head, query), in.queries.stride, count, dim, in.scale,
                  space.queries);
      attend_block(in, {query, count}, space, prefetch_queries(rows, query, end, dim), softmax);
      put_rows(space.y, softmax, count, in.values.width, y.row(head, query), y.stride,
               sums + query);
    }
  }
}

}  // namespace kha::cpu::KHA_SET
