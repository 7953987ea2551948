// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "ipc_owner.hpp"
#include "tests/support/bytes.hpp"

// Behaviour that is specific to IPC handles of shared host memory.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kHostLength = Owner::kLength;
constexpr std::uint64_t kName = 24;  // bytes of the token that name the memory

class HostIpc : public testing::Test {
 protected:
  HostIpc() : owner_(MemoryType::host), context_(take(Context::create())) {
    domain_ = take(context_.open(MemoryType::host, shareable()));
  }

  [[nodiscard]] Error refusal(const IpcHandle& handle) const {
    const auto opened = domain_->open_ipc(handle);
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }

  Owner owner_;
  Context context_;
  std::shared_ptr<MemoryDomain> domain_;
};

TEST_F(HostIpc, OpenedMemoryOutlivesTheOwnersFree) {
  const IpcHandle handle = owner_.handle();
  auto opened = std::make_optional(take(domain_->open_ipc(handle)));
  owner_.free();
  EXPECT_TRUE(same_bytes(contents(*opened), pattern(kHostLength, 1)));
  must(domain_->copy_in(opened->address(), pattern(kHostLength, 2), soon()));
  EXPECT_TRUE(same_bytes(contents(take(domain_->open_ipc(handle))), pattern(kHostLength, 2)))
      << "it is open, and opened once";
  opened.reset();
  EXPECT_EQ(refusal(handle).code, Errc::not_found);
  EXPECT_EQ(mapped_shared_files(), 0U);
}

TEST_F(HostIpc, MemoryOfADeadOwnerIsNotFound) {
  const IpcHandle handle = owner_.handle();
  owner_.kill();
  const Error error = refusal(handle);
  EXPECT_EQ(error.code, Errc::not_found) << describe(error);
  EXPECT_EQ(error.stage, Stage::open);
}

TEST_F(HostIpc, AForgedTokenIsRefused) {
  const int descriptors = open_descriptors();
  const auto expect_refused = [&](const IpcHandle& handle) {
    const Error error = refusal(handle);
    EXPECT_TRUE(error.code == Errc::not_found || error.code == Errc::permission_denied)
        << describe(error);
    EXPECT_EQ(error.stage, Stage::open);
  };
  for (const std::uint64_t more : {std::uint64_t{1}, std::uint64_t{4096}, ~std::uint64_t{0}}) {
    IpcHandle other = owner_.handle();
    other.block_bytes = more == ~std::uint64_t{0} ? more : other.block_bytes + more;
    expect_refused(other);
  }
  for (std::size_t i = 0; i < kName; ++i) {
    IpcHandle other = owner_.handle();
    other.token[i] ^= std::byte{0x55};
    expect_refused(other);
  }
  IpcHandle zeros = owner_.handle();
  zeros.token = {};
  expect_refused(zeros);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mapped_shared_files(), 0U);
  EXPECT_TRUE(owner_.has(1));
}

TEST_F(HostIpc, AnotherLengthIsRefusedWhileTheMemoryIsOpen) {
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  IpcHandle other = owner_.handle();
  other.offset_bytes = other.block_bytes;
  other.block_bytes += 1U << 20U;
  other.length_bytes = 4096;
  EXPECT_EQ(refusal(other).code, Errc::permission_denied);
}

TEST_F(HostIpc, FreeingMemoryBesideOpenedMemoryLeavesItOpen) {
  std::vector<Allocation> own;  // above and below it, wherever the kernel places them
  const auto allocate_some = [&] {
    for (int i = 0; i < 8; ++i) own.push_back(take(domain_->allocate(4096)));
  };
  allocate_some();
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  allocate_some();
  own.clear();
  ASSERT_EQ(mapped_shared_files(), 1U);
  EXPECT_TRUE(same_bytes(contents(opened), pattern(kHostLength, 1)));
}

TEST_F(HostIpc, NeedsNoDescriptorInTheOpeningProcess) {
  const int descriptors = open_descriptors();
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mapped_shared_files(), 1U);
}

TEST_F(HostIpc, AnyHostDomainOpensAHandle) {
  const auto plain = take(context_.open(MemoryType::host));
  ASSERT_NE(plain, domain_);
  EXPECT_TRUE(domain_->is_shareable());
  EXPECT_FALSE(plain->is_shareable());
  const IpcHandle handle = owner_.handle();
  const Allocation opened = take(plain->open_ipc(handle));
  EXPECT_EQ(&opened.domain(), plain.get());
  EXPECT_TRUE(same_bytes(contents(opened), pattern(kHostLength, 1)));
  const Allocation other = take(domain_->open_ipc(handle));
  EXPECT_NE(other.address(), opened.address());
  must(plain->copy_in(opened.address(), pattern(kHostLength, 2), soon()));
  EXPECT_TRUE(same_bytes(contents(other), pattern(kHostLength, 2)));
  EXPECT_TRUE(owner_.has(2));
}

TEST_F(HostIpc, OpenedMemoryIsNotOfferedToOthers) {
  const Allocation opened = take(domain_->open_ipc(owner_.handle()));
  const auto handle = domain_->ipc_handle(opened.address(), kHostLength);
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Errc::invalid_argument);
}

void expect_none(MemoryDomain& domain, const Allocation& memory, Errc code) {
  const auto handle = domain.ipc_handle(memory.address(), memory.size_bytes());
  ASSERT_FALSE(handle) << domain.device().name;
  EXPECT_EQ(handle.error().code, code) << describe(handle.error());
  EXPECT_EQ(handle.error().stage, Stage::open);
}

TEST(HostIpcHandles, OnlySharedMemoryHasHandles) {
  const Context context = take(Context::create());
  const auto plain = take(context.open(MemoryType::host));
  const auto shared = take(context.open(MemoryType::host, shareable()));
  const Allocation memory = take(plain->allocate(4096));
  expect_none(*plain, memory, Errc::not_supported);
  expect_none(*shared, memory, Errc::invalid_argument);
  expect_none(*plain, take(shared->allocate(4096)), Errc::not_supported);
}

TEST(HostIpcHandles, AreOfTheDomainsOwnKind) {
  const Context context = take(Context::create());
  const Allocation memory = take(context.allocate(MemoryType::host, 4096, shareable()));
  // A machine may lack huge pages or NUMA, but has at least one of these kinds.
  for (const HostMemoryOptions& kind :
       {HostMemoryOptions{.pages = HostMemoryOptions::Pages::huge_2m, .shared = true},
        HostMemoryOptions{.shared = true, .numa_node = 0}}) {
    const auto other = context.open(MemoryType::host, {.device = {}, .host = kind});
    if (other) expect_none(**other, memory, Errc::invalid_argument);
  }
}

TEST(HostIpcHandles, SayWhereTheRangeIs) {
  const Context context = take(Context::create());
  const auto domain = take(context.open(MemoryType::host, shareable()));
  const Allocation memory = take(domain->allocate(3 * 4096 + 1));
  const IpcHandle handle = take(domain->ipc_handle(memory.address() + 5000, 77));
  EXPECT_EQ(handle.type, MemoryType::host);
  EXPECT_EQ(handle.block_bytes, 4 * 4096U);
  EXPECT_EQ(handle.offset_bytes, 5000U);
  EXPECT_EQ(handle.length_bytes, 77U);
  EXPECT_FALSE(domain->ipc_handle(memory.address() + 3 * 4096, 2))
      << "of the last page no more than was allocated";
}

/// Shared memory, and the same memory opened by another context.
struct Opened {
  static constexpr std::uint64_t kBytes = (4U << 20U) + 123;

  Opened()
      : owners(take(take(Context::create()).allocate(MemoryType::host, kBytes, shareable()))),
        domain(take(take(Context::create()).open(MemoryType::host))),
        memory(take(domain->open_ipc(take(owners.domain().ipc_handle(owners.address(), kBytes))))),
        own(take(domain->allocate(kBytes))) {}

  Allocation owners;
  std::shared_ptr<MemoryDomain> domain;
  Allocation memory;
  Allocation own;
};

struct Range {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t length;
};

void expect_copied(const Allocation& source, const Allocation& target, const Range& range) {
  must(source.domain().copy_in(source.address(), pattern(Opened::kBytes, 5), soon()));
  auto expected = pattern(Opened::kBytes, 6);
  must(target.domain().copy_in(target.address(), expected, soon()));
  must(take(target.domain().start_copy_from(source.domain(), source.address() + range.from,
                                            target.address() + range.to, range.length))
           .wait(soon()));
  overlay(expected, range.to, range.from, 5, range.length);
  EXPECT_TRUE(same_bytes(contents(target), expected)) << range.length;
  EXPECT_TRUE(same_bytes(contents(source), pattern(Opened::kBytes, 5))) << range.length;
}

TEST(HostIpcCopies, ACopyMovesExactlyItsRange) {
  const Opened opened;
  constexpr std::uint64_t kSlice = 512U << 10U;
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, kSlice - 1, kSlice, kSlice + 1, 6 * kSlice + 7}) {
    for (const auto& [from, to] : {std::pair{0U, 0U}, std::pair{4097U, 333U}}) {
      expect_copied(opened.memory, opened.own, {from, to, length});
      expect_copied(opened.own, opened.memory, {from, to, length});
      expect_copied(opened.own, opened.owners, {from, to, length});
    }
  }
  expect_copied(opened.memory, opened.own, {0, 0, Opened::kBytes});
  EXPECT_TRUE(same_bytes(contents(opened.owners), contents(opened.memory)));
}

/// Maps an empty file over the memory's pages: a touch would end the process (SIGBUS), as if the
/// memory's own file had lost them.
void take_pages(const Allocation& memory) {
  const Fd empty(::memfd_create("empty", MFD_CLOEXEC));
  ASSERT_NE(::mmap(std::bit_cast<void*>(memory.address()), 1U << 20U, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, empty.get(), 0),
            MAP_FAILED);
}

TEST(HostIpcCopies, PagesThatCannotBeReadAreAnError) {
  const Opened opened;
  take_pages(opened.memory);
  const auto expect_fails = [](const Allocation& source, const Allocation& target) {
    const auto copied = take(target.domain().start_copy_from(source.domain(), source.address() + 5,
                                                             target.address(), 100))
                            .wait(soon());
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().stage, Stage::copy) << describe(copied.error());
  };
  expect_fails(opened.memory, opened.own);
  expect_fails(opened.own, opened.memory);
}

TEST(HostIpcCopies, ACopyBetweenHostAndDeviceIsRefused) {
  const Context context = take(Context::create());
  const auto host = take(context.open(MemoryType::host, shareable()));
  const Allocation memory = take(host->allocate(4096));
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    const auto device = take(context.open(type));
    const Allocation devices = take(device->allocate(4096));
    EXPECT_FALSE(host->copies_from(*device)) << to_string(type);
    EXPECT_FALSE(device->copies_from(*host)) << to_string(type);
    const auto refused = host->start_copy_from(*device, devices.address(), memory.address(), 4096);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::not_supported) << describe(refused.error());
    EXPECT_FALSE(device->start_copy_from(*host, memory.address(), devices.address(), 4096));
  }
}

}  // namespace
}  // namespace hbmwire::test
