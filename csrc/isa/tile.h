// What the tiles of both linear kernels share: cutting rows into tiles, prefetch, and the end.
#pragma once
#include "isa/linear.h"
#include "isa/panel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

// Which weights to fetch while a tile runs. One tile alone reads a stream from memory, and fetches
// a little ahead of itself, unless it has so few rows that it only waits for memory: then the
// hardware, which sees the stream too, is a tenth faster without us. Of several tiles over the same
// panel, each fetches its share of the next panel, so that the first of them does not have to wait.
struct Ahead {
  static constexpr int64_t NEVER = int64_t(1) << 60;
  int64_t distance, every, left;
  bool due() {
    if (--left >= 0) return false;
    left = every - 1;
    return true;
  }
};

template <int N> struct Count { static constexpr int value = N; };

// Calls body(Count<n>, first row, ahead) for tiles that cover `rows`, a multiple of 4 on: as few
// tiles of 4, 8 and 12 rows (at most MOST) as will do, and then one of the 1 to 3 left.
//
//   32 rows: 12 12 8     16: 8 8     15: 12 3     (MOST = 12)
template <int MOST, class Body>
INLINE void for_tiles(Rows rows, int64_t panel_size, int64_t step, Body body) {
  const int64_t quads = (rows.end - rows.begin) / TILE, rest = (rows.end - rows.begin) % TILE;
  const int64_t tiles = (quads * TILE + MOST - 1) / MOST + (rest != 0);
  const bool waits = tiles == 1 && rows.end - rows.begin <= TILE;
  Ahead ahead{tiles == 1 ? 8192 : least(panel_size, int64_t(16384)), tiles * step,
              waits ? Ahead::NEVER : 0};
  int64_t row = rows.begin;
  auto run = [&](auto count) {
    body(count, row, ahead);
    row += count.value, ahead.left += step;
  };
  for (int64_t left = quads; left > 0;) {
    const int64_t take = left == 4 ? least(2, MOST / TILE) : least(left, int64_t(MOST / TILE));
    if constexpr (MOST >= 12) if (take == 3) run(Count<12>{});
    if constexpr (MOST >= 8) if (take == 2) run(Count<8>{});
    if (take == 1) run(Count<4>{});
    left -= take;
  }
  if (rest == 3) run(Count<3>{});
  if (rest == 2) run(Count<2>{});
  if (rest == 1) run(Count<1>{});
}

// The last panel's outputs that are not padding. Out of the tiles, which would repeat it per row.
static inline __attribute__((noinline)) void store_part(const Target& t, int64_t at,
                                                        const float* sums) {
  for (int64_t i = 0; i < t.width; ++i) {
    float value = sums[i];
    if (t.bias) value += t.bias[i];
    if (t.residual) value = t.residual[at + i] + value;
    t.out[at + i] = value;
  }
}

// Adds bias and residual to the outputs of one row of a panel, and writes them.
INLINE void store_panel(const Target& t, int64_t row, V16 sum) {
  const int64_t at = (row - t.first) * t.stride;
  if (t.width < PANEL) {
    float sums[PANEL];
    store(sums, sum);
    return store_part(t, at, sums);
  }
  if (t.bias) sum = add(sum, load16(t.bias));
  if (t.residual) sum = add(load16(t.residual + at), sum);
  store(t.out + at, sum);
}

}  // namespace stoker::STOKER_ISA
