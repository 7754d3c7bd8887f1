// The one matrix product of the map kernels: a tile of C in registers.
//
// C [M, tile_columns] (+)= sum over k < depth of a(i, k) * b[k, :], accumulated in registers over
// the whole depth. What decides the speed is that the loop holds nothing but loads, broadcasts and
// multiply-adds of registers: left alone, GCC folds loads into the multiply-adds and spills
// (measured: the same loop then runs anywhere between a third and all of the processor's rate).
// Hence the pins, and a function of its own, not inlined, for each height.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

// A tile is tile_vectors vectors wide and tile_rows high: with the vectors of b and one broadcast
// it fills the registers, of which AVX2 has 16 and AVX-512 has 32. The low tile is for heights that
// are no multiple; its chains of multiply-adds still hide their latency.
constexpr int tile_vectors = lanes == 1 ? 4 : 2;
constexpr int tile_rows = lanes == 16 ? 12 : lanes == 8 ? 6 : 2;
constexpr int low_tile_rows = lanes == 16 ? 8 : lanes == 8 ? 4 : 1;
constexpr int tile_steps = 8;
constexpr std::int64_t tile_columns = tile_vectors * lanes;

// Keeps a value in a register: the compiler must not fold its load into the next operation.
KHA_INLINE void pin([[maybe_unused]] Vector& value) {
#if defined(__AVX512F__) && !defined(KHA_VECTOR)
  asm volatile("" : "+v"(value));
#elif defined(__AVX2__) && !defined(KHA_VECTOR)
  asm volatile("" : "+x"(value));
#endif
}

// sum += a * b, in the accumulator's own register and in the order written.
KHA_INLINE void add_to(Vector& sum, const Vector& a, const Vector& b) {
#if defined(__AVX512F__) && !defined(KHA_VECTOR)
  asm volatile("vfmadd231ps %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
#elif defined(__AVX2__) && !defined(KHA_VECTOR)
  asm volatile("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
  sum = fma(a, b, sum);
#endif
}

// How a(i, k) lies: rows of A as they are, or A transposed, where i runs along adjacent values.
enum class Side { rows, transposed };

struct TileInput {
  const float* a;  // a(i, k) = a[i * a_stride + k], transposed a[k * a_stride + i]
  std::int64_t a_stride;
  const float* b;  // b[k * b_stride + column]
  std::int64_t b_stride;
  std::int64_t depth;
};

// One step of the depth: a row of b with M values of a.
template <int M, Side side, int V>
KHA_INLINE void add_step(Vector (&sum)[M][V], const float* a, std::int64_t a_stride,
                         const float* b) {
  Vector row[V];
#pragma GCC unroll 4
  for (int j = 0; j < V; ++j) {
    row[j] = load(b + j * lanes);
    pin(row[j]);
  }
#pragma GCC unroll 32
  for (int i = 0; i < M; ++i) {
    Vector value = all(a[side == Side::rows ? i * a_stride : i]);
    pin(value);
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) add_to(sum[i][j], value, row[j]);
  }
}

// M rows and V vectors high and wide; V = tile_vectors but for products of a few columns.
template <int M, Side side, int V = tile_vectors>
[[gnu::noinline]] static void tile(const TileInput& in, float* c, std::int64_t c_stride,
                                   bool add_to_c) {
  Vector sum[M][V];
#pragma GCC unroll 32
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      sum[i][j] = add_to_c ? load(c + i * c_stride + j * lanes) : zero();
    }
  }
  const float *a = in.a, *b = in.b;
  const std::int64_t a_stride = in.a_stride, b_stride = in.b_stride;
  const std::int64_t a_step = side == Side::rows ? 1 : a_stride;
  std::int64_t k = in.depth;
  // Several steps a turn: few enough turns that the processor foresees the last one.
  for (; k >= tile_steps; k -= tile_steps) {
#pragma GCC unroll 8
    for (int step = 0; step < tile_steps; ++step) {
      add_step<M, side, V>(sum, a, a_stride, b);
      a += a_step;
      b += b_stride;
    }
  }
  for (; k > 0; --k) {
    add_step<M, side, V>(sum, a, a_stride, b);
    a += a_step;
    b += b_stride;
  }
#pragma GCC unroll 32
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(c + i * c_stride + j * lanes, sum[i][j]);
  }
}

}  // namespace kha::cpu::KHA_SET
