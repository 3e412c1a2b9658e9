// The one file that knows pthreadpool.
//
// Two things Debian's pthreadpool does not do for itself: it hangs when a thread cannot be started, so as many probe
// threads are started first and the pool is made no larger than what started; and its threads are gone in a forked
// child, so the child makes a new pool at its first run and leaves the old one's memory alone.
#include "device/threads.h"

#include <pthread.h>
#include <pthreadpool.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "base/fp_env.h"

#if defined(__SANITIZE_THREAD__)
// pthreadpool is not instrumented: tell ThreadSanitizer of the order that its barriers give.
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#define TERN_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define TERN_TSAN_RELEASE(address) __tsan_release(address)
#else
#define TERN_TSAN_ACQUIRE(address) (void)(address)
#define TERN_TSAN_RELEASE(address) (void)(address)
#endif

namespace tern {
namespace {

// Counts the forks between the first process and this one.
std::atomic<int> fork_generation{0};

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  (void)registered;
}

// How many of `wanted` threads the system lets run beside each other.
int startable_threads(int wanted) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  } gate;
  std::vector<pthread_t> probes;
  probes.reserve(static_cast<std::size_t>(wanted));
  for (int i = 0; i < wanted; ++i) {
    pthread_t thread{};
    const auto wait = [](void* p) -> void* {
      auto& g = *static_cast<Gate*>(p);
      std::unique_lock lock(g.mutex);
      g.opened.wait(lock, [&] { return g.open; });
      return nullptr;
    };
    if (pthread_create(&thread, nullptr, wait, &gate) != 0) break;
    probes.push_back(thread);
  }
  {
    const std::scoped_lock lock(gate.mutex);
    gate.open = true;
  }
  gate.opened.notify_all();
  for (const pthread_t thread : probes) pthread_join(thread, nullptr);
  return static_cast<int>(probes.size());
}

struct Job {
  Threads::Task task;
  void* context;
};

void run_slot(void* p, std::size_t slot) {
  const Job& job = *static_cast<const Job*>(p);
  TERN_TSAN_ACQUIRE(p);
  {
    const FpEnvGuard modes;
    job.task(job.context, static_cast<int>(slot));
  }
  TERN_TSAN_RELEASE(p);
}

}  // namespace

struct Threads::Pool {
  pthreadpool_t handle = nullptr;  // null: this process gets no second thread
  int generation = 0;

  explicit Pool(int count) : generation(fork_generation.load()) {
    const int helpers = startable_threads(count - 1);
    if (helpers > 0) handle = pthreadpool_create(static_cast<std::size_t>(helpers) + 1);
  }
  ~Pool() {
    if (handle != nullptr && generation == fork_generation.load()) pthreadpool_destroy(handle);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
};

Threads::Threads(int count, ParallelFor parallel_for)
    : count_(std::max(1, count)), parallel_for_(std::move(parallel_for)) {
  watch_forks();
}

Threads::~Threads() { delete pool_.load(); }

Threads::Pool* Threads::pool() const {
  Pool* current = pool_.load(std::memory_order_acquire);
  if (current != nullptr && current->generation == fork_generation.load(std::memory_order_relaxed)) return current;
  auto* made = new (std::nothrow) Pool(count_);
  if (made == nullptr) return nullptr;
  if (pool_.compare_exchange_strong(current, made, std::memory_order_acq_rel)) return made;
  delete made;  // another thread was first
  return current;
}

void Threads::run(int slots, Task task, void* context) const {
  Job job{task, context};
  if (slots <= 1 || count_ == 1) {
    for (int slot = 0; slot < slots; ++slot) run_slot(&job, static_cast<std::size_t>(slot));
    return;
  }
  if (parallel_for_) {
    parallel_for_(slots, [&job](int slot) { run_slot(&job, static_cast<std::size_t>(slot)); });
    return;
  }
  Pool* workers = pool();
  TERN_TSAN_RELEASE(&job);
  // A null pool makes pthreadpool run every slot on this thread.
  pthreadpool_parallelize_1d(workers == nullptr ? nullptr : workers->handle, run_slot, &job,
                             static_cast<std::size_t>(slots), 0);
  TERN_TSAN_ACQUIRE(&job);
}

}  // namespace tern
