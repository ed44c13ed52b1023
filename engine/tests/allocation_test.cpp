// An inference allocates nothing: every operator new of this program is counted.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "check.h"
#include "exec/session.h"
#include "random_network.h"

namespace {

std::atomic<long> allocations{0};

void* counted_or_null(std::size_t size, std::size_t alignment) noexcept {
  ++allocations;
  void* memory = nullptr;
  const bool failed = posix_memalign(&memory, std::max(alignment, sizeof(void*)),
                                     std::max<std::size_t>(size, 1)) != 0;
  return failed ? nullptr : memory;
}

void* counted(std::size_t size, std::size_t alignment) {
  void* memory = counted_or_null(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, 16); }
void* operator new[](std::size_t size) { return counted(size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// The standard library's own nothrow forms would call these, but AddressSanitizer brings others.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted_or_null(size, 16);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted_or_null(size, 16);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

TEST(the_counter_counts) {
  const long before = allocations;
  // Not by a new expression, which a compiler may leave out with its delete.
  ::operator delete(::operator new(1));
  CHECK(allocations > before);
}

TEST(inference_allocates_nothing) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const char* keys[] = {"int8=1\nquantize=1\n", "fp16=1\n", ""};
    const ModelFiles files(random_cfg(random, 14, [&] { return keys[random.integer(0, 2)]; }),
                           seed);
    mpe::Options options;
    options.threads = 1 + static_cast<int>(seed % 3);
    options.algorithm = seed % 4 == 0 ? "reference" : "";
    options.profile = seed % 2 == 0;
    mpe::Session session(files.cfg, files.weights, options);
    const std::vector<float> image = random.values(files.network.input.elements(), 0.0F, 1.0F);
    const long before = allocations;
    session.run(image);
    session.run(image);
    CHECK_EQUAL(allocations - before, 0);
  }
}

TEST(inference_by_rows_allocates_nothing) {
  const ModelFiles files(thin_cfg(), 1);
  Random random(1);
  const std::vector<float> image = random.values(files.network.input.elements(), 0.0F, 1.0F);
  for (const bool profile : {false, true}) {
    mpe::Options options;
    options.threads = 2;
    options.profile = profile;
    mpe::Session session(files.cfg, files.weights, options);
    const long before = allocations;
    session.run(image);
    CHECK_EQUAL(allocations - before, 0);
  }
}
