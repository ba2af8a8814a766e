// The panels of a product for f32, f16 and bf16 weights, and no rounding of the activations.
//
// A tile is up to 8 rows of x (4 without AVX-512) times one panel (layout.h): for each column, a
// vector of sixteen weights times one broadcast number per row. Every output is one chain of fused
// multiply-adds in column order, so its bits do not depend on the tile it falls into.
// Cost: M * K * 16 multiply-adds per panel; each weight is read once from memory per call.
#include "isa/linear.h"
#include "isa/tile.h"

namespace stoker::STOKER_ISA {
namespace {

constexpr int MOST = MOST_ROWS < 8 ? MOST_ROWS : 8;  // sums in flight: more gain nothing

template <int MR, class T>
void tile(const float* x, int64_t K, const T* panel, int64_t row, const Target& target,
          Ahead ahead) {
  V16 acc[MR];
  for (int m = 0; m < MR; ++m) acc[m] = splat16(0.0f);
  x += row * K;
  for (int64_t k = 0; k < K; ++k, panel += PANEL) {
    if (ahead.due()) prefetch(reinterpret_cast<const char*>(panel) + ahead.distance);
    const V16 w = load16(panel);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) acc[m] = fma(w, splat16(x[m * K + k]), acc[m]);
  }
  for (int m = 0; m < MR; ++m) store_panel(target, row + m, acc[m]);
}

template <class T>
void run(const float* x, int64_t K, Rows rows, const WeightView& w, int64_t number,
         const Target& target) {
  const T* panel = reinterpret_cast<const T*>(w.data) + number * K * PANEL;
  constexpr int64_t step = 64 / int64_t(PANEL * sizeof(T));  // columns in a cache line
  for_tiles<MOST>(rows, panel_bytes(w), step, [&](auto count, int64_t row, const Ahead& ahead) {
    tile<count.value>(x, K, panel, row, target, ahead);
  });
}

}  // namespace

void float_panel(const Operand& x, int64_t K, Rows rows, const WeightView& w, int64_t number,
                 const Target& target) {
  const float* numbers = static_cast<const float*>(x.at[int(Code::f32)]);
  switch (w.format) {
    case Format::f32: return run<float>(numbers, K, rows, w, number, target);
    case Format::f16: return run<F16>(numbers, K, rows, w, number, target);
    default: return run<BF16>(numbers, K, rows, w, number, target);
  }
}

}  // namespace stoker::STOKER_ISA
