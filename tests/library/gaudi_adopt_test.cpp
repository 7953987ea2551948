// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "gaudi_vendor_calls.hpp"
#include "helpers.hpp"
#include "tests/support/bytes.hpp"

namespace hbmwire {
namespace {

using Owner = MemoryOptions::Owner;
using test::pattern;
using test::soon;

constexpr std::uint64_t kSize = 1 << 20;
// The most calls in a life of the sweep. A copy is polled until it has finished, some hundred times
// on a busy machine.
constexpr long kMostCalls = 5000;

Context make_context() {
  auto context = Context::create();
  EXPECT_TRUE(context) << describe(context.error());
  return *context;
}

/// Memory that the application itself allocated through hl-thunk.
class GaudiAdopt : public testing::Test {
 protected:
  std::string card(std::size_t index) const {
    return context_.memory()[static_cast<std::size_t>(MemoryType::gaudi)]
        .devices.at(index)
        .pci_address;
  }

  Context context_ = make_context();
};

TEST_F(GaudiAdopt, IsKnownUntilTheLastCopyGoes) {
  test::ApplicationCard application;
  const std::uint64_t base = application.map(kSize);
  EXPECT_EQ(context_.find(base)->device->type, MemoryType::host) << "hl-thunk can't be asked";
  {
    auto adopted = context_.adopt(application.memory());
    ASSERT_TRUE(adopted) << describe(adopted.error());
    const Allocation copy = *adopted;
    EXPECT_EQ(copy.address(), base);
    EXPECT_EQ(copy.size_bytes(), kSize);
    adopted = tl::make_unexpected(Error{});
    const auto info = context_.find(base + 5000, 100);
    ASSERT_TRUE(info) << describe(info.error());
    EXPECT_EQ(info->device->type, MemoryType::gaudi);
    EXPECT_EQ(info->device->driven_by, "the application");
    EXPECT_EQ(info->base_address, base);
    EXPECT_EQ(info->size_bytes, kSize);
    EXPECT_NE(info->generation, 0U);
    EXPECT_EQ(info->path, Path::zero_copy);
    EXPECT_EQ(info->lifetime, Lifetime::use) << "its owner could not unmap it";
    EXPECT_FALSE(info->refusal);
    const auto outside = context_.find(base + 5000, kSize);
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().code, Errc::invalid_argument);
  }
  EXPECT_EQ(context_.find(base)->device->type, MemoryType::host);
}

TEST_F(GaudiAdopt, TheDeviceOfFindLivesAsLongAsTheContext) {
  const DeviceInfo* device = nullptr;
  {
    test::ApplicationCard application;
    application.map(kSize);
    const auto adopted = context_.adopt(application.memory());
    ASSERT_TRUE(adopted);
    device = context_.find(adopted->address())->device;
  }
  EXPECT_EQ(device->pci_address, card(0));
  const auto domain = context_.open(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(domain) << describe(domain.error());
}

/// There is one dma-buf at offset 0, and sub-ranges use the MR's offset (peers.md, 3 C 17). No byte
/// beside the range changes.
TEST_F(GaudiAdopt, IsReadAndWrittenThroughTheNic) {
  test::ApplicationCard application;
  application.map(kSize);
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  const auto adopted = context_.adopt(application.memory());
  ASSERT_TRUE(adopted) << describe(adopted.error());
  auto buffer = Buffer::create(*adopted, *nic, Access::remote_write);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  EXPECT_EQ(buffer->copy_path(), "NIC loopback");
  auto expected = pattern(kSize, 1);
  ASSERT_TRUE(buffer->write(0, expected, soon()));
  const auto part = pattern(10001, 2);
  ASSERT_TRUE(buffer->write(4097, part, soon()));
  std::copy(part.begin(), part.end(), expected.begin() + 4097);
  std::vector<std::byte> got(kSize);
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, expected);
}

/// This must also hold if writes of NICs are visible only after a flush (`--like-hardware flush`).
TEST_F(GaudiAdopt, ExactlyTheBytesOfAPeersRangeAreRead) {
  test::ApplicationCard application;
  application.map(kSize);
  const auto nic = Nic::open();
  const auto adopted = context_.adopt(application.memory());
  ASSERT_TRUE(adopted);
  auto buffer = Buffer::create(*adopted, *nic, Access::remote_write);
  auto source = Buffer::create(*context_.open(MemoryType::host), *nic, 10000, Access::none);
  auto connection = Connection::create(*nic, {});
  ASSERT_TRUE(buffer && source && connection);
  ASSERT_TRUE(connection->connect(connection->local()));
  auto expected = pattern(kSize, 1);
  ASSERT_TRUE(buffer->write(0, expected, soon()));
  const auto part = pattern(10000, 2);
  ASSERT_TRUE(source->write(0, part, soon()));
  RemoteMemory target = buffer->region().remote();
  target.address += 777;
  ASSERT_TRUE(connection->post_write(1, {&source->region(), 0, 10000}, target));
  ASSERT_TRUE(connection->wait(soon()));
  std::copy(part.begin(), part.end(), expected.begin() + 777);
  std::vector<std::byte> got(kSize);
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, expected);
}

TEST_F(GaudiAdopt, ABorrowedPartIsRegisteredAtItsOffset) {
  test::ApplicationCard application;
  const std::uint64_t base = application.map(kSize);
  const auto nic = Nic::open();
  const auto adopted = context_.adopt(application.memory());
  ASSERT_TRUE(adopted);
  const auto part = context_.borrow(base + 12345, 777);
  ASSERT_TRUE(part) << describe(part.error());
  const auto region = nic->register_memory(*part, Access::remote_write);
  ASSERT_TRUE(region) << describe(region.error());
  EXPECT_EQ(region->remote().address, base + 12345);
  EXPECT_EQ(region->remote().length_bytes, 777U);
  EXPECT_FALSE(context_.borrow(base + kSize - 1, 2));
}

TEST_F(GaudiAdopt, UnmapSucceedsRightAfterTheLastRegionAndNotBefore) {
  test::ApplicationCard application;
  application.map(kSize);
  const auto nic = Nic::open();
  std::optional<Region> region;
  {
    const auto adopted = context_.adopt(application.memory());
    ASSERT_TRUE(adopted);
    auto registered = nic->register_memory(*adopted, Access::remote_write);
    ASSERT_TRUE(registered) << describe(registered.error());
    region = *registered;
  }
  EXPECT_NE(application.unmap_and_free(), 0) << "the driver let go of what is registered";
  region.reset();
  EXPECT_EQ(application.unmap_and_free(), 0);
  EXPECT_EQ(test::live_objects().find("mapping"), std::string::npos);
}

TEST_F(GaudiAdopt, KnownMemoryIsRefused) {
  test::ApplicationCard application;
  const std::uint64_t base = application.map(kSize);
  auto first = context_.adopt(application.memory());
  ASSERT_TRUE(first);
  for (const GaudiMemory& again :
       {application.memory(), GaudiMemory{application.fd(), base + 4096, 4096},
        GaudiMemory{application.fd(), base - 4096, 8192}}) {
    const auto second = context_.adopt(again);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::invalid_argument);
  }
  first = tl::make_unexpected(Error{});
  EXPECT_TRUE(context_.adopt(application.memory())) << "it is forgotten, and may come again";
}

TEST_F(GaudiAdopt, MemoryThatCannotBeAGaudisIsRefused) {
  test::ApplicationCard application;
  const std::uint64_t base = application.map(kSize);
  const auto no_gaudi = context_.adopt({0, base, kSize});
  ASSERT_FALSE(no_gaudi);
  EXPECT_EQ(no_gaudi.error().stage, Stage::open);
  EXPECT_FALSE(context_.adopt({application.fd(), 0, kSize}));
  EXPECT_FALSE(context_.adopt({application.fd(), base, 0}));
  EXPECT_FALSE(context_.adopt({application.fd(), base, ~0ULL}));
  const auto wrong_base = context_.adopt({application.fd(), base + 4096, 4096});
  ASSERT_TRUE(wrong_base) << "only an export shows that the base is wrong";
  const auto nic = Nic::open();
  const auto region = nic->register_memory(*wrong_base, Access::remote_write);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().hint, Hint::export_refused);
}

/// Device addresses repeat: the first mapping of every Gaudi2 has the same one.
TEST_F(GaudiAdopt, AnAddressOfTwoCardsAsksForTheDevice) {
  test::ApplicationCard first(card(0));
  test::ApplicationCard second(card(1));
  const std::uint64_t base = first.map(kSize);
  ASSERT_EQ(second.map(kSize), base);
  const auto adopted_first = context_.adopt(first.memory());
  ASSERT_TRUE(adopted_first);
  EXPECT_EQ(context_.find(base)->device->pci_address, card(0));
  const auto adopted_second = context_.adopt(second.memory());
  ASSERT_TRUE(adopted_second) << describe(adopted_second.error());
  const auto ambiguous = context_.find(base, 100);
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().code, Errc::invalid_argument);
  EXPECT_EQ(ambiguous.error().hint, Hint::ambiguous_address);
  EXPECT_FALSE(context_.borrow(base, 100));
  for (const std::string& name : {std::string("1"), card(1)}) {
    const auto info = context_.find(base, 100, name);
    ASSERT_TRUE(info) << describe(info.error());
    EXPECT_EQ(info->device->pci_address, card(1)) << name;
    const auto borrowed = context_.borrow(base, 100, name);
    ASSERT_TRUE(borrowed) << describe(borrowed.error());
    EXPECT_EQ(borrowed->domain().device().pci_address, card(1));
  }
  EXPECT_EQ(context_.find(base, 100, "0")->device->pci_address, card(0));
}

TEST_F(GaudiAdopt, KilledOwnersLeaveTheCardUsable) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    test::ApplicationCard application;
    application.map(kSize);
    const auto context = Context::create();
    const auto nic = Nic::open();
    const auto adopted = context->adopt(application.memory());
    const auto region = nic->register_memory(*adopted, Access::remote_write);
    ::kill(::getpid(), region ? SIGKILL : SIGUSR1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  test::ApplicationCard application;
  application.map(kSize);
  const auto nic = Nic::open();
  const auto adopted = context_.adopt(application.memory());
  ASSERT_TRUE(adopted) << describe(adopted.error());
  EXPECT_TRUE(nic->register_memory(*adopted, Access::remote_write));
}

Result<void> life_of_adopted_memory(const GaudiMemory& memory) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(const Allocation adopted, context.adopt(memory));
  HBMWIRE_TRY_ASSIGN(const Allocation part, context.borrow(memory.base_address + 100, 1000));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(part, nic, Access::none));
  HBMWIRE_TRY(buffer.write(0, pattern(1000, 3), soon()));
  return {};
}

/// The n-th call fails, for n = 0, 1, ... until no call is left to fail. The application owns its
/// memory all the time.
TEST_F(GaudiAdopt, AnyFailedCallLeavesNothingBehind) {
  test::ApplicationCard application;
  application.map(kSize);
  ASSERT_TRUE(life_of_adopted_memory(application.memory()));
  const std::string before = test::live_objects();
  const int descriptors = test::open_descriptors();
  int failures = 0;
  for (long n = 0; n < kMostCalls; ++n) {
    test::fail_nth_call("gaudi", n, EIO);
    const auto result = life_of_adopted_memory(application.memory());
    const long counted = test::fail_nth_call("gaudi", -1, 0);
    EXPECT_EQ(test::live_objects(), before) << "after call " << n << " failed";
    EXPECT_EQ(test::open_descriptors(), descriptors) << "after call " << n << " failed";
    failures += result ? 0 : 1;
    if (counted > n) continue;
    EXPECT_TRUE(result) << describe(result.error());
    EXPECT_GE(failures, 3) << "to identify the card, and to export, can fail";
    return;
  }
  FAIL() << "the sweep did not end";
}

/// Memory of a card that the application uses through SynapseAI.
class GaudiBorrow : public GaudiAdopt {};

TEST_F(GaudiBorrow, MemoryInTheApplicationsPoolIsFoundWithoutOpeningAnything) {
  const test::ApplicationSynapse application(card(1));
  const std::uint64_t address = application.allocate(kSize);
  const int descriptors = test::open_descriptors();
  const auto info = context_.find(address + 100, 1000);
  ASSERT_TRUE(info) << describe(info.error());
  EXPECT_EQ(info->device->pci_address, card(1));
  EXPECT_EQ(info->device->driven_by, "SynapseAI");
  EXPECT_EQ(info->path, Path::zero_copy);
  EXPECT_EQ(info->lifetime, Lifetime::use);
  EXPECT_EQ(test::open_descriptors(), descriptors);
  const auto outside = context_.find(address, 95ULL << 30);
  ASSERT_FALSE(outside) << "the range leaves the pool";
  EXPECT_EQ(outside.error().code, Errc::invalid_argument);
}

TEST_F(GaudiBorrow, OneCachedDmabufServesTheWholePool) {
  const test::ApplicationSynapse application;
  const auto nic = Nic::open();
  const std::uint64_t first = application.allocate(kSize);
  const std::uint64_t second = application.allocate(kSize);
  {
    const auto one = context_.borrow(first, kSize);
    const auto other = context_.borrow(second + 1, 999);
    ASSERT_TRUE(one) << describe(one.error());
    ASSERT_TRUE(other) << describe(other.error());
    EXPECT_EQ(&one->domain(), &other->domain());
    EXPECT_EQ(context_.find(first)->lifetime, Lifetime::use) << "the domain says so, too";
    const auto own = one->domain().allocate(kSize);
    ASSERT_TRUE(own) << describe(own.error());
    EXPECT_EQ(context_.find(own->address())->lifetime, Lifetime::allocation);
    const auto region = nic->register_memory(*one, Access::remote_write);
    const auto region_of_other = nic->register_memory(*other, Access::remote_write);
    ASSERT_TRUE(region) << describe(region.error());
    ASSERT_TRUE(region_of_other) << describe(region_of_other.error());
    EXPECT_EQ(region->dmabuf_fd(), region_of_other->dmabuf_fd());
    EXPECT_EQ(region_of_other->remote().address, second + 1);
  }
  EXPECT_TRUE(application.has_card()) << "a borrowed card is not released";
}

TEST_F(GaudiBorrow, ContentsGoThroughTheApplicationsEngine) {
  const test::ApplicationSynapse application;
  const auto nic = Nic::open();
  const auto borrowed = context_.borrow(application.allocate(kSize), kSize);
  ASSERT_TRUE(borrowed) << describe(borrowed.error());
  auto buffer = Buffer::create(*borrowed, *nic, Access::remote_write);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  EXPECT_EQ(buffer->copy_path(), "SynapseAI DMA");
  const auto expected = pattern(kSize, 4);
  ASSERT_TRUE(buffer->write(0, expected, soon()));
  std::vector<std::byte> got(kSize);
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, expected);
}

/// Releases around 1.18 named the field with the pool's beginning "reserved".
TEST_F(GaudiBorrow, APoolWhoseBeginningIsNotToldIsFoundByTrying) {
  ::setenv("HBMWIRE_EMULATION_SYNAPSE_RELEASE", "1.18", 1);
  {
    const test::ApplicationSynapse application;
    const auto nic = Nic::open();
    const auto borrowed = context_.borrow(application.allocate(kSize), kSize);
    ASSERT_TRUE(borrowed) << describe(borrowed.error());
    const auto region = nic->register_memory(*borrowed, Access::remote_write);
    EXPECT_TRUE(region) << describe(region.error());
  }
  ::unsetenv("HBMWIRE_EMULATION_SYNAPSE_RELEASE");
}

TEST_F(GaudiBorrow, TheApplicationsPoolAndAnotherCardsMemoryCanBeAmbiguous) {
  const test::ApplicationSynapse application(card(1));
  const auto other = context_.open(MemoryType::gaudi, {.device = "0", .owner = Owner::hl_thunk});
  ASSERT_TRUE(other) << describe(other.error());
  const auto memory = (*other)->allocate(kSize);
  ASSERT_TRUE(memory);
  const auto info = context_.find(memory->address());
  ASSERT_FALSE(info) << "the pool of card 1 is at the same addresses";
  EXPECT_EQ(info.error().hint, Hint::ambiguous_address);
  EXPECT_EQ(context_.find(memory->address(), 1, "0")->device->driven_by, "hl-thunk");
  EXPECT_EQ(context_.find(memory->address(), 1, "1")->device->driven_by, "SynapseAI");
}

Result<void> life_of_borrowed_memory(std::uint64_t address) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(const AddressInfo info, context.find(address, 1000));
  if (info.device->type == MemoryType::host) {
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::configure, "the memory was taken for the host's"));
  }
  HBMWIRE_TRY_ASSIGN(const Allocation borrowed, context.borrow(address, 1000));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(borrowed, nic, Access::none));
  HBMWIRE_TRY(buffer.write(0, pattern(1000, 5), soon()));
  std::vector<std::byte> got(1000);
  HBMWIRE_TRY(buffer.read(0, got, soon()));
  EXPECT_EQ(got, pattern(1000, 5));
  return {};
}

TEST_F(GaudiBorrow, AnyFailedCallLeavesNothingBehind) {
  const test::ApplicationSynapse application;
  const std::uint64_t address = application.allocate(kSize);
  ASSERT_TRUE(life_of_borrowed_memory(address));
  const std::string before = test::live_objects();
  const int descriptors = test::open_descriptors();
  int failures = 0;
  for (long n = 0; n < kMostCalls; ++n) {
    test::fail_nth_call("gaudi", n, EIO);
    const auto result = life_of_borrowed_memory(address);
    const long counted = test::fail_nth_call("gaudi", -1, 0);
    EXPECT_EQ(test::live_objects(), before) << "after call " << n << " failed";
    EXPECT_EQ(test::open_descriptors(), descriptors) << "after call " << n << " failed";
    failures += result ? 0 : 1;
    if (counted > n) continue;
    EXPECT_TRUE(result) << describe(result.error());
    EXPECT_GT(failures, 10);
    EXPECT_TRUE(application.has_card());
    return;
  }
  FAIL() << "the sweep did not end";
}

}  // namespace
}  // namespace hbmwire
