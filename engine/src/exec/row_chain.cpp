#include "exec/row_chain.h"

#include <algorithm>
#include <array>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

constexpr int kMostRows = 16;
constexpr int kLeastRows = 4;
// Rows of the last output for each thread: at the ends of its share it computes rows that its
// neighbours compute, too.
constexpr int kShareRows = 16;

std::size_t bytes_of(const RowLink& link) {
  return static_cast<std::size_t>(link.shape.out.elements()) * link.value_bytes;
}

// Input rows that `rows` output rows read.
int rows_read(const ConvolutionShape& shape, int rows) {
  return (rows - 1) * shape.stride_y + static_cast<int>(shape.extent_y());
}

}  // namespace

// A thread's share of the last output.
class RowChain::Share {
 public:
  Share(const RowChain& chain, const void* input, void* output, std::byte* scratch, int begin,
        int end)
      : chain_(chain) {
    const std::span<const RowLink> links = chain.links();
    const std::size_t last = links.size() - 1;
    for (std::size_t k = 0; k < last; ++k) {
      const int rows = chain.ring_rows(k);
      tensors_[k + 1] = {scratch, std::int64_t{rows} * links[k].shape.out.width, {0, rows}};
      scratch += chain.ring_bytes(k);
    }
    const Shape& in = links[0].shape.in;
    const Shape& out = links[last].shape.out;
    // No convolution writes its input.
    auto* given = static_cast<std::byte*>(const_cast<void*>(input));
    tensors_[0] = {given, in.plane(), {0, in.height}};
    tensors_[last + 1] = {static_cast<std::byte*>(output), out.plane(), {0, out.height}};
    scratch_ = scratch;
    done_[last] = begin;
    for (std::size_t k = last; k > 0; --k) {
      const ConvolutionShape& shape = links[k].shape;
      const int first = done_[k] * shape.stride_y - shape.padding_y;
      tensors_[k].rows.first = first;
      done_[k - 1] = std::max(0, first);
    }
    for (std::size_t k = 1; k < last; ++k) {
      if (!chain.overwrites_ring(k)) continue;
      tensors_[k + 1] = tensors_[k];
      tensors_[k + 1].rows.first = done_[k];
    }
    end_ = end;
  }

  template <typename Ended>
  void run(int rows, const Ended& ended) {
    const std::size_t last = chain_.links().size() - 1;
    while (done_[last] < end_) compute(last, std::min(done_[last] + rows, end_), ended);
  }

 private:
  // Rows of a link's output up to `end`, after what they need of the links before it.
  template <typename Ended>
  void compute(std::size_t k, int end, const Ended& ended) {
    const RowLink& link = chain_.links()[k];
    if (k > 0) {
      const ConvolutionShape& shape = link.shape;
      const int needed =
          (end - 1) * shape.stride_y - shape.padding_y + static_cast<int>(shape.extent_y());
      const int limit = std::min(needed, shape.in.height);
      if (limit > done_[k - 1]) compute(k - 1, limit, ended);
    }
    link.convolution->run_rows({tensors_[k], tensors_[k + 1], done_[k], end, scratch_});
    done_[k] = end;
    ended(link.layer);
  }

  const RowChain& chain_;
  std::array<TensorRows, kMostLinks + 1> tensors_;
  std::array<int, kMostLinks> done_{};  // rows before this one have been computed
  std::byte* scratch_ = nullptr;
  int end_ = 0;
};

RowChain::RowChain(std::span<const RowLink> links, int threads, int rows)
    : links_(links.begin(), links.end()), threads_(threads), rows_(rows) {
  std::size_t scratch = 0;
  for (std::size_t k = 0; k < links_.size(); ++k) {
    scratch = std::max(scratch, links_[k].convolution->scratch_bytes(1));
    step_ = std::max(step_, links_[k].convolution->row_step());
  }
  thread_bytes_ = round_up(rings_bytes() + scratch, kCacheLine);
}

// Does a link in the middle write its output over its input, which is a ring itself?
bool RowChain::overwrites_ring(std::size_t link) const {
  return link > 0 && link + 1 < links_.size() && links_[link].convolution->rows_in_place() &&
         links_[link].shape.in == links_[link].shape.out;
}

// Of a link's output, as many as the links behind it need at once; blocks of the step's rows lie
// together.
int RowChain::ring_rows(std::size_t link) const {
  int rows = rows_;
  for (std::size_t k = links_.size() - 1; k > link; --k) rows = rows_read(links_[k].shape, rows);
  return divide_up(rows, step_) * step_;
}

std::size_t RowChain::ring_bytes(std::size_t link) const {
  if (overwrites_ring(link)) return 0;
  const Shape& out = links_[link].shape.out;
  const std::int64_t values = std::int64_t{out.channels} * ring_rows(link) * out.width;
  return round_up(static_cast<std::size_t>(values) * links_[link].value_bytes, kCacheLine);
}

std::size_t RowChain::rings_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k + 1 < links_.size(); ++k) bytes += ring_bytes(k);
  return bytes;
}

std::unique_ptr<RowChain> RowChain::make(std::span<const RowLink> links, int threads) {
  const std::size_t cache = cpu_caches().second_bytes;
  std::size_t between = 0;
  std::size_t weights = 0;
  for (std::size_t k = 0; k < links.size(); ++k) {
    if (k + 1 < links.size()) between += bytes_of(links[k]);
    weights += links[k].convolution->weight_bytes();
  }
  const int height = links.back().shape.out.height;
  if (2 * between < cache || height < kShareRows * threads) return nullptr;
  const std::size_t most = cache / 2 / static_cast<std::size_t>(threads);
  for (int rows = kMostRows; rows >= kLeastRows; rows /= 2) {
    auto chain = std::make_unique<RowChain>(links, threads, rows);
    if (chain->rings_bytes() > most || rows % chain->step_ != 0) continue;
    const auto times = static_cast<std::size_t>(height / rows);
    return weights * times < 2 * between ? std::move(chain) : nullptr;
  }
  return nullptr;
}

void RowChain::run(const void* input, void* output, std::byte* scratch, ThreadPool& pool,
                   const std::function<void(int)>& ended) const {
  const int height = links_.back().shape.out.height;
  pool.parallel_for(divide_up(height, step_), [&](int thread, int begin, int end) {
    std::byte* own = scratch + static_cast<std::size_t>(thread) * thread_bytes_;
    Share share(*this, input, output, own, begin * step_, std::min(end * step_, height));
    share.run(rows_, [&](int layer) {
      if (thread == 0 && ended) ended(layer);
    });
  });
}

}  // namespace mpe
