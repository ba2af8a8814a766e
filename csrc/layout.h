// How packed weights lie in memory.
//
// Sixteen output rows form a panel, so that a tile of the product reads one sequential stream.
//
//   f32, f16, bf16   [panel][column][16 rows]: the number itself
//   int8, int4       [panel][block of 32 columns][half of 8 rows]: a half is
//       scale   [groups][8 rows]       f16 or f32; groups = 32 / group
//       minimum [groups][8 rows]       the same type; absent in int8 without minimum
//       int4: q [4][8 rows][4] bytes   byte t of step j: column 8j + t low, column 8j + 4 + t high
//       int8: q [16][8 rows][2] bytes  byte t of step j: column 2j + t
//
// Why: one 32-byte load gives eight rows the next few columns, which are multiplied by one
// broadcast piece of the activations; the sums of eight rows end up in eight lanes and are never
// added across.
#pragma once
#include "kernels.h"

namespace stoker {

inline constexpr int HALF = 8;

inline constexpr int64_t panels_of(int64_t N) { return (N + PANEL - 1) / PANEL; }

inline constexpr int64_t code_bytes(Format format) { return format == Format::int4 ? 128 : 256; }

// Bytes of one scale or minimum vector of a half block.
inline constexpr int64_t scales_bytes(const WeightView& w) {
  return (GROUP / w.group) * HALF * (w.wide_scales ? 4 : 2);
}

inline constexpr int64_t half_bytes(const WeightView& w) {
  return scales_bytes(w) * (w.has_minimum ? 2 : 1) + code_bytes(w.format);
}

inline constexpr int64_t panel_bytes(const WeightView& w) {
  switch (w.format) {
    case Format::f32: return w.K * PANEL * 4;
    case Format::f16:
    case Format::bf16: return w.K * PANEL * 2;
    default: return w.K / GROUP * 2 * half_bytes(w);
  }
}

// Rows of activations in a tile (isa/quantize.h), and how a weight wants to read them.
inline constexpr int TILE = 4;

inline constexpr Code code_of(const WeightView& w) {
  if (w.format < Format::int8) return Code::f32;
  if (w.format == Format::int4) return Code::i8;
  return w.group == GROUP ? Code::i16 : Code::i16_halves;
}

// Bytes of M rows of K numbers in a code: whole tiles of codes, then of scales with their sums.
inline constexpr int64_t operand_bytes(Code code, int64_t M, int64_t K) {
  if (code == Code::f32) return M * K * 4;
  const int64_t codes = TILE * GROUP * (code == Code::i8 ? 1 : 2);
  const int64_t scales = TILE * 4 * (code == Code::i16_halves ? 3 : 2);
  return (M + TILE - 1) / TILE * (K / GROUP) * (codes + scales);
}

}  // namespace stoker
