// Philox4x32-10 (Salmon et al. 2011): random words as a pure function of a key and a counter.
#pragma once
#include <cstdint>

namespace stoker {

// The number in [0, 1) that belongs to (seed, choice, position): key = seed, counter = (position
// low, position high, choice, 0); the first two words, (word1 << 32 | word0) >> 11, as a 53-bit
// fraction.
inline double uniform(uint64_t seed, uint32_t choice, uint64_t position) {
  uint32_t c[4] = {uint32_t(position), uint32_t(position >> 32), choice, 0};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t c0 = uint32_t(p1 >> 32) ^ c[1] ^ k0, c2 = uint32_t(p0 >> 32) ^ c[3] ^ k1;
    c[0] = c0, c[1] = uint32_t(p1), c[2] = c2, c[3] = uint32_t(p0);
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return double((uint64_t(c[1]) << 32 | c[0]) >> 11) * 0x1p-53;
}

}  // namespace stoker
