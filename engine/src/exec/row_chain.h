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
  std::size_t input_bytes = 0;  // of a value
  std::size_t value_bytes = 0;  // of its output

  // The one that pools its outputs, if it does that with itself.
  int last_layer() const { return convolution->pools() ? layer + 1 : layer; }
  // Of what it writes: its outputs, or the largest of each 2x2.
  Shape out() const;
  int stride_y() const;
  int extent_y() const;
};

// How threads share a chain's work.
enum class RowSharing {
  kStrips,    // each computes rows of the last output, and of all before it what these need
  kSameRows,  // all compute the same rows together, so that a cache that they share holds them once
};

class RowChain {
 public:
  static constexpr std::size_t kMostLinks = 4;
  // A first convolution that reads the whole input comes beside the three that expand, filter and
  // project channels in most networks of thin layers.
  static std::size_t most_links(const Convolution& first) {
    return first.reads_ring() ? kMostLinks - 1 : kMostLinks;
  }

  // Null where `planned` threads gain nothing: where the tensors between the layers stay in the
  // second-level cache anyway, where the weights, which every few rows read again, are as large as
  // these tensors, where a thread's rows do not fit into the cache, or where threads would compute
  // too many rows twice. `threads` execute it.
  static std::unique_ptr<RowChain> make(std::span<const RowLink> links, int planned, int threads);

  // Of links that compute rows, each reading the one before. About `rows` of the last output are
  // computed at once: a multiple of the links' Convolution::row_step().
  RowChain(std::span<const RowLink> links, RowSharing sharing, int threads, int rows);

  std::span<const RowLink> links() const { return links_; }
  RowSharing sharing() const { return sharing_; }
  std::size_t scratch_bytes() const;
  // Of the tensors that are not stored.
  std::size_t bytes_between() const;

  // `ended`, if any, is called with a link's layer whenever some rows of it have been computed: of
  // the same rows by all threads, of strips by the first one.
  void run(const void* input, void* output, std::byte* scratch, ThreadPool& pool,
           const std::function<void(int)>& ended) const;

 private:
  class Share;
  static std::unique_ptr<RowChain> make(std::span<const RowLink> links, RowSharing sharing,
                                        int planned, int threads);
  int rows_taken(std::size_t link, int rows) const;
  int most_before(std::size_t link) const;
  int rows_twice(std::size_t link) const;
  bool suits_strips(int planned) const;
  int row_step(std::size_t link) const;
  bool overwrites_ring(std::size_t link) const;
  int ring_step(std::size_t link) const;
  int ring_rows(std::size_t link) const;
  std::size_t ring_bytes(std::size_t link) const;
  std::size_t rings_bytes() const;
  std::size_t streamed_bytes() const;

  std::vector<RowLink> links_;
  const RowSharing sharing_;
  const int threads_;
  int rows_ = 1;
  int step_ = 1;                   // shares of threads begin at a multiple of so many rows
  std::size_t scratch_bytes_ = 0;  // a thread's, of any link
};

}  // namespace mpe
