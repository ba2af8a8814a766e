// Activations as int8: each row, each group of 32 columns, has a scale of its own.
//
// x ~ scale * q with scale = max|x| / 127 and q = x / scale rounded to nearest even. Rows are
// laid out in tiles of 4, as the dot products read them (rows at a stride that is a power of two
// would fall on the same cache lines):
//   q  [tile][block of 32][4 rows][32]  Q = int8_t, or int16_t where int16 is multiplied
//   s  [tile][block of 32][1 + SUMS][4 rows]  the scale, then scale * (sum of q) for each of the
//                                             SUMS groups of columns, which the minima multiply
#pragma once
#include "isa/simd.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

template <class Q, int SUMS> struct Activations {
  static constexpr int S = 1 + SUMS;
  Q* q;
  float* s;
  int64_t blocks;

  static Activations in(void* memory, int64_t M, int64_t blocks) {
    const int64_t tiles = (M + TILE - 1) / TILE;
    Q* q = static_cast<Q*>(memory);
    return {q, reinterpret_cast<float*>(q + tiles * blocks * TILE * GROUP), blocks};
  }
  const Q* codes(int64_t row) const { return q + row / TILE * blocks * TILE * GROUP; }
  const float* scales(int64_t row) const { return s + row / TILE * blocks * S * TILE; }
};

template <class Q, int SUMS>
INLINE void quantize_block(const float* x, Q* q, float* s) {
  V8 v[4];
  for (int i = 0; i < 4; ++i) v[i] = load(x + 8 * i);
  const V8 largest =
      max(max(magnitude(v[0]), magnitude(v[1])), max(magnitude(v[2]), magnitude(v[3])));
  const float peak = top(largest);
  // So small a peak has no finite inverse; its products vanish in any sum that matters.
  const float inverse = peak > 1e-35f ? 127.0f / peak : 0.0f;
  const float scale = peak > 1e-35f ? peak / 127.0f : 0.0f;
  for (V8& r : v) {
    r = round_even(mul(r, splat(inverse)));
    r = min(max(r, splat(-127.0f)), splat(127.0f));
  }
  store_codes(q, v);
  s[0] = scale;
  // Sums of so few whole numbers are exact in float32, in any order.
  const V8 low = add(v[0], v[1]), high = add(v[2], v[3]);
  if constexpr (SUMS == 1) {
    s[TILE] = scale * sum(add(low, high));
  } else {
    s[TILE] = scale * sum(low), s[2 * TILE] = scale * sum(high);
  }
}

template <class Q, int SUMS>
static void quantize_row(const float* x, const Activations<Q, SUMS>& a, int64_t row) {
  const int64_t tile = row / TILE, lane = row % TILE;
  for (int64_t b = 0; b < a.blocks; ++b) {
    const int64_t at = tile * a.blocks + b;
    quantize_block<Q, SUMS>(x + b * GROUP, a.q + (at * TILE + lane) * GROUP,
                            a.s + at * Activations<Q, SUMS>::S * TILE + lane);
  }
}

}  // namespace stoker::STOKER_ISA
