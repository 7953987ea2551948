// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "emulated_rocm.hpp"
#include "helpers.hpp"
#include "open_memory.hpp"

// The library's memory domain for AMD GPUs, with two emulated ones.
namespace hbmwire {
namespace {

using test::filled;
using test::Rocm;
using test::soon;

// ROCr takes small allocations from blocks of this size.
constexpr std::uint64_t kBlockBytes = 2ULL << 20;

std::shared_ptr<MemoryDomain> open_gpu(const std::string& device = {}) {
  auto domain = test::open_memory(MemoryType::rocm, {.device = device});
  EXPECT_TRUE(domain) << describe(domain.error());
  return *domain;
}

Context make_context() {
  auto context = Context::create();
  EXPECT_TRUE(context) << describe(context.error());
  return *context;
}

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }

  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// A file with this content; it exists while the object lives.
class TextFile {
 public:
  explicit TextFile(const std::string& content) { std::ofstream(path_) << content; }

  ~TextFile() { std::filesystem::remove(path_); }

  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("rocm-config-" + std::to_string(::getpid()));
};

TEST(RocmMemory, ProbingTellsEachGpu) {
  const auto context = make_context();
  const MemoryProbe& probe = context.memory()[static_cast<std::size_t>(MemoryType::rocm)];
  EXPECT_EQ(probe.type, MemoryType::rocm);
  EXPECT_EQ(probe.library, "libhsa-runtime64.so.1");
  EXPECT_FALSE(probe.missing) << describe(*probe.missing);
  ASSERT_EQ(probe.devices.size(), 2U);
  for (const auto& device : probe.devices) {
    EXPECT_EQ(device.type, MemoryType::rocm);
    EXPECT_EQ(device.pci_address.size(), 12U);
    EXPECT_NE(device.name.find("MI300X"), std::string::npos) << device.name;
    EXPECT_NE(device.name.find(device.pci_address), std::string::npos) << device.name;
    EXPECT_EQ(device.size_bytes, 192ULL << 30);
    EXPECT_EQ(device.page_bytes, 4096U);
    EXPECT_EQ(device.driven_by, "ROCr");
  }
  EXPECT_NE(probe.devices[0].pci_address, probe.devices[1].pci_address);
}

TEST(RocmMemory, AGpuIsOpenedByIndexAndByAddressAndOnce) {
  const auto context = make_context();
  const auto by_index = context.open(MemoryType::rocm, {.device = "1"});
  ASSERT_TRUE(by_index) << describe(by_index.error());
  const auto by_address =
      context.open(MemoryType::rocm, {.device = (*by_index)->device().pci_address});
  ASSERT_TRUE(by_address);
  EXPECT_EQ(*by_index, *by_address);
  EXPECT_NE(*context.open(MemoryType::rocm), *by_index);
  for (const char* name : {"2", "17", "no-gpu", "0000:ff:00.0"}) {
    const auto none = context.open(MemoryType::rocm, {.device = name});
    ASSERT_FALSE(none) << name;
    EXPECT_EQ(none.error().code, Errc::not_found);
    EXPECT_NE(describe(none.error()).find(name), std::string::npos) << describe(none.error());
  }
}

TEST(RocmMemory, FaultsWhenTheCpuTouchesIt) {
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(4096);
  ASSERT_TRUE(memory) << describe(memory.error());
  auto* const pointer = reinterpret_cast<volatile char*>(memory->address());
  EXPECT_DEATH(*pointer = 1, "");
  const auto range = gpu->export_dmabuf(memory->address(), 4096);
  ASSERT_TRUE(range) << describe(range.error());
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, range->fd->get(), 0), MAP_FAILED);
}

TEST(RocmMemory, AllocationsBeginOnPages) {
  const auto gpu = open_gpu();
  std::vector<Allocation> all;
  for (const std::uint64_t size :
       std::initializer_list<std::uint64_t>{1, 100, 4097, kBlockBytes, kBlockBytes + 1}) {
    auto memory = gpu->allocate(size);
    ASSERT_TRUE(memory) << describe(memory.error());
    EXPECT_EQ(memory->address() % 4096, 0U);
    EXPECT_EQ(memory->size_bytes(), size);
    all.push_back(*memory);
  }
}

TEST(RocmMemory, SaysThatItIsTooLargeOrEmpty) {
  const auto gpu = open_gpu();
  const auto large = gpu->allocate(1ULL << 40);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::exhausted);
  EXPECT_EQ(large.error().hint, Hint::device_memory_exhausted);
  const auto first = gpu->allocate(150ULL << 30);
  ASSERT_TRUE(first);
  const auto second = gpu->allocate(150ULL << 30);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::exhausted);
  EXPECT_NE(describe(second.error()).find("hsa_status_t 0x1008"), std::string::npos)
      << describe(second.error());
  EXPECT_FALSE(gpu->allocate(0));
}

// ROCr exports the whole block that contains a small allocation. Only its answer tells the offset:
// the allocation and the dma-buf do not begin at the same place.
TEST(RocmMemory, SubPageBuffersAreExportedWithTheirOffsetInTheBlock) {
  const auto gpu = open_gpu();
  const auto first = gpu->allocate(100);
  const auto second = gpu->allocate(100);
  ASSERT_TRUE(first && second);
  const auto one = gpu->export_dmabuf(first->address(), 100);
  const auto two = gpu->export_dmabuf(second->address() + 10, 90);
  ASSERT_TRUE(one) << describe(one.error());
  ASSERT_TRUE(two) << describe(two.error());
  EXPECT_EQ(one->base_address, two->base_address) << "both are of one block";
  EXPECT_NE(one->offset_bytes, two->offset_bytes - 10);
  EXPECT_EQ(two->address(), second->address() + 10);
  EXPECT_EQ(two->length_bytes, 90U);
  EXPECT_NE(one->generation, two->generation);

  struct stat status {};

  ASSERT_EQ(::fstat(two->fd->get(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kBlockBytes);
}

TEST(RocmMemory, OneExportServesAllOfAnAllocation) {
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(10000);
  const auto whole = gpu->export_dmabuf(memory->address(), 10000);
  const auto part = gpu->export_dmabuf(memory->address() + 5000, 100);
  ASSERT_TRUE(whole && part);
  EXPECT_EQ(part->fd, whole->fd);
  EXPECT_EQ(part->offset_bytes, whole->offset_bytes + 5000);
  EXPECT_EQ(part->address(), memory->address() + 5000);
  EXPECT_EQ(part->generation, whole->generation);
}

TEST(RocmMemory, RefusesRangesOutsideAnAllocation) {
  const auto context = make_context();
  const auto gpu = *context.open(MemoryType::rocm);
  const auto memory = gpu->allocate(4096);
  const std::uint64_t at = memory->address();
  EXPECT_FALSE(gpu->export_dmabuf(at, 4097));
  EXPECT_FALSE(gpu->export_dmabuf(at + 4097, 1));
  EXPECT_FALSE(gpu->export_dmabuf(at + 1, ~0ULL));
  EXPECT_FALSE(gpu->export_dmabuf(0, 1));
  EXPECT_FALSE(gpu->export_dmabuf(at, 0));
  const auto beyond = context.find(at + 1, 4096);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Errc::invalid_argument);
  const auto other = open_gpu("1");
  EXPECT_FALSE(other->find(at, 1));
  EXPECT_FALSE(other->export_dmabuf(at, 1));
}

TEST(RocmMemory, EachAllocationHasItsOwnGeneration) {
  const auto gpu = open_gpu();
  std::uint64_t address = 0;
  std::uint64_t generation = 0;
  {
    const auto memory = gpu->allocate(4096);
    address = memory->address();
    generation = gpu->find(address, 1)->generation;
    EXPECT_NE(generation, 0U);
    EXPECT_EQ(gpu->export_dmabuf(address, 1)->generation, generation);
  }
  EXPECT_FALSE(gpu->find(address, 1));
  const auto again = gpu->allocate(4096);
  ASSERT_EQ(again->address(), address) << "the test wants the same address twice";
  EXPECT_NE(gpu->find(address, 1)->generation, generation);
}

TEST(RocmMemory, MemoryOfTheApplicationIsFoundByItsAddress) {
  const auto context = make_context();
  const auto& devices = context.memory()[static_cast<std::size_t>(MemoryType::rocm)].devices;
  const Rocm rocm;
  for (int device = 0; device < 2; ++device) {
    void* const pointer = rocm.hip_malloc(device, 10000);
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const auto info = context.find(address + 5000, 5000);
    ASSERT_TRUE(info) << describe(info.error());
    EXPECT_EQ(info->device->type, MemoryType::rocm);
    EXPECT_EQ(info->device->pci_address, devices[static_cast<std::size_t>(device)].pci_address);
    EXPECT_EQ(info->base_address, address);
    EXPECT_EQ(info->size_bytes, 10000U);
    EXPECT_EQ(info->path, Path::zero_copy);
    EXPECT_FALSE(info->refusal) << describe(*info->refusal);
    EXPECT_NE(info->generation, 0U);
    rocm.hip_free(pointer);
    EXPECT_EQ(context.find(address)->device->type, MemoryType::host)
        << "the address has no owner now";
  }
}

TEST(RocmMemory, ReuseOfAnApplicationsAddressIsNoticed) {
  const auto context = make_context();
  const Rocm rocm;
  void* const first = rocm.hip_malloc(0, 4096);
  const auto address = reinterpret_cast<std::uint64_t>(first);
  const std::uint64_t generation = context.find(address)->generation;
  EXPECT_EQ(context.find(address)->generation, generation) << "it is still the same";
  rocm.hip_free(first);
  void* const second = rocm.hip_malloc(0, 4096);
  ASSERT_EQ(second, first) << "the test wants the same address twice";
  EXPECT_NE(context.find(address)->generation, generation);
  rocm.hip_free(second);
}

TEST(RocmMemory, PinnedAndManagedMemoryIsTheHosts) {
  const auto context = make_context();
  const Rocm rocm;
  void* const pinned = rocm.hip_host_malloc(4096);
  void* const managed = rocm.hip_malloc_managed(4096);
  for (void* const pointer : {pinned, managed}) {
    const auto info = context.find(reinterpret_cast<std::uint64_t>(pointer), 4096);
    ASSERT_TRUE(info) << describe(info.error());
    EXPECT_EQ(info->device->type, MemoryType::host);
    EXPECT_EQ(info->path, Path::host);
  }
  rocm.hip_host_free(pinned);
  rocm.hip_free(managed);
}

TEST(RocmMemory, ABorrowedBufferIsCarriedAndStaysTheApplications) {
  const auto context = make_context();
  const Rocm rocm;
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  void* const pointer = rocm.hip_malloc(1, 5000);
  {
    const auto memory = context.borrow(reinterpret_cast<std::uint64_t>(pointer) + 100, 1000);
    ASSERT_TRUE(memory) << describe(memory.error());
    auto buffer = Buffer::create(*memory, *nic, Access::remote_write);
    ASSERT_TRUE(buffer) << describe(buffer.error());
    EXPECT_EQ(buffer->region().path(), Path::zero_copy);
    EXPECT_EQ(buffer->copy_path(), "ROCr DMA");
    rocm.hip_memset(pointer, 7, 5000);
    ASSERT_TRUE(buffer->write(0, filled(1000, 9), soon()));
  }
  auto expected = filled(5000, 7);
  std::fill_n(expected.begin() + 100, 1000, std::byte{9});
  EXPECT_EQ(rocm.hip_read(pointer, 5000), expected);
  rocm.hip_free(pointer);
}

// hipMemGetHandleForAddressRange() returns the descriptor of the block without the offset
// (ROCm/mori#509). Registered this way, a buffer would be its neighbour. Our export includes the
// offset.
TEST(RocmMemory, AHipHandleLacksTheOffsetThatOurExportHas) {
  const auto context = make_context();
  const Rocm rocm;
  void* const neighbour = rocm.hip_malloc(0, 4096);
  void* const pointer = rocm.hip_malloc(0, 4096);
  const Fd by_hip{rocm.hip_handle(pointer, 4096)};

  struct stat block {};

  ASSERT_EQ(::fstat(by_hip.get(), &block), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(block.st_size), kBlockBytes);
  const auto gpu = *context.open(MemoryType::rocm);
  const auto range = gpu->export_dmabuf(reinterpret_cast<std::uint64_t>(pointer), 4096);
  ASSERT_TRUE(range) << describe(range.error());
  EXPECT_GT(range->offset_bytes, 0U);
  rocm.hip_free(pointer);
  rocm.hip_free(neighbour);
}

TEST(RocmMemory, AnExportOutlivesItsAllocation) {
  const auto gpu = open_gpu();
  std::optional<DmabufRange> range;
  {
    const auto memory = gpu->allocate(kBlockBytes);
    range = *gpu->export_dmabuf(memory->address(), kBlockBytes);
  }
  EXPECT_EQ(test::rocm_live_objects(0, "export"), 1U);
  EXPECT_EQ(test::rocm_live_objects(0, "range"), 1U) << "the driver keeps it for importers";
  range.reset();
  EXPECT_EQ(test::rocm_live_objects(0, "export"), 0U);
}

TEST(RocmKernel, MissingOptionsAreNamed) {
  for (const char* option : {"CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY"}) {
    const TextFile config("CONFIG_PCI=y\n# " + std::string(option) + " is not set\n");
    const Variable variable("HBMWIRE_ROCM_KERNEL_CONFIG", config.path());
    const auto context = make_context();
    const auto& probe = context.memory()[static_cast<std::size_t>(MemoryType::rocm)];
    ASSERT_TRUE(probe.missing) << option;
    EXPECT_EQ(probe.missing->hint, Hint::rocm_dmabuf_not_supported);
    EXPECT_NE(describe(*probe.missing).find(std::string("without ") + option), std::string::npos);
    const auto gpu = context.open(MemoryType::rocm);
    ASSERT_TRUE(gpu) << "copies work all the same";
    const auto memory = (*gpu)->allocate(4096);
    ASSERT_TRUE(memory);
    EXPECT_TRUE((*gpu)->find(memory->address(), 1)->refusal);
    const auto region = Nic::open()->register_memory(*memory, Access::remote_write);
    ASSERT_FALSE(region);
    EXPECT_NE(describe(region.error()).find(option), std::string::npos);
  }
}

TEST(RocmKernel, UnknownOptionsForbidNothing) {
  const TextFile config("CONFIG_PCI=y\n");  // like a kernel that no longer has these options
  const Variable variable("HBMWIRE_ROCM_KERNEL_CONFIG", config.path());
  const auto context = make_context();
  EXPECT_FALSE(context.memory()[static_cast<std::size_t>(MemoryType::rocm)].missing);
}

/// A sysfs with amdgpu's peer-memory client.
class PeerMemoryClient {
 public:
  PeerMemoryClient() {
    std::filesystem::create_directories(file_.parent_path());
    std::ofstream(file_) << "1.0\n";
  }

  ~PeerMemoryClient() { std::filesystem::remove_all(file_.parent_path()); }

  PeerMemoryClient(const PeerMemoryClient&) = delete;
  PeerMemoryClient& operator=(const PeerMemoryClient&) = delete;

 private:
  std::filesystem::path file_ =
      std::filesystem::path(std::getenv("SYSFS_PATH")) / "kernel/mm/memory_peers/amdkfd/version";
};

TEST(RocmPath, WithoutDmabufsThePeerMemoryClientIsNamed) {
  const Variable variable("HBMWIRE_ROCM_DMABUF", "no");
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(4096);
  const auto info = gpu->find(memory->address(), 1);
  ASSERT_TRUE(info && info->refusal);
  EXPECT_EQ(info->refusal->hint, Hint::dmabuf_forbidden);
  EXPECT_NE(describe(*info->refusal).find("memory_peers/amdkfd"), std::string::npos);
}

TEST(RocmPath, UsesPeerMemoryWhereItIsAllowedAndPresent) {
  const PeerMemoryClient client;
  const TextFile without("# CONFIG_PCI_P2PDMA is not set\n");
  const auto path_under = [](const char* setting) {
    const Variable variable("HBMWIRE_ROCM_DMABUF", setting);
    const auto gpu = open_gpu();
    const auto memory = gpu->allocate(4096);
    const auto info = gpu->find(memory->address(), 1);
    return info->refusal ? std::string("refused") : std::string(to_string(info->path));
  };
  EXPECT_EQ(path_under("no"), "peer memory");
  EXPECT_EQ(path_under("try"), "zero-copy dma-buf") << "the better way works";
  const Variable kernel("HBMWIRE_ROCM_KERNEL_CONFIG", without.path());
  EXPECT_EQ(path_under("try"), "peer memory");
  EXPECT_EQ(path_under("yes"), "refused");
}

TEST(RocmPath, NamesThePeerMemoryClientInCaseTheDmabufFails) {
  const auto info_under = [](const char* setting) {
    const Variable variable("HBMWIRE_ROCM_DMABUF", setting);
    const auto gpu = open_gpu();
    const auto memory = gpu->allocate(4096);
    return *gpu->find(memory->address(), 1);
  };
  EXPECT_FALSE(info_under("try").otherwise) << "there is no peer-memory client";
  const PeerMemoryClient client;
  EXPECT_EQ(info_under("try").path, Path::zero_copy);
  EXPECT_EQ(info_under("try").otherwise, Path::peer_memory);
  EXPECT_FALSE(info_under("yes").otherwise) << "\"yes\" allows no other path";
  const AddressInfo without = info_under("no");
  EXPECT_EQ(without.path, Path::peer_memory);
  EXPECT_FALSE(without.otherwise);
  ASSERT_TRUE(without.no_dmabuf);
  EXPECT_NE(describe(*without.no_dmabuf).find("HBMWIRE_ROCM_DMABUF=no"), std::string::npos);
}

TEST(RocmCopies, GoOnByThemselvesInTheirOrder) {
  const auto gpu = open_gpu();
  constexpr std::size_t kSize = 1 << 20;
  const auto memory = gpu->allocate(kSize);
  const auto ones = filled(kSize, 1);
  const auto twos = filled(kSize, 2);
  std::vector<std::byte> between(kSize);
  std::vector<std::byte> last(kSize);
  // Copies in and out use different engines, so only signals keep their order.
  auto first = gpu->start_copy_in(memory->address(), ones);
  auto second = gpu->start_copy_out(memory->address(), between);
  auto third = gpu->start_copy_in(memory->address(), twos);
  auto fourth = gpu->start_copy_out(memory->address(), last);
  ASSERT_TRUE(first && second && third && fourth);
  ASSERT_TRUE(fourth->wait(soon()));
  EXPECT_EQ(last, twos);
  EXPECT_EQ(between, ones) << "a copy ends without being polled";
  for (auto* copy : {&*first, &*second, &*third}) EXPECT_TRUE(copy->wait(soon()));
}

TEST(RocmCopies, DestroyingACopyWaitsForTheEngine) {
  const auto gpu = open_gpu();
  constexpr std::size_t kSize = 4 << 20;
  const auto memory = gpu->allocate(kSize);
  ASSERT_TRUE(gpu->copy_in(memory->address(), filled(kSize, 5), soon()));
  std::vector<std::byte> bytes(kSize);
  { const auto copy = gpu->start_copy_out(memory->address(), bytes); }
  EXPECT_EQ(bytes, filled(kSize, 5));
  EXPECT_EQ(test::rocm_live_objects(0, "lock"), 0U);
  EXPECT_EQ(test::rocm_live_objects(0, "signal"), 1U) << "the next copy's predecessor";
}

TEST(RocmCopies, AFailureIsReportedAndStopsNoOtherCopy) {
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(100);
  const auto bytes = filled(100, 3);
  std::vector<std::byte> back(100);
  // Calls 0 to 3 are pointer_info, lock, signal and copy. Call 4 is the engine's work.
  test::fail_nth_call("rocm", 4, EIO);
  auto failing = gpu->start_copy_in(memory->address(), bytes);
  ASSERT_TRUE(failing) << describe(failing.error());
  const auto failed = failing->wait(soon());
  test::fail_nth_call("rocm", -1, 0);
  ASSERT_FALSE(failed);
  EXPECT_NE(describe(failed.error()).find("copy engine failed"), std::string::npos);
  EXPECT_TRUE(gpu->copy_in(memory->address(), bytes, soon()));
  EXPECT_TRUE(gpu->copy_out(memory->address(), back, soon()));
  EXPECT_EQ(back, bytes);
}

// ROCr unlocks by the first address only, ignoring the length.
TEST(RocmCopies, CopiesOfTheSameHostMemoryShareALock) {
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(1 << 20);
  const auto bytes = filled(1 << 20, 6);
  auto longer = gpu->start_copy_in(memory->address(), bytes);
  ASSERT_TRUE(longer);
  auto shorter = gpu->start_copy_in(memory->address(), std::span(bytes).first(100));
  ASSERT_TRUE(shorter) << describe(shorter.error());
  EXPECT_EQ(test::rocm_live_objects(0, "lock"), 1U);
  ASSERT_TRUE(longer->wait(soon()));
  EXPECT_EQ(test::rocm_live_objects(0, "lock"), 1U);
  ASSERT_TRUE(shorter->wait(soon()));
  EXPECT_EQ(test::rocm_live_objects(0, "lock"), 0U);
}

TEST(RocmCopies, ALongerCopyOfTheSameHostMemoryWaitsForTheShorter) {
  const auto gpu = open_gpu();
  const auto memory = gpu->allocate(8192);
  const auto bytes = filled(8192, 6);
  auto shorter = gpu->start_copy_in(memory->address(), std::span(bytes).first(100));
  ASSERT_TRUE(shorter);
  const auto longer = gpu->start_copy_in(memory->address(), bytes);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, Errc::busy);
  ASSERT_TRUE(shorter->wait(soon()));
  EXPECT_TRUE(gpu->copy_in(memory->address(), bytes, soon()));
}

TEST(RocmCopies, CopiesUseALockOfTheApplication) {
  const auto gpu = open_gpu();
  const Rocm rocm;
  std::vector<std::byte> bytes = filled(10000, 8);
  rocm.hip_host_register(bytes.data(), bytes.size());
  const auto memory = gpu->allocate(5000);
  ASSERT_TRUE(gpu->copy_in(memory->address(), std::span(bytes).subspan(100, 5000), soon()));
  std::vector<std::byte> back(5000);
  ASSERT_TRUE(gpu->copy_out(memory->address(), back, soon()));
  EXPECT_EQ(back, filled(5000, 8));
  EXPECT_EQ(test::rocm_live_objects(0, "lock"), 1U) << "the application's own";
  rocm.hip_host_unregister(bytes.data());
}

TEST(RocmCopies, PinnedHostMemoryIsNotLockedAgain) {
  const auto gpu = open_gpu();
  const Rocm rocm;
  auto* const pinned = static_cast<std::byte*>(rocm.hip_host_malloc(5000));
  std::fill_n(pinned, 5000, std::byte{4});
  const auto memory = gpu->allocate(5000);
  ASSERT_TRUE(gpu->copy_in(memory->address(), {pinned + 10, 4000}, soon()));
  std::vector<std::byte> back(4000);
  ASSERT_TRUE(gpu->copy_out(memory->address(), back, soon()));
  EXPECT_EQ(back, filled(4000, 4));
  rocm.hip_host_free(pinned);
}

}  // namespace
}  // namespace hbmwire
