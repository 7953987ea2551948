// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>

#include "hbmwire/context.hpp"

namespace hbmwire {
namespace {

constexpr auto kSoon = std::chrono::seconds(10);

Result<std::shared_ptr<MemoryDomain>> open_host() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  return context.open(MemoryType::host);
}

TEST(HostMemory, CopiesInAndOut) {
  const auto host = open_host();
  ASSERT_TRUE(host);
  const auto memory = (*host)->allocate(10000);
  ASSERT_TRUE(memory);
  std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE((*host)->copy_in(memory->address() + 9997, bytes, {Deadline::after(kSoon)}));
  std::array<std::byte, 3> back{};
  ASSERT_TRUE((*host)->copy_out(memory->address() + 9997, back, {Deadline::after(kSoon)}));
  EXPECT_EQ(back, bytes);
}

TEST(HostMemory, RefusesSizeZeroAndAbsurdSizes) {
  const auto host = open_host();
  EXPECT_EQ((*host)->allocate(0).error().code, Errc::invalid_argument);
  EXPECT_EQ((*host)->allocate(1ULL << 60).error().code, Errc::exhausted);
}

TEST(HostMemory, HasNoDmabuf) {
  const auto host = open_host();
  const auto memory = (*host)->allocate(4096);
  const auto exported = (*host)->export_dmabuf(memory->address(), 4096);
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code, Errc::not_supported);
}

TEST(Allocation, KeepsItsDomainAlive) {
  auto host = open_host();
  auto memory = (*host)->allocate(4096);
  const std::weak_ptr<MemoryDomain> watch = *host;
  host->reset();
  EXPECT_FALSE(watch.expired());
  memory = tl::make_unexpected(Error{});
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace hbmwire
