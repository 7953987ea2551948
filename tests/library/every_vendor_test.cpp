// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "helpers.hpp"

namespace hbmwire {
namespace {

using Owner = MemoryOptions::Owner;
using test::kAll;
using test::soon;

constexpr std::uint64_t kBytes = 100'000;

/// Both devices of each vendor, and host memory.
std::vector<std::shared_ptr<MemoryDomain>> every_device(const Context& context) {
  std::vector<std::shared_ptr<MemoryDomain>> devices;
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    for (const char* index : {"0", "1"}) {
      MemoryOptions options{.device = index};
      if (type == MemoryType::gaudi) options.owner = Owner::hl_thunk;
      auto device = context.open(type, options);
      EXPECT_TRUE(device) << describe(device.error());
      if (device) devices.push_back(std::move(*device));
    }
  }
  devices.push_back(*context.open(MemoryType::host));
  return devices;
}

TEST(EveryVendor, OneProcessPassesBytesThroughAllDevicesOfAll) {
  const Context context = *Context::create();
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  const auto devices = every_device(context);
  ASSERT_EQ(devices.size(), 7U);
  std::vector<Buffer> buffers;
  for (const auto& device : devices) {
    auto buffer = Buffer::create(device, *nic, kBytes, kAll);
    ASSERT_TRUE(buffer) << describe(buffer.error());
    buffers.push_back(std::move(*buffer));
  }
  auto connection = Connection::create(*nic, {});
  ASSERT_TRUE(connection && connection->connect(connection->local()));

  std::vector<std::byte> sent(kBytes);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
  ASSERT_TRUE(buffers.front().write(0, sent, soon()));
  for (std::size_t i = 1; i < buffers.size(); ++i) {
    ASSERT_TRUE(connection->post_write(i, {&buffers[i - 1].region(), 0, kBytes},
                                       buffers[i].region().remote()));
    const auto done = connection->wait(soon());
    ASSERT_TRUE(done) << describe(done.error());
    std::vector<std::byte> got(kBytes);
    ASSERT_TRUE(buffers[i].read(0, got, soon()));
    EXPECT_TRUE(got == sent) << devices[i]->device().name;
  }
}

TEST(EveryVendor, AnAddressTellsItsDevice) {
  const Context context = *Context::create();
  std::vector<Allocation> memory;
  for (const auto& device : every_device(context)) memory.push_back(*device->allocate(kBytes));
  for (const Allocation& allocation : memory) {
    const DeviceInfo& device = allocation.domain().device();
    const auto found = context.find(allocation.address() + 1000, kBytes - 1000, device.pci_address);
    ASSERT_TRUE(found) << describe(found.error());
    EXPECT_EQ(found->device->type, device.type);
    EXPECT_EQ(found->device->pci_address, device.pci_address);
    EXPECT_EQ(found->base_address, allocation.address()) << device.name;
    EXPECT_EQ(found->path, device.type == MemoryType::host ? Path::host : Path::zero_copy);
    EXPECT_FALSE(found->refusal);
  }
  // Memory of two Gaudi cards begins at the same address, so the address alone does not
  // identify the card.
  ASSERT_EQ(memory[0].address(), memory[1].address());
  const auto ambiguous = context.find(memory[0].address());
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().hint, Hint::ambiguous_address);
}

TEST(EveryVendor, AnAddressOfSeveralDevicesIsTheDefaultDevices) {
  const auto devices = [] {
    std::vector<std::string> found;
    const Context context = *Context::create();
    for (const MemoryProbe& probe : context.memory()) {
      if (probe.type != MemoryType::gaudi) continue;
      for (const DeviceInfo& device : probe.devices) found.push_back(device.pci_address);
    }
    return found;
  }();
  ASSERT_GE(devices.size(), 2U);
  const auto whose = [&](const Context& context) -> Result<std::string> {
    std::vector<Allocation> memory;
    for (const char* const index : {"0", "1"}) {
      HBMWIRE_TRY_ASSIGN(
          Allocation allocation,
          context.allocate(MemoryType::gaudi, kBytes,
                           {.device = index, .owner = MemoryOptions::Owner::hl_thunk}));
      memory.push_back(std::move(allocation));
    }
    HBMWIRE_TRY_ASSIGN(const Allocation borrowed, context.borrow(memory[0].address(), 100));
    HBMWIRE_TRY_ASSIGN(const AddressInfo found, context.find(memory[0].address()));
    EXPECT_EQ(found.device->pci_address, borrowed.domain().device().pci_address);
    // A named device has priority.
    EXPECT_EQ(context.find(memory[0].address(), 1, "0")->device->pci_address, devices[0]);
    return found.device->pci_address;
  };
  EXPECT_EQ(*whose(*Context::create({.memory = {}, .default_device = "1"})), devices[1]);
  EXPECT_EQ(*whose(*Context::create({.memory = {}, .default_device = devices[0]})), devices[0]);
  ::setenv("HBMWIRE_DEFAULT_DEVICE", devices[1].c_str(), 1);
  EXPECT_EQ(*whose(*Context::create()), devices[1]);
  EXPECT_EQ(*whose(*Context::create({.memory = {}, .default_device = "0"})), devices[0]);
  ::setenv("HBMWIRE_DEFAULT_DEVICE", "0000:ff:1f.7", 1);
  const auto neither = whose(*Context::create());
  ::unsetenv("HBMWIRE_DEFAULT_DEVICE");
  ASSERT_FALSE(neither);
  EXPECT_EQ(neither.error().hint, Hint::ambiguous_address);
  EXPECT_STREQ(neither.error().subject, "0000:ff:1f.7");
}

}  // namespace
}  // namespace hbmwire
