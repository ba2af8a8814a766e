// Passes over a row of logits, in blocks of 64.
//
//   logits   | 64 | 64 | 64 | ...     block_maxima    masses of a block   | 8 | 8 | ... | 8 |
//   maxima   |  1 |  1 |  1 | ...                     each 64 bits, and their sum
//
// block_maxima is bound by the read of what the head has just written. masses costs some 35
// instructions for 8 logits. Every product and sum of it is rounded on its own, so all instruction
// sets give the same masses, to the bit; their sums are whole numbers and have no order.
#include "isa/ops.h"
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

bool block_maxima(const float* x, int64_t n, float* out) {
  V8 nan_seen = zero();  // a sum of numbers below 0, which only a NaN can make NaN
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    V8 largest = load(x + i), negative = zero();
    for (int64_t j = 0; j < BLOCK; j += 8) {
      const V8 v = load(x + i + j);
      largest = max(largest, v);
      negative = add(negative, min(zero(), v));
    }
    nan_seen = add(nan_seen, negative);
    *out++ = top(largest);
  }
  float rest = 0.0f;
  if (i < n) {
    float largest = x[i];
    for (; i < n; ++i) {
      largest = most(largest, x[i]);
      rest += x[i] < 0.0f ? x[i] : x[i] * 0.0f;
    }
    *out = largest;
  }
  const float total = sum(nan_seen) + rest;
  return total == total;
}

// 2^y for y in -40..0: n = y to the nearest, and the polynomial of degree 5 that is least wrong, by
// 1e-7 of the result, for f = y - n in -1/2..1/2 and not wrong at all for 0.
INLINE V8 exp2(V8 y) {
  const V8 n = round_even(y), f = sub(y, n);
  V8 p = splat(0x1.5bba14p-10f);
  p = add(mul(p, f), splat(0x1.3cea88p-7f));
  p = add(mul(p, f), splat(0x1.c6b752p-5f));
  p = add(mul(p, f), splat(0x1.ebf9bcp-3f));
  p = add(mul(p, f), splat(0x1.62e42ap-1f));
  p = add(mul(p, f), splat(1.0f));
  return mul(p, power_of_two(n));
}

uint64_t masses(const float* x, int64_t n, const Weighing& how, float bound, uint64_t* out) {
  float padded[BLOCK];
  uint64_t whole[BLOCK];
  if (n < BLOCK) {
    for (int64_t i = 0; i < BLOCK; ++i) padded[i] = i < n ? x[i] : -__builtin_inff();
    x = padded;
  }
  for (int64_t i = 0; i < BLOCK; i += 8) {
    const V8 v = load(x + i);
    const V8 y = mul(sub(v, splat(how.largest)), splat(how.rate));
    store_fixed_point(whole + i, zero_where_less(exp2(max(y, splat(-40.0f))), v, splat(bound)));
  }
  uint64_t total = 0;
  for (int64_t i = 0; i < BLOCK; ++i) total += whole[i];
  memcpy(out, whole, size_t(n) * sizeof(uint64_t));
  return total;
}

}  // namespace stoker::STOKER_ISA
