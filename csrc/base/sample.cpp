// The arithmetic of `sample` is defined to the bit, and reference.py does the same:
//
//   w[i] = e^((double(logit[i]) - double(max)) / temperature), and 0, which is never kept, below
//      e^-708; e^x by Cody and Waite's reduction and the Taylor polynomial of degree 13, each step
//      rounded as isa/scan.cpp writes it
//   1. min_p: keep w >= min_p
//   2. top_k > 0: the first top_k in falling order of logit, equal logits in order of id
//   3. top_p < 1: the first tokens in that order, as few as have a mass >= top_p * (the mass of all
//      that are left)
//   4. in order of id add up w of the kept; the first token whose sum is > u * (the last sum), or
//      the last kept token where rounding leaves none
//
// A mass is a plain chain of double additions: in order of id, but in falling order within step 3's
// "as few as". temperature 0: the first of the largest logits.
//
// Nothing is sorted but what can be kept. The maxima of blocks of 64 logits show which blocks can
// hold a token of the top k or of min_p; the mass by powers of two of w shows below which w no
// token is needed for top_p. Cost per row: one pass for the maxima; one exp per token that is then
// left, which is all of them only where neither top_k nor min_p is asked for.
#include "base/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "base/philox.h"
#include "base/team.h"
#include "kernels.h"

namespace stoker {
namespace {

// A token that sorts by falling logit, then by rising id: both packed into one number.
using Ranked = uint64_t;

Ranked ranked(float logit, int32_t id) {
  const float x = logit + 0.0f;  // -0 is 0
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint32_t rising = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  return uint64_t(~rising) << 32 | uint32_t(id);
}

int32_t id_of(Ranked token) { return int32_t(uint32_t(token)); }

struct Token { Ranked rank; double weight; };

bool by_rank(const Token& a, const Token& b) { return a.rank < b.rank; }
bool by_id(const Token& a, const Token& b) { return uint32_t(a.rank) < uint32_t(b.rank); }

// The logits of a row with the maxima of its blocks.
struct Row {
  const float* logits;
  int64_t V;
  std::vector<float>& maxima;

  int64_t argmax() const {
    const size_t block = size_t(std::max_element(maxima.begin(), maxima.end()) - maxima.begin());
    int64_t i = int64_t(block) * BLOCK;
    const int64_t last = std::min(i + BLOCK, V) - 1;
    while (i < last && logits[i] != maxima[block]) ++i;
    return i;
  }

  // At least k logits are as large as this (or all of them).
  float bound_of_top(size_t k, std::vector<float>& scratch) const {
    if (k > maxima.size()) return -INFINITY;
    scratch = maxima;
    std::nth_element(scratch.begin(), scratch.begin() + (k - 1), scratch.end(), std::greater<>());
    return scratch[k - 1];
  }
};

int64_t argmax(const float* logits, int64_t V) {
  int64_t best = 0;
  for (int64_t i = 1; i < V; ++i)
    if (logits[i] > logits[best]) best = i;
  return best;
}

void logprobs_row(const Logprobs& a, int64_t s, std::vector<Ranked>& order) {
  const float* logits = a.logits + s * a.V;
  const double largest = double(logits[argmax(logits, a.V)]);
  double sum = 0.0;
  for (int64_t i = 0; i < a.V; ++i) sum += std::exp(double(logits[i]) - largest);
  const double log_sum = std::log(sum);
  const auto logprob = [&](int64_t i) { return float(double(logits[i]) - largest - log_sum); };
  a.picked[s] = logprob(a.tokens[s]);
  if (a.k == 0) return;
  order.resize(size_t(a.V));
  for (int64_t i = 0; i < a.V; ++i) order[size_t(i)] = ranked(logits[i], int32_t(i));
  std::partial_sort(order.begin(), order.begin() + a.k, order.end());
  for (int64_t i = 0; i < a.k; ++i) {
    a.top_ids[s * a.k + i] = id_of(order[size_t(i)]);
    a.top[s * a.k + i] = logprob(id_of(order[size_t(i)]));
  }
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
  std::vector<Token> kept, largest;

  int32_t draw(const Sample& a, int64_t s) {
    const float* logits = a.logits + s * a.V;
    maxima.resize(size_t((a.V + BLOCK - 1) / BLOCK));
    const Draw& how = a.draws[s];
    const Row row{logits, a.V, maxima};
    if (!a.kernels.block_maxima(logits, a.V, maxima.data())) return -1;
    const int64_t best = row.argmax();
    if (!std::isfinite(logits[best])) return -1;
    if (how.temperature == 0.0) return int32_t(best);
    const size_t top_k = size_t(how.top_k);
    float bound = -INFINITY;
    if (top_k > 0) bound = row.bound_of_top(top_k, scratch);
    if (how.min_p > 0.0) {  // a little below where w is min_p, to be safe from rounding
      const double reach = how.temperature * (std::log(how.min_p) - 1e-3);
      const double largest = double(logits[best]);
      bound = std::max(bound, float(largest + reach - 1e-5 * std::fabs(largest)));
    }
    weigh(a.kernels, row, bound, double(logits[best]), how);
    if (top_k > 0 && top_k < kept.size()) {
      std::nth_element(kept.begin(), kept.begin() + int64_t(top_k), kept.end(), by_rank);
      kept.resize(top_k);
      std::sort(kept.begin(), kept.end(), by_id);
    }
    if (how.top_p < 1.0) cut_mass(how.top_p);
    if (kept.empty()) return int32_t(best);
    return pick(uniform(how.seed, how.choice, how.position));
  }

  // Keep, in order of id, the tokens of at least `bound` whose w is neither 0 nor below min_p.
  void weigh(const KernelTable& kernels, const Row& row, float bound, double best,
             const Draw& how) {
    kept.clear();
    for (int64_t begin = 0; begin < row.V; begin += BLOCK) {
      if (maxima[size_t(begin / BLOCK)] < bound) continue;
      const float* logits = row.logits + begin;
      const int64_t n = std::min(BLOCK, row.V - begin);
      double weights[BLOCK];
      kernels.sample_weights(logits, n, best, how.temperature, weights);
      for (int64_t i = 0; i < n; ++i)
        if (logits[i] >= bound && weights[i] >= how.min_p && weights[i] > 0.0)
          kept.push_back({ranked(logits[i], int32_t(begin + i)), weights[i]});
    }
  }

  double mass() const {
    double sum = 0.0;
    for (const Token& t : kept) sum += t.weight;
    return sum;
  }

  void cut_mass(double top_p) {
    const double target = top_p * mass();
    // By falling powers of two: tokens above the power at which the target is safely reached.
    double of_power[1024] = {};
    for (const Token& t : kept) of_power[power(t.weight)] += t.weight;
    double sum = 0.0;
    int lowest = 0;
    while (lowest < 1023 && (sum += of_power[lowest]) < target * (1.0 + 1e-6)) ++lowest;
    largest.clear();
    for (const Token& t : kept)
      if (power(t.weight) <= lowest) largest.push_back(t);
    std::sort(largest.begin(), largest.end(), by_rank);
    sum = 0.0;
    size_t count = 0;
    while (count < largest.size() && (count == 0 || sum < target)) sum += largest[count++].weight;
    largest.resize(count);
    std::sort(largest.begin(), largest.end(), by_id);
    kept.swap(largest);
  }

  // p for a w in (2^-(p+1), 2^-p], up to rounding down at the smallest.
  static int power(double w) {
    uint64_t bits;
    std::memcpy(&bits, &w, 8);
    return std::clamp(1023 - int(bits >> 52), 0, 1023);
  }

  int32_t pick(double u) const {
    const double target = u * mass();
    double sum = 0.0;
    for (const Token& t : kept) {
      sum += t.weight;
      if (sum > target) return id_of(t.rank);
    }
    return id_of(kept.back().rank);
  }
};

Sampler::Sampler(int threads) : drawers_(size_t(threads)) {}

Sampler::~Sampler() = default;

void Sampler::run(Team& team, const Sample& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t s = begin; s < end; ++s) a.out[s] = drawers_[size_t(worker)].draw(a, s);
  });
}

void logprobs(Team& team, const Logprobs& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end, int) {
    std::vector<Ranked> order;
    for (int64_t s = begin; s < end; ++s) logprobs_row(a, s, order);
  });
}

}  // namespace stoker
