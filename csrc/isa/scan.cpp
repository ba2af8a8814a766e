// block_maxima: one pass over a row of logits, bound by the read of what the head has just written.
#include "isa/ops.h"
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

bool block_maxima(const float* x, int64_t n, float* out) {
  V8 nan_seen = zero();  // a sum of numbers below 0, which only a NaN can make NaN
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    V8 largest = load(x + i);
    for (int64_t j = 0; j < BLOCK; j += 8) {
      const V8 v = load(x + i + j);
      largest = max(largest, v);
      nan_seen = add(nan_seen, min(zero(), v));
    }
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

}  // namespace stoker::STOKER_ISA
