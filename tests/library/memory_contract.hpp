// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "helpers.hpp"
#include "tests/support/bytes.hpp"

// The contract of every memory domain. A new domain needs a file in subjects/, which defines a
// MemorySubject and instantiates the suites, and a line in CMakeLists.txt.
namespace hbmwire::test {

/// Memory that the application itself allocated, by the vendor's own calls.
struct ApplicationMemory {
  std::uint64_t address = 0;
  std::shared_ptr<void> owner;  ///< frees it
};

/// One kind of memory, and the behaviour expected of it.
struct MemorySubject {
  std::string name = {};  ///< for messages
  MemoryType type = MemoryType::host;
  MemoryOptions options = {};
  bool allocates = true;              ///< false: only `make` imports it
  bool exports = true;                ///< supports dma-bufs
  std::string_view copy_engine = {};  ///< as in MemoryDomain::copy_engine()

  /// Makes memory; null means MemoryDomain::allocate(). `variant` is any number, and selects
  /// variants such as segments, or an offset in a dma-buf.
  std::function<Result<Allocation>(const Context&, std::uint64_t size_bytes, std::uint64_t variant)>
      make = {};

  /// Null if the application's own memory cannot be recognised.
  std::function<ApplicationMemory(const Context&, std::uint64_t size_bytes)> application_memory =
      {};

  Lifetime lifetime = Lifetime::allocation;              ///< of memory that it makes
  Lifetime application_lifetime = Lifetime::generation;  ///< of the application's memory
  bool takes_advice = false;                             ///< supports MemoryDomain::advise()

  std::vector<std::string> libraries = {};  ///< libraries whose calls fail in sweeps, see
                                            ///< fail_nth_call()
};

void PrintTo(const MemorySubject& subject, std::ostream* out);

/// A context, and the device that it opened.
class MemoryTest : public testing::TestWithParam<MemorySubject> {
 protected:
  MemoryTest();

  /// Memory of the subject. Throws if there is none.
  [[nodiscard]] Allocation make(std::uint64_t size_bytes, std::uint64_t variant = 0) const;

  /// Writes with the device's copy engine, or with a NIC in loopback if there is none.
  void write(const Allocation& memory, std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> read(const Allocation& memory, std::uint64_t offset,
                                            std::size_t size);

  /// The first NIC, opened by the first call.
  [[nodiscard]] const Nic& nic();

  [[nodiscard]] bool has_engine() const { return !GetParam().copy_engine.empty(); }

  Context context_;
  std::shared_ptr<MemoryDomain> domain_;  // null if the subject does not allocate

 private:
  std::optional<Nic> nic_;
};

/// Tests of a domain alone. They use a NIC only if nothing else can copy.
class MemoryContract : public MemoryTest {};

/// Memory that the application allocated, for subjects that can recognise it.
class ApplicationMemoryContract : public MemoryTest {};

/// Memory that the application allocated, together with a NIC.
class ApplicationMemoryTransfer : public MemoryTest {};

/// Tests of a domain together with NICs.
class MemoryTransfer : public MemoryTest {
 protected:
  /// Writes `bytes` from host memory to `target` by RDMA.
  void rdma_write(std::span<const std::byte> bytes, const RemoteMemory& target);
};

/// Memory keys with every NIC, used by a peer.
class MemoryKeys : public MemoryTest {};

/// Compares random layouts, ranges and operations with a model in host memory.
class MemoryProperty : public MemoryTest {};

/// Each call of each library fails once.
class MemorySweep : public testing::TestWithParam<MemorySubject> {};

/// Many lives of a buffer, after which nothing may have changed. Fewer in the fast suite.
class MemoryCycles : public MemoryTest {
 protected:
  void run(int cycles);
};

class ManyMemoryCycles : public MemoryCycles {};

}  // namespace hbmwire::test

// The suites for every subject. Their tests are named `prefix`/Suite.Test/0.
// NOLINTBEGIN(cppcoreguidelines-macro-usage): the macro of GoogleTest is one, too.
#define HBMWIRE_MEMORY_SUBJECT(prefix, subject)                                 \
  namespace hbmwire::test {                                                     \
  INSTANTIATE_TEST_SUITE_P(prefix, MemoryContract, testing::Values(subject));   \
  INSTANTIATE_TEST_SUITE_P(prefix, MemoryTransfer, testing::Values(subject));   \
  INSTANTIATE_TEST_SUITE_P(prefix, MemoryKeys, testing::Values(subject));       \
  INSTANTIATE_TEST_SUITE_P(prefix, MemoryProperty, testing::Values(subject));   \
  INSTANTIATE_TEST_SUITE_P(prefix, MemorySweep, testing::Values(subject));      \
  INSTANTIATE_TEST_SUITE_P(prefix, MemoryCycles, testing::Values(subject));     \
  INSTANTIATE_TEST_SUITE_P(prefix, ManyMemoryCycles, testing::Values(subject)); \
  }                                                                             \
  static_assert(true)
// For subjects that set MemorySubject::application_memory.
#define HBMWIRE_APPLICATION_MEMORY(prefix, subject)                                      \
  namespace hbmwire::test {                                                              \
  INSTANTIATE_TEST_SUITE_P(prefix, ApplicationMemoryContract, testing::Values(subject)); \
  INSTANTIATE_TEST_SUITE_P(prefix, ApplicationMemoryTransfer, testing::Values(subject)); \
  }                                                                                      \
  static_assert(true)
// NOLINTEND(cppcoreguidelines-macro-usage)
