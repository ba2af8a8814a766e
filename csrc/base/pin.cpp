#include "base/pin.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace stoker {

#if defined(__linux__)
void pin_to(int cpu) {
  cpu_set_t* const set = CPU_ALLOC(size_t(cpu) + 1);  // cpu_set_t itself ends at 1024 CPUs
  if (!set) return;
  const size_t bytes = CPU_ALLOC_SIZE(size_t(cpu) + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(size_t(cpu), bytes, set);
  sched_setaffinity(0, bytes, set);  // 0 is the calling thread, not its process
  CPU_FREE(set);
}
#else
void pin_to(int) {}
#endif

}  // namespace stoker
