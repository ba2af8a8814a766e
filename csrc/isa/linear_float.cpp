// linear for f32, f16 and bf16 weights, and no rounding of the activations.
//
// A tile is up to 4 rows of x times one panel (layout.h): for each column, two vectors of weights
// times one broadcast number per row. Every output is one chain of fused multiply-adds in column
// order, so its bits do not depend on the tile it falls into.
// Cost: M * K * 16 multiply-adds per panel; each weight is read once from memory per call.
#include "isa/ops.h"
#include "isa/parallel.h"
#include "isa/tile.h"

namespace stoker::STOKER_ISA {
namespace {

template <int MR, class T>
void tile(const Linear& a, const T* panel, int64_t row, int64_t column, Ahead ahead) {
  V8 acc[MR][2];
  for (int m = 0; m < MR; ++m) acc[m][0] = acc[m][1] = zero();
  const float* x = a.x + row * a.weight.K;
  for (int64_t k = 0; k < a.weight.K; ++k, panel += PANEL) {
    if (ahead.due()) prefetch(reinterpret_cast<const char*>(panel) + ahead.distance);
    const V8 low = load(panel), high = load(panel + HALF);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const V8 value = splat(x[m * a.weight.K + k]);
      acc[m][0] = fma(low, value, acc[m][0]);
      acc[m][1] = fma(high, value, acc[m][1]);
    }
  }
  for (int m = 0; m < MR; ++m) store_panel(a, row + m, column, acc[m]);
}

template <class T> void panel_times_rows(const Linear& a, int64_t number) {
  const T* panel = reinterpret_cast<const T*>(a.weight.data) + number * a.weight.K * PANEL;
  const int64_t column = number * PANEL;
  constexpr int64_t step = 64 / int64_t(PANEL * sizeof(T));  // columns in a cache line
  for_tiles(a.M, panel_bytes(a.weight), step, [&](auto rows, int64_t row, Ahead ahead) {
    tile<decltype(rows)::value>(a, panel, row, column, ahead);
  });
}

template <class T> void run(Team& team, const Linear& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t number = begin; number < end; ++number) panel_times_rows<T>(a, number);
  };
  const int64_t panels = panels_of(a.weight.N);
  parallel(team, panels, chunk_of(team, panels, a.M * a.weight.K * PANEL), body);
}

}  // namespace

void linear_float(Team& team, const Linear& a) {
  switch (a.weight.format) {
    case Format::f32: return run<float>(team, a);
    case Format::f16: return run<F16>(team, a);
    default: return run<BF16>(team, a);
  }
}

}  // namespace stoker::STOKER_ISA
