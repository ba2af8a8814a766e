// A team of threads that share the units of one job.
//
// Units are handed out in chunks of consecutive numbers from one counter, so a slow thread does
// less. Results may not depend on that: a unit writes only its own outputs. The caller works too,
// and never waits for a thread that has not begun: on a busy machine a job is as slow as the caller
// alone at worst.
//
// No function body here: isa/ includes this, and an inline function compiled there with AVX2 could
// be the copy that the linker keeps for everyone.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace stoker {

class Team {
 public:
  using Work = void (*)(void* job, int64_t begin, int64_t end, int worker);

  // cpus: empty, or for each worker the logical CPU to bind its thread to; the caller's thread,
  // which is worker 0, is left alone.
  explicit Team(int threads, const std::vector<int>& cpus = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const;

  // Calls work(job, begin, end, worker) until 0..units are done. worker: 0..threads-1.
  void run(int64_t units, int64_t chunk, Work work, void* job);

  // Memory of at least `bytes` that lasts until the next call with the same worker number;
  // `shared()` is one for all workers. 64-byte aligned, contents undefined.
  void* scratch(int worker, int64_t bytes);
  void* shared(int64_t bytes);

  // One op at a time: held by every op while it runs.
  std::mutex busy;

 private:
  struct Scratch { void* data = nullptr; int64_t bytes = 0; };
  static void* grow(Scratch& scratch, int64_t bytes);
  void serve(int worker);
  void work_off(int worker);
  bool enter(uint64_t& last_job);

  // gate_: job number in the upper half, then one bit "open", then the count of workers inside.
  static constexpr uint64_t JOB = uint64_t(1) << 32, OPEN = uint64_t(1) << 31, COUNT = OPEN - 1;
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) int64_t units_ = 0;
  int64_t chunk_ = 1;
  Work work_ = nullptr;
  void* job_ = nullptr;
  std::atomic<bool> stop_{false};
  std::atomic<int> asleep_{0};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::vector<Scratch> scratch_;
  std::vector<std::thread> workers_;
};

}  // namespace stoker
