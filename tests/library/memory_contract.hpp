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

// The duties of every memory domain. A new one joins with a file in subjects/, which fills in a
// MemorySubject and instantiates the suites, and a line in CMakeLists.txt.
namespace hbmwire::test {

/// Memory that the application has allocated by itself, by the vendor's own calls.
struct ApplicationMemory {
  std::uint64_t address = 0;
  std::shared_ptr<void> owner;  ///< frees it
};

/// One kind of memory, and what is to be expected of it.
struct MemorySubject {
  std::string name = {};  ///< in messages
  MemoryType type = MemoryType::host;
  MemoryOptions options = {};
  bool allocates = true;              ///< false: it is imported by `make` alone
  bool exports = true;                ///< has dma-bufs
  std::string_view copy_engine = {};  ///< as MemoryDomain::copy_engine()

  /// Makes memory: null for MemoryDomain::allocate(). `variant` is any number, for what there is to
  /// vary: segments, an offset in a dma-buf.
  std::function<Result<Allocation>(const Context&, std::uint64_t size_bytes, std::uint64_t variant)>
      make = {};

  /// Null where the application's own memory can't be recognised.
  std::function<ApplicationMemory(const Context&, std::uint64_t size_bytes)> application_memory =
      {};

  Lifetime lifetime = Lifetime::allocation;              ///< of the memory that it makes, and ...
  Lifetime application_lifetime = Lifetime::generation;  ///< ... of the application's
  bool takes_advice = false;                             ///< MemoryDomain::advise()

  std::vector<std::string> libraries = {};  ///< whose calls fail in sweeps, see fail_nth_call()
};

void PrintTo(const MemorySubject& subject, std::ostream* out);

/// A context, and the device opened by it.
class MemoryTest : public testing::TestWithParam<MemorySubject> {
 protected:
  MemoryTest();

  /// Memory of the subject. Throws when there is none.
  [[nodiscard]] Allocation make(std::uint64_t size_bytes, std::uint64_t variant = 0) const;

  /// By the device's copy engine, or by a NIC in loopback where there is none.
  void write(const Allocation& memory, std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> read(const Allocation& memory, std::uint64_t offset,
                                            std::size_t size);

  /// The first NIC, opened by the first call.
  [[nodiscard]] const Nic& nic();

  [[nodiscard]] bool has_engine() const { return !GetParam().copy_engine.empty(); }

  Context context_;
  std::shared_ptr<MemoryDomain> domain_;  // null: the subject does not allocate

 private:
  std::optional<Nic> nic_;
};

/// A domain's work by itself; a NIC is needed only where nothing else could copy.
class MemoryContract : public MemoryTest {};

/// Memory that the application allocated: for subjects that can recognise it.
class ApplicationMemoryContract : public MemoryTest {};

/// The same, together with a NIC.
class ApplicationMemoryTransfer : public MemoryTest {};

/// A domain's work together with NICs.
class MemoryTransfer : public MemoryTest {
 protected:
  /// Writes `bytes` by RDMA, out of host memory, to `target`.
  void rdma_write(std::span<const std::byte> bytes, const RemoteMemory& target);
};

/// Memory keys, by every NIC, used by a peer.
class MemoryKeys : public MemoryTest {};

/// Random layouts, ranges and operations against a model in host memory.
class MemoryProperty : public MemoryTest {};

/// Each call of each library fails once.
class MemorySweep : public testing::TestWithParam<MemorySubject> {};

/// Many lives of a buffer, after which all is as before: in the fast suite, and without haste.
class MemoryCycles : public MemoryTest {
 protected:
  void run(int cycles);
};

class ManyMemoryCycles : public MemoryCycles {};

}  // namespace hbmwire::test

// The suites that every subject is in. Their tests are named `prefix`/Suite.Test/0.
// NOLINTBEGIN(cppcoreguidelines-macro-usage): GoogleTest's own is one.
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
// And for those that set MemorySubject::application_memory.
#define HBMWIRE_APPLICATION_MEMORY(prefix, subject)                                      \
  namespace hbmwire::test {                                                              \
  INSTANTIATE_TEST_SUITE_P(prefix, ApplicationMemoryContract, testing::Values(subject)); \
  INSTANTIATE_TEST_SUITE_P(prefix, ApplicationMemoryTransfer, testing::Values(subject)); \
  }                                                                                      \
  static_assert(true)
// NOLINTEND(cppcoreguidelines-macro-usage)
