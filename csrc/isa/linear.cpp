// product: one or several linears over the same rows; linear: one of them, from float32 rows.
//
// A unit of work is one panel of 16 output columns, of whichever part it belongs to:
//
//   units   0 ............. p0 ........ p0 + p1 .... n      threads take runs of them from one
//   parts   | q panels      | k panels  | v panels  |       counter, so each reads long streams
//
// Cost: each weight is read once from memory per call, each row from cache once per panel. One row
// is bound by memory; from about five rows on int4 is bound by arithmetic.
#include "isa/linear.h"

#include "isa/ops.h"
#include "isa/parallel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

void product(Team& team, const Product& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const Part* part = a.parts;
    int64_t first = 0;  // unit at which the part begins
    for (int64_t unit = begin; unit < end; ++unit) {
      while (unit - first >= panels_of(part->weight.N)) first += panels_of((part++)->weight.N);
      const bool is_int = part->weight.format >= Format::int8;
      is_int ? int_panel(a, *part, unit - first) : float_panel(a, *part, unit - first);
    }
  };
  int64_t panels = 0;
  for (int64_t i = 0; i < a.count; ++i) panels += panels_of(a.parts[i].weight.N);
  if (a.M == 0) return;
  const int64_t each = a.M == 1 ? 2 : 4;  // a stream from memory loses speed wherever it is cut
  parallel(team, panels, chunk_of(team, panels, a.M * a.K * PANEL / 2, each), body);
}

void linear(Team& team, const Linear& a) {
  const int64_t K = a.weight.K;
  const Code code = code_of(a.weight);
  Operand x{};
  if (code == Code::f32) {
    x.at[int(code)] = const_cast<float*>(a.x);
  } else {
    x.at[int(code)] = team.shared(operand_bytes(code, a.M, K));
    prepare(team, {Source::rows, a.x, nullptr, nullptr, 0.0f, a.M, K, x});
  }
  const Part part{a.weight, a.bias, nullptr, a.out};
  product(team, {x, a.M, K, &part, 1});
}

}  // namespace stoker::STOKER_ISA
