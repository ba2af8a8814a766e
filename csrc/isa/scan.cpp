// Passes over a row of logits [V]: bound by the read of the row, which the head has just written.
#include "isa/ops.h"
#include "isa/parallel.h"

namespace stoker::STOKER_ISA {
namespace {

// 0 * x is 0 for a finite x and NaN for any other, and NaN stays in a sum.
bool row_finite(const float* x, int64_t n) {
  V8 sums = zero();
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) sums = fma(load(x + i), zero(), sums);
  if (i < n) sums = fma(load_part(x + i, n - i), zero(), sums);
  return sum(sums) == 0.0f;
}

}  // namespace

void finite(Team& team, const Finite& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s) a.out[s] = row_finite(a.x + s * a.V, a.V);
  };
  parallel(team, a.S, 1, body);
}

void block_maxima(const float* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    V8 largest = load(x + i);
    for (int64_t j = 8; j < BLOCK; j += 8) largest = max(largest, load(x + i + j));
    *out++ = top(largest);
  }
  if (i == n) return;
  float largest = x[i];
  for (; i < n; ++i) largest = most(largest, x[i]);
  *out = largest;
}

}  // namespace stoker::STOKER_ISA
