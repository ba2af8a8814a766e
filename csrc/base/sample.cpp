// The arithmetic of `sample` is defined to the bit, and reference.py does the same:
//
//   w[i] = std::exp((double(logit[i]) - double(max)) / double(temperature)); w = 0 is never kept
//   1. min_p: keep w >= double(min_p)
//   2. top_k > 0: the first top_k in falling order of logit, equal logits in order of id
//   3. top_p < 1: in that order add up w; the shortest run whose sum is >= top_p * (the last sum)
//   4. in order of id add up w of the kept; the first token whose sum is > u * (the last sum), or
//      the last kept token where rounding leaves none
//
// Sums are plain chains of double additions. temperature 0: the first of the largest logits.
// Cost per row: one exp per token; with top_p, a radix sort of the tokens that are left by then.
#include "base/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/philox.h"
#include "base/team.h"

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

// Sort by the upper half alone, which keeps equal logits in the order they come in (by id).
void sort_ranked(std::vector<Ranked>& tokens) {
  constexpr int BITS = 11, BUCKETS = 1 << BITS;
  if (tokens.size() < BUCKETS) return std::sort(tokens.begin(), tokens.end());
  std::vector<Ranked> other(tokens.size());
  for (int shift = 32; shift < 64; shift += BITS) {
    size_t start[BUCKETS + 1] = {};
    for (Ranked t : tokens) ++start[(t >> shift & (BUCKETS - 1)) + 1];
    for (int i = 0; i < BUCKETS; ++i) start[i + 1] += start[i];
    for (Ranked t : tokens) other[start[t >> shift & (BUCKETS - 1)]++] = t;
    tokens.swap(other);
  }
}

int64_t argmax(const float* logits, int64_t V) {
  int64_t best = 0;
  for (int64_t i = 1; i < V; ++i)
    if (logits[i] > logits[best]) best = i;
  return best;
}

// What one thread needs to draw, kept from row to row.
struct Drawer {
  std::vector<double> weight;
  std::vector<Ranked> kept;

  int32_t draw(const float* logits, int64_t V, double temperature, double top_p, double min_p,
               int64_t top_k, double u) {
    const int64_t best = argmax(logits, V);
    if (temperature == 0.0) return int32_t(best);
    weight.resize(size_t(V));
    kept.clear();
    for (int64_t i = 0; i < V; ++i) {
      const double w = std::exp((double(logits[i]) - double(logits[best])) / temperature);
      weight[size_t(i)] = w;
      if (w >= min_p && w > 0.0) kept.push_back(ranked(logits[i], int32_t(i)));
    }
    if (top_k > 0 && size_t(top_k) < kept.size()) {
      std::nth_element(kept.begin(), kept.begin() + top_k, kept.end());
      kept.resize(size_t(top_k));
      std::sort(kept.begin(), kept.end());
    }
    if (top_p < 1.0) cut_mass(top_p);
    if (top_k > 0 || top_p < 1.0)  // else they are in order of id still
      std::sort(kept.begin(), kept.end(), [](Ranked a, Ranked b) { return id_of(a) < id_of(b); });
    return kept.empty() ? int32_t(best) : pick(u);
  }

  double mass() const {
    double sum = 0.0;
    for (Ranked t : kept) sum += weight[size_t(id_of(t))];
    return sum;
  }

  void cut_mass(double top_p) {
    sort_ranked(kept);
    const double target = top_p * mass();
    double sum = 0.0;
    for (size_t i = 0; i < kept.size(); ++i) {
      sum += weight[size_t(id_of(kept[i]))];
      if (sum >= target) return kept.resize(i + 1);
    }
  }

  int32_t pick(double u) const {
    const double target = u * mass();
    double sum = 0.0;
    for (Ranked t : kept) {
      sum += weight[size_t(id_of(t))];
      if (sum > target) return id_of(t);
    }
    return id_of(kept.back());
  }
};

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
  team.run(rows, 1, [](void* job, int64_t begin, int64_t end, int) {
    (*static_cast<Body*>(job))(begin, end);
  }, &body);
}

}  // namespace

void sample(Team& team, const Sample& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end) {
    Drawer drawer;
    for (int64_t s = begin; s < end; ++s) {
      const double u = uniform(uint64_t(a.seed[s]), uint32_t(a.choice[s]), uint64_t(a.position[s]));
      a.out[s] = drawer.draw(a.logits + s * a.V, a.V, double(a.temperature[s]),
                             double(a.top_p[s]), double(a.min_p[s]), a.top_k[s], u);
    }
  });
}

void logprobs(Team& team, const Logprobs& a) {
  for_rows(team, a.S, [&](int64_t begin, int64_t end) {
    std::vector<Ranked> order;
    for (int64_t s = begin; s < end; ++s) logprobs_row(a, s, order);
  });
}

}  // namespace stoker
