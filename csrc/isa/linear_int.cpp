// The panels of a product for int8 and int4 weights: activations are int8 (quantize.h), products of
// codes are added exactly in integers, and each block of 32 columns adds two terms per group to a
// float32 sum:
//   sum = minimum * (scale_x * sum of codes_x) + sum;  sum = (scale * scale_x) * dot + sum
// in column order, whatever the tile: the bits of a row do not depend on the other rows.
//
// A tile is up to 12 rows (AVX-512; else 4) times one panel. Cost of a row and a block, in vectors
// of sixteen: 8 products of bytes, and per group a product, a conversion and one or two fused
// multiply-adds; the codes are unpacked once for all rows of the tile. So at most 8 in 11 (no
// minimum: 8 in 10) of the multiplier's cycles do integer work. Memory: 4.5 to 8.5 bits per weight,
// read once per call; one row is bound by that.
#include "isa/linear.h"
#include "isa/quantize.h"
#include "isa/tile.h"
#if defined(STOKER_VNNI)
#include "isa/dot_vnni.h"
#elif defined(STOKER_AVX2)
#include "isa/dot_avx2.h"
#else
#include "isa/dot_portable.h"
#endif

namespace stoker::STOKER_ISA {
namespace {

// One weight format: BITS 4 or 8, scales of type S, GROUPS per block, with minima or not.
template <int BITS, class S, int GROUPS, bool MINIMUM> struct Block {
  using X = Activations<GROUPS>;
  static constexpr int SCALES = GROUPS * PANEL * int(sizeof(S));
  static constexpr int CODES = SCALES * (MINIMUM ? 2 : 1);
  static constexpr int BYTES = CODES + BITS * GROUP * PANEL / 8;

  // acc += this block's part of group G and those behind it. Row m lies in tile m / TILE of x,
  // which are `stride` blocks apart.
  template <int MR, int G>
  INLINE void groups(const uint8_t* w, const X* x, int64_t stride, V16 (&acc)[MR]) {
    I16 dot[MR];
    if constexpr (BITS == 4) int4_dots<MR, !MINIMUM>(w + CODES, x, stride, dot);
    else int8_dots<MR, G, GROUPS>(w + CODES, x, stride, dot);
    const S* scale = reinterpret_cast<const S*>(w) + G * PANEL;
    const V16 d = load16(scale);
    V16 least_value;
    if constexpr (MINIMUM) least_value = load16(scale + GROUPS * PANEL);
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m) {
      const X& rows = x[m / TILE * stride];
      const int lane = m % TILE;
      if constexpr (MINIMUM)
        acc[m] = fma(least_value, splat16(rows.scaled_sum[G][lane]), acc[m]);
      acc[m] = fma(mul(d, splat16(rows.scale[lane])), to_float(dot[m]), acc[m]);
    }
    if constexpr (G + 1 < GROUPS) groups<MR, G + 1>(w, x, stride, acc);
  }
};

// A function of its own: GCC gives out registers, and spends its time, by the function.
template <class B, int MR>
__attribute__((noinline)) void tile(const uint8_t* w, const typename B::X* x, int64_t blocks, int64_t row,
          const Target& target, const Ahead& first) {
  Ahead ahead = first;
  V16 acc[MR];
#pragma GCC unroll 12
  for (int m = 0; m < MR; ++m) acc[m] = splat16(0.0f);
  x += row / TILE * blocks;
  for (int64_t b = 0; b < blocks; ++b, ++x, w += B::BYTES) {
    if (ahead.due())
      for (int i = 0; i < B::BYTES; i += 64) prefetch(w + ahead.distance + i);
    B::template groups<MR, 0>(w, x, blocks, acc);
  }
#pragma GCC unroll 12
  for (int m = 0; m < MR; ++m) store_panel(target, row + m, acc[m]);
}

template <class B>
void run(const void* x, Rows rows, const WeightView& w, int64_t number, const Target& target) {
  const int64_t blocks = w.K / GROUP, size = blocks * B::BYTES;
  const uint8_t* panel = w.data + number * size;
  const auto* operand = static_cast<const typename B::X*>(x);
  for_tiles<MOST_ROWS>(rows, size, 1, [&](auto count, int64_t row, const Ahead& ahead) {
    tile<B, count.value>(panel, operand, blocks, row, target, ahead);
  });
}

template <class S>
void run_scales(const void* x, Rows rows, const WeightView& w, int64_t number,
                const Target& target) {
  auto choose = [&](auto with, auto without) {
    w.has_minimum ? run<decltype(with)>(x, rows, w, number, target)
                  : run<decltype(without)>(x, rows, w, number, target);
  };
  if (w.format == Format::int4) choose(Block<4, S, 1, true>{}, Block<4, S, 1, false>{});
  else if (w.group == GROUP) choose(Block<8, S, 1, true>{}, Block<8, S, 1, false>{});
  else choose(Block<8, S, 2, true>{}, Block<8, S, 2, false>{});
}

}  // namespace

void int_panel(const Operand& x, Rows rows, const WeightView& w, int64_t number,
               const Target& target) {
  const void* codes = x.at[int(code_of(w))];
  w.wide_scales ? run_scales<float>(codes, rows, w, number, target)
                : run_scales<F16>(codes, rows, w, number, target);
}

}  // namespace stoker::STOKER_ISA
