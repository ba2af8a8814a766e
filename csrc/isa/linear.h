// One panel of a product: 16 columns of the outputs of some rows.
#pragma once
#include "kernels.h"

namespace stoker::STOKER_ISA {

struct Rows { int64_t begin, end; };  // begin is a multiple of TILE

inline constexpr int64_t ROWS_AT_ONCE = 48;  // of the same few panels, before the next rows

int64_t chunks_each(int64_t M);  // in how many chunks per thread to share the panels of M rows

// Where a panel's outputs go: `out` and `residual` (null where there is none) point at row `first`.
struct Target {
  const float* bias;
  const float* residual;
  float* out;
  int64_t stride, width, first;
};

void float_panel(const Operand& x, int64_t K, Rows rows, const WeightView& w, int64_t number,
                 const Target& target);
void int_panel(const Operand& x, Rows rows, const WeightView& w, int64_t number,
               const Target& target);

// Of either kind.
void any_panel(const Operand& x, Rows rows, const WeightView& w, int64_t number,
               const Target& target);

}  // namespace stoker::STOKER_ISA
