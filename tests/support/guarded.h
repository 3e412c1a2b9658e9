// Memory that ends at a guard page, so that reading or writing one element too far crashes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tern::test {

// n elements of T that end at a guard page; filled with 0xEE.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n) : n_(n) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (n * sizeof(T) + page - 1) / page * page;
    mapped_ = usable + 2 * page;  // with a guard page in front, too
    base_ = static_cast<std::uint8_t*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page, usable, PROT_READ | PROT_WRITE);
    std::memset(base_ + page, 0xEE, usable);
    data_ = reinterpret_cast<T*>(base_ + page + usable - n * sizeof(T));
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return n_; }
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  std::size_t n_, mapped_;
  std::uint8_t* base_;
  T* data_;
};

// By memcmp: operator== of such vectors compares byte by byte, which sanitizers make slow.
inline bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace tern::test
