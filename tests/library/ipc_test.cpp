// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "ipc_owner.hpp"
#include "tests/support/bytes.hpp"

// Memory of another process, opened by its IPC handle: a vendor's memory, or shared host memory.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kLength = Owner::kLength;

class Ipc : public testing::TestWithParam<MemoryType> {
 protected:
  Ipc() : owner_(GetParam()), context_(take(Context::create())) {
    domain_ = take(context_.open(GetParam(), shareable(GetParam())));
  }

  Allocation allocate(std::uint64_t bytes) {
    ++own_;
    return take(domain_->allocate(bytes));
  }

  /// The number of opened blocks, as the vendor's library or the kernel counts them. The memory of
  /// allocate() must still exist, because the kernel's number includes it.
  [[nodiscard]] std::size_t open_blocks() const {
    if (GetParam() == MemoryType::host) return mapped_shared_files() - own_;
    const std::string objects = live_objects();
    const auto count = objects.find(" ipc of");
    return count == std::string::npos
               ? 0
               : std::stoul(objects.substr(objects.rfind(' ', count - 1) + 1));
  }

  /// False on real hardware, whose driver has no such counter.
  [[nodiscard]] bool counts_blocks() const {
    return GetParam() == MemoryType::host || !live_objects().empty();
  }

  Error refusal(const IpcHandle& handle) const {
    const auto opened = domain_->open_ipc(handle);
    EXPECT_FALSE(opened);
    EXPECT_EQ(open_blocks(), 0U);
    return opened ? Error{} : opened.error();
  }

  template <class Change>
  [[nodiscard]] Error refusal_changed(const Change& change) const {
    IpcHandle other = owner_.handle();
    change(other);
    return refusal(other);
  }

  Owner owner_;
  Context context_;
  std::shared_ptr<MemoryDomain> domain_;
  std::size_t own_ = 0;
};

class VendorIpc : public Ipc {};

std::string name_of(const testing::TestParamInfo<MemoryType>& type) {
  return std::string(to_string(type.param));
}

INSTANTIATE_TEST_SUITE_P(All, Ipc,
                         testing::Values(MemoryType::cuda, MemoryType::rocm, MemoryType::host),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Vendors, VendorIpc, testing::Values(MemoryType::cuda, MemoryType::rocm),
                         name_of);

void expect_invalid(const Error& error) {
  EXPECT_EQ(error.code, Errc::invalid_argument) << describe(error);
  EXPECT_EQ(error.stage, Stage::open);
}

TEST_P(Ipc, OpenedMemoryIsTheMemoryOfItsOwner) {
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  EXPECT_EQ(opened.size_bytes(), kLength);
  EXPECT_TRUE(same_bytes(contents(opened), pattern(kLength, 1)));
  must(domain_->copy_in(opened.address(), pattern(kLength, 2), soon()));
  EXPECT_TRUE(owner_.has(2));
}

TEST_P(Ipc, TheDevicesEngineCopiesBothWays) {
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  const Allocation own = allocate(kLength);
  ASSERT_TRUE(domain_->copies_from(opened.domain()));
  must(take(domain_->start_copy_from(opened.domain(), opened.address(), own.address(), kLength))
           .wait(soon()));
  EXPECT_TRUE(same_bytes(contents(own), pattern(kLength, 1)));
  must(domain_->copy_in(own.address(), pattern(kLength, 3), soon()));
  must(take(opened.domain().start_copy_from(*domain_, own.address(), opened.address(), kLength))
           .wait(soon()));
  EXPECT_TRUE(owner_.has(3));
}

TEST_P(Ipc, MemoryIsOpenedOnceAndClosedWithItsLastUser) {
  const IpcHandle handle = owner_.handle();
  IpcHandle part = handle;
  part.offset_bytes += 4096;
  part.length_bytes = 100;
  auto first = std::make_optional(take(domain_->open_ipc(handle)));
  auto second = std::make_optional(take(domain_->open_ipc(part)));
  EXPECT_EQ(second->address(), first->address() + 4096);
  if (counts_blocks()) {
    EXPECT_EQ(open_blocks(), 1U);
  }
  first.reset();
  const auto whole = pattern(kLength, 1);
  EXPECT_TRUE(same_bytes(contents(*second), std::span(whole).subspan(4096, 100)));
  second.reset();
  EXPECT_EQ(open_blocks(), 0U);
  EXPECT_TRUE(owner_.has(1));
}

TEST_P(Ipc, AForgedHandleIsRefused) {
  const auto expect_changed_is_invalid = [&](const auto& change) {
    expect_invalid(refusal_changed(change));
  };
  expect_changed_is_invalid([](IpcHandle& other) { other.type = MemoryType::gaudi; });
  // CUDA finds out by itself which GPU owns the memory, and whether this GPU reaches it.
  if (GetParam() != MemoryType::cuda)
    expect_changed_is_invalid([](IpcHandle& other) { other.pci_address[0] = 'x'; });
  expect_changed_is_invalid([](IpcHandle& other) { other.length_bytes = 0; });
  expect_changed_is_invalid([](IpcHandle& other) { other.length_bytes = ~std::uint64_t{0}; });
  expect_changed_is_invalid([](IpcHandle& other) { other.offset_bytes = other.block_bytes; });
  expect_changed_is_invalid([](IpcHandle& other) { other.offset_bytes = ~std::uint64_t{0}; });
  expect_changed_is_invalid([](IpcHandle& other) { other.length_bytes = other.block_bytes; });
  expect_changed_is_invalid(
      [](IpcHandle& other) { other.length_bytes = other.block_bytes - other.offset_bytes + 1; });
  expect_invalid(refusal({}));
  EXPECT_TRUE(owner_.has(1));
}

// CUDA refuses to open the process's own memory. ROCr may open it at another address, and host
// memory is opened.
TEST_P(Ipc, OwnMemoryIsNeverReleasedTwice) {
  const Allocation own = allocate(Owner::kBytes);
  must(domain_->copy_in(own.address(), pattern(Owner::kBytes, 4), soon()));
  const IpcHandle handle = take(domain_->ipc_handle(own.address(), Owner::kBytes));
  if (GetParam() == MemoryType::cuda) {
    expect_invalid(refusal(handle));
  } else if (const auto again = domain_->open_ipc(handle)) {
    EXPECT_NE(again->address(), own.address());
    EXPECT_TRUE(same_bytes(contents(*again), pattern(Owner::kBytes, 4)));
  } else {
    EXPECT_NE(GetParam(), MemoryType::host) << describe(again.error());
  }
  EXPECT_EQ(open_blocks(), 0U);
  EXPECT_TRUE(same_bytes(contents(own), pattern(Owner::kBytes, 4)));
}

TEST_P(Ipc, RangesOutsideAnAllocationHaveNoHandle) {
  const Allocation own = allocate(Owner::kBytes);
  const auto expect_none = [&](std::uint64_t address, std::uint64_t length_bytes) {
    const auto handle = domain_->ipc_handle(address, length_bytes);
    ASSERT_FALSE(handle) << address - own.address() << " + " << length_bytes;
    EXPECT_EQ(handle.error().code, Errc::invalid_argument) << describe(handle.error());
    EXPECT_EQ(handle.error().stage, Stage::open) << describe(handle.error());
  };
  expect_none(own.address() + 1, Owner::kBytes);
  expect_none(own.address(), Owner::kBytes + 1);
  expect_none(own.address(), 0);
  expect_none(own.address() + 8, ~std::uint64_t{0});
  expect_none(own.address() + 8, ~std::uint64_t{7});
  expect_none(own.address() + Owner::kBytes, 1);
  EXPECT_TRUE(domain_->ipc_handle(own.address() + Owner::kBytes - 1, 1));
}

TEST_P(Ipc, OpenedMemoryOutlivesItsOwnerWithoutHarm) {
  auto opened = std::make_optional(take(domain_->open_ipc(owner_.handle())));
  owner_.kill();
  std::vector<std::byte> bytes(kLength);
  const auto copied = domain_->copy_out(opened->address(), bytes, soon());
  // For a GPU's memory the contents are undefined then.
  if (GetParam() == MemoryType::host) {
    must(copied);
    EXPECT_TRUE(same_bytes(bytes, pattern(kLength, 1)));
  }
  opened.reset();
  EXPECT_EQ(open_blocks(), 0U);
}

TEST_P(VendorIpc, AForgedTokenIsRefused) {
  // A change that only the vendor's library can notice.
  expect_invalid(refusal_changed([](IpcHandle& other) { other.block_bytes += 1U << 20U; }));
  // A driver need not check every byte: NVIDIA's (580, on an H200) opens the owner's memory with
  // any of 26 to 27 bytes changed.
  int refused = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    IpcHandle other = owner_.handle();
    other.token[i] ^= std::byte{0x55};
    const auto opened = domain_->open_ipc(other);
    if (opened) continue;
    ++refused;
    expect_invalid(opened.error());
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(open_blocks(), 0U);
  EXPECT_TRUE(owner_.has(1));
}

TEST_P(VendorIpc, AnyFailedCallLeavesNothingOpen) {
  const IpcHandle handle = owner_.handle();
  const std::string before = live_objects();
  const std::string_view library = to_string(GetParam());
  bool opened = false;
  for (long n = 0; !opened; ++n) {
    ASSERT_LT(n, 50);
    fail_nth_call(library, n, ENOMEM);
    {
      const auto memory = domain_->open_ipc(handle);
      const long calls = fail_nth_call(library, -1, 0);
      opened = memory.has_value() && calls <= n;
    }
    EXPECT_EQ(live_objects(), before) << n;
  }
}

TEST(IpcHandles, GaudiMemoryHasNoHandle) {
  const Context context = take(Context::create());
  const auto domain = take(context.open(MemoryType::gaudi));
  EXPECT_FALSE(domain->is_shareable());
  const Allocation memory = take(domain->allocate(4096));
  const auto handle = domain->ipc_handle(memory.address(), 4096);
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Errc::not_supported);
  const auto opened = domain->open_ipc({});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::not_supported);
}

}  // namespace
}  // namespace hbmwire::test
