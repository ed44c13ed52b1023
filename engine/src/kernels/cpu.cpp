#include "kernels/cpu.h"

#include <cstdint>
#include <fstream>
#include <string>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <unistd.h>
#endif

namespace mpe {
namespace {

#if defined(__aarch64__) || defined(__x86_64__)

// Of Linux's description of the second or third level, 0 where it has none. Entries 0 and 1 are
// the first level's, for data and for instructions.
std::size_t described_bytes(int level) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size");
  std::size_t kib = 0;
  char unit = 0;
  return file >> kib >> unit && unit == 'K' ? kib << 10U : 0;
}

#endif

#if defined(__aarch64__)

// <asm/hwcap.h> of an old kernel may lack these; the values are part of Linux's ABI.
constexpr unsigned long kHwcapAsimd = 1UL << 1;
constexpr unsigned long kHwcapAsimdHp = 1UL << 10;
constexpr unsigned long kHwcapCpuid = 1UL << 11;
constexpr unsigned long kHwcapAsimdDp = 1UL << 20;

constexpr unsigned kA35 = 0xD04;
constexpr unsigned kA53 = 0xD03;
constexpr unsigned kA55 = 0xD05;
constexpr unsigned kA57 = 0xD07;
constexpr unsigned kA72 = 0xD08;
constexpr unsigned kA76 = 0xD0B;
constexpr unsigned kA78ae = 0xD42;

// The number of Arm's core that this is; 0 for cores of others, and where Linux does not show the
// core's identification (before 4.11).
unsigned arm_core() {
  if ((getauxval(AT_HWCAP) & kHwcapCpuid) == 0) return 0;
  std::uint64_t midr = 0;
  asm("mrs %0, midr_el1" : "=r"(midr));
  constexpr unsigned kArm = 0x41;
  const bool by_arm = (static_cast<unsigned>(midr >> 24U) & 0xFFU) == kArm;
  return by_arm ? static_cast<unsigned>(midr >> 4U) & 0xFFFU : 0;
}

CpuFeatures detect() {
  const unsigned long hwcap = getauxval(AT_HWCAP);
  CpuFeatures features;
  features.neon = (hwcap & kHwcapAsimd) != 0;
  features.fp16 = features.neon && (hwcap & kHwcapAsimdHp) != 0;
  features.dotprod = features.neon && (hwcap & kHwcapAsimdDp) != 0;
  const unsigned core = arm_core();
  features.in_order = core == kA35 || core == kA53 || core == kA55;
  return features;
}

// The size that is usual with the core. Linux's description comes second: under QEMU it may be that
// of the machine that emulates.
CpuCaches detect_caches() {
  CpuCaches caches;
  switch (arm_core()) {
    case kA35:
    case kA53:
      caches.second_is_shared = true;
      break;
    case kA57:
      caches.second_bytes = std::size_t{2} << 20U;
      caches.second_is_shared = true;
      caches.byte_price = 0.1;
      caches.shared_byte_price = 0.1;
      break;
    case kA72:
      caches.second_bytes = std::size_t{1} << 20U;
      caches.second_is_shared = true;
      break;
    case kA76:
    case kA78ae:
      caches.third_bytes = std::size_t{2} << 20U;
      // At x86-64's price, plans used blocks that made a layer of YOLOv3-tiny a third slower
      // (predicted).
      caches.third_byte_price = 0.125;
      break;
    case 0:
      if (const std::size_t bytes = described_bytes(2); bytes > 0) caches.second_bytes = bytes;
      break;
    default:
      break;
  }
  return caches;
}

#elif defined(__x86_64__)

struct Registers {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool has(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

constexpr unsigned bit(int index) { return 1U << index; }

// Which register states the system saves on a context switch.
std::uint64_t extended_control() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

CpuFeatures detect() {
  CpuFeatures features;
  const Registers one = cpuid(1);
  constexpr unsigned kFma = bit(12);
  constexpr unsigned kOsxsave = bit(27);
  constexpr unsigned kAvx = bit(28);
  constexpr unsigned kF16c = bit(29);
  if (!has(one.ecx, kFma | kOsxsave | kAvx | kF16c)) return features;

  const std::uint64_t control = extended_control();
  constexpr std::uint64_t kYmmState = 0x06;
  constexpr std::uint64_t kZmmState = 0xE6;
  if ((control & kYmmState) != kYmmState) return features;

  const Registers seven = cpuid(7);
  features.avx2 = has(seven.ebx, bit(5));
  constexpr unsigned kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
  constexpr unsigned kVnni = bit(11);
  features.avx512_vnni = features.avx2 && (control & kZmmState) == kZmmState &&
                         has(seven.ebx, kAvx512) && has(seven.ecx, kVnni);
  return features;
}

CpuCaches detect_caches() {
  CpuCaches caches;
  // Eight ways or more: a quarter is enough for what streams through.
  const long first = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (first > 0) {
    caches.first_bytes = static_cast<std::size_t>(first);
    caches.resident_bytes = caches.first_bytes / 4 * 3;
  }
  const long second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (second > 0) caches.second_bytes = static_cast<std::size_t>(second);
  // The C library tells the size of all third-level caches together.
  caches.third_bytes = described_bytes(3);
  return caches;
}

#else

CpuFeatures detect() { return {}; }
CpuCaches detect_caches() { return {}; }

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

const CpuCaches& cpu_caches() {
  static const CpuCaches caches = detect_caches();
  return caches;
}

std::size_t usable_second_bytes(int threads) {
  const CpuCaches& caches = cpu_caches();
  const int sharing = caches.second_is_shared ? threads : 1;
  return static_cast<std::size_t>(kUsableShare * static_cast<double>(caches.second_bytes)) /
         static_cast<std::size_t>(sharing);
}

}  // namespace mpe
