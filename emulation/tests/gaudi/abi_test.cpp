// SPDX-License-Identifier: MIT
//
// The libraries as seen by a program that was built with the vendor's headers: by name, at run
// time, without any header of ours.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

class GaudiAbi : public GaudiTest {
 protected:
  void SetUp() override {
    GaudiTest::SetUp();
    hl_thunk_ = ::dlopen("libhl-thunk.so", RTLD_NOW | RTLD_LOCAL);
    synapse_ = ::dlopen("libSynapse.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(hl_thunk_, nullptr) << ::dlerror();
    ASSERT_NE(synapse_, nullptr) << ::dlerror();
  }

  void TearDown() override {
    if (synapse_ != nullptr) ::dlclose(synapse_);
    if (hl_thunk_ != nullptr) ::dlclose(hl_thunk_);
    GaudiTest::TearDown();
  }

  template <typename Function>
  Function* hl_thunk(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(hl_thunk_, name));
  }

  void* hl_thunk_ = nullptr;
  void* synapse_ = nullptr;
};

TEST_F(GaudiAbi, EveryFunctionIsThere) {
  for (const char* name : {"hlthunk_open",
                           "hlthunk_open_by_module_id",
                           "hlthunk_open_control",
                           "hlthunk_open_control_by_name",
                           "hlthunk_open_control_by_module_id",
                           "hlthunk_open_control_by_bus_id",
                           "hlthunk_close",
                           "hlthunk_get_device_id_from_fd",
                           "hlthunk_get_device_name_from_fd",
                           "hlthunk_get_pci_bus_id_from_fd",
                           "hlthunk_get_device_index_from_pci_bus_id",
                           "hlthunk_get_device_index_from_module_id",
                           "hlthunk_get_device_count",
                           "hlthunk_get_version",
                           "hlthunk_get_hw_ip_info",
                           "hlthunk_get_dram_usage",
                           "hlthunk_get_device_status_info",
                           "hlthunk_get_dev_memalloc_page_orders",
                           "hlthunk_get_open_stats",
                           "hlthunk_get_clk_rate",
                           "hlthunk_get_pci_counters_info",
                           "hlthunk_get_info",
                           "hlthunk_device_memory_alloc",
                           "hlthunk_device_memory_free",
                           "hlthunk_device_memory_map",
                           "hlthunk_host_memory_map",
                           "hlthunk_host_memory_map_flags",
                           "hlthunk_memory_unmap",
                           "hlthunk_device_memory_export_dmabuf_fd",
                           "hlthunk_device_mapped_memory_export_dmabuf_fd",
                           "hlthunk_malloc",
                           "hlthunk_free",
                           "hlthunk_request_command_buffer",
                           "hlthunk_request_mapped_command_buffer",
                           "hlthunk_destroy_command_buffer",
                           "hlthunk_get_mapped_cb_device_va_by_handle",
                           "hlthunk_command_submission",
                           "hlthunk_command_submission_timeout",
                           "hlthunk_wait_for_cs",
                           "hlthunk_cs_flush_pci_hbw_writes"}) {
    EXPECT_NE(::dlsym(hl_thunk_, name), nullptr) << name;
  }
  for (const char* name : {"synInitialize",
                           "synDestroy",
                           "synDeviceGetCount",
                           "synDeviceAcquire",
                           "synDeviceAcquireByDeviceType",
                           "synDeviceAcquireByModuleId",
                           "synDeviceRelease",
                           "synDeviceGetInfo",
                           "synDeviceGetInfoV2",
                           "synDeviceGetMemoryInfo",
                           "synDeviceMalloc",
                           "synDeviceFree",
                           "synHostMalloc",
                           "synHostFree",
                           "synHostMap",
                           "synHostUnmap",
                           "synStreamCreateGeneric",
                           "synStreamDestroy",
                           "synStreamSynchronize",
                           "synStreamQuery",
                           "synMemCopyAsync",
                           "synMemCopyAsyncMultiple",
                           "synMemsetD8Async",
                           "synEventCreate",
                           "synEventRecord"}) {
    EXPECT_NE(::dlsym(synapse_, name), nullptr) << name;
  }
}

TEST_F(GaudiAbi, FunctionsThatNoReleaseHasAreNotThere) {
  // Some programs and documents name these functions, but no release of hl-thunk has them.
  for (const char* name :
       {"hlthunk_dma_host_to_device", "hlthunk_dma_device_to_host", "hlthunk_ipc_handle_create",
        "hlthunk_ipc_channel_create", "hlthunk_get_mem_info", "hlthunk_host_memory_alloc"}) {
    EXPECT_EQ(::dlsym(hl_thunk_, name), nullptr) << name;
  }
}

/// The sizes of hlthunk_hw_ip_info and of the driver's hl_info_hw_ip_info.
constexpr std::size_t kInformationBytes = 336;
constexpr std::size_t kKernelInformationBytes = 304;

template <typename Value>
Value at(const std::array<unsigned char, kInformationBytes>& bytes, std::size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

TEST_F(GaudiAbi, TheHardwareInformationLiesWhereTheVendorPutIt) {
  auto* open = hl_thunk<int(int, const char*)>("hlthunk_open");
  auto* close = hl_thunk<int(int)>("hlthunk_close");
  auto* information = hl_thunk<int(int, void*)>("hlthunk_get_hw_ip_info");
  auto* kernel_information = hl_thunk<int(int, void*)>("hlthunk_get_info");
  const int fd = open(4 /* DONT_CARE */, nullptr);
  ASSERT_GE(fd, 0);
  std::array<unsigned char, kInformationBytes> bytes{};
  EXPECT_EQ(information(fd, bytes.data()), 0);
  // The offsets in the vendor's structure of dram_base_address, dram_size, device_id, dram_enabled,
  // dram_page_size and device_mem_alloc_default_page_size; then module_id.
  EXPECT_EQ(at<std::uint64_t>(bytes, 8), kFirstAddress2);
  EXPECT_EQ(at<std::uint64_t>(bytes, 16), 127 * kPage2);
  EXPECT_EQ(at<std::uint32_t>(bytes, 32), 0x1020U);
  EXPECT_EQ(at<std::uint8_t>(bytes, 58), 1U);
  EXPECT_EQ(at<std::uint64_t>(bytes, 224), kPage2);
  EXPECT_EQ(at<std::uint64_t>(bytes, 264), kPage2);
  const auto module = at<std::uint32_t>(bytes, 188);

  struct {
    std::uint64_t pointer;
    std::uint32_t size, op, argument, pad;
  } query{.pointer = reinterpret_cast<std::uint64_t>(bytes.data()),
          .size = kKernelInformationBytes,
          .op = 0,  // HL_INFO_HW_IP_INFO
          .argument = 0,
          .pad = 0};

  bytes.fill(0);
  EXPECT_EQ(kernel_information(fd, &query), 0);
  // The offsets in the driver's structure of module_id, dram_page_size and card_name.
  EXPECT_EQ(at<std::uint32_t>(bytes, 36), module);
  EXPECT_EQ(at<std::uint64_t>(bytes, 224), kPage2);
  EXPECT_STREQ(reinterpret_cast<const char*>(bytes.data()) + 200, "HL225");
  query.op = 255;  // no operation
  EXPECT_EQ(kernel_information(fd, &query), -EOPNOTSUPP);
  query.op = 2;  // HL_INFO_DRAM_USAGE
  query.size = 0;
  EXPECT_EQ(kernel_information(fd, &query), -EINVAL) << "there is no room for the answer";
  EXPECT_EQ(close(fd), 0);
}

TEST_F(GaudiAbi, UnsupportedCallsAreRefused) {
  auto* const power = hl_thunk<int(int, void*)>("hlthunk_get_power_info");
  auto* const notifier = hl_thunk<int(int)>("hlthunk_notifier_create");
  auto* const table = hl_thunk<void*()>("hlthunk_hash_create");
  auto* const compile = reinterpret_cast<int (*)(void*, void*, const char*, const char*)>(
      ::dlsym(synapse_, "synGraphCompile"));
  ASSERT_TRUE(power != nullptr && notifier != nullptr && table != nullptr && compile != nullptr);
  const OpenCard card(open_first_card());
  const OpenCard control(hl_thunk<int(int, const char*)>("hlthunk_open_control")(0, nullptr));
  std::uint64_t answer = 0;
  EXPECT_EQ(power(card.fd(), &answer), -EOPNOTSUPP);
  EXPECT_EQ(power(control.fd(), &answer), -EOPNOTSUPP)
      << "control nodes accept calls that ask for information";
  EXPECT_EQ(notifier(control.fd()), -ENOTTY) << "control nodes refuse other calls";
  EXPECT_EQ(notifier(-1), -EBADF);
  errno = 0;
  EXPECT_EQ(table(), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(compile(nullptr, nullptr, nullptr, nullptr), 28) << "synUninitialized";
}

TEST_F(GaudiAbi, RawSubmissionIsRefusedAndTheFlushSucceeds) {
  auto* open = hl_thunk<int(int, const char*)>("hlthunk_open");
  auto* request =
      hl_thunk<int(int, std::uint32_t, std::uint64_t*)>("hlthunk_request_command_buffer");
  auto* flush = hl_thunk<int(int)>("hlthunk_cs_flush_pci_hbw_writes");
  const OpenCard card(open(5 /* GAUDI2 */, nullptr));
  std::uint64_t handle = 0;
  EXPECT_EQ(request(card.fd(), 4096, &handle), -EOPNOTSUPP);
  EXPECT_EQ(flush(card.fd()), 0);
}

}  // namespace
}  // namespace hbmwire::test
