// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "helpers.hpp"
#include "registration/region_state.hpp"  // registers what Region would refuse

// Bugs that other projects had when they registered accelerator memory, one test for each. Each
// test names the reports. Tests of memory with several segments are among CUDA's tests.
namespace hbmwire {
namespace {

using Owner = MemoryOptions::Owner;
using test::filled;
using test::kAll;
using test::soon;

constexpr std::uint64_t kPage = 4096;

/// A card of each owner: allocations of SynapseAI lie at offsets in one dma-buf, those of hl-thunk
/// have one dma-buf each.
class Pitfall : public testing::TestWithParam<Owner> {
 protected:
  [[nodiscard]] Allocation allocate(std::uint64_t size) const {
    auto memory = card_->allocate(size);
    EXPECT_TRUE(memory) << describe(memory.error());
    return *memory;
  }

  [[nodiscard]] std::vector<std::byte> read(const Allocation& memory) const {
    return read(memory, nic_);
  }

  /// Only a read by the same NIC flushes its writes (torchcomms#2396).
  [[nodiscard]] std::vector<std::byte> read(const Allocation& memory, const Nic& nic) const {
    std::vector<std::byte> bytes(memory.size_bytes());
    auto buffer = Buffer::create(memory, nic, Access::none);
    EXPECT_TRUE(buffer && buffer->read(0, bytes, soon()));
    return bytes;
  }

  void write(const Allocation& memory, int value) const {
    auto buffer = Buffer::create(memory, nic_, Access::none);
    EXPECT_TRUE(buffer && buffer->write(0, filled(memory.size_bytes(), value), soon()));
  }

  /// Writes from host memory by RDMA, with a NIC that the writer chooses.
  [[nodiscard]] Result<void> rdma_write(const Nic& nic, const RemoteMemory& target,
                                        int value) const {
    HBMWIRE_TRY_ASSIGN(const auto host, context_.open(MemoryType::host));
    HBMWIRE_TRY_ASSIGN(Buffer source, Buffer::create(host, nic, target.length_bytes, Access::none));
    HBMWIRE_TRY(source.write(0, filled(target.length_bytes, value), soon()));
    HBMWIRE_TRY_ASSIGN(Connection connection, Connection::create(nic, {}));
    HBMWIRE_TRY(connection.connect(connection.local()));
    // The first argument of a post is the id of its completion: any number.
    HBMWIRE_TRY(connection.post_write(0, {&source.region(), 0, target.length_bytes}, target));
    HBMWIRE_TRY(connection.wait(soon()));
    return {};
  }

  /// The error of register_memory() when ibv_reg_dmabuf_mr() fails with this errno.
  [[nodiscard]] Error failed_registration(const Allocation& memory, int error_number) const {
    for (long n = 0; n < 100; ++n) {
      test::fail_nth_call("nic", n, error_number);
      const auto region = nic_.register_memory(memory, kAll);
      test::fail_nth_call("nic", -1, 0);
      if (!region && region.error().call == std::string("ibv_reg_dmabuf_mr")) return region.error();
    }
    ADD_FAILURE() << "ibv_reg_dmabuf_mr is not called";
    return {};
  }

  Context context_ = *Context::create();
  Nic nic_ = *Nic::open();
  std::shared_ptr<MemoryDomain> card_ =
      *context_.open(MemoryType::gaudi, {.device = {}, .owner = GetParam()});
};

/// Writes hit neighbouring memory, because the allocation's offset in the dma-buf was ignored or
/// added twice: openucx/ucx#11417, #11374, #11428, #11541, #11461, ROCm/mori#509,
/// ofiwg/libfabric#11793, #12473, kvcache-ai/Mooncake#2035, #2034, #2015, #3243.
TEST_P(Pitfall, OffsetsAreCountedOnce) {
  const auto before = allocate(kPage);
  const auto memory = allocate(3 * kPage);
  const auto after = allocate(kPage);
  for (const auto* each : {&before, &memory, &after}) write(*each, 1);
  const auto part = context_.borrow(memory.address() + kPage + 10, 100);
  ASSERT_TRUE(part) << describe(part.error());
  const auto region = nic_.register_memory(*part, kAll);
  ASSERT_TRUE(region) << describe(region.error());
  ASSERT_TRUE(rdma_write(nic_, region->remote(), 2));
  auto expected = filled(3 * kPage, 1);
  std::fill_n(expected.begin() + kPage + 10, 100, std::byte{2});
  EXPECT_EQ(read(memory), expected);
  EXPECT_EQ(read(before), filled(kPage, 1));
  EXPECT_EQ(read(after), filled(kPage, 1));
}

/// Tensors smaller than a page, or within one, could not be registered: meta-pytorch/monarch#4285.
TEST_P(Pitfall, LessThanAPageIsRegistered) {
  const auto memory = allocate(24);
  write(memory, 1);
  for (const auto& [offset, length] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 24}, {1, 1}, {23, 1}, {5, 10}}) {
    const auto part = context_.borrow(memory.address() + offset, length);
    ASSERT_TRUE(part) << describe(part.error());
    const auto region = nic_.register_memory(*part, kAll);
    ASSERT_TRUE(region) << describe(region.error());
    EXPECT_EQ(region->remote().length_bytes, length);
    EXPECT_TRUE(rdma_write(nic_, region->remote(), 2));
  }
  EXPECT_EQ(read(memory), filled(24, 2));
}

/// The offset in the dma-buf and the address of the region must have the same place in a page
/// (ibv_reg_dmabuf_mr(3); libfabric requires the same of base_addr and offset).
TEST_P(Pitfall, AddressAndOffsetAgreeInTheirPage) {
  const auto memory = allocate(3 * kPage);
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, kPage - 1, kPage + 77}) {
    const auto range = card_->export_dmabuf(memory.address() + at, 10);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->offset_bytes % kPage, range->address() % kPage);
    const auto wrong = verbs::register_dmabuf(state_of(nic_), range->fd->get(), range->offset_bytes,
                                              10, range->address() + 1, kAll);
    ASSERT_FALSE(wrong) << "this NIC does not insist, so the test shows nothing";
  }
}

/// mr->addr of a dma-buf region is the offset, which no work request can use as an address.
/// uccl-project/uccl overwrites it by hand.
TEST_P(Pitfall, ARegionsAddressIsTheDevices) {
  const auto memory = allocate(kPage);
  const auto part = context_.borrow(memory.address() + 100, 50);
  ASSERT_TRUE(part) << describe(part.error());
  const auto region = nic_.register_memory(*part, kAll);
  ASSERT_TRUE(region);
  const auto offset = card_->export_dmabuf(memory.address() + 100, 50)->offset_bytes;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(state_of(*region).registrations.front().mr.get()->addr),
            offset);
  EXPECT_EQ(region->address(), memory.address() + 100);
  EXPECT_EQ(region->remote().address, memory.address() + 100);
}

/// Each registration leaked a descriptor, until nofile was reached: ofiwg/libfabric#12828, #10708.
TEST_P(Pitfall, RegistrationsLoseNoDescriptor) {
  const int before = test::open_descriptors();
  for (int i = 0; i < 100; ++i) {
    const auto memory = allocate(kPage);
    ASSERT_TRUE(nic_.register_memory(memory, kAll));
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

/// One descriptor can be registered with any number of NICs, which saves BAR space
/// (kvcache-ai/Mooncake#2523). Each region has its own key, so a peer with several NICs needs
/// several keys.
TEST_P(Pitfall, OneExportServesNicsThatHaveKeysOfTheirOwn) {
  const auto other = Nic::open("emu1");
  ASSERT_TRUE(other) << describe(other.error());
  const auto memory = allocate(kPage);
  const auto one = nic_.register_memory(memory, kAll);
  const auto two = other->register_memory(memory, kAll);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->dmabuf_fd(), two->dmabuf_fd());
  EXPECT_NE(one->remote().remote_key, two->remote().remote_key);
  EXPECT_TRUE(rdma_write(nic_, one->remote(), 1));
  EXPECT_TRUE(rdma_write(*other, two->remote(), 2));
  const auto foreign = rdma_write(*other, one->remote(), 3);
  ASSERT_FALSE(foreign) << "the key of another NIC";
  EXPECT_EQ(foreign.error().hint, Hint::remote_key) << describe(foreign.error());
  EXPECT_EQ(read(memory, *other), filled(kPage, 2));
}

/// One region with both NICs: each has its own key, and a connection uses that of its own NIC.
TEST_P(Pitfall, ARegionWithTwoNicsHasAKeyForEach) {
  const auto other = Nic::open("emu1");
  ASSERT_TRUE(other) << describe(other.error());
  const auto memory = allocate(kPage);
  const std::array nics{nic_, *other};
  const auto region = Nic::register_memory(nics, memory, kAll);
  ASSERT_TRUE(region) << describe(region.error());
  ASSERT_EQ(region->nics().size(), 2U);
  EXPECT_EQ(region->nics()[0].info().name, nic_.info().name);
  EXPECT_EQ(region->nics()[1].info().name, "emu1");
  EXPECT_EQ(region->remote(), region->remote(nic_));
  EXPECT_NE(region->remote(nic_).remote_key, region->remote(*other).remote_key);
  EXPECT_TRUE(rdma_write(nic_, region->remote(nic_), 1));
  EXPECT_TRUE(rdma_write(*other, region->remote(*other), 2));
  EXPECT_EQ(read(memory, *other), filled(kPage, 2));
  // Reads into the region through either NIC's connection, with the local key of that NIC.
  for (const Nic& nic : nics) {
    auto connection = Connection::create(nic, {});
    ASSERT_TRUE(connection && connection->connect(connection->local()));
    EXPECT_TRUE(connection->post_read(1, {&*region, 0, 10}, region->remote(nic)));
    const auto done = connection->wait(soon());
    EXPECT_TRUE(done && *done) << describe(done.error());
  }
}

/// The lkey of another NIC is only a number: the NIC would fail the queue pair, or find one of its
/// own regions by it.
TEST_P(Pitfall, ASliceOfAnotherNicsRegionIsNotPosted) {
  const auto other = Nic::open("emu1");
  ASSERT_TRUE(other) << describe(other.error());
  const auto region = nic_.register_memory(allocate(kPage), kAll);
  ASSERT_TRUE(region);
  EXPECT_EQ(region->remote(*other), RemoteMemory{});
  auto connection = Connection::create(*other, {});
  ASSERT_TRUE(connection && connection->connect(connection->local()));
  const auto posted = connection->post_send(1, {&*region, 0, 10});
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error().stage, Stage::post);
  EXPECT_EQ(posted.error().code, Errc::invalid_argument);
  EXPECT_NE(describe(posted.error()).find("not registered with this connection's NIC"),
            std::string::npos)
      << describe(posted.error());
  EXPECT_FALSE(connection->post_receive(2, {&*region, 0, 10}));
  EXPECT_TRUE(connection->post_receive(3, {&*region, 0, 0})) << "an empty slice needs no key";
}

/// 524 is the kernel's own ENOTSUPP. strerror() calls it "Unknown error 524", and users mistook it
/// for other errors: openucx/ucx#11584, #11571, ai-dynamo/nixl#1694, #1605.
TEST_P(Pitfall, Error524IsNotSupported) {
  const Error error = failed_registration(allocate(kPage), 524);
  EXPECT_EQ(error.code, Errc::not_supported);
  EXPECT_EQ(error.hint, Hint::dmabuf_not_supported);
  EXPECT_NE(describe(error).find("ENOTSUPP"), std::string::npos) << describe(error);
}

/// If NIC and card cannot reach each other (ACS, IOMMU, CONFIG_PCI_P2PDMA), the call fails with
/// EPERM, although no permission is missing: NVIDIA/nccl#1737, #1939, linux-rdma/perftest#289,
/// #241, siderolabs/pkgs#1356.
TEST_P(Pitfall, NoPermissionMeansNoWayOverPcie) {
  const Error error = failed_registration(allocate(kPage), EPERM);
  EXPECT_EQ(error.hint, Hint::dmabuf_no_p2p);
  EXPECT_NE(describe(error).find("CONFIG_PCI_P2PDMA"), std::string::npos) << describe(error);
}

/// After the dma-buf failed to register, the address was registered as host memory, and requests
/// used that: HenryTangIntel/rdma-dmabuf, rdma_common.c. Aborts and crashes instead of an error:
/// deepseek-ai/DeepEP#748, #750, ROCm/mori#481, #649, uccl-project/mKernel#26.
TEST_P(Pitfall, AFailedDmabufIsAnErrorAndNoHostRegion) {
  const auto memory = allocate(kPage);
  // A pool keeps a dma-buf after its first export.
  EXPECT_TRUE(nic_.register_memory(memory, kAll));
  const std::string before = test::live_objects();
  for (const int number : {EINVAL, ENOMEM, EPERM, EFAULT, EOPNOTSUPP, 524}) {
    const Error error = failed_registration(memory, number);
    EXPECT_EQ(error.stage, Stage::register_memory);
    EXPECT_EQ(error.number, number);
    EXPECT_NE(error.hint, Hint::none) << describe(error);
    EXPECT_EQ(test::live_objects(), before);
  }
  const auto region = nic_.register_memory(memory, kAll);
  ASSERT_TRUE(region) << "it works still";
  EXPECT_EQ(region->path(), Path::zero_copy);
}

/// "Failed to register memory: Bad address [14]": an accelerator's address was registered as host
/// memory. kvcache-ai/Mooncake#351, #281, #1254, #983, sgl-project/sglang#6193, #6753,
/// NVIDIA/gdrcopy#266, linux-rdma/perftest#126.
TEST_P(Pitfall, DeviceMemoryIsNotRegisteredByItsAddress) {
  const auto memory = allocate(kPage);
  const auto region =
      verbs::register_host(state_of(nic_), std::bit_cast<void*>(memory.address()), kPage, kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().number, EFAULT);
  EXPECT_NE(describe(region.error()).find("Context::borrow()"), std::string::npos)
      << describe(region.error());
}

/// Registration "succeeded" without support for the memory, and the program crashed later:
/// ofiwg/libfabric#7977. An address that no type of memory claims is treated as host memory, and
/// refused if it is not.
TEST_P(Pitfall, MemoryOfATypeThatIsNotLookedForIsRefused) {
  const auto memory = allocate(kPage);
  const auto host_alone = Context::create({.memory = {MemoryType::host}});
  const auto borrowed = host_alone->borrow(memory.address(), kPage);
  ASSERT_TRUE(borrowed);
  const auto region = nic_.register_memory(*borrowed, kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().hint, Hint::not_host_memory) << describe(region.error());
}

/// A region that was too large was silently made smaller: kvcache-ai/Mooncake#2017, #640, #304,
/// #4168.
TEST_P(Pitfall, ARegionIsNeverMadeSmaller) {
  const auto memory = allocate(3 * kPage);
  const auto whole = nic_.register_memory(memory, kAll);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->remote().length_bytes, 3 * kPage);
  EXPECT_EQ(state_of(*whole).registrations.front().mr.get()->length, 3 * kPage);
  state_of(nic_).max_region_bytes = 2 * kPage;
  const auto refused = nic_.register_memory(memory, kAll);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, Hint::region_too_large) << describe(refused.error());
  const auto host = (*context_.open(MemoryType::host))->allocate(3 * kPage);
  EXPECT_EQ(nic_.register_memory(*host, kAll).error().hint, Hint::region_too_large);
  EXPECT_TRUE(nic_.register_memory(allocate(2 * kPage), kAll));
}

/// Exhausted BARs, keys and pinned memory all appear as a bare ENOMEM: Mellanox/nv_peer_memory#101,
/// StanfordLegion/realm#339, #194, ofiwg/libfabric#10502, kvcache-ai/Mooncake#1765,
/// openucx/ucx#6264.
TEST_P(Pitfall, NoMemoryNamesTheLimitToRaise) {
  const Error error = failed_registration(allocate(kPage), ENOMEM);
  EXPECT_EQ(error.code, Errc::exhausted);
  EXPECT_EQ(error.hint, Hint::memlock_limit) << describe(error);
}

/// A cache that knew memory by address and length returned registrations of freed memory:
/// ai-dynamo/nixl#2183.
TEST_P(Pitfall, AReusedAddressIsAnotherAllocation) {
  std::uint64_t address = 0;
  std::uint64_t generation = 0;
  {
    const auto memory = allocate(kPage);
    address = memory.address();
    generation = card_->find(address, kPage)->generation;
  }
  const auto again = allocate(kPage);
  ASSERT_EQ(again.address(), address) << "the test wants the same address twice";
  EXPECT_NE(card_->find(address, kPage)->generation, generation);
}

/// The dma-buf's descriptor may be closed after registration: the region belongs to the NIC.
TEST_P(Pitfall, AnImportOutlivesTheApplicationsDescriptor) {
  const auto memory = allocate(kPage);
  write(memory, 1);
  {
    auto range = card_->export_dmabuf(memory.address(), kPage);
    ASSERT_TRUE(range);
    const auto imported = context_.import_dmabuf({.fd = range->fd->get(),
                                                  .offset_bytes = range->offset_bytes,
                                                  .length_bytes = range->length_bytes});
    ASSERT_TRUE(imported) << describe(imported.error());
    range = tl::make_unexpected(Error{});
    const auto region = nic_.register_memory(*imported, kAll);
    ASSERT_TRUE(region) << describe(region.error());
    EXPECT_TRUE(rdma_write(nic_, region->remote(), 2));
  }
  EXPECT_EQ(read(memory), filled(kPage, 2));
}

INSTANTIATE_TEST_SUITE_P(BothOwners, Pitfall, testing::Values(Owner::synapse, Owner::hl_thunk),
                         [](const auto& test) {
                           return test.param == Owner::synapse ? "Synapse" : "HlThunk";
                         });

}  // namespace
}  // namespace hbmwire
