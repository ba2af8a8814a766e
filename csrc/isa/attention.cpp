// attention: causal grouped-query attention over pages, for any mix of prefill and decode rows.
//
// A unit of work is a run of consecutive tokens of one sequence times one kv head or all of them.
// The query heads of a kv head, of all tokens, are "lanes" that read the same keys. Keys fall into
// splits at fixed positions:
//
//   position  0 ........ 255 | 256 ...... 511 | 512 ... p          SPLIT pages of 16 keys each
//             split 0        | split 1        | split 2 (part)
//
// Within a split, page by page:
//   1. scores of 16 keys, channel by channel, masked to -inf outside the row's window; their
//      maximum
//   2. weights = exp(score - maximum), and their sum
//   3. output += weight * value, token by token
// in the arithmetic of attention_floats.h or, for bf16 pages where the CPU has the instructions, of
// attention_pairs.h. The splits of a lane are folded together from the first to the last, each
// rescaled to the larger maximum (Milakov & Gimelshein 2018). What a lane adds, and in which order,
// follows from its own position alone: keys outside its window have weight 0, and adding those
// changes no sum. So neither the other lanes of its unit, nor chunks and threads, nor which thread
// took which split, can be seen in the result.
//
// Cost per lane and key: 2 * head_dim multiply-adds, one exp; per unit one read of K and V, the
// next page of which is fetched meanwhile: decode is bound by memory, prefill by multiply-adds. A
// run ends where the arithmetic's SPAN of tokens does, so that its keys are read once for as many.
// Where there are enough units, one takes all kv heads, which lie side by side in a page. Few units
// (decode of one long sequence) are shared out split by split, and folded afterwards.
#include "isa/attention_floats.h"
#include "isa/ops.h"
#include "isa/parallel.h"
#if defined(STOKER_BF16)
#include "isa/attention_pairs.h"
#endif

namespace stoker::STOKER_ISA {
namespace {

constexpr int64_t SPLIT = 16;              // pages in a split
constexpr int64_t LEAST_SPAN = 4;          // units of fewer tokens read too much for too little
constexpr int64_t MOST_SHARED = 16 << 20;  // floats that threads may hand each other

template <int N> struct Lanes { static constexpr int value = N; };

// Calls body(Lanes<n>) with the n <= MOST that is given.
template <int MOST, class Body> INLINE void with_lanes(int64_t n, Body& body) {
  if constexpr (MOST > 1)
    if (n < MOST) return with_lanes<MOST - 1>(n, body);
  body(Lanes<MOST>{});
}

// Calls body(Lanes<n>, first lane) for groups of MOST lanes and then those that are left.
template <int MOST, class Body> INLINE void abreast(int64_t lanes, Body body) {
  for (int64_t first = 0; first < lanes; first += MOST) {
    auto group = [&](auto n) { body(n, first); };
    with_lanes<MOST>(least(lanes - first, int64_t(MOST)), group);
  }
}

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

template <class Math> class Worker {
 public:
  using T = typename Math::T;

  Worker(const Attention& a, const Unit& unit, float* memory)
      : a(a), unit(unit), D(a.kv.head_dim), padded(Math::out_floats(D)),
        group(a.heads / a.kv.kv_heads), lanes(group * unit.tokens), all(lanes * unit.heads),
        position(a.rows.positions[unit.token]),
        pages(a.rows.page_table + a.rows.row_seq[unit.token] * a.rows.max_pages),
        page_floats((all | 1) * PAGE), scores(memory), queries(memory + SPLIT * page_floats) {
    for (int64_t lane = 0; lane < all; ++lane)
      Math::query(a.q + query_offset(lane), D, a.scale, query(lane));
  }

  static int64_t floats(const Attention& a, int64_t lanes) {
    return lanes * Math::query_floats(a.kv.head_dim) + (lanes | 1) * SPLIT * PAGE;
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
      Math::finish(state.out + lane * padded, 1.0f / state.sum[lane], D,
                   a.out + query_offset(lane));
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
    return scores + (page - first_page) * page_floats + (head * lanes + first) * PAGE;
  }
  float* query(int64_t lane) const { return queries + lane * Math::query_floats(D); }

  void score() {
    for (int64_t page = first_page; page < end_page;) {
      const bool two = Math::pages_abreast(count) == 2 && page + 1 < end_page;
      const int64_t after = page + (two ? 2 : 1);
      for (int64_t head = 0; head < unit.heads; ++head) {
        const T* k[2] = {keys(page, head), keys(two ? page + 1 : page, head)};
        // Behind the last keys come the first values.
        const T* next[2] = {
            after < end_page ? keys(after, head) : values(first_page, head),
            after + 1 < end_page ? keys(after + 1, head)
                                 : values(least(first_page + 1, end_page - 1), head)};
        abreast<Math::ABREAST>(count, [&](auto n, int64_t lane) {
          constexpr int R = decltype(n)::value;
          const float* q = query(head * lanes + first + lane);
          float* to = row_of(page, head) + lane * PAGE;
          const T* const* meanwhile = lane ? k : next;
          if (two) Math::template score<R, 2>(k, meanwhile, D, q, to, page_floats);
          else Math::template score<R, 1>(k, meanwhile, D, q, to, page_floats);
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
    float* const end = rows + (end_page - first_page) * page_floats;
    const int64_t at = head * lanes + first + lane;
    to.maximum[at] = Math::weigh(rows, end, page_floats, to.sum[at]);
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
    abreast<Math::ABREAST>(number, [&](auto n, int64_t lane) {
      Math::template add<decltype(n)::value>(v, lane ? v : next, D, keys.begin, keys.end,
                                             weights + lane * PAGE, out + lane * padded, padded);
    });
  }

  const int64_t position;
  const int32_t* pages;
  const int64_t page_floats;  // an odd number of rows, so that pages do not share cache sets
  float* scores;   // [page of the split][kv head][lane][16]: scores, then weights
  float* queries;  // [kv head][lane], times the scale
  // Of the split at hand: its pages, and which lanes of each kv head see some of it.
  int64_t first_page = 0, end_page = 0, first = 0, count = 0;
};

// Rows fall into runs of consecutive positions of one sequence, anew at each multiple of `span`.
bool begins_run(const RowMap& rows, int64_t t, int64_t span) {
  return t == 0 || rows.positions[t] % span == 0 || rows.row_seq[t] != rows.row_seq[t - 1] ||
         rows.positions[t] != rows.positions[t - 1] + 1;
}

int64_t count_runs(const RowMap& rows, int64_t span) {
  int64_t count = 0;
  for (int64_t t = 0; t < rows.T; ++t) count += begins_run(rows, t, span);
  return count;
}

// How the work is cut: runs of rows, kv heads together or apart, and room for the largest unit.
struct Units {
  const int32_t* starts;  // of the runs, and then the number of rows
  int64_t runs, heads_together, kv_heads, lanes, state_floats;

  int64_t count() const { return runs * (kv_heads / heads_together); }
  Unit at(int64_t i) const {
    const int64_t apart = kv_heads / heads_together, run = i / apart;
    return {starts[run], starts[run + 1] - starts[run], i % apart * heads_together,
            heads_together};
  }
};

// Each unit by one thread, split after split.
template <class Math> void whole_units(Team& team, const Attention& a, const Units& units) {
  auto body = [&](int64_t begin, int64_t end, int worker) {
    const int64_t floats = 2 * units.state_floats + Worker<Math>::floats(a, units.lanes);
    float* memory = static_cast<float*>(team.scratch(worker, 4 * floats));
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i);
      Worker<Math> work(a, unit, memory + 2 * units.state_floats);
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
template <class Math>
void shared_units(Team& team, const Attention& a, const Units& units, int64_t splits,
                  float* states) {
  auto memory = [&](int worker) {
    return static_cast<float*>(team.scratch(worker, 4 * Worker<Math>::floats(a, units.lanes)));
  };
  auto attend = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i / splits);
      Worker<Math> work(a, unit, memory(worker));
      const Range own = work.splits();
      if (i % splits >= own.begin && i % splits < own.end)
        work.attend(i % splits, State::in(states + i * units.state_floats, work.all));
    }
  };
  auto finish = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit unit = units.at(i);
      Worker<Math> work(a, unit, memory(worker));
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

template <class Math> void run(Team& team, const Attention& a) {
  const RowMap& rows = a.rows;
  const int64_t few = 4 * team.threads(), kv_heads = a.kv.kv_heads;
  int64_t splits = 1;
  for (int64_t t = 0; t < rows.T; ++t)
    splits = most(splits, rows.positions[t] / (SPLIT * PAGE) + 1);
  int64_t span = Math::SPAN, runs = count_runs(rows, span);
  for (; span > LEAST_SPAN && runs * kv_heads < few; runs = count_runs(rows, span)) span /= 2;

  Units units{nullptr, runs, 1, kv_heads, 0, 0};
  const bool decode = runs == rows.T;
  if (decode && runs * splits >= 2 * few) units.heads_together = kv_heads;
  units.lanes = (decode ? 1 : span) * (a.heads / kv_heads) * units.heads_together;
  units.state_floats = State::floats(units.lanes, Math::out_floats(a.kv.head_dim));

  const int64_t states = units.count() * splits * units.state_floats;
  const bool share = splits > 1 && units.count() < few && states <= MOST_SHARED;
  const int64_t starts_bytes = (runs + 16) / 16 * 64;
  uint8_t* memory = static_cast<uint8_t*>(team.shared(starts_bytes + (share ? states * 4 : 0)));
  int32_t* starts = reinterpret_cast<int32_t*>(memory);
  units.starts = starts;
  for (int64_t t = 0; t < rows.T; ++t)
    if (begins_run(rows, t, span)) *starts++ = int32_t(t);
  *starts = int32_t(rows.T);
  if (!share) return whole_units<Math>(team, a, units);
  shared_units<Math>(team, a, units, splits, reinterpret_cast<float*>(memory + starts_bytes));
}

}  // namespace

void attention(Team& team, const Attention& a) {
  switch (a.kv.number) {
    case Number::f32: return run<Floats<float>>(team, a);
    case Number::f16: return run<Floats<F16>>(team, a);
#if defined(STOKER_BF16)
    case Number::bf16: return run<PairsOfBF16>(team, a);
#else
    case Number::bf16: return run<Floats<BF16>>(team, a);
#endif
  }
}

}  // namespace stoker::STOKER_ISA
