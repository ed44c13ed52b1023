// Memory for packed weights: zeroed, and aligned to a cache line as vector loads like it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mpe {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

inline constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, std::align_val_t(kCacheLine)))),
        size_(size) {
    ask_for_huge_pages();
    std::memset(data_.get(), 0, size);
  }

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Release {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t(kCacheLine));
    }
  };

  // For what fills whole ones, so that they take no more memory. Reading the weights then misses
  // the TLB less often.
  void ask_for_huge_pages() {
#ifdef __linux__
    const std::size_t address = reinterpret_cast<std::uintptr_t>(data_.get());
    const std::size_t first = round_up(address, kHugePage) - address;
    if (size_ < first + kHugePage) return;
    // Advice only: it may fail.
    madvise(data_.get() + first, (size_ - first) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  }

  std::unique_ptr<std::byte, Release> data_;
  std::size_t size_ = 0;
};

}  // namespace mpe
