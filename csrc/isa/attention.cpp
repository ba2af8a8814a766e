// attention: causal grouped-query attention over pages, for any mix of prefill and decode rows.
//
// A unit of work is up to SPAN consecutive tokens of one sequence times one kv head: all their
// query heads ("lanes") read the same keys. Pages go by in order of position, in three passes:
//   1. scores of each page's 16 keys (K is [head_dim][16]: one fma per channel for 8 keys), masked
//      to -inf outside the row's window; their maximum
//   2. weights = exp(score - maximum), and their sum
//   3. output += weight * value, token by token, then divided by the sum
// What a lane adds, and in which order, follows from its own position alone: keys outside its
// window have weight 0, and adding those does not change a sum. So neither the other lanes of its
// unit, nor the page at which the unit begins, nor chunks and threads can be seen in the result.
//
// Cost per lane and key: 2 * head_dim multiply-adds, one exp; per unit one read of K and V.
// Scratch per thread: one float per lane and key.
#include "isa/ops.h"
#include "isa/parallel.h"

namespace stoker::STOKER_ISA {
namespace {

constexpr int SPAN = 4;      // most tokens in a unit
constexpr int ABREAST = 6;   // lanes that share the registers at a time

struct Unit {
  int64_t token, tokens;  // rows token .. token + tokens - 1: consecutive positions
  int64_t head;           // kv head
};

struct Scratch {
  float* scores;    // [page][lane][16]: scores, then weights
  float* queries;   // [lane][head_dim], times the scale
  float* out;       // [lane][padded head_dim]
  float* maximum;   // [lane]
};

// The part of the keys that one lane sees in one page: slots low..high - 1.
struct Visible { int64_t low, high; };

Visible visible(const Attention& a, int64_t position, int64_t page) {
  const int64_t begin = a.window ? most(position - a.window + 1, int64_t(0)) : 0;
  return {most(begin - page * PAGE, int64_t(0)), least(position + 1 - page * PAGE, int64_t(PAGE))};
}

template <int R, class T>
void score_page(const T* k, int64_t D, const float* q, float* scores) {
  V8 low[R], high[R];
  for (int r = 0; r < R; ++r) low[r] = high[r] = zero();
  for (int64_t d = 0; d < D; ++d, k += PAGE) {
    const V8 k0 = load(k), k1 = load(k + 8);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const V8 x = splat(q[r * D + d]);
      low[r] = fma(k0, x, low[r]);
      high[r] = fma(k1, x, high[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    store(scores + r * PAGE, low[r]);
    store(scores + r * PAGE + 8, high[r]);
  }
}

// out[r][c..c+15] += sum of weight[r][t] * v[t][c..c+15] for t in low..high-1. The rows of V may be
// followed by less than 16 values: `n` of the 16 exist.
template <int R, class T>
void add_values(const T* v, int64_t D, int64_t n, Visible keys, const float* weights, float* out,
                int64_t out_stride) {
  V8 low[R], high[R];
  for (int r = 0; r < R; ++r) {
    low[r] = load(out + r * out_stride);
    high[r] = load(out + r * out_stride + 8);
  }
  for (int64_t t = keys.low; t < keys.high; ++t) {
    const T* row = v + t * D;
    const V8 v0 = n >= 8 ? load(row) : load_part(row, n);
    const V8 v1 = n >= 16 ? load(row + 8) : n > 8 ? load_part(row + 8, n - 8) : zero();
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const V8 w = splat(weights[r * PAGE + t]);
      low[r] = fma(v0, w, low[r]);
      high[r] = fma(v1, w, high[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    store(out + r * out_stride, low[r]);
    store(out + r * out_stride + 8, high[r]);
  }
}

template <int N> struct Lanes { static constexpr int value = N; };

// Calls body(Lanes<n>, first lane) for groups of ABREAST lanes and then those that are left.
template <class Body> INLINE void abreast(int64_t lanes, Body body) {
  for (int64_t first = 0; first < lanes; first += ABREAST) {
    switch (least(lanes - first, int64_t(ABREAST))) {
      case 6: body(Lanes<6>{}, first); break;
      case 5: body(Lanes<5>{}, first); break;
      case 4: body(Lanes<4>{}, first); break;
      case 3: body(Lanes<3>{}, first); break;
      case 2: body(Lanes<2>{}, first); break;
      default: body(Lanes<1>{}, first);
    }
  }
}

template <class T> class Worker {
 public:
  Worker(const Attention& a, const Unit& unit, Team& team, int worker)
      : a(a), unit(unit), D(a.kv.head_dim), padded((D + 15) / 16 * 16),
        heads(a.heads / a.kv.kv_heads), lanes(heads * unit.tokens) {
    position = a.rows.positions[unit.token];
    pages = a.rows.page_table + a.rows.row_seq[unit.token] * a.rows.max_pages;
    const int64_t last = position + unit.tokens - 1;
    first_page = (a.window ? most(position - a.window + 1, int64_t(0)) : 0) / PAGE;
    end_page = last / PAGE + 1;
    const int64_t scores = (end_page - first_page) * lanes * PAGE;
    float* memory = static_cast<float*>(
        team.scratch(worker, 4 * (scores + lanes * (D + padded + 1))));
    s = {memory, memory + scores, memory + scores + lanes * D,
         memory + scores + lanes * (D + padded)};
  }

  void run() {
    gather_queries();
    for (int64_t page = first_page; page < end_page; ++page) score(page);
    float* sums = s.queries;  // the queries have done their work
    softmax(sums);
    memset(s.out, 0, size_t(lanes * padded) * 4);
    for (int64_t page = first_page; page < end_page; ++page) weigh(page);
    for (int64_t lane = 0; lane < lanes; ++lane) finish(lane, 1.0f / sums[lane]);
  }

 private:
  // Lane order: token by token, within a token head by head.
  int64_t query_offset(int64_t lane) const {
    return ((unit.token + lane / heads) * a.heads + unit.head * heads + lane % heads) * D;
  }
  int64_t lane_position(int64_t lane) const { return position + lane / heads; }
  float* scores_of(int64_t page) const { return s.scores + (page - first_page) * lanes * PAGE; }

  void gather_queries() {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const float* q = a.q + query_offset(lane);
      for (int64_t d = 0; d < D; ++d) s.queries[lane * D + d] = q[d] * a.scale;
      s.maximum[lane] = -__builtin_inff();
    }
  }

  void score(int64_t page) {
    const T* k = reinterpret_cast<const T*>(a.kv.k) + pages[page] * a.kv.k_stride +
                 unit.head * D * PAGE;
    float* scores = scores_of(page);
    abreast(lanes, [&](auto n, int64_t first) {
      score_page<decltype(n)::value>(k, D, s.queries + first * D, scores + first * PAGE);
    });
    for (int64_t lane = 0; lane < lanes; ++lane) {
      float* row = scores + lane * PAGE;
      const Visible keys = visible(a, lane_position(lane), page);
      for (int64_t t = 0; t < PAGE; ++t)
        if (t < keys.low || t >= keys.high) row[t] = -__builtin_inff();
      s.maximum[lane] = most(s.maximum[lane], top(max(load(row), load(row + 8))));
    }
  }

  void softmax(float* sums) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const V8 maximum = splat(s.maximum[lane]);
      V8 total = zero();
      for (int64_t page = first_page; page < end_page; ++page) {
        float* row = scores_of(page) + lane * PAGE;
        const V8 w0 = exp(sub(load(row), maximum)), w1 = exp(sub(load(row + 8), maximum));
        store(row, w0), store(row + 8, w1);
        total = add(total, add(w0, w1));
      }
      sums[lane] = sum(total);
    }
  }

  void weigh(int64_t page) {
    const T* v = reinterpret_cast<const T*>(a.kv.v) + pages[page] * a.kv.v_stride +
                 unit.head * PAGE * D;
    const Visible first = visible(a, position, page);
    const Visible last = visible(a, position + unit.tokens - 1, page);
    if (first.low == last.low && first.high == last.high)
      return weigh_lanes(v, page, first, 0, lanes);
    // At the edges tokens see different keys. What a token does not see is not even multiplied by
    // 0: it may be NaN, and it may be another sequence's leftovers.
    for (int64_t token = 0; token < unit.tokens; ++token)
      weigh_lanes(v, page, visible(a, position + token, page), token * heads, heads);
  }

  void weigh_lanes(const T* v, int64_t page, Visible keys, int64_t start, int64_t count) {
    const float* weights = scores_of(page) + start * PAGE;
    float* out = s.out + start * padded;
    for (int64_t c = 0; c < D; c += 16) {
      abreast(count, [&](auto n, int64_t first) {
        add_values<decltype(n)::value>(v + c, D, D - c, keys, weights + first * PAGE,
                                       out + first * padded + c, padded);
      });
    }
  }

  void finish(int64_t lane, float inverse) {
    float* out = a.out + query_offset(lane);
    for (int64_t d = 0; d < D; ++d) out[d] = s.out[lane * padded + d] * inverse;
  }

  const Attention& a;
  const Unit& unit;
  const int64_t D, padded, heads, lanes;
  int64_t position, first_page, end_page;
  const int32_t* pages;
  Scratch s;
};

// Cut the rows into runs of up to SPAN consecutive positions of one sequence; returns their number.
int64_t cut(const RowMap& rows, int32_t* starts) {
  int64_t count = 0;
  for (int64_t t = 0; t < rows.T; ++t) {
    const bool joins = t > 0 && t - starts[count - 1] < SPAN &&
                       rows.row_seq[t] == rows.row_seq[t - 1] &&
                       rows.positions[t] == rows.positions[t - 1] + 1;
    if (!joins) starts[count++] = int32_t(t);
  }
  starts[count] = int32_t(rows.T);
  return count;
}

template <class T> void run(Team& team, const Attention& a) {
  int32_t* starts = static_cast<int32_t*>(team.shared((a.rows.T + 1) * 4));
  const int64_t runs = cut(a.rows, starts);
  auto body = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = starts[i / a.kv.kv_heads];
      const Unit unit{start, starts[i / a.kv.kv_heads + 1] - start, i % a.kv.kv_heads};
      Worker<T>(a, unit, team, worker).run();
    }
  };
  parallel(team, runs * a.kv.kv_heads, 1, body);
}

}  // namespace

void attention(Team& team, const Attention& a) {
  switch (a.kv.number) {
    case Number::f32: return run<float>(team, a);
    case Number::f16: return run<F16>(team, a);
    case Number::bf16: return run<BF16>(team, a);
  }
}

}  // namespace stoker::STOKER_ISA
