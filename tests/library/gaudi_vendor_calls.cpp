// SPDX-License-Identifier: MIT
#include "gaudi_vendor_calls.hpp"

#include <gtest/gtest.h>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/abi/synapse.h"

namespace hbmwire::test {

ApplicationCard::ApplicationCard(const std::string& pci_address)
    : fd_(::hlthunk_open(HLTHUNK_DEVICE_DONT_CARE,
                         pci_address.empty() ? nullptr : pci_address.c_str())) {
  EXPECT_GE(fd_, 0) << "the application can't open its card";
}

ApplicationCard::~ApplicationCard() {
  EXPECT_EQ(unmap_and_free(), 0);
  ::hlthunk_close(fd_);
}

std::uint64_t ApplicationCard::map(std::uint64_t size_bytes) {
  handle_ = ::hlthunk_device_memory_alloc(fd_, size_bytes, 0, true, true);
  address_ = handle_ == 0 ? 0 : ::hlthunk_device_memory_map(fd_, handle_, 0);
  size_bytes_ = size_bytes;
  EXPECT_NE(address_, 0U);
  return address_;
}

int ApplicationCard::unmap_and_free() {
  if (address_ == 0) return 0;
  if (const int result = ::hlthunk_memory_unmap(fd_, address_); result != 0) return result;
  address_ = 0;
  return ::hlthunk_device_memory_free(fd_, handle_);
}

ApplicationSynapse::ApplicationSynapse(const std::string& pci_address) {
  EXPECT_EQ(::synInitialize(), synSuccess);
  EXPECT_EQ(::synDeviceAcquire(&device_, pci_address.empty() ? nullptr : pci_address.c_str()),
            synSuccess);
}

ApplicationSynapse::~ApplicationSynapse() {
  EXPECT_EQ(::synDeviceRelease(device_), synSuccess);
  EXPECT_EQ(::synDestroy(), synSuccess);
}

std::uint64_t ApplicationSynapse::allocate(std::uint64_t size_bytes) const {
  std::uint64_t address = 0;
  EXPECT_EQ(::synDeviceMalloc(device_, size_bytes, 0, 0, &address), synSuccess);
  return address;
}

bool ApplicationSynapse::has_card() const {
  synDeviceInfoV2 info{};
  return ::synDeviceGetInfoV2(device_, &info) == synSuccess;
}

}  // namespace hbmwire::test
