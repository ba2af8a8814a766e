// Drawing tokens and reading log probabilities, row by row.
#pragma once
#include <cstdint>
#include <vector>

namespace stoker {

class Team;
struct KernelTable;

struct Draw {
  double temperature, top_p, min_p;
  int64_t top_k;
  uint64_t seed;
  uint32_t choice;
  uint64_t position;
};

struct Sample {
  const float* logits;  // [S, V]
  int64_t S, V;
  const Draw* draws;  // [S]
  int32_t* out;       // [S]; -1 where nothing can be drawn: a NaN, +inf, or nothing finite
  const KernelTable& kernels;
};

struct Logprobs {
  const float* logits;  // [S, V]
  int64_t S, V;
  const int32_t* tokens;
  int64_t k;
  float* picked;     // [S]
  int32_t* top_ids;  // [S, k]
  float* top;        // [S, k]
  const KernelTable& kernels;
};

// Keeps what each thread needs to draw: memory that is given back to the system after every step
// would be cleared by it before every step.
class Sampler {
 public:
  explicit Sampler(int threads);
  ~Sampler();
  void run(Team& team, const Sample& a);
  void run(Team& team, const Logprobs& a);

 private:
  struct Drawer;
  std::vector<Drawer> drawers_;  // by worker
};

}  // namespace stoker
