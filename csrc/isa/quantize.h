// Activations as int8: each row, each group of 32 columns, has a scale of its own.
//
// x ~ scale * q with scale = max|x| / 127 and q = x / scale rounded to nearest even, in -127..127.
// They are written as layout.h has them, with the sums that offsets of the weights' codes need.
#pragma once
#include "isa/simd.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

// 32 numbers of row `lane` of a tile.
template <int SUMS> INLINE void quantize_block(const float* x, Activations<SUMS>& a, int64_t lane) {
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
  store_codes(a.q[lane], v);
  a.scale[lane] = scale;
  // Sums of so few whole numbers are exact in float32, in any order.
  const V8 low = add(v[0], v[1]), high = add(v[2], v[3]);
  const float whole = sum(add(low, high));
  const float sums[2] = {SUMS == 1 ? whole : sum(low), sum(high)};
  a.minus_8_sum[lane] = -8 * int32_t(whole);
  for (int g = 0; g < SUMS; ++g) {
    a.scaled_sum[g][lane] = scale * sums[g];
    a.minus_128_sum[g][lane] = -128 * int32_t(sums[g]);
  }
}

template <int SUMS>
static void quantize_row(const float* x, Activations<SUMS>* operand, int64_t row, int64_t blocks) {
  Activations<SUMS>* tile = operand + row / TILE * blocks;
  for (int64_t b = 0; b < blocks; ++b) quantize_block(x + b * GROUP, tile[b], row % TILE);
}

}  // namespace stoker::STOKER_ISA
