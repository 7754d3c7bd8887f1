// Causal attention, forward: blocks of queries over blocks of keys, the softmax kept up to date as
// keys come (no row of scores is ever whole). Keys and values are packed for several blocks of
// queries at a time: for all at once a long text would be in memory again for each thread, for one
// the packing takes a quarter of the time.
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

// A block of queries of one head while keys pass by.
struct QueryBlock {
  std::int64_t head, query, count;
  float *queries, *y;
  Softmax softmax;
};

// Of one packing.
constexpr std::int64_t held_blocks = 8;

struct Workspace {
  float *keys, *values, *scores, *blocks;
  std::int64_t block, size;

  Workspace(const AttentionGroup& in, float* space) : keys(space) {
    values = keys + round_up(panels_size(attention_rows, in.keys.width), 16);
    scores = values + block_size(in.values.width);
    blocks = scores + block_size(attention_rows);
    block = block_size(in.keys.width) + block_size(in.values.width);
    const std::int64_t all = in.heads * ((in.length + attention_rows - 1) / attention_rows);
    size = blocks - space + smaller(held_blocks, all) * block;
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
    softmax.decline[r] = minus_infinity;
    fill(scores, seen, sight.columns_read(r), minus_infinity);
    if (seen == 0) {
      softmax.decline[r] = 0.0f;
      continue;
    }
    const float before = softmax.largest[r], own = largest_score(scores, round_up(seen, lanes));
    softmax.largest[r] = own > before ? own : before;
    // Nothing counted before: minus infinity less itself would be no number.
    if (before > minus_infinity) softmax.decline[r] = before - softmax.largest[r];
  }
  for (std::int64_t r = 0; r < attention_rows; r += lanes) {
    store(softmax.decline + r, falling_exponential(load(softmax.decline + r)));
  }
}

// Scores become e^(score - largest).
void exponentiate(const Sight& sight, float* scores, Softmax& softmax) {
  for (std::int64_t r = 0; r < sight.rows; ++r, scores += score_stride()) {
    // While every score is minus infinity, each weighs nothing.
    const float shift = softmax.largest[r] == minus_infinity ? 0.0f : softmax.largest[r];
    const Vector largest = all(shift);
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

void take_queries(const AttentionGroup& in, std::int64_t head, std::int64_t query,
                  std::int64_t count, float* space, QueryBlock& block) {
  block.head = head;
  block.query = query;
  block.count = count;
  block.queries = space;
  block.y = space + block_size(in.keys.width);
  fill_scaled(in.queries.row(head, query), in.queries.stride, count, in.keys.width, in.scale,
              block.queries);
  fill(block.softmax.largest, 0, attention_rows, minus_infinity);
  fill(block.softmax.sum, 0, attention_rows, 0.0f);
  fill(block.softmax.decline, 0, attention_rows, 0.0f);
}

// The packed keys from `key` on.
void attend_keys(const Sight& sight, const AttentionGroup& in, bool first, const Workspace& space,
                 Prefetch& next, QueryBlock& block) {
  const std::int64_t dim = in.values.width;
  score_product(block.queries, space.keys, in.keys.width, sight, next, space.scores);
  note_largest(sight, space.scores, block.softmax);
  exponentiate(sight, space.scores, block.softmax);
  if (!first) scale_rows(sight, block.softmax, block_stride(dim), block.y);
  add_values(sight, space.scores, space.values, dim, /*add_to_y=*/!first, block.y);
}

HeadView rows_behind(const Rows<const float>& rows) {
  return {.data = rows.data, .heads = 1, .outer_stride = rows.stride, .head_stride = 0};
}

// `count` blocks, of which the last sees the most keys, over all that they see.
void attend_blocks(const AttentionGroup& in, const Workspace& space, QueryBlock* blocks,
                   std::int64_t count) {
  const QueryBlock& last = blocks[count - 1];
  const std::int64_t seen = last.query + last.count + in.keys.count - in.length;
  const HeadView keys = rows_behind(in.keys), values = rows_behind(in.values);
  for (std::int64_t key = 0; key < seen; key += attention_rows) {
    const std::int64_t own = smaller(seen - key, attention_rows);
    pack_panels(in.keys, key, own, space.keys);
    fill_scaled(in.values[key], in.values.stride, own, in.values.width, 1.0f, space.values);
    Prefetch next_keys = prefetch_behind(keys, {0, seen}, key, own, in.keys.width);
    Prefetch next_values = prefetch_behind(values, {0, seen}, key, own, in.values.width);
    for (std::int64_t i = 0; i < count; ++i) {
      const Sight sight = sight_of(in, {blocks[i].query, blocks[i].count}, key);
      if (sight.seen_by(sight.rows - 1) == 0) continue;
      attend_keys(sight, in, key == 0, space, i % 2 == 0 ? next_keys : next_values, blocks[i]);
    }
  }
}

void put_rows(const QueryBlock& block, std::int64_t dim, GroupRows<float> to, float* sums) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t r = 0; r < block.count; ++r) {
    const Vector by = all(block.softmax.sum[r]);
    const float* const from = block.y + r * stride;
    float* const y = to.row(block.head, block.query + r);
    std::int64_t i = 0;
    for (; i + lanes <= dim; i += lanes) store(y + i, div(load(from + i), by));
    if (i < dim) store_first(y + i, div(load(from + i), by), dim - i);
    sums[block.query + r] =
        static_cast<float>(static_cast<double>(block.softmax.largest[r]) +
                           __builtin_log(static_cast<double>(block.softmax.sum[r])));
  }
}

}  // namespace

std::int64_t attention_workspace(const AttentionGroup& in) { return Workspace(in, nullptr).size; }

void causal_attention(const AttentionGroup& in, RowRange range, GroupRows<float> y, float* sums,
                      float* workspace) {
  const Workspace space(in, workspace);
  const std::int64_t end = range.first + range.count;
  QueryBlock blocks[held_blocks];
  std::int64_t held = 0;
  const auto attend_held = [&]() __attribute__((always_inline)) {
    if (held > 0) attend_blocks(in, space, blocks, held);
    for (std::int64_t i = 0; i < held; ++i) {
      put_rows(blocks[i], in.values.width, y, sums + blocks[i].head * in.length);
    }
    held = 0;
  };
  for (std::int64_t query = range.first; query < end; query += attention_rows) {
    for (std::int64_t head = 0; head < in.heads; ++head) {
      float* const own = space.blocks + held * space.block;
      take_queries(in, head, query, smaller(end - query, attention_rows), own, blocks[held++]);
      if (held == held_blocks) attend_held();
    }
  }
  attend_held();
}

}  // namespace kha::cpu::KHA_SET
