// attention: causal grouped-query attention over pages, for any mix of prefill and decode rows.
//
// A unit of work is up to SPAN consecutive tokens of one sequence times one kv head or all of them.
// The query heads of a kv head, of all tokens, are "lanes" that read the same keys. Keys fall into
// splits at fixed positions:
//
//   position  0 ........ 255 | 256 ...... 511 | 512 ... p          SPLIT pages of 16 keys each
//             split 0        | split 1        | split 2 (part)
//
// Within a split, page by page:
//   1. scores of 16 keys (K is [head_dim][16]: one fma per channel for 8 keys), masked to -inf
//      outside the row's window; their maximum
//   2. weights = exp(score - maximum), and their sum
//   3. output += weight * value, token by token
// and the splits of a lane are folded together from the first to the last, each rescaled to the
// larger maximum (Milakov & Gimelshein 2018). What a lane adds, and in which order, follows from
// its own position alone: keys outside its window have weight 0, and adding those changes no sum.
// So neither the other lanes of its unit, nor chunks and threads, nor which thread took which
// split, can be seen in the result.
//
// Cost per lane and key: 2 * head_dim multiply-adds, one exp; per unit one read of K and V, the
// next page of which is fetched meanwhile: decode is bound by memory, prefill by multiply-adds.
// Where there are enough units, one takes all kv heads, which lie side by side in a page. Few units
// (decode of one long sequence) are shared out split by split, and folded afterwards.
#include "isa/attention_page.h"
#include "isa/ops.h"
#include "isa/parallel.h"

namespace stoker::STOKER_ISA {
namespace {

constexpr int SPAN = 4;        // most tokens in a unit
constexpr int64_t SPLIT = 16;  // pages in a split

struct Unit {
  int64_t token, tokens;  // rows token .. token + tokens - 1: consecutive positions
  int64_t head, heads;    // kv heads head .. head + heads - 1
};

struct Range { int64_t begin, end; };

// What lanes know of the keys they have seen; maximum is -inf where that is none.
struct State {
  float* maximum;  // [lane]
  float* sum;      // [lane] of the weights
  float* out;      // [lane][padded head_dim], not yet divided by the sum

  static int64_t floats(int64_t lanes, int64_t padded) { return lanes * (2 + padded); }
  static State in(float* memory, int64_t lanes) {
    return {memory, memory + lanes, memory + 2 * lanes};
  }
};

// Add the keys of `part` to those of `state`.
void fold(const State& part, const State& state, int64_t lanes, int64_t padded) {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const float a = state.maximum[lane], b = part.maximum[lane], both = most(a, b);
    if (b == -__builtin_inff()) continue;
    const V8 old_factor = exp(splat(a - both)), new_factor = exp(splat(b - both));
    float* out = state.out + lane * padded;
    const float* added = part.out + lane * padded;
    for (int64_t d = 0; d < padded; d += 8)
      store(out + d, fma(load(out + d), old_factor, mul(load(added + d), new_factor)));
    float sums[8];
    store(sums, fma(splat(state.sum[lane]), old_factor, mul(splat(part.sum[lane]), new_factor)));
    state.sum[lane] = sums[0];
    state.maximum[lane] = both;
  }
}

template <class T> class Worker {
 public:
  Worker(const Attention& a, const Unit& unit, float* memory)
      : a(a), unit(unit), D(a.kv.head_dim), padded((D + 7) / 8 * 8),
        group(a.heads / a.kv.kv_heads), lanes(group * unit.tokens), all(lanes * unit.heads),
        position(a.rows.positions[unit.token]),
        pages(a.rows.page_table + a.rows.row_seq[unit.token] * a.rows.max_pages),
        queries(memory), scores(memory + all * D) {
    for (int64_t lane = 0; lane < all; ++lane)
      for (int64_t d = 0; d < D; ++d)
        queries[lane * D + d] = a.q[query_offset(lane) + d] * a.scale;
  }

  static int64_t floats(const Attention& a, int64_t lanes) {
    return lanes * (a.kv.head_dim + SPLIT * PAGE);
  }

  // The splits in which some lane sees a key.
  Range splits() const {
    return {visible(0).begin / (SPLIT * PAGE), (position + unit.tokens - 1) / (SPLIT * PAGE) + 1};
  }

  // What the lanes see in one split.
  void attend(int64_t split, const State& to) {
    const Range keys{split * SPLIT * PAGE, (split + 1) * SPLIT * PAGE};
    Range tokens{0, unit.tokens};
    while (visible(tokens.begin).end <= keys.begin) ++tokens.begin;
    while (visible(tokens.end - 1).begin >= keys.end) --tokens.end;
    for (int64_t lane = 0; lane < all; ++lane) to.maximum[lane] = -__builtin_inff();
    memset(to.sum, 0, size_t(all) * 4);
    memset(to.out, 0, size_t(all * padded) * 4);
    first_page = most(visible(tokens.begin).begin, keys.begin) / PAGE;
    end_page = (least(visible(tokens.end - 1).end, keys.end) + PAGE - 1) / PAGE;
    first = tokens.begin * group, count = (tokens.end - tokens.begin) * group;
    score();
    for (int64_t page = first_page; page < end_page; ++page) mask(page);
    for (int64_t head = 0; head < unit.heads; ++head)
      for (int64_t lane = 0; lane < count; ++lane) weigh(head, lane, to);
    for (int64_t page = first_page; page < end_page; ++page)
      for (int64_t head = 0; head < unit.heads; ++head) add(page, head, tokens, to);
  }

  void finish(const State& state) {
    for (int64_t lane = 0; lane < all; ++lane) {
      float* out = a.out + query_offset(lane);
      const float inverse = 1.0f / state.sum[lane];
      for (int64_t d = 0; d < D; ++d) out[d] = state.out[lane * padded + d] * inverse;
    }
  }

  const Attention& a;
  const Unit& unit;
  const int64_t D, padded, group, lanes, all;  // group: lanes of a token; lanes: of a kv head

 private:
  // Lane order: kv head by kv head, in it token by token, in that query head by query head.
  int64_t query_offset(int64_t lane) const {
    const int64_t token = unit.token + lane % lanes / group, head = unit.head + lane / lanes;
    return (token * a.heads + head * group + lane % group) * D;
  }
  // The positions that a token of the unit sees.
  Range visible(int64_t token) const {
    const int64_t end = position + token + 1;
    return {a.window ? most(end - a.window, int64_t(0)) : 0, end};
  }
  // Those of them in one page, counted from its first.
  Range slots(int64_t token, int64_t page) const {
    const Range keys = visible(token);
    return {most(keys.begin - page * PAGE, int64_t(0)),
            least(keys.end - page * PAGE, int64_t(PAGE))};
  }
  const T* at(const uint8_t* pool, int64_t stride, int64_t page, int64_t head) const {
    return reinterpret_cast<const T*>(pool) + pages[page] * stride + (unit.head + head) * D * PAGE;
  }
  const T* keys(int64_t page, int64_t head) const {
    return at(a.kv.k, a.kv.k_stride, page, head);
  }
  const T* values(int64_t page, int64_t head) const {
    return at(a.kv.v, a.kv.v_stride, page, head);
  }
  // Of the first lane at hand.
  float* row_of(int64_t page, int64_t head) const {
    return scores + ((page - first_page) * all + head * lanes) * PAGE;
  }

  void score() {
    for (int64_t page = first_page; page < end_page;) {
      const bool two = count <= 3 && page + 1 < end_page;
      const int64_t after = page + (two ? 2 : 1);
      for (int64_t head = 0; head < unit.heads; ++head) {
        const T* k[2] = {keys(page, head), keys(two ? page + 1 : page, head)};
        // Behind the last keys come the first values.
        const T* next[2] = {
            after < end_page ? keys(after, head) : values(first_page, head),
            after + 1 < end_page ? keys(after + 1, head)
                                 : values(least(first_page + 1, end_page - 1), head)};
        abreast(count, [&](auto n, int64_t lane) {
          constexpr int R = decltype(n)::value;
          const float* q = queries + (head * lanes + first + lane) * D;
          float* to = row_of(page, head) + lane * PAGE;
          if constexpr (R <= 3)
            if (two) return score_pages<R, 2>(k, next, D, q, to, all * PAGE);
          score_pages<R, 1>(k, next, D, q, to, all * PAGE);
        });
      }
      page = after;
    }
  }

  void mask(int64_t page) {
    if (slots((first + count - 1) / group, page).begin <= 0 &&
        slots(first / group, page).end >= PAGE)
      return;
    for (int64_t head = 0; head < unit.heads; ++head)
      for (int64_t lane = 0; lane < count; ++lane) {
        const Range seen = slots((first + lane) / group, page);
        float* row = row_of(page, head) + lane * PAGE;
        for (int64_t t = 0; t < PAGE; ++t)
          if (t < seen.begin || t >= seen.end) row[t] = -__builtin_inff();
      }
  }

  // One lane's scores to weights.
  void weigh(int64_t head, int64_t lane, const State& to) {
    float* const rows = row_of(first_page, head) + lane * PAGE;
    float* const end = rows + (end_page - first_page) * all * PAGE;
    V8 largest = splat(-__builtin_inff());
    for (float* row = rows; row < end; row += all * PAGE)
      largest = max(largest, max(load(row), load(row + 8)));
    const float maximum = top(largest);
    V8 total = zero();
    for (float* row = rows; row < end; row += all * PAGE) {
      const V8 w0 = exp(sub(load(row), splat(maximum)));
      const V8 w1 = exp(sub(load(row + 8), splat(maximum)));
      store(row, w0), store(row + 8, w1);
      total = STOKER_ISA::add(total, STOKER_ISA::add(w0, w1));
    }
    to.maximum[head * lanes + first + lane] = maximum;
    to.sum[head * lanes + first + lane] = sum(total);
  }

  // Weights times values. At the edges tokens see different keys, and what a token does not see is
  // not even multiplied by 0: it may be NaN, and it may be another sequence's leftovers.
  void add(int64_t page, int64_t head, Range tokens, const State& to) {
    const Range early = slots(tokens.begin, page), late = slots(tokens.end - 1, page);
    if (early.begin == late.begin && early.end == late.end)
      return add_lanes(page, head, early, 0, count, to);
    for (int64_t token = tokens.begin; token < tokens.end; ++token)
      add_lanes(page, head, slots(token, page), token * group - first, group, to);
  }

  void add_lanes(int64_t page, int64_t head, Range keys, int64_t start, int64_t number,
                 const State& to) {
    const T* v = values(page, head);
    const T* next = page + 1 < end_page ? values(page + 1, head) : v;
    const float* weights = row_of(page, head) + start * PAGE;
    float* out = to.out + (head * lanes + first + start) * padded;
    abreast(number, [&](auto n, int64_t lane) {
      add_page<decltype(n)::value>(v, next, D, keys.begin, keys.end, weights + lane * PAGE,
                                   out + lane * padded, padded);
    });
  }

  const int64_t position;
  const int32_t* pages;
  float* queries;  // [kv head][lane][head_dim], times the scale
  float* scores;   // [page of the split][kv head][lane][16]: scores, then weights
  // Of the split at hand: its pages, and which lanes of each kv head see some of it.
  int64_t first_page = 0, end_page = 0, first = 0, count = 0;
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

// How the work is cut: runs of rows, kv heads together or apart, and room for the largest unit.
struct Units {
  const int32_t* starts;
  int64_t runs, heads_together, kv_heads, lanes, state_floats;

  int64_t count() const { return runs * (kv_heads / heads_together); }
  Unit at(int64_t i) const {
    const int64_t apart = kv_heads / heads_together, run = i / apart;
    return {starts[run], starts[run + 1] - starts[run], i % apart * heads_together,
            heads_together};
  }
};

// Each unit by one thread, split after split.
template <class T> void whole_units(Team& team, const Attention& a, const Units& units) {
  auto body = [&](int64_t begin, int64_t end, int worker) {
    const int64_t floats = 2 * units.state_floats + Worker<T>::floats(a, units.lanes);
    float* memory = static_cast<float*>(team.scratch(worker, 4 * floats));
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i);
      Worker<T> work(a, unit, memory + 2 * units.state_floats);
      const State state = State::in(memory, work.all);
      const State part = State::in(memory + units.state_floats, work.all);
      const Range splits = work.splits();
      work.attend(splits.begin, state);
      for (int64_t split = splits.begin + 1; split < splits.end; ++split) {
        work.attend(split, part);
        fold(part, state, work.all, work.padded);
      }
      work.finish(state);
    }
  };
  parallel(team, units.count(), 1, body);
}

// Each split of each unit by any thread, and what they have found folded afterwards.
template <class T>
void shared_units(Team& team, const Attention& a, const Units& units, int64_t splits,
                  float* states) {
  auto memory = [&](int worker) {
    return static_cast<float*>(team.scratch(worker, 4 * Worker<T>::floats(a, units.lanes)));
  };
  auto attend = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i / splits);
      Worker<T> work(a, unit, memory(worker));
      const Range own = work.splits();
      if (i % splits >= own.begin && i % splits < own.end)
        work.attend(i % splits, State::in(states + i * units.state_floats, work.all));
    }
  };
  auto finish = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i);
      Worker<T> work(a, unit, memory(worker));
      auto state = [&](int64_t split) {
        return State::in(states + (i * splits + split) * units.state_floats, work.all);
      };
      const Range own = work.splits();
      for (int64_t split = own.begin + 1; split < own.end; ++split)
        fold(state(split), state(own.begin), work.all, work.padded);
      work.finish(state(own.begin));
    }
  };
  parallel(team, units.count() * splits, 1, attend);
  parallel(team, units.count(), chunk_of(team, units.count(), splits * units.state_floats), finish);
}

template <class T> void run(Team& team, const Attention& a) {
  int64_t splits = 1;
  for (int64_t t = 0; t < a.rows.T; ++t)
    splits = most(splits, a.rows.positions[t] / (SPLIT * PAGE) + 1);
  const int64_t few = 4 * team.threads(), kv_heads = a.kv.kv_heads;
  const int64_t padded = (a.kv.head_dim + 7) / 8 * 8, starts_bytes = (a.rows.T + 16) / 16 * 64;
  auto* starts = static_cast<int32_t*>(team.shared(starts_bytes));
  Units units{starts, cut(a.rows, starts), 1, kv_heads, 0, 0};
  const bool decode = units.runs == a.rows.T;
  if (decode && units.runs * splits >= 2 * few) units.heads_together = kv_heads;
  const int64_t tokens = decode ? 1 : SPAN;
  units.lanes = tokens * (a.heads / kv_heads) * units.heads_together;
  units.state_floats = State::floats(units.lanes, padded);
  if (splits == 1 || units.count() >= few) return whole_units<T>(team, a, units);
  // A state for every split; memory that grows forgets what it held, so the rows are cut again.
  const int64_t states = units.count() * splits * units.state_floats;
  auto* memory = static_cast<uint8_t*>(team.shared(starts_bytes + 4 * states));
  units.starts = starts = reinterpret_cast<int32_t*>(memory);
  cut(a.rows, starts);
  shared_units<T>(team, a, units, splits, reinterpret_cast<float*>(memory + starts_bytes));
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
