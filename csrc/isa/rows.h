// Functions of one row of float32, for kernels that make rows on the way to something else.
#pragma once
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

// x / sqrt(mean(x^2) + eps) * weight; `out` may be `x`.
static inline void norm_row(const float* x, const float* weight, int64_t K, float eps, float* out) {
  V8 squares = zero();
  const int64_t whole = K / 8 * 8, rest = K - whole;
  for (int64_t i = 0; i < whole; i += 8) squares = fma(load(x + i), load(x + i), squares);
  if (rest) {
    const V8 tail = load_part(x + whole, rest);
    squares = fma(tail, tail, squares);
  }
  const V8 factor = splat(1.0f / __builtin_sqrtf(sum(squares) / float(K) + eps));
  for (int64_t i = 0; i < whole; i += 8)
    store(out + i, mul(mul(load(x + i), factor), load(weight + i)));
  if (rest) {
    const V8 tail = mul(load_part(x + whole, rest), factor);
    store_part(out + whole, mul(tail, load_part(weight + whole, rest)), rest);
  }
}

INLINE V8 sigmoid(V8 x) { return div(splat(1.0f), add(splat(1.0f), exp(sub(zero(), x)))); }

INLINE V8 silu(V8 x) { return mul(x, sigmoid(x)); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3)
INLINE V8 gelu(V8 x) {
  const V8 inner = fma(mul(mul(x, x), x), splat(0.044715f), x);
  return mul(x, sigmoid(mul(inner, splat(2.0f * 0.7978845608f))));
}

// activation(gate) * up of n numbers.
template <bool GELU>
static inline void glu_range(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const V8 x = load(gate + i);
    store(out + i, mul(GELU ? gelu(x) : silu(x), load(up + i)));
  }
  if (i < n) {
    const V8 x = load_part(gate + i, n - i);
    store_part(out + i, mul(GELU ? gelu(x) : silu(x), load_part(up + i, n - i)), n - i);
  }
}

}  // namespace stoker::STOKER_ISA
