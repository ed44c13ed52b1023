// Convolutions one after the other that are computed together, a few rows at a time: the rows
// between two of them stay in the cache, and the tensors are never stored whole (Alwani et al.,
// Fused-Layer CNN Accelerators, 2016). Every value is computed as by the convolution alone, so the
// bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/convolution.h"
#include "threads/thread_pool.h"

namespace mpe {

struct RowLink {
  int layer = 0;
  const Convolution* convolution = nullptr;
  ConvolutionShape shape;
  std::size_t value_bytes = 0;  // of its output
};

class RowChain {
 public:
  static constexpr std::size_t kMostLinks = 3;

  // Null where so many threads gain nothing: where the tensors between the layers stay in the
  // second-level cache anyway, where the weights, which every few rows read again, are as large as
  // these tensors, or where threads would compute too many rows twice.
  static std::unique_ptr<RowChain> make(std::span<const RowLink> links, int threads);

  // Of links that compute rows, each reading the one before. `rows` of the last output are computed
  // at once: a multiple of each link's Convolution::row_step().
  RowChain(std::span<const RowLink> links, int threads, int rows);

  std::span<const RowLink> links() const { return links_; }
  std::size_t scratch_bytes() const { return static_cast<std::size_t>(threads_) * thread_bytes_; }

  // `ended`, if any, is called with a link's layer whenever the first thread has computed some rows
  // of it. Threads share the rows of the last output.
  void run(const void* input, void* output, std::byte* scratch, ThreadPool& pool,
           const std::function<void(int)>& ended) const;

 private:
  class Share;
  bool overwrites_ring(std::size_t link) const;
  int ring_rows(std::size_t link) const;
  std::size_t ring_bytes(std::size_t link) const;
  std::size_t rings_bytes() const;

  std::vector<RowLink> links_;
  const int threads_;
  const int rows_;
  int step_ = 1;  // shares of threads begin at a multiple of so many rows
  std::size_t thread_bytes_ = 0;
};

}  // namespace mpe
