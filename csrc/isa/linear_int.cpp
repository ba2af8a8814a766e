// The panels of a product for int8 and int4 weights: activations are int8 (quantize.h), products of
// codes are added exactly in integers, and each block of 32 columns adds two terms per group to a
// float32 sum:
//   sum = minimum * (scale_x * sum of codes_x) + sum;  sum = (scale * scale_x) * dot + sum
// in column order, whatever the tile: the bits of a row do not depend on the other rows. Cost: 5
// (int4) or 8.5 (int8) bits per weight read once per call; 2 * M * N * K integer operations.
#include "isa/linear.h"
#include "isa/quantize.h"
#include "isa/tile.h"
#if defined(STOKER_AVX2)
#include "isa/dot_avx2.h"
#else
#include "isa/dot_portable.h"
#endif

namespace stoker::STOKER_ISA {
namespace {

template <int BITS> struct Code { using type = int16_t; };
template <> struct Code<4> { using type = int8_t; };

// One weight format: BITS 4 or 8, scales of type S, GROUPS per block, with minima or not.
template <int BITS, class S, int GROUPS, bool MINIMUM> struct Block {
  using Q = typename Code<BITS>::type;
  using X = Activations<Q, GROUPS>;
  static constexpr int SCALES = GROUPS * HALF * int(sizeof(S));
  static constexpr int CODES = SCALES * (MINIMUM ? 2 : 1);
  static constexpr int BYTES = CODES + BITS * GROUP;  // of a half

  template <int MR, int G> INLINE void dots(const uint8_t* w, const Q* x, I8 (&dot)[MR][2]) {
    const uint8_t *q0 = w + CODES, *q1 = w + BYTES + CODES;
    if constexpr (BITS == 4) int4_dots<MR>(q0, q1, x, dot);
    else int8_dots<MR, G * 16 / GROUPS, (G + 1) * 16 / GROUPS>(q0, q1, x, dot);
  }

  // acc += this block's part of group G and those behind it.
  template <int MR, int G>
  INLINE void groups(const uint8_t* w, const Q* x, const float* s, V8 (&acc)[MR][2]) {
    I8 dot[MR][2];
    dots<MR, G>(w, x, dot);
    for (int half = 0; half < 2; ++half) {
      const S* scale = reinterpret_cast<const S*>(w + half * BYTES) + G * HALF;
      const V8 d = load(scale);
      const V8 least_value = MINIMUM ? load(scale + GROUPS * HALF) : zero();
#pragma GCC unroll 4
      for (int m = 0; m < MR; ++m) {
        V8 sum = acc[m][half];
        if (MINIMUM) sum = fma(least_value, splat(s[(1 + G) * TILE + m]), sum);
        acc[m][half] = fma(mul(d, splat(s[m])), to_float(dot[m][half]), sum);
      }
    }
    if constexpr (G + 1 < GROUPS) groups<MR, G + 1>(w, x, s, acc);
  }
};

template <class B, int MR>
void tile(const Part& part, const uint8_t* w, const typename B::X& x, int64_t row, int64_t column,
          Ahead ahead) {
  V8 acc[MR][2];
  for (int m = 0; m < MR; ++m) acc[m][0] = acc[m][1] = zero();
  const typename B::Q* q = x.codes(row);
  const float* s = x.scales(row);
  for (int64_t b = 0; b < x.blocks; ++b, w += 2 * B::BYTES) {
    if (ahead.due())
      for (int i = 0; i < 2 * B::BYTES; i += 64) prefetch(w + ahead.distance + i);
    B::template groups<MR, 0>(w, q, s, acc);
    q += TILE * GROUP;
    s += B::X::S * TILE;
  }
  for (int m = 0; m < MR; ++m) store_panel(part, row + m, column, acc[m]);
}

template <class B> void run(const Product& a, const Part& part, int64_t number) {
  const int64_t blocks = a.K / GROUP, size = blocks * 2 * B::BYTES;
  const auto x = B::X::in(a.x.at[int(code_of(part.weight))], a.M, blocks);
  const uint8_t* panel = part.weight.data + number * size;
  for_tiles(a.M, size, 1, [&](auto rows, int64_t row, Ahead ahead) {
    tile<B, decltype(rows)::value>(part, panel, x, row, number * PANEL, ahead);
  });
}

template <class S> void run_scales(const Product& a, const Part& part, int64_t number) {
  const WeightView& w = part.weight;
  if (w.format == Format::int4) return run<Block<4, S, 1, true>>(a, part, number);
  if (w.group == GROUP)
    return w.has_minimum ? run<Block<8, S, 1, true>>(a, part, number)
                         : run<Block<8, S, 1, false>>(a, part, number);
  w.has_minimum ? run<Block<8, S, 2, true>>(a, part, number)
                : run<Block<8, S, 2, false>>(a, part, number);
}

}  // namespace

void int_panel(const Product& a, const Part& part, int64_t number) {
  part.weight.wide_scales ? run_scales<float>(a, part, number) : run_scales<F16>(a, part, number);
}

}  // namespace stoker::STOKER_ISA
