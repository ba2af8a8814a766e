// Drawing tokens and reading log probabilities: row by row, in double precision.
#pragma once
#include <cstdint>

namespace stoker {

class Team;

struct Sample {
  const float* logits;  // [S, V]
  int64_t S, V;
  const float* temperature;
  const float* top_p;
  const float* min_p;
  const int32_t* top_k;
  const int64_t* seed;
  const int32_t* choice;
  const int64_t* position;
  int32_t* out;
  void (*block_maxima)(const float* x, int64_t n, float* out);  // see KernelTable
};

struct Logprobs {
  const float* logits;  // [S, V]
  int64_t S, V;
  const int32_t* tokens;
  int64_t k;
  float* picked;      // [S]
  int32_t* top_ids;   // [S, k]
  float* top;         // [S, k]
};

void sample(Team& team, const Sample& a);
void logprobs(Team& team, const Logprobs& a);

}  // namespace stoker
