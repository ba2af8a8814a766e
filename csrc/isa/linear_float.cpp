// The panels of a product for f32, f16 and bf16 weights, and no rounding of the activations.
//
// A tile is up to 4 rows of x times one panel (layout.h): for each column, two vectors of weights
// times one broadcast number per row. Every output is one chain of fused multiply-adds in column
// order, so its bits do not depend on the tile it falls into.
// Cost: M * K * 16 multiply-adds per panel; each weight is read once from memory per call.
#include "isa/linear.h"
#include "isa/tile.h"

namespace stoker::STOKER_ISA {
namespace {

template <int MR, class T>
void tile(const Product& a, const Part& part, const T* panel, int64_t row, int64_t column,
          Ahead ahead) {
  V8 acc[MR][2];
  for (int m = 0; m < MR; ++m) acc[m][0] = acc[m][1] = zero();
  const float* x = static_cast<const float*>(a.x.at[int(Code::f32)]) + row * a.K;
  for (int64_t k = 0; k < a.K; ++k, panel += PANEL) {
    if (ahead.due()) prefetch(reinterpret_cast<const char*>(panel) + ahead.distance);
    const V8 low = load(panel), high = load(panel + HALF);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const V8 value = splat(x[m * a.K + k]);
      acc[m][0] = fma(low, value, acc[m][0]);
      acc[m][1] = fma(high, value, acc[m][1]);
    }
  }
  for (int m = 0; m < MR; ++m) store_panel(part, row + m, column, acc[m]);
}

template <class T> void run(const Product& a, const Part& part, int64_t number) {
  const T* panel = reinterpret_cast<const T*>(part.weight.data) + number * a.K * PANEL;
  constexpr int64_t step = 64 / int64_t(PANEL * sizeof(T));  // columns in a cache line
  for_tiles(a.M, panel_bytes(part.weight), step, [&](auto rows, int64_t row, Ahead ahead) {
    tile<decltype(rows)::value>(a, part, panel, row, number * PANEL, ahead);
  });
}

}  // namespace

void float_panel(const Product& a, const Part& part, int64_t number) {
  switch (part.weight.format) {
    case Format::f32: return run<float>(a, part, number);
    case Format::f16: return run<F16>(a, part, number);
    default: return run<BF16>(a, part, number);
  }
}

}  // namespace stoker::STOKER_ISA
