// rms_norm, glu, add, take_rows over row-major float32 [rows, K].
// Cost: one read of every input and one write of the output; all are bound by memory.
#include "isa/ops.h"
#include "isa/parallel.h"

namespace stoker::STOKER_ISA {
namespace {

void norm_row(const RmsNorm& a, const float* x, float* out) {
  V8 squares = zero();
  const int64_t whole = a.K / 8 * 8, rest = a.K - whole;
  for (int64_t i = 0; i < whole; i += 8) squares = fma(load(x + i), load(x + i), squares);
  if (rest) {
    const V8 tail = load_part(x + whole, rest);
    squares = fma(tail, tail, squares);
  }
  const V8 factor = splat(1.0f / __builtin_sqrtf(sum(squares) / float(a.K) + a.eps));
  for (int64_t i = 0; i < whole; i += 8)
    store(out + i, mul(mul(load(x + i), factor), load(a.weight + i)));
  if (rest) {
    const V8 tail = mul(load_part(x + whole, rest), factor);
    store_part(out + whole, mul(tail, load_part(a.weight + whole, rest)), rest);
  }
}

INLINE V8 sigmoid(V8 x) { return div(splat(1.0f), add(splat(1.0f), exp(sub(zero(), x)))); }

INLINE V8 silu(V8 x) { return mul(x, sigmoid(x)); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3)
INLINE V8 gelu(V8 x) {
  const V8 inner = fma(mul(mul(x, x), x), splat(0.044715f), x);
  return mul(x, sigmoid(mul(inner, splat(2.0f * 0.7978845608f))));
}

template <bool GELU> void glu_range(const Glu& a, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    const V8 gate = load(a.gate + i);
    store(a.out + i, mul(GELU ? gelu(gate) : silu(gate), load(a.up + i)));
  }
  if (i < end) {
    const V8 gate = load_part(a.gate + i, end - i);
    const V8 up = load_part(a.up + i, end - i);
    store_part(a.out + i, mul(GELU ? gelu(gate) : silu(gate), up), end - i);
  }
}

constexpr int64_t BLOCK = 1024;  // elements per unit of the flat operations

}  // namespace

void rms_norm(Team& team, const RmsNorm& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) norm_row(a, a.x + row * a.K, a.out + row * a.K);
  };
  parallel(team, a.M, chunk_of(team, a.M, a.K * 4), body);
}

void glu(Team& team, const Glu& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * BLOCK, last = least(end * BLOCK, a.n);
    a.gelu ? glu_range<true>(a, first, last) : glu_range<false>(a, first, last);
  };
  const int64_t units = (a.n + BLOCK - 1) / BLOCK;
  parallel(team, units, chunk_of(team, units, BLOCK * 8), body);
}

void add(Team& team, const Add& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const int64_t last = least(end * BLOCK, a.n);
    for (int64_t i = begin * BLOCK; i < last; ++i) a.out[i] = a.x[i] + a.y[i];
  };
  const int64_t units = (a.n + BLOCK - 1) / BLOCK;
  parallel(team, units, chunk_of(team, units, BLOCK), body);
}

void take_rows(Team& team, const TakeRows& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s)
      memcpy(a.out + s * a.K, a.x + int64_t(a.index[s]) * a.K, size_t(a.K) * 4);
  };
  parallel(team, a.S, chunk_of(team, a.S, a.K), body);
}

}  // namespace stoker::STOKER_ISA
