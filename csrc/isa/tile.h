// What the tiles of both linear kernels share: cutting M rows into tiles, prefetch, and the end.
#pragma once
#include "isa/simd.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

// Which weights to fetch while a tile runs. One tile alone reads a stream from memory, and fetches
// a little ahead of itself; of several tiles over the same panel, each fetches its share of the
// next panel, so that the first of them does not have to wait for it.
struct Ahead {
  int64_t distance, every, left;
  bool due() {
    if (--left >= 0) return false;
    left = every - 1;
    return true;
  }
};

template <int N> struct Count { static constexpr int value = N; };

// Calls body(Count<n>, first row, ahead) for tiles of 4 rows and then one of the 1 to 3 left.
template <class Body>
INLINE void for_tiles(int64_t M, int64_t panel_size, int64_t step, Body body) {
  const int64_t tiles = (M + TILE - 1) / TILE;
  const int64_t distance = tiles == 1 ? 8192 : least(panel_size, int64_t(16384));
  for (int64_t row = 0; row < M; row += TILE) {
    const Ahead ahead{distance, tiles * step, row / TILE * step};
    switch (least(M - row, int64_t(TILE))) {
      case 4: body(Count<4>{}, row, ahead); break;
      case 3: body(Count<3>{}, row, ahead); break;
      case 2: body(Count<2>{}, row, ahead); break;
      default: body(Count<1>{}, row, ahead);
    }
  }
}

// Add bias and residual, write `n` outputs of one row from `column` on.
INLINE void store_outputs(const Part& p, int64_t row, int64_t column, V8 sum) {
  const int64_t at = row * p.weight.N + column, n = least(p.weight.N - column, int64_t(HALF));
  if (n == HALF) {
    if (p.bias) sum = add(sum, load(p.bias + column));
    if (p.residual) sum = add(load(p.residual + at), sum);
    store(p.out + at, sum);
  } else if (n > 0) {
    if (p.bias) sum = add(sum, load_part(p.bias + column, n));
    if (p.residual) sum = add(load_part(p.residual + at, n), sum);
    store_part(p.out + at, sum, n);
  }
}

INLINE void store_panel(const Part& p, int64_t row, int64_t column, const V8 (&sums)[2]) {
  store_outputs(p, row, column, sums[0]);
  store_outputs(p, row, column + HALF, sums[1]);
}

}  // namespace stoker::STOKER_ISA
