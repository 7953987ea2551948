// SPDX-License-Identifier: MIT
//
// Behaviour that is specific to CUDA, with the emulated driver. memory_contract.hpp tests the
// behaviour of every domain.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "cuda_application.hpp"
#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

Context make_context() { return take(Context::create({.memory = {}})); }

/// Sets a variable while it lives.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }

  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

  ~WithVariable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// Makes sysfs show the kernel module that translates GPU addresses for NICs.
class WithPeerMemory {
 public:
  WithPeerMemory() { std::filesystem::create_directories(directory()); }

  WithPeerMemory(const WithPeerMemory&) = delete;
  WithPeerMemory& operator=(const WithPeerMemory&) = delete;

  ~WithPeerMemory() { std::filesystem::remove_all(directory()); }

 private:
  static std::filesystem::path directory() {
    return std::filesystem::path(std::getenv("SYSFS_PATH")) / "module/nvidia_peermem";
  }
};

TEST(CudaProvider, ProbesWithoutMakingAContext) {
  const auto context = make_context();
  const auto& probe = context.memory().at(static_cast<std::size_t>(MemoryType::cuda));
  ASSERT_FALSE(probe.missing) << describe(*probe.missing);
  EXPECT_EQ(probe.library, "libcuda.so.1, driver API 12.8");
  ASSERT_EQ(probe.devices.size(), 2U);
  EXPECT_EQ(probe.devices[0].name, "H100 " + probe.devices[0].pci_address);
  EXPECT_EQ(probe.devices[0].size_bytes, 80ULL << 30U);
  EXPECT_FALSE(CudaApplication::has_context(0));
  const auto second = take(context.open(MemoryType::cuda, {.device = "1"}));
  EXPECT_EQ(second->device().pci_address, probe.devices[1].pci_address);
  EXPECT_FALSE(CudaApplication::has_context(0)) << "only the second GPU was opened";
  EXPECT_TRUE(CudaApplication::has_context(1));
  const auto none = context.open(MemoryType::cuda, {.device = "2"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::no_such_device);
  EXPECT_EQ(take(context.open(MemoryType::cuda, {.device = probe.devices[1].pci_address})), second);
}

TEST(CudaDomain, LeavesNoContextCurrent) {
  const auto context = make_context();
  const auto gpu = take(context.open(MemoryType::cuda));
  const auto memory = take(gpu->allocate(10'000));
  std::vector<std::byte> bytes(100);
  must(gpu->copy_in(memory.address(), bytes, soon()));
  static_cast<void>(take(gpu->export_dmabuf(memory.address(), 1)));
  EXPECT_TRUE(take(gpu->flush()));
  EXPECT_FALSE(CudaApplication::has_current());
  // The application's own context stays current.
  const CudaApplication application(1);
  EXPECT_TRUE(gpu->find(memory.address(), 1));
  must(gpu->copy_in(memory.address(), bytes, soon()));
  EXPECT_TRUE(application.is_current());
}

/// Tensors that begin within a page: monarch#4285, peers.md 5.5.
TEST(CudaDomain, SubPageAllocationsKeepTheirPlace) {
  const auto context = make_context();
  CudaApplication application(0);
  const auto nic = take(Nic::open());
  std::vector<Allocation> all;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) {
    all.push_back(take(context.borrow(application.allocate(600), 600)));
    buffers.push_back(take(Buffer::create(all.back(), nic, Access::remote_write)));
  }
  EXPECT_NE(all[1].address() % 4096, 0U);
  for (unsigned i = 0; i < 8; ++i) must(buffers[i].write(0, pattern(600, i), soon()));
  for (unsigned i = 0; i < 8; ++i) {
    std::vector<std::byte> got(600);
    must(buffers[i].read(0, got, soon()));
    EXPECT_EQ(got, pattern(600, i)) << "a neighbour wrote over it";
  }
}

/// nixl#2183: a cache by address and length returned registrations of memory that no longer
/// existed.
TEST(CudaDomain, MemoryAtTheSameAddressIsNotTheSame) {
  const auto context = make_context();
  CudaApplication application(0);
  std::set<std::uint64_t> addresses;
  std::set<std::uint64_t> generations;
  std::vector<DmabufRange> ranges;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t address = application.allocate(3U << 20U);
    const auto memory = take(context.borrow(address, 3U << 20U));
    addresses.insert(address);
    ranges.push_back(take(memory.domain().export_dmabuf(address, 1)));
    generations.insert(ranges.back().generation);
    application.free(address);
    EXPECT_EQ(take(context.find(address)).device->type, MemoryType::host);
  }
  EXPECT_LT(addresses.size(), 4U) << "no address came again, so nothing was tested";
  EXPECT_EQ(generations.size(), 4U);
}

TEST(CudaDomain, ManagedMemoryIsFoundAndRefused) {
  const auto context = make_context();
  CudaApplication application(0);
  const std::uint64_t address = application.allocate_managed(4096);
  const auto info = take(context.find(address, 4096));
  EXPECT_EQ(info.device->type, MemoryType::cuda);
  ASSERT_TRUE(info.refusal);
  EXPECT_EQ(info.refusal->hint, Hint::managed_memory);
  const auto memory = context.borrow(address, 4096);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().hint, Hint::managed_memory);
}

TEST(CudaDomain, PinnedHostMemoryIsTheHosts) {
  const auto context = make_context();
  CudaApplication application(0);
  const auto info = take(context.find(application.allocate_host(4096)));
  EXPECT_EQ(info.device->type, MemoryType::host);
  EXPECT_EQ(info.lifetime, Lifetime::address_space) << "as long as its pages lie there";
}

TEST(CudaDomain, AnIntegratedGpusMemoryIsTheHostsWithADmabuf) {
  const CudaTrait integrated("integrated");
  const auto context = make_context();
  const auto gpu = take(context.open(MemoryType::cuda));
  EXPECT_EQ(gpu->copy_engine(), "CPU");
  const auto memory = take(gpu->allocate(10'000));
  auto* const bytes = std::bit_cast<std::byte*>(memory.address());
  const auto nic = take(Nic::open());
  auto buffer = take(Buffer::create(memory, nic, Access::remote_write));
  EXPECT_EQ(buffer.region().path(), Path::zero_copy);
  must(buffer.write(0, pattern(10'000, 1), soon()));
  EXPECT_TRUE(std::ranges::equal(std::span(bytes, 10'000), pattern(10'000, 1)));
  // The application's memory there belongs to the GPU, or also to the CPU.
  CudaApplication application(0);
  for (const std::uint64_t address :
       {application.allocate(5000), application.allocate_host(5000)}) {
    const auto own = take(context.borrow(address, 5000));
    must(own.domain().copy_in(address, pattern(5000, 2), soon()));
    std::vector<std::byte> got(5000);
    must(own.domain().copy_out(address, got, soon()));
    EXPECT_EQ(got, pattern(5000, 2));
  }
}

TEST(CudaSettings, DmabufOrPeerMemory) {
  const auto path = [](const char* setting) {
    const WithVariable variable("HBMWIRE_CUDA_DMABUF", setting);
    const auto context = make_context();
    const auto gpu = take(context.open(MemoryType::cuda));
    const auto memory = take(gpu->allocate(4096));
    return *gpu->find(memory.address(), 4096);
  };
  EXPECT_EQ(path("yes").path, Path::zero_copy);
  EXPECT_EQ(path("try").path, Path::zero_copy);
  EXPECT_FALSE(path("try").otherwise) << "there is no other";
  const auto refused = path("no").refusal;
  ASSERT_TRUE(refused);
  EXPECT_NE(describe(*refused).find("nvidia_peermem"), std::string::npos);

  const CudaTrait closed("closed_modules");
  ASSERT_TRUE(path("yes").refusal);
  EXPECT_EQ(path("yes").refusal->hint, Hint::cuda_dmabuf_not_supported);
  EXPECT_TRUE(path("try").refusal);
  const WithPeerMemory module;
  EXPECT_EQ(path("try").path, Path::peer_memory);
  EXPECT_FALSE(path("try").refusal);
  ASSERT_TRUE(path("try").no_dmabuf);
  EXPECT_EQ(path("try").no_dmabuf->hint, Hint::cuda_dmabuf_not_supported);
  EXPECT_EQ(path("no").path, Path::peer_memory);
  EXPECT_TRUE(path("yes").refusal) << "no other path is taken unasked";
}

TEST(CudaSettings, TheSettingDecidesWhetherThePcieMappingIsAskedFor) {
  const auto exported = [](const char* setting) {
    const WithVariable variable("HBMWIRE_CUDA_PCIE_MAPPING", setting);
    const auto context = make_context();
    const auto gpu = take(context.open(MemoryType::cuda));
    const auto memory = take(gpu->allocate(4096));
    const auto dmabuf = gpu->export_dmabuf(memory.address(), 4096);
    return dmabuf ? Hint::none : dmabuf.error().hint;
  };
  EXPECT_EQ(exported("yes"), Hint::none);
  const CudaTrait old("old_driver");
  EXPECT_EQ(exported("no"), Hint::none);
  EXPECT_EQ(exported("yes"), Hint::cuda_pcie_mapping);
  EXPECT_EQ(exported("try"), Hint::none);
}

/// UCX and libfabric: bytes written by a short cuMemcpy may not have arrived yet when a NIC reads
/// them.
TEST(CudaSettings, SynchronousCopiesOfTheApplicationAreComplete) {
  const auto got = [](const char* setting) {
    const WithVariable variable("HBMWIRE_CUDA_SYNC_MEMOPS", setting);
    const WithVariable delay("HBMWIRE_EMULATION_CUDA_DELAY_US", "100000");
    const auto context = make_context();
    CudaApplication application(0);
    const std::uint64_t address = application.allocate(4096);
    const auto nic = take(Nic::open());
    const auto memory = take(context.borrow(address, 4096));
    const auto region = take(nic.register_memory(memory, Access::remote_read));
    auto host = take(Buffer::create(take(context.open(MemoryType::host)), nic, 4096, {}));
    application.write(address, pattern(100, 1));
    auto connection = take(Connection::create(nic, {}));
    must(connection.connect(connection.local()));
    must(connection.post_read(1, {&host.region(), 0, 100}, region.remote()));
    static_cast<void>(take(connection.wait(soon())));
    std::vector<std::byte> bytes(100);
    must(host.read(0, bytes, soon()));
    return bytes;
  };
  EXPECT_EQ(got("yes"), pattern(100, 1));
  EXPECT_NE(got("no"), pattern(100, 1)) << "the emulated driver was too quick to tell";
}

TEST(CudaFlush, ANicHasToFlushWhereTheDriverCannot) {
  const CudaTrait without("no_host_flush");
  const auto context = make_context();
  EXPECT_FALSE(take(take(context.open(MemoryType::cuda))->flush()));
}

/// torchcomms#3078, libfabric#12473: an MR that ends with the first segment. Mooncake#2035: an MR
/// that begins at the caller's address.
TEST(CudaVirtualMemory, RangesOverSegmentsAreRegisteredWhole) {
  const auto context = make_context();
  CudaApplication application(0);
  const std::uint64_t base = application.map({1, 2, 1});
  constexpr std::uint64_t kSegment = 2U << 20U;
  const auto info = take(context.find(base + kSegment - 100, 200));
  EXPECT_EQ(info.base_address, base);
  EXPECT_EQ(info.size_bytes, 3 * kSegment) << "the two segments that hold the range";
  EXPECT_FALSE(info.refusal);
  EXPECT_FALSE(context.find(base + 4 * kSegment - 1, 2)) << "past what is mapped";
  const auto one = take(context.find(base + kSegment, 10));
  EXPECT_EQ(one.base_address, base + kSegment);
  EXPECT_EQ(one.size_bytes, 2 * kSegment);
  EXPECT_NE(one.generation, info.generation);
}

TEST(CudaVirtualMemory, MemoryWithoutGpuDirectRdmaIsRefused) {
  const auto context = make_context();
  CudaApplication application(0);
  const auto info = take(context.find(application.map({1}, false)));
  ASSERT_TRUE(info.refusal);
  EXPECT_NE(describe(*info.refusal).find("gpuDirectRDMACapable"), std::string::npos);
}

/// For any layout and any range of it, exactly its bytes change, whichever path wrote them.
TEST(CudaVirtualMemory, EveryPathWritesExactlyItsRange) {
  const auto context = make_context();
  const auto nic = take(Nic::open());
  constexpr std::uint64_t kSegment = 2U << 20U;
  const bool held = rc::check([&] {
    CudaApplication application(0);
    const auto layout = *rc::gen::container<std::vector<unsigned>>(3, rc::gen::inRange(1U, 3U));
    const std::uint64_t total = std::accumulate(layout.begin(), layout.end(), 0U) * kSegment;
    const std::uint64_t base = application.map(layout);
    // Ranges around segment boundaries, where errors are most likely.
    const auto boundary = kSegment * *rc::gen::inRange<std::uint64_t>(1, total / kSegment);
    const auto begin = boundary - *rc::gen::inRange<std::uint64_t>(1, 9000);
    const auto length = *rc::gen::inRange<std::uint64_t>(1, 18'000);
    const auto offset = *rc::gen::inRange<std::uint64_t>(0, length);
    const auto part = *rc::gen::inRange<std::uint64_t>(1, length - offset + 1);
    const auto window = take(context.borrow(base + boundary - 20'000, 40'000));
    std::vector<std::byte> model = pattern(40'000, 1);
    must(window.domain().copy_in(window.address(), model, soon()));

    const auto memory = take(context.borrow(base + begin, length));
    const auto region = take(nic.register_memory(memory, Access::remote_write));
    auto source = take(Buffer::create(take(context.open(MemoryType::host)), nic, part, {}));
    must(source.write(0, pattern(part, 2), soon()));
    auto connection = take(Connection::create(nic, {}));
    must(connection.connect(connection.local()));
    RemoteMemory target = region.remote();
    target.address += offset;
    must(connection.post_write(0, {&source.region(), 0, part}, target));
    static_cast<void>(take(connection.wait(soon())));

    std::ranges::copy(pattern(part, 2), model.begin() + static_cast<std::ptrdiff_t>(
                                                            begin + offset + 20'000 - boundary));
    EXPECT_TRUE(take(window.domain().flush()));
    std::vector<std::byte> got(40'000);
    must(window.domain().copy_out(window.address(), got, soon()));
    RC_ASSERT(got == model);
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace hbmwire::test
