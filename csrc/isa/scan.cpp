// Passes over a row of logits. block_maxima is bound by the read of what the head has just written;
// sample_weights costs a division and 30 additions and products a token, in vectors of doubles that
// the compiler makes of these loops: plain IEEE arithmetic, so all instruction sets give the same.
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

void sample_weights(const float* x, int64_t n, double maximum, double temperature, double* out) {
  constexpr double ROUND = 0x1.8p52;  // added, it leaves a whole number in the low bits
  constexpr double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;
  for (int64_t i = 0; i < n; ++i) {
    const double y = (double(x[i]) - maximum) / temperature;
    const double clamped = y < -708.0 ? -708.0 : y;
    const double rounded = clamped * 0x1.71547652b82fep+0 + ROUND, k = rounded - ROUND;
    const double f = (clamped - k * LN2_HIGH) - k * LN2_LOW;
    double p = 1.0 / 6227020800.0;
    p = p * f + 1.0 / 479001600.0;
    p = p * f + 1.0 / 39916800.0;
    p = p * f + 1.0 / 3628800.0;
    p = p * f + 1.0 / 362880.0;
    p = p * f + 1.0 / 40320.0;
    p = p * f + 1.0 / 5040.0;
    p = p * f + 1.0 / 720.0;
    p = p * f + 1.0 / 120.0;
    p = p * f + 1.0 / 24.0;
    p = p * f + 1.0 / 6.0;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    uint64_t bits, power;
    memcpy(&bits, &p, 8), memcpy(&power, &rounded, 8);
    bits += power << 52;
    double w;
    memcpy(&w, &bits, 8);
    out[i] = y < -708.0 ? 0.0 : w;
  }
}

}  // namespace stoker::STOKER_ISA
