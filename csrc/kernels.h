// What the binding and the instruction-set folders know of each other: plain structs of pointers
// and sizes, and a table of functions. Nothing here owns memory, and nothing here checks: the
// callers in module.cpp and in Python have checked every shape, type and page number.
#pragma once
#include <cstdint>

namespace stoker {

class Team;

inline constexpr int PAGE = 16;   // tokens per KV page
inline constexpr int PANEL = 16;  // output rows of a weight that lie together
inline constexpr int GROUP = 32;  // columns per int4/int8 block, and per activation scale

enum class Number : uint8_t { f32, f16, bf16 };
enum class Format : uint8_t { f32, f16, bf16, int8, int4 };

// A packed [N, K] weight. Panels of PANEL rows follow each other, the last one padded with zeros.
struct WeightView {
  const uint8_t* data;
  int64_t N, K;
  Format format;
  bool wide_scales;   // scales and minima are f32 instead of f16
  bool has_minimum;   // int4 without: a code q of 0..15 stands for q - 8
  int group;          // columns per scale: 32, or 16 (int8 only)
};

struct Embed { const int32_t* ids; int64_t T; WeightView table; float scale; float* out; };
struct Linear { const float* x; int64_t M; WeightView weight; const float* bias; float* out; };

// Rows as linears read them: float32, or int8 with scales (layout.h) and the sums that the weight's
// groups of columns need. One set of rows may be wanted in several codes; null where one is not.
enum class Code : uint8_t { f32, i8, i8_halves };
inline constexpr int CODES = 3;
struct Operand { void* at[CODES]; };

// Makes an operand of M rows: of x itself, of rms_norm(x) or of activation(x) * y.
enum class Source : uint8_t { rows, rms_norm, silu_glu, gelu_glu };
struct Prepare { Source source; const float* x; const float* y; const float* weight; float eps;
                 int64_t M, K; Operand out; };

// Several linears over the same M rows: out = x weight^T + bias, added to `residual` where there is
// one (which may be `out` itself).
struct Part { WeightView weight; const float* bias; const float* residual; float* out; };
struct Product { Operand x; int64_t M, K; const Part* parts; int64_t count; };

// activation(gate) * up of two linears over the same rows, as an operand in Code::i8 of a third one:
// N of both is a multiple of GROUP, and neither adds a residual.
struct Gated { Operand x; int64_t M, K; Part gate, up; bool gelu; void* out; };

struct RmsNorm { const float* x; const float* weight; int64_t M, K; float eps; float* out; };
struct Glu { const float* gate; const float* up; int64_t n; bool gelu; float* out; };
struct Add { const float* x; const float* y; int64_t n; float* out; };
struct TakeRows { const float* x; const int32_t* index; int64_t S, K; float* out; };

// One layer's KV pages. A page of K is [kv_heads][head_dim][PAGE], one of V
// [kv_heads][PAGE][head_dim]; strides are in values, from one page to the next.
struct KV {
  uint8_t* k; uint8_t* v;
  int64_t k_stride, v_stride, num_pages;
  int64_t kv_heads, head_dim;
  Number number;
};

// T rows: where each stands in its sequence and which sequence (row of page_table) that is.
struct RowMap {
  const int32_t* positions; const int32_t* row_seq; const int32_t* page_table;
  int64_t T, B, max_pages;
};

// Heads are normalised before rotation where q_norm and k_norm are not null.
struct Rope { const float* q; const float* k; const float* v; const float* cos_sin;
              RowMap rows; KV kv; int64_t heads; const float* q_norm; const float* k_norm;
              float q_eps, k_eps; float* q_out; };
struct Attention { const float* q; RowMap rows; KV kv; int64_t heads; float scale;
                   int64_t window;  // 0: none
                   float* out; };

inline constexpr int64_t BLOCK = 64;  // numbers that share an entry of block_maxima

// The mass of a logit x is 2^((x - largest) * rate), as base/sample.cpp defines it.
struct Weighing { float largest, rate; };

struct KernelTable {
  void (*embed)(Team&, const Embed&);
  void (*linear)(Team&, const Linear&);
  void (*prepare)(Team&, const Prepare&);
  void (*product)(Team&, const Product&);
  void (*gated)(Team&, const Gated&);
  void (*rms_norm)(Team&, const RmsNorm&);
  void (*rope_and_store)(Team&, const Rope&);
  void (*attention)(Team&, const Attention&);
  void (*glu)(Team&, const Glu&);
  void (*add)(Team&, const Add&);
  void (*take_rows)(Team&, const TakeRows&);
  // The largest of each BLOCK of n numbers, the last one perhaps shorter; false where one is NaN.
  bool (*block_maxima)(const float* x, int64_t n, float* out);
  // The masses of n <= BLOCK logits, 0 where a logit is below `bound`, and their sum.
  uint64_t (*masses)(const float* x, int64_t n, const Weighing& how, float bound, uint64_t* out);
};

namespace portable { extern const KernelTable table; }
namespace avx2 { extern const KernelTable table; }
namespace vnni { extern const KernelTable table; }
namespace avx512 { extern const KernelTable table; }

}  // namespace stoker
