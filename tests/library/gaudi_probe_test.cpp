// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "emulated_hooks.hpp"
#include "memory/gaudi/cards.hpp"  // the parts of the probe
#include "memory/gaudi/hl_thunk.hpp"

namespace hbmwire {
namespace {

namespace fs = std::filesystem;
using memory::gaudi::find_cards;
using memory::gaudi::HlThunk;
using memory::gaudi::ThunkAbi;
using Owner = MemoryOptions::Owner;

const MemoryProbe& gaudi_probe(const Context& context) {
  return context.memory()[static_cast<std::size_t>(MemoryType::gaudi)];
}

/// An artificial sysfs.
class GaudiSysfs : public testing::Test {
 protected:
  GaudiSysfs() {
    if (const char* path = std::getenv("SYSFS_PATH")) before_ = path;
    fs::create_directories(root_ / "class");
    fs::create_directories(root_ / "bus/pci/devices");
    ::setenv("SYSFS_PATH", root_.c_str(), 1);
  }

  ~GaudiSysfs() override {
    if (before_.empty()) {
      ::unsetenv("SYSFS_PATH");
    } else {
      ::setenv("SYSFS_PATH", before_.c_str(), 1);
    }
    fs::remove_all(root_);
  }

  void write_file(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }

  void add_pci(const std::string& address, const char* vendor, const char* device,
               const char* node = "-1") const {
    const fs::path at = fs::path("bus/pci/devices") / address;
    write_file(at / "vendor", vendor);
    write_file(at / "device", device);
    write_file(at / "numa_node", node);
  }

 private:
  fs::path root_ = fs::temp_directory_path() / ("gaudi-sysfs-" + std::to_string(::getpid()));
  std::string before_;
};

TEST_F(GaudiSysfs, CardsAreFoundInTheLayoutOfKernels6_7AndNewer) {
  add_pci("0000:4d:00.0", "0x1da3", "0x1020", "1");
  write_file("class/accel/accel2/device/pci_addr", "0000:4d:00.0");
  write_file("class/accel/accel2/device/status", "in reset");
  write_file("class/accel/accel_controlD2/device/pci_addr", "0000:4d:00.0");
  const auto cards = find_cards();
  ASSERT_EQ(cards.size(), 1U);
  EXPECT_EQ(cards[0].pci_address, "0000:4d:00.0");
  EXPECT_EQ(cards[0].index, 2);
  EXPECT_EQ(cards[0].numa_node, 1);
  EXPECT_EQ(cards[0].status, "in reset");
  EXPECT_STREQ(memory::gaudi::model_name(cards[0].device_id), "gaudi2");
}

TEST_F(GaudiSysfs, CardsAreFoundInTheLayoutOfKernels6_3To6_6) {
  add_pci("0000:4d:00.0", "0x1da3", "0x1060");
  write_file("class/accel/accel0/pci_addr", "0000:4d:00.0");
  write_file("class/accel/accel0/status", "Operational");
  const auto cards = find_cards();
  ASSERT_EQ(cards.size(), 1U);
  EXPECT_EQ(cards[0].status, "Operational");
  EXPECT_STREQ(memory::gaudi::model_name(cards[0].device_id), "gaudi3");
}

TEST_F(GaudiSysfs, CardsOfOlderKernelsAreFoundInTheirOwnClass) {
  add_pci("0000:4d:00.0", "0x1da3", "0x1000");
  write_file("class/habanalabs/hl1/pci_addr", "0000:4d:00.0");
  write_file("class/habanalabs/hl_controlD1/pci_addr", "0000:4d:00.0");
  const auto cards = find_cards();
  ASSERT_EQ(cards.size(), 1U);
  EXPECT_EQ(cards[0].index, 1);
}

TEST_F(GaudiSysfs, OtherVendorsAcceleratorsAreLeftOut) {
  add_pci("0000:00:0b.0", "0x8086", "0x7d1d");
  write_file("class/accel/accel0/device/vendor", "0x8086");
  add_pci("0000:10:00.0", "0x17cb", "0xa100");
  write_file("class/accel/accel1/device/pci_addr", "0000:10:00.0");
  add_pci("0000:20:00.0", "0x1da3", "0x0001");  // a Goya card
  write_file("class/accel/accel2/device/pci_addr", "0000:20:00.0");
  add_pci("0000:4d:00.0", "0x1da3", "0x1020");
  write_file("class/accel/accel3/device/pci_addr", "0000:4d:00.0");
  const auto cards = find_cards();
  ASSERT_EQ(cards.size(), 1U);
  EXPECT_EQ(cards[0].index, 3);
}

TEST_F(GaudiSysfs, CardsWithoutANodeComeAfterThoseInNodeOrder) {
  add_pci("0000:01:00.0", "0x1da3", "0x1020");
  for (const int index : {10, 2}) {
    const std::string address = "0000:4" + std::to_string(index % 10) + ":00.0";
    add_pci(address, "0x1da3", "0x1020");
    write_file("class/accel/accel" + std::to_string(index) + "/device/pci_addr", address);
  }
  const auto cards = find_cards();
  ASSERT_EQ(cards.size(), 3U);
  EXPECT_EQ(cards[0].index, 2);
  EXPECT_EQ(cards[1].index, 10);
  EXPECT_EQ(cards[2].index, -1);
}

TEST_F(GaudiSysfs, TheReasonForNoCardIsGiven) {
  const auto nothing = Context::create();
  ASSERT_TRUE(gaudi_probe(*nothing).missing);
  EXPECT_EQ(gaudi_probe(*nothing).missing->hint, Hint::no_gaudi_device);
  add_pci("0000:01:00.0", "0x1da3", "0x1020");
  const auto undriven = Context::create();
  const MemoryProbe& probe = gaudi_probe(*undriven);
  ASSERT_EQ(probe.devices.size(), 1U);
  EXPECT_EQ(probe.devices[0].name, "gaudi2 0000:01:00.0");
  ASSERT_TRUE(probe.missing);
  EXPECT_NE(describe(*probe.missing).find("driver"), std::string::npos);
  const auto opened = undriven->open(MemoryType::gaudi);
  ASSERT_FALSE(opened);
  EXPECT_EQ(describe(opened.error()), describe(*probe.missing));
}

TEST(GaudiLibrary, TellsItsAbiApart) {
  const auto newest = HlThunk::load();
  ASSERT_TRUE(newest) << describe(newest.error());
  EXPECT_EQ((*newest)->abi(), ThunkAbi::full);
  EXPECT_NE((*newest)->description().find("1.18"), std::string::npos) << (*newest)->description();
  const auto of_2021 = HlThunk::load({OLD_HL_THUNK_5_15});
  ASSERT_TRUE(of_2021) << describe(of_2021.error());
  EXPECT_EQ((*of_2021)->abi(), ThunkAbi::before_5_20);
  const auto of_2022 = HlThunk::load({OLD_HL_THUNK_5_20});
  ASSERT_TRUE(of_2022) << describe(of_2022.error());
  EXPECT_EQ((*of_2022)->abi(), ThunkAbi::before_6_3);
  for (const ThunkAbi abi : {ThunkAbi::before_5_20, ThunkAbi::before_6_3})
    EXPECT_EQ(memory::gaudi::old_abi_error(abi).hint, Hint::old_hl_thunk);
  EXPECT_EQ(HlThunk::load({"libc.so.6"}).error().code, Errc::not_supported);
  EXPECT_EQ(HlThunk::load({"libno-such-thing.so"}).error().hint, Hint::no_hl_thunk);
}

TEST(GaudiProbe, ListsEveryCardWithoutOpeningOne) {
  const int descriptors = test::open_descriptors();
  const auto context = Context::create();
  ASSERT_TRUE(context) << describe(context.error());
  const MemoryProbe& probe = gaudi_probe(*context);
  EXPECT_FALSE(probe.missing) << describe(*probe.missing);
  EXPECT_NE(probe.library.find("libhl-thunk.so"), std::string::npos);
  EXPECT_NE(probe.library.find("libSynapse.so"), std::string::npos);
  ASSERT_EQ(probe.devices.size(), 2U);
  for (const DeviceInfo& device : probe.devices) {
    EXPECT_EQ(device.type, MemoryType::gaudi);
    EXPECT_EQ(device.name, "gaudi2 " + device.pci_address);
    EXPECT_EQ(device.size_bytes, 127 * (768ULL << 20)) << "the control node tells";
    EXPECT_EQ(device.page_bytes, 768ULL << 20);
    EXPECT_EQ(device.status, "Operational");
    EXPECT_GE(device.numa_node, 0);
    EXPECT_EQ(device.driven_by, "");
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
  const auto other = Context::create();
  EXPECT_TRUE(other->open(MemoryType::gaudi, {.device = "0", .owner = Owner::hl_thunk}));
}

TEST(GaudiProbe, ABusyCardIsListed) {
  const auto owner = Context::create();
  const auto domain = owner->open(MemoryType::gaudi, {.device = "0", .owner = Owner::hl_thunk});
  ASSERT_TRUE(domain);
  const auto context = Context::create();
  EXPECT_EQ(gaudi_probe(*context).devices.size(), 2U);
  EXPECT_EQ(gaudi_probe(*context).devices[0].size_bytes, 127 * (768ULL << 20));
  EXPECT_FALSE(gaudi_probe(*context).missing);
}

TEST(GaudiProbe, ACallThatFailsOnlyLeavesTheSizeUnknown) {
  for (long n = 0; n < 6; ++n) {
    test::fail_nth_call("gaudi", n, EIO);
    const auto context = Context::create();
    test::fail_nth_call("gaudi", -1, 0);
    ASSERT_TRUE(context);
    EXPECT_EQ(gaudi_probe(*context).devices.size(), 2U);
    EXPECT_FALSE(gaudi_probe(*context).missing);
  }
}

TEST(GaudiOpen, OpeningTwiceGivesTheSameDomainByAnyName) {
  const auto context = Context::create();
  const auto first = context->open(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(first) << describe(first.error());
  const std::string address = (*first)->device().pci_address;
  for (const std::string& name : {std::string(), std::string("0"), address}) {
    const auto again = context->open(MemoryType::gaudi, {.device = name, .owner = Owner::hl_thunk});
    ASSERT_TRUE(again) << describe(again.error());
    EXPECT_EQ(*again, *first) << name;
    EXPECT_EQ(*context->open(MemoryType::gaudi, {.device = name}), *first) << name;
  }
  const auto by_synapse =
      context->open(MemoryType::gaudi, {.device = "0", .owner = Owner::synapse});
  ASSERT_FALSE(by_synapse);
  EXPECT_EQ(by_synapse.error().code, Errc::busy);
}

TEST(GaudiOpen, TakesTheFirstCardThatIsFree) {
  const auto other_context = Context::create();
  const auto taken =
      other_context->open(MemoryType::gaudi, {.device = "0", .owner = Owner::hl_thunk});
  ASSERT_TRUE(taken);
  const auto context = Context::create();
  const auto free = context->open(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(free) << describe(free.error());
  EXPECT_EQ((*free)->device().pci_address, gaudi_probe(*context).devices[1].pci_address);
}

TEST(GaudiOpen, OneProcessHasSeveralCards) {
  const auto context = Context::create();
  const auto by_synapse =
      context->open(MemoryType::gaudi, {.device = "1", .owner = Owner::synapse});
  const auto by_thunk = context->open(MemoryType::gaudi, {.device = "0", .owner = Owner::hl_thunk});
  ASSERT_TRUE(by_synapse) << describe(by_synapse.error());
  ASSERT_TRUE(by_thunk) << describe(by_thunk.error());
  const auto one = (*by_synapse)->allocate(4096);
  const auto other = (*by_thunk)->allocate(4096);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(context->find(one->address(), 1, "1")->device->driven_by, "SynapseAI");
  EXPECT_EQ(context->find(other->address(), 1, "0")->device->driven_by, "hl-thunk");
}

/// Owns the card, writes a byte to `ready`, and waits until `go` is closed. Returns 0, or the
/// failed step.
int use_card(const char* device, int ready, int go) {
  ::alarm(30);
  const auto context = Context::create();
  const auto domain =
      context->open(MemoryType::gaudi, {.device = device, .owner = Owner::hl_thunk});
  if (!domain || !(*domain)->allocate(1 << 20)) return 1;
  char byte = 0;
  return ::write(ready, &byte, 1) == 1 && ::read(go, &byte, 1) == 0 ? 0 : 2;
}

TEST(GaudiOpen, TwoProcessesHaveTwoCardsAtATime) {
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(go.data()), 0);
  std::vector<pid_t> children;
  for (const char* device : {"0", "1"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(go[1]);
      ::_exit(use_card(device, ready[1], go[0]));
    }
    children.push_back(child);
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "both have theirs now";
  ::close(go[1]);
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ::close(ready[0]);
  ::close(go[0]);
}

class GaudiDmabufSetting : public testing::TestWithParam<const char*> {
 protected:
  GaudiDmabufSetting() { ::setenv("HBMWIRE_GAUDI_DMABUF", GetParam(), 1); }

  ~GaudiDmabufSetting() override { ::unsetenv("HBMWIRE_GAUDI_DMABUF"); }
};

TEST_P(GaudiDmabufSetting, SaysWhetherANicMayHaveTheMemory) {
  const bool allowed = std::string(GetParam()) != "no";
  const auto nic = Nic::open();
  for (const Owner owner : {Owner::synapse, Owner::hl_thunk}) {
    const auto context = Context::create();
    ASSERT_TRUE(context) << describe(context.error());
    const auto domain = context->open(MemoryType::gaudi, {.device = {}, .owner = owner});
    ASSERT_TRUE(domain) << describe(domain.error());
    const auto memory = (*domain)->allocate(4096);
    ASSERT_TRUE(memory);
    const auto info = context->find(memory->address());
    ASSERT_TRUE(info);
    EXPECT_EQ(info->refusal.has_value(), !allowed);
    const auto region = nic->register_memory(*memory, Access::remote_write);
    EXPECT_EQ(region.has_value(), allowed);
    EXPECT_EQ((*domain)->export_dmabuf(memory->address(), 1).has_value(), allowed);
    if (allowed) continue;
    EXPECT_EQ(info->refusal->hint, Hint::dmabuf_forbidden);
    EXPECT_EQ(region.error().hint, Hint::dmabuf_forbidden);
    EXPECT_NE(describe(region.error()).find("HBMWIRE_GAUDI_DMABUF=no"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(EachValue, GaudiDmabufSetting, testing::Values("yes", "no", "try"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace hbmwire
