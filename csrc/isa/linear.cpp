// product: one or several linears over the same rows; linear: one of them, from float32 rows.
//
// A unit of work is one panel of 16 output columns, of whichever part it belongs to:
//
//   units   0 ............. p0 ........ p0 + p1 .... n      threads take runs of them from one
//   parts   | q panels      | k panels  | v panels  |       counter, so each reads long streams
//
// A thread works on four panels and 48 rows at a time,
//
//   rows 0..47   panel p, p + 1, p + 2, p + 3      then rows 48..95 of the same panels ...
//
// so that both stay in its L2 cache however many rows there are. Cost: each weight is read once
// from memory per call, each row once per four panels. One row is bound by memory; from about
// eight rows on int4 is bound by arithmetic.
#include "isa/linear.h"

#include "isa/ops.h"
#include "isa/parallel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {
namespace {

constexpr int64_t PANELS_AT_ONCE = 4;

// Finds the part that a unit belongs to; units only rise.
struct Cursor {
  const Part* part;
  int64_t first = 0;  // unit at which the part begins
  int64_t panel(int64_t unit) {
    while (unit - first >= panels_of(part->weight.N)) first += panels_of((part++)->weight.N);
    return unit - first;
  }
};

void run_panel(const Product& a, const Part& part, int64_t number, Rows rows) {
  const WeightView& w = part.weight;
  const int64_t column = number * PANEL;
  const Target target{part.bias ? part.bias + column : nullptr,
                      part.residual ? part.residual + column : nullptr, part.out + column, w.N,
                      least(w.N - column, int64_t(PANEL)), 0};
  any_panel(a.x, rows, w, number, target);
}

}  // namespace

// A stream from memory loses speed wherever it is cut. Of many rows only waiting at the end costs.
int64_t chunks_each(int64_t M) { return M == 1 ? 2 : M <= ROWS_AT_ONCE ? 4 : 16; }

void any_panel(const Operand& x, Rows rows, const WeightView& w, int64_t number,
               const Target& target) {
  w.format < Format::int8 ? float_panel(x, w.K, rows, w, number, target)
                          : int_panel(x, rows, w, number, target);
}

void product(Team& team, const Product& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    Cursor start{a.parts};
    for (int64_t from = begin; from < end; from += PANELS_AT_ONCE) {
      start.panel(from);
      for (int64_t row = 0; row < a.M; row += ROWS_AT_ONCE) {
        Cursor cursor = start;
        for (int64_t unit = from; unit < least(from + PANELS_AT_ONCE, end); ++unit) {
          const int64_t number = cursor.panel(unit);
          run_panel(a, *cursor.part, number, {row, least(row + ROWS_AT_ONCE, a.M)});
        }
      }
    }
  };
  int64_t panels = 0;
  for (int64_t i = 0; i < a.count; ++i) panels += panels_of(a.parts[i].weight.N);
  if (a.M == 0) return;
  parallel(team, panels, chunk_of(team, panels, a.M * a.K * PANEL / 2, chunks_each(a.M)), body);
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
