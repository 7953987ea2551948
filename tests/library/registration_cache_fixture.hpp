// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "memory_contract.hpp"

namespace hbmwire::test {

/// A context and two NICs, for all kinds of caches.
class CacheFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kPage = 4096;

  [[nodiscard]] RegistrationCache make_cache(const RegistrationOptions& options = {}) const {
    return take(RegistrationCache::create(context_, nics_, options));
  }

  [[nodiscard]] Allocation allocate(MemoryType type, std::uint64_t size_bytes) const {
    return take(take(context_.open(type))->allocate(size_bytes));
  }

  /// A substitute for a dma-buf: the emulated NIC accepts any memory that is a file.
  [[nodiscard]] static Fd make_dmabuf(std::uint64_t size_bytes) {
    Fd file(::memfd_create("hbmwire-test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size_bytes)), 0);
    return file;
  }

  Context context_ = take(Context::create());
  std::vector<Nic> nics_{take(Nic::open("emu0")), take(Nic::open("emu1"))};
};

}  // namespace hbmwire::test
