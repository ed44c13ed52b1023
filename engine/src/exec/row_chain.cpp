#include "exec/row_chain.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

constexpr int kMostRows = 16;
constexpr int kLeastRows = 4;
// Of a layer's rows, at most one in so many may be computed by two threads.
constexpr int kRowsForTwice = 8;
// A strip has at least so many steps, as some strips have one more than others.
constexpr int kLeastSteps = 4;

std::size_t bytes_of(const RowLink& link) {
  return static_cast<std::size_t>(link.out().elements()) * link.value_bytes;
}

int up_to_multiple(int rows, int step) { return divide_up(rows, step) * step; }

int down_to_multiple(int row, int step) {
  return row >= 0 ? row / step * step : -up_to_multiple(-row, step);
}

}  // namespace

Shape RowLink::out() const {
  const int pooled = convolution->pools() ? 2 : 1;
  return {shape.out.channels, shape.out.height / pooled, shape.out.width / pooled};
}

int RowLink::stride_y() const { return convolution->pools() ? 2 * shape.stride_y : shape.stride_y; }

int RowLink::extent_y() const {
  const int extent = static_cast<int>(shape.extent_y());
  return convolution->pools() ? extent + shape.stride_y : extent;
}

// Some rows of the last output, all of them or a thread's, with rings of its own.
class RowChain::Share {
 public:
  Share(const RowChain& chain, const void* input, void* output, std::byte* rings, int begin,
        int end)
      : chain_(chain) {
    const std::span<const RowLink> links = chain.links();
    const std::size_t last = links.size() - 1;
    for (std::size_t k = 0; k < last; ++k) {
      const int rows = chain.ring_rows(k);
      tensors_[k + 1] = {rings, std::int64_t{rows} * links[k].out().width, {0, rows}};
      rings += chain.ring_bytes(k);
    }
    const Shape& in = links[0].shape.in;
    const Shape out = links[last].out();
    // No convolution writes its input.
    auto* given = static_cast<std::byte*>(const_cast<void*>(input));
    tensors_[0] = {given, in.plane(), {0, in.height}};
    tensors_[last + 1] = {static_cast<std::byte*>(output), out.plane(), {0, out.height}};
    done_[last] = begin;
    for (std::size_t k = last; k > 0; --k) {
      const int first = down_to_multiple(done_[k] * links[k].stride_y() - links[k].shape.padding_y,
                                         chain.row_step(k - 1));
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

  // Calls compute(link, call) for some rows after the others.
  template <typename Compute>
  void run(const Compute& compute) {
    const std::size_t last = chain_.links().size() - 1;
    while (done_[last] < end_) advance(last, std::min(done_[last] + chain_.rows_, end_), compute);
  }

 private:
  // Rows of a link's output up to `end`, after what they need of the links before it.
  template <typename Compute>
  void advance(std::size_t k, int end, const Compute& compute) {
    const RowLink& link = chain_.links()[k];
    if (k > 0) {
      // The last tile goes on below the output, and reads what the map has there.
      const int last = up_to_multiple(end, chain_.row_step(k)) - 1;
      const int needed = last * link.stride_y() - link.shape.padding_y + link.extent_y();
      const int limit =
          std::min(up_to_multiple(needed, chain_.row_step(k - 1)), link.shape.in.height);
      if (limit > done_[k - 1]) advance(k - 1, limit, compute);
    }
    RowsCall call;
    call.input = tensors_[k];
    call.output = tensors_[k + 1];
    call.begin = done_[k];
    call.end = end;
    compute(link, call);
    done_[k] = end;
  }

  const RowChain& chain_;
  std::array<TensorRows, kMostLinks + 1> tensors_;
  std::array<int, kMostLinks> done_{};  // rows before this one have been computed
  int end_ = 0;
};

RowChain::RowChain(std::span<const RowLink> links, RowSharing sharing, int threads, int rows)
    : links_(links.begin(), links.end()), sharing_(sharing), threads_(threads) {
  for (const RowLink& link : links_) {
    scratch_bytes_ = std::max(scratch_bytes_, link.convolution->row_scratch_bytes());
    step_ = std::lcm(step_, link.convolution->row_step());
  }
  scratch_bytes_ = round_up(scratch_bytes_, kCacheLine);
  rows_ = std::max(rows / step_, 1) * step_;
}

int RowChain::row_step(std::size_t link) const { return links_[link].convolution->row_step(); }

// Does a link in the middle write its output over its input, which is a ring itself? Not where the
// ring is written several rows at a time: these have to lie together, and so have the link's own.
bool RowChain::overwrites_ring(std::size_t link) const {
  return link > 0 && link + 1 < links_.size() && links_[link].convolution->rows_in_place() &&
         links_[link].shape.in == links_[link].shape.out && row_step(link - 1) == 1;
}

// Of a ring's rows, so many from a multiple of it on lie together: the step of the one that writes
// to it.
int RowChain::ring_step(std::size_t link) const {
  return overwrites_ring(link + 1) ? ring_step(link + 1) : row_step(link);
}

// Of a link's output, as many as the links behind it need at once.
int RowChain::ring_rows(std::size_t link) const {
  int rows = rows_;
  for (std::size_t k = links_.size() - 1; k > link; --k) rows = rows_taken(k, rows);
  return up_to_multiple(rows, ring_step(link));
}

// Input rows that `rows` output rows of a link read or pass over: threads write them all at the
// same time, in whole steps, of which the first one may begin before them.
int RowChain::rows_taken(std::size_t link, int rows) const {
  const int between = std::max(links_[link].extent_y(), links_[link].stride_y());
  return up_to_multiple(most_before(link) + (rows - 1) * links_[link].stride_y() + between,
                        row_step(link - 1));
}

// How many rows before the first one that a link's call reads a step of its input may begin. A call
// begins at a multiple of the link's own step, of the last link at one of all steps.
int RowChain::most_before(std::size_t link) const {
  const int step = row_step(link - 1);
  const int multiple = link + 1 == links_.size() ? step_ : row_step(link);
  const int apart = std::gcd(multiple * links_[link].stride_y(), step);
  const int first = -links_[link].shape.padding_y;
  return step - apart + first - down_to_multiple(first, apart);
}

// Rows of a link's output that two threads with neighbouring rows of the last output both compute.
int RowChain::rows_twice(std::size_t link) const {
  int rows = 0;
  for (std::size_t k = links_.size() - 1; k > link; --k) {
    const int shared = (rows - 1) * links_[k].stride_y() + links_[k].extent_y();
    rows = shared <= 0 ? 0 : shared + row_step(k - 1) - 1;
  }
  return rows;
}

std::size_t RowChain::ring_bytes(std::size_t link) const {
  if (overwrites_ring(link)) return 0;
  const Shape out = links_[link].out();
  const std::int64_t values = std::int64_t{out.channels} * ring_rows(link) * out.width;
  return round_up(static_cast<std::size_t>(values) * links_[link].value_bytes, kCacheLine);
}

std::size_t RowChain::rings_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k + 1 < links_.size(); ++k) bytes += ring_bytes(k);
  return bytes;
}

// Of the input and the output, while some rows of the last output are computed.
std::size_t RowChain::streamed_bytes() const {
  int rows = rows_;
  for (const RowLink& link : links_) rows *= link.stride_y();
  const Shape& in = links_.front().shape.in;
  const Shape out = links_.back().out();
  const std::int64_t read = std::int64_t{in.channels} * rows * in.width;
  const std::int64_t written = std::int64_t{out.channels} * rows_ * out.width;
  return static_cast<std::size_t>(read) * links_.front().input_bytes +
         static_cast<std::size_t>(written) * links_.back().value_bytes;
}

std::size_t RowChain::bytes_between() const {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k + 1 < links_.size(); ++k) bytes += bytes_of(links_[k]);
  return bytes;
}

std::size_t RowChain::scratch_bytes() const {
  const auto threads = static_cast<std::size_t>(threads_);
  const std::size_t rings = rings_bytes();
  return sharing_ == RowSharing::kStrips ? threads * (rings + scratch_bytes_)
                                         : rings + threads * scratch_bytes_;
}

// Are the strips about equal, and are few rows computed by two threads?
bool RowChain::suits_strips(int planned) const {
  if (planned == 1) return true;
  if (links_.back().out().height < kLeastSteps * step_ * planned) return false;
  for (std::size_t k = 0; k + 1 < links_.size(); ++k) {
    if (rows_twice(k) * planned * kRowsForTwice > links_[k].out().height) return false;
  }
  return true;
}

std::unique_ptr<RowChain> RowChain::make(std::span<const RowLink> links, int planned, int threads) {
  auto chain = make(links, RowSharing::kStrips, planned, threads);
  if (chain == nullptr && planned > 1 && cpu_caches().second_is_shared) {
    chain = make(links, RowSharing::kSameRows, planned, threads);
  }
  return chain;
}

std::unique_ptr<RowChain> RowChain::make(std::span<const RowLink> links, RowSharing sharing,
                                         int planned, int threads) {
  std::size_t weights = 0;
  for (const RowLink& link : links) weights += link.convolution->weight_bytes();
  const int height = links.back().out().height;
  const bool strips = sharing == RowSharing::kStrips;
  // The rest is for what convolutions use beside their rows.
  const std::size_t most = usable_second_bytes(strips ? planned : 1) / 3 * 2;
  for (int rows = kMostRows; rows >= kLeastRows; rows /= 2) {
    auto chain = std::make_unique<RowChain>(links, sharing, threads, rows);
    const std::size_t between = chain->bytes_between();
    if (2 * between < cpu_caches().second_bytes) return nullptr;
    if (strips && !chain->suits_strips(planned)) return nullptr;
    const std::size_t rings = chain->rings_bytes();
    if (rings + chain->streamed_bytes() > most) continue;
    // Memory, too, should gain.
    if (rings * static_cast<std::size_t>(strips ? planned : 1) > between / 4) continue;
    const auto times = static_cast<std::size_t>(height / chain->rows_);
    return weights * times < 2 * between ? std::move(chain) : nullptr;
  }
  return nullptr;
}

void RowChain::run(const void* input, void* output, std::byte* scratch, ThreadPool& pool,
                   const std::function<void(int)>& ended) const {
  const int height = links_.back().out().height;
  if (sharing_ == RowSharing::kSameRows) {
    Share share(*this, input, output, scratch, 0, height);
    std::byte* const behind = scratch + rings_bytes();
    share.run([&](const RowLink& link, const RowsCall& call) {
      pool.parallel_for(threads_, [&](int thread, int begin, int end) {
        RowsCall mine = call;
        mine.scratch = behind + static_cast<std::size_t>(thread) * scratch_bytes_;
        mine.parts = threads_;
        for (mine.part = begin; mine.part < end; ++mine.part) link.convolution->run_rows(mine);
      });
      if (ended) ended(link.layer);
    });
    return;
  }
  const std::size_t rings = rings_bytes();
  pool.parallel_for(divide_up(height, step_), [&](int thread, int begin, int end) {
    std::byte* own = scratch + static_cast<std::size_t>(thread) * (rings + scratch_bytes_);
    Share share(*this, input, output, own, begin * step_, std::min(end * step_, height));
    share.run([&](const RowLink& link, RowsCall call) {
      call.scratch = own + rings;
      link.convolution->run_rows(call);
      if (thread == 0 && ended) ended(link.layer);
    });
  });
}

}  // namespace mpe
