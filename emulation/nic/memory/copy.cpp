// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/copy.hpp"

#include <cstdint>
#include <cstring>

// Sanitizers check memcpy, but not our own instructions.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HBMWIRE_COPIES_ITSELF 1
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace hbmwire::emulation::nic {
namespace {

constexpr std::size_t kTail = 8;

/// Copies the end of a range after all earlier stores.
inline void copy_tail(void* to, const void* from, std::size_t bytes) {
  keep_store_order();
  std::memcpy(static_cast<std::byte*>(to) + bytes - kTail,
              static_cast<const std::byte*>(from) + bytes - kTail, kTail);
}

[[gnu::noinline]] void copy_plainly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes - kTail);
  copy_tail(to, from, bytes);
}

}  // namespace

#ifdef HBMWIRE_COPIES_ITSELF

namespace {

constexpr std::size_t kLine = 64;

/// Whether the processor has "enhanced rep movsb", which copies whole lines. On some processors it
/// is faster in the caches than memcpy; on the others memcpy uses it as well.
bool has_fast_string_copy() {
  constexpr unsigned kErms = 1U << 9U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kErms) != 0;
}

bool has_line_copies() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
}

const bool kLineCopies = has_line_copies();

/// Copies a run of lines and advances both pointers.
template <std::size_t kLines>
[[gnu::target("avx512f"), gnu::always_inline]] inline void copy_run(std::byte*& to,
                                                                    const std::byte*& from) {
  __m512i lines[kLines];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLines; ++i) lines[i] = _mm512_loadu_si512(from + i * kLine);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLines; ++i) _mm512_store_si512(to + i * kLine, lines[i]);
  to += kLines * kLine;
  from += kLines * kLine;
}

/// Copies a cache line at a time, which memcpy does only for larger ranges.
[[gnu::target("avx512f,avx512bw")]] void copy_lines(std::byte* to, const std::byte* from,
                                                    std::size_t bytes) {
  bytes -= kTail;
  std::uint64_t tail = 0;
  std::memcpy(&tail, from + bytes, kTail);
  std::byte* const end = to + bytes;
  if (const std::size_t lead = -reinterpret_cast<std::uintptr_t>(to) % kLine;
      lead != 0 && bytes >= kLine) {
    // One unaligned line, which ends beyond the next line's start. The runs begin at that start.
    _mm512_storeu_si512(to, _mm512_loadu_si512(from));
    to += lead;
    from += lead;
    bytes -= lead;
  }
  for (std::size_t runs = bytes / (16 * kLine); runs != 0; --runs) copy_run<16>(to, from);
  if ((bytes & 8 * kLine) != 0) copy_run<8>(to, from);
  if ((bytes & 4 * kLine) != 0) copy_run<4>(to, from);
  if ((bytes & 2 * kLine) != 0) copy_run<2>(to, from);
  if ((bytes & kLine) != 0) copy_run<1>(to, from);
  const __mmask64 rest = (__mmask64{1} << (bytes % kLine)) - 1;
  _mm512_mask_storeu_epi8(to, rest, _mm512_maskz_loadu_epi8(rest, from));
  keep_store_order();
  std::memcpy(end, &tail, kTail);
}

}  // namespace

void copy_small(void* to, const void* from, std::size_t bytes) {
  if (kLineCopies) [[likely]] {
    copy_lines(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  } else {
    copy_plainly(to, from, bytes);
  }
}

void copy_through_caches(void* to, const void* from, std::size_t bytes) {
  static const bool kFast = has_fast_string_copy();
  if (kFast) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  } else {
    std::memcpy(to, from, bytes);
  }
}

#else

void copy_small(void* to, const void* from, std::size_t bytes) { copy_plainly(to, from, bytes); }

void copy_through_caches(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace hbmwire::emulation::nic
