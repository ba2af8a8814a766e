// From row-major checkpoints to the panels of layout.h.
#include <algorithm>
#include <cstring>

#include "base/team.h"
#include "base/weight.h"
#include "layout.h"

namespace stoker {
namespace {

template <class T> void float_panel(const WeightView& w, const T* source, int64_t panel, T* out) {
  const int64_t rows = std::min<int64_t>(PANEL, w.N - panel * PANEL);
  const T* first = source + panel * PANEL * w.K;
  constexpr int64_t STRIP = 16;  // columns at a time, so that the lines written stay in L1
  for (int64_t from = 0; from < w.K; from += STRIP) {
    const int64_t to = std::min(from + STRIP, w.K);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = from; k < to; ++k) out[k * PANEL + r] = first[r * w.K + k];
  }
}

// One row's 32 codes of a block, 16 bytes in the order of GGUF Q4_0, into its block's int4 codes.
void int4_codes(const uint8_t* source, int r, uint8_t* codes) {
  uint32_t word[8];  // columns 4i .. 4i + 3, one per byte
  for (int i = 0; i < 4; ++i) {
    uint32_t four;
    std::memcpy(&four, source + 4 * i, 4);
    word[i] = four & 0x0f0f0f0f;
    word[i + 4] = four >> 4 & 0x0f0f0f0f;
  }
  for (int j = 0; j < 4; ++j) {
    const uint32_t pair = word[2 * j] | word[2 * j + 1] << 4;
    std::memcpy(codes + (j * PANEL + r) * 4, &pair, 4);
  }
}

void int8_codes(const uint8_t* source, int r, uint8_t* codes) {
  for (int j = 0; j < 8; ++j) std::memcpy(codes + (j * PANEL + r) * 4, source + 4 * j, 4);
}

struct IntSource {
  const uint8_t* codes;
  const uint8_t* scale;
  const uint8_t* minimum;
};

template <class S>
void int_row(const WeightView& w, const IntSource& source, int64_t row, uint8_t* panel) {
  const int64_t groups = GROUP / w.group, blocks = w.K / GROUP, size = block_bytes(w);
  const int64_t block_codes = w.format == Format::int4 ? 16 : 32;
  const int r = int(row % PANEL);
  const uint8_t* codes = source.codes + row * blocks * block_codes;
  const S* scale = reinterpret_cast<const S*>(source.scale) + row * blocks * groups;
  const S* minimum = reinterpret_cast<const S*>(source.minimum) + row * blocks * groups;
  for (int64_t b = 0; b < blocks; ++b, panel += size, codes += block_codes) {
    S* out = reinterpret_cast<S*>(panel) + r;
    for (int64_t g = 0; g < groups; ++g) {
      out[g * PANEL] = scale[b * groups + g];
      if (w.has_minimum) out[(groups + g) * PANEL] = minimum[b * groups + g];
    }
    uint8_t* to = panel + size - code_bytes(w.format);
    w.format == Format::int4 ? int4_codes(codes, r, to) : int8_codes(codes, r, to);
  }
}

template <class Body> void for_panels(Team& team, const WeightView& w, Body body) {
  team.run(panels_of(w.N), 4, [](void* job, int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) (*static_cast<Body*>(job))(panel);
  }, &body);
}

}  // namespace

PackedWeight::PackedWeight(WeightArena& arena, const WeightView& shape)
    : view_(shape), nbytes_(panels_of(shape.N) * panel_bytes(shape)), memory_(arena.take(nbytes_)) {
  view_.data = memory_.get();
  // The rows that pad the last panel; the others are overwritten.
  const int64_t last = panel_bytes(shape);
  if (shape.N % PANEL) std::memset(memory_.get() + nbytes_ - last, 0, size_t(last));
}

void pack_float(Team& team, PackedWeight& weight, const void* data) {
  const WeightView& w = weight.view();
  for_panels(team, w, [&](int64_t panel) {
    uint8_t* out = weight.data() + panel * panel_bytes(w);
    if (w.format == Format::f32)
      float_panel(w, static_cast<const uint32_t*>(data), panel, reinterpret_cast<uint32_t*>(out));
    else
      float_panel(w, static_cast<const uint16_t*>(data), panel, reinterpret_cast<uint16_t*>(out));
  });
}

void pack_int(Team& team, PackedWeight& weight, const void* codes, const void* scale,
              const void* minimum) {
  const WeightView& w = weight.view();
  const IntSource source{static_cast<const uint8_t*>(codes), static_cast<const uint8_t*>(scale),
                         static_cast<const uint8_t*>(minimum)};
  for_panels(team, w, [&](int64_t panel) {
    uint8_t* out = weight.data() + panel * panel_bytes(w);
    const int64_t end = std::min((panel + 1) * PANEL, w.N);
    for (int64_t row = panel * PANEL; row < end; ++row) {
      if (w.wide_scales) int_row<uint32_t>(w, source, row, out);
      else int_row<uint16_t>(w, source, row, out);
    }
  });
}

}  // namespace stoker
