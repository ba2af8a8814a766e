// The arithmetic of `sample` is defined to the bit, and reference.py does the same:
//
//   y[i] = (logit[i] - the largest) * rate in float32, rate = log2(e) / temperature
//   mass[i] = 2^y[i] in float32, each step rounded as isa/scan.cpp writes it, times 2^40, to the
//      nearest whole number
//   1. keep y >= max(-40, log2(min_p)): no token 2^40 times less probable than the best is drawn
//   2. top_k > 0: the first top_k in falling order of logit, equal logits in order of id
//   3. top_p < 1: the first tokens in that order, as few as have a mass >= top_p * (the mass of all
//      that are left)
//   4. in order of id add up the masses of the kept; the first token whose sum is > u * (the last)
//
// temperature 0: the first of the largest logits.
//
// Masses are whole numbers, so their sums are exact, in any order: nothing need be sorted to find
// what steps 3 and 4 ask for, and what is known of a block can be used whole. Every step keeps the
// front of one order, so all of them together are one Cut: the last token that is kept.
//
//   logits  [ 64 | 64 | 64 | ... ]  read once for the maxima, then only in blocks that can hold a
//   maxima  [  1 |  1 |  1 | ... ]  kept token: to weigh them, and for top_p in slices from the top
//   sums    [  1 |  1 |  1 | ... ]  the kept mass of each block; a draw looks into one block
//
// Cost per row: 4 V bytes for the maxima, and 5 instructions for each token of the blocks that are
// weighed: without top_k and min_p all but those that lie 2^40 below the best.
#include "base/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/philox.h"
#include "base/team.h"
#include "kernels.h"

namespace stoker {
namespace {

constexpr double FLOOR = -40.0;

// Numbers that rise with the float; -0 is 0.
uint32_t rising(float logit) {
  const float x = logit + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}
float of_rising(uint32_t number) {
  const uint32_t bits = number & 0x80000000 ? number & 0x7fffffff : ~number;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// A token that sorts by falling logit, then by rising id: both packed into one number.
using Ranked = uint64_t;

Ranked ranked(float logit, int64_t id) {
  return uint64_t(~rising(logit)) << 32 | uint32_t(id);
}

int32_t id_of(Ranked token) { return int32_t(uint32_t(token)); }

struct Token { Ranked rank; uint64_t mass; };

// Keeps the tokens up to this one in the order of ranks.
struct Cut {
  float logit;
  int64_t id = std::numeric_limits<int32_t>::max();
};

// The first token in order of rank at which the masses reach `need`, which all of them do. Halves
// the tokens until one is left.
Ranked reach(std::vector<Token>& tokens, uint64_t need) {
  auto begin = tokens.begin(), end = tokens.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, [](auto& a, auto& b) { return a.rank < b.rank; });
    uint64_t upper = 0;
    for (auto token = begin; token < middle; ++token) upper += token->mass;
    if (upper >= need) end = middle;
    else need -= upper, begin = middle;
  }
  return begin->rank;
}

// A row of logits in blocks. Its vectors are lent, to be kept from row to row.
struct Row {
  const float* logits;
  int64_t V;
  std::vector<float>& maxima;

  int64_t size(size_t block) const { return std::min(BLOCK, V - int64_t(block) * BLOCK); }

  int64_t argmax() const {
    const size_t block = size_t(std::max_element(maxima.begin(), maxima.end()) - maxima.begin());
    int64_t i = int64_t(block) * BLOCK;
    const int64_t last = i + size(block) - 1;
    while (i < last && logits[i] != maxima[block]) ++i;
    return i;
  }

  // The k tokens of lowest rank, the last of them at the end, the others in any order. At least k
  // logits are as large as the k-th largest maximum.
  void largest(size_t k, std::vector<float>& scratch, std::vector<Ranked>& out) const {
    float bound = -std::numeric_limits<float>::infinity();
    if (k <= maxima.size()) {
      scratch = maxima;
      const auto kth = scratch.begin() + int64_t(k) - 1;
      std::nth_element(scratch.begin(), kth, scratch.end(), std::greater<>());
      bound = *kth;
    }
    out.clear();
    for (size_t block = 0; block < maxima.size(); ++block) {
      if (maxima[block] < bound) continue;
      const int64_t begin = int64_t(block) * BLOCK, end = begin + size(block);
      for (int64_t i = begin; i < end; ++i)
        if (logits[i] >= bound) out.push_back(ranked(logits[i], i));
    }
    std::nth_element(out.begin(), out.begin() + int64_t(k) - 1, out.end());
    out.resize(k);
  }
};

// What the tokens of a row weigh. `sums`, one for each block, is lent.
struct Scale {
  const KernelTable& kernels;
  const Row& row;
  Weighing how;
  std::vector<uint64_t>& sums;

  // What min_p keeps: logits from the smallest x on for which (x - largest) * rate, which rises
  // with x, is at least the floor. Found between two floats, one too small and one large enough.
  Cut above_floor(double min_p) const {
    const float floor = float(std::max(FLOOR, std::log2(std::max(min_p, 1e-30))));
    uint32_t small = rising(-std::numeric_limits<float>::infinity()), enough = rising(how.largest);
    while (enough - small > 1) {
      const uint32_t middle = small + (enough - small) / 2;
      const bool is_enough = (of_rising(middle) - how.largest) * how.rate >= floor;
      (is_enough ? enough : small) = middle;
    }
    return {of_rising(enough)};
  }

  uint64_t masses(size_t block, const Cut& cut, uint64_t* out) const {
    const int64_t begin = int64_t(block) * BLOCK, n = row.size(block);
    const float* x = row.logits + begin;
    uint64_t sum = kernels.masses(x, n, how, cut.logit, out);
    for (int64_t i = std::max(cut.id + 1 - begin, int64_t(0)); i < n; ++i)
      if (x[i] == cut.logit) sum -= out[i], out[i] = 0;
    return sum;
  }

  // Sets `sums` and returns their sum.
  uint64_t weigh(const Cut& cut) const {
    sums.resize(row.maxima.size());
    uint64_t masses_of_block[BLOCK], total = 0;
    for (size_t block = 0; block < sums.size(); ++block) {
      const bool holds_kept = row.maxima[block] >= cut.logit;
      sums[block] = holds_kept ? masses(block, cut, masses_of_block) : 0;
      total += sums[block];
    }
    return total;
  }

  // The tokens that `cut` keeps end where their masses first reach `need`; after weigh(cut).
  // From the largest logit down in slices of 2^3, until the one in which that happens.
  Cut reach(const Cut& cut, uint64_t need, std::vector<Token>& tokens) const {
    constexpr float SLICE = 3.0f;
    float high = std::numeric_limits<float>::infinity();
    for (float depth = SLICE; depth < SLICE - FLOOR; depth += SLICE) {
      const float low = how.largest - depth / how.rate;
      const uint64_t sum = slice(low > cut.logit ? Cut{low} : cut, high, tokens);
      if (sum >= need) break;
      need -= sum, high = low;
    }
    const Ranked last = stoker::reach(tokens, need);
    return {row.logits[id_of(last)], id_of(last)};
  }

  // Fetches the tokens that `cut` keeps and that are less than `high`; returns their mass.
  uint64_t slice(const Cut& cut, float high, std::vector<Token>& tokens) const {
    tokens.clear();
    uint64_t mass[BLOCK], total = 0;
    for (size_t block = 0; block < sums.size(); ++block) {
      if (sums[block] == 0 || row.maxima[block] < cut.logit) continue;
      masses(block, cut, mass);
      const int64_t begin = int64_t(block) * BLOCK;
      for (int64_t i = 0; i < row.size(block); ++i) {
        if (mass[i] == 0 || row.logits[begin + i] >= high) continue;
        tokens.push_back({ranked(row.logits[begin + i], begin + i), mass[i]});
        total += mass[i];
      }
    }
    return total;
  }

  // The first token at which the masses in order of id exceed `target`; after weigh(cut).
  int32_t pick(const Cut& cut, uint64_t target) const {
    size_t block = 0;
    while (sums[block] <= target) target -= sums[block++];
    uint64_t mass[BLOCK];
    masses(block, cut, mass);
    int64_t i = 0;
    while (mass[i] <= target) target -= mass[i++];
    return int32_t(int64_t(block) * BLOCK + i);
  }
};

// Of y for a step of one in the logit; at least so much that -inf times it is -inf.
float rate(double temperature) {
  using Limits = std::numeric_limits<float>;
  return float(std::clamp(1.44269504088896341 / temperature, double(Limits::min()),
                          double(Limits::max())));
}

template <class Body> void for_rows(Team& team, int64_t rows, Body body) {
  team.run(rows, 1, [](void* job, int64_t begin, int64_t end, int worker) {
    (*static_cast<Body*>(job))(begin, end, worker);
  }, &body);
}

}  // namespace

// What one thread needs to draw, kept from row to row.
struct Sampler::Drawer {
  std::vector<float> maxima, scratch;
  std::vector<uint64_t> sums;
  std::vector<Ranked> top;
  std::vector<Token> tokens;

  int32_t draw(const Sample& a, int64_t s) {
    const float* logits = a.logits + s * a.V;
    maxima.resize(size_t((a.V + BLOCK - 1) / BLOCK));
    const Draw& how = a.draws[s];
    const Row row{logits, a.V, maxima};
    if (!a.kernels.block_maxima(logits, a.V, maxima.data())) return -1;
    const int64_t best = row.argmax();
    if (!std::isfinite(logits[best])) return -1;
    if (how.temperature == 0.0) return int32_t(best);

    const Scale scale{a.kernels, row, {logits[best], rate(how.temperature)}, sums};
    Cut cut = scale.above_floor(how.min_p);
    if (how.top_k > 0 && how.top_k < a.V) {
      row.largest(size_t(how.top_k), scratch, top);
      const Cut kth = {logits[id_of(top.back())], id_of(top.back())};
      if (kth.logit >= cut.logit) cut = kth;
    }
    uint64_t total = scale.weigh(cut);
    if (how.top_p < 1.0) {
      const auto need = uint64_t(std::ceil(how.top_p * double(total)));
      cut = scale.reach(cut, std::clamp(need, uint64_t(1), total), tokens);
      total = scale.weigh(cut);
    }
    const auto u = uint64_t(uniform(how.seed, how.choice, how.position) * 0x1p53);
    return scale.pick(cut, uint64_t(static_cast<unsigned __int128>(u) * total >> 53));
  }

  void logprobs(const Logprobs& a, int64_t s) {
    const float* logits = a.logits + s * a.V;
    maxima.resize(size_t((a.V + BLOCK - 1) / BLOCK));
    const Row row{logits, a.V, maxima};
    int32_t* top_ids = a.top_ids + s * a.k;
    if (!a.kernels.block_maxima(logits, a.V, maxima.data())) {
      std::iota(top_ids, top_ids + a.k, 0);
      std::fill_n(a.top + s * a.k, a.k, NAN);
      a.picked[s] = NAN;
      return;
    }
    const float largest = logits[row.argmax()];
    const Scale scale{a.kernels, row, {largest, rate(1.0)}, sums};
    const double log_sum = std::log(double(scale.weigh(scale.above_floor(0.0))) * 0x1p-40);
    const auto logprob = [&](int64_t i) { return float(double(logits[i]) - largest - log_sum); };
    a.picked[s] = logprob(a.tokens[s]);
    if (a.k == 0) return;
    row.largest(size_t(a.k), scratch, top);
    std::sort(top.begin(), top.end());
    for (int64_t i = 0; i < a.k; ++i) {
      top_ids[i] = id_of(top[size_t(i)]);
      a.top[s * a.k + i] = logprob(top_ids[i]);
    }
  }
};

Sampler::Sampler(int threads) : drawers_(size_t(threads)) {}

Sampler::~Sampler() = default;

void Sampler::run(Team& team, const Sample& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t s = begin; s < end; ++s) a.out[s] = drawers_[size_t(worker)].draw(a, s);
  });
}

void Sampler::run(Team& team, const Logprobs& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t s = begin; s < end; ++s) drawers_[size_t(worker)].logprobs(a, s);
  });
}

}  // namespace stoker
