// How packed weights and quantised activations lie in memory: the same for all instruction sets.
//
// Sixteen output rows of a weight form a panel, so that a tile of the product reads one sequential
// stream.
//
//   f32, f16, bf16   [panel][column][16 rows]: the number itself
//   int8, int4       [panel][block of 32 columns]; a block of int4 with scales in f16:
//
//      0          32         64            128           192           256           320 bytes
//      | scales   | minima   | q, step 0   | q, step 1   | q, step 2   | q, step 3   |
//
//       scale   [groups][16 rows]      f16 or f32; groups = 32 / group
//       minimum [groups][16 rows]      the same type; where the weight has minima
//       int4: q [4][16 rows][4] bytes  byte t of step j: column 8j + t low, column 8j + 4 + t high
//       int8: q [8][16 rows][4] bytes  byte t of step j: column 4j + t
//
// Why: one register of 64 bytes, or two of 32, gives sixteen rows the next four columns, which are
// multiplied by one broadcast piece of the activations; the sums of sixteen rows end up in sixteen
// lanes and are never added across.
#pragma once
#include "kernels.h"

namespace stoker {

inline constexpr int64_t panels_of(int64_t N) { return (N + PANEL - 1) / PANEL; }

// Bytes of the codes of a block, and of its scales or its minima.
inline constexpr int64_t code_bytes(Format format) { return format == Format::int4 ? 256 : 512; }

inline constexpr int64_t scales_bytes(const WeightView& w) {
  return (GROUP / w.group) * PANEL * (w.wide_scales ? 4 : 2);
}

inline constexpr int64_t block_bytes(const WeightView& w) {
  return scales_bytes(w) * (w.has_minimum ? 2 : 1) + code_bytes(w.format);
}

inline constexpr int64_t panel_bytes(const WeightView& w) {
  switch (w.format) {
    case Format::f32: return w.K * PANEL * 4;
    case Format::f16:
    case Format::bf16: return w.K * PANEL * 2;
    default: return w.K / GROUP * block_bytes(w);
  }
}

// Four rows of activations in one block of 32 columns; [tile of 4 rows][block] of these make an
// operand. (Rows at a stride that is a power of two would fall on the same cache lines.)
// SUMS: groups of weight columns in a block, for each of which the sum of the codes is kept, times
// what an offset of the weight's codes would be multiplied by.
inline constexpr int TILE = 4;

template <int SUMS> struct Activations {
  int8_t q[TILE][GROUP];
  float scale[TILE];             // x ~ scale * q
  float scaled_sum[SUMS][TILE];  // scale * sum: what a minimum is multiplied by
  int32_t minus_8_sum[TILE];     // of all 32 columns: for int4 codes that stand for q - 8
  int32_t minus_128_sum[SUMS][TILE];  // for int8 codes read as unsigned, q + 128
};

// In which code a weight wants to read activations.
inline constexpr Code code_of(const WeightView& w) {
  if (w.format < Format::int8) return Code::f32;
  return w.group == GROUP ? Code::i8 : Code::i8_halves;
}

// Bytes of M rows of K numbers in a code.
inline constexpr int64_t operand_bytes(Code code, int64_t M, int64_t K) {
  if (code == Code::f32) return M * K * 4;
  const size_t each = code == Code::i8 ? sizeof(Activations<1>) : sizeof(Activations<2>);
  return (M + TILE - 1) / TILE * (K / GROUP) * int64_t(each);
}

}  // namespace stoker
