// One panel of a product: 16 columns of the outputs of some rows.
#pragma once
#include "kernels.h"

namespace stoker::STOKER_ISA {

struct Rows { int64_t begin, end; };  // begin is a multiple of TILE

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
