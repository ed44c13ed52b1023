// Memory for packed weights: zeroed, and aligned to a cache line as vector loads like it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace mpe {

inline constexpr std::size_t kCacheLine = 64;

inline constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, std::align_val_t(kCacheLine)))),
        size_(size) {
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
  std::unique_ptr<std::byte, Release> data_;
  std::size_t size_ = 0;
};

}  // namespace mpe
