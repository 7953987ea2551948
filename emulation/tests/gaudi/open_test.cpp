// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/abi/synapse.h"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

class GaudiOpen : public GaudiTest {};

// The bus id of a card, read by its control node, so the card stays free.
std::string bus_id_of(int index) {
  const Fd control(hlthunk_open_control(index, nullptr));
  std::array<char, 13> id{};
  EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(control.get(), id.data(), static_cast<int>(id.size())),
            0);
  return id.data();
}

std::uint32_t module_id_of(int index) {
  const Fd control(hlthunk_open_control(index, nullptr));
  hlthunk_hw_ip_info info{};
  EXPECT_EQ(hlthunk_get_hw_ip_info(control.get(), &info), 0);
  return info.module_id;
}

TEST_F(GaudiOpen, OpeningTakesTheFirstFreeCardAndSaysBusyAfterTheLast) {
  const OpenCard first(open_first_card());
  const OpenCard second(open_first_card());
  ASSERT_GE(first.fd(), 0);
  ASSERT_GE(second.fd(), 0);
  errno = 0;
  EXPECT_EQ(open_first_card(), -1);
  EXPECT_EQ(errno, EBUSY);
}

TEST_F(GaudiOpen, AFormerOwnerThatLivesOnDoesNotBlockTheCard) {
  const auto open_and_close = [] {
    ::alarm(10);  // ends the child if the card blocks it
    const OpenCard card(open_first_card());
    ::alarm(0);
    return card.fd() >= 0 ? 0 : 1;
  };
  Child former(open_and_close);
  ASSERT_EQ(former.wait_ready(), 0);
  EXPECT_EQ(run_in_child(open_and_close), 0) << "128 + SIGALRM: it never got the card";
}

TEST_F(GaudiOpen, ACardIsFoundByBusId) {
  const std::string id = bus_id_of(1);
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_INVALID, id.c_str()));  // the name is ignored
  ASSERT_GE(card.fd(), 0);
  EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(id.c_str()), 1);
  if (id.starts_with("0000:")) {
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(id.c_str() + 5), 1)
        << "without the domain, which is 0";
  }
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str()), -EBUSY);
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:ff:1f.7"), -EINVAL);
  EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id("0000:ff:1f.7"), -1);
  EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(nullptr), -EINVAL);
}

TEST_F(GaudiOpen, ACardIsFoundByName) {
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, nullptr));
  ASSERT_GE(card.fd(), 0);
  EXPECT_EQ(hlthunk_get_device_name_from_fd(card.fd()), HLTHUNK_DEVICE_GAUDI2);
  EXPECT_EQ(hlthunk_get_device_id_from_fd(card.fd()), 0x1020U);
  errno = 0;
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, nullptr), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 2);
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 2);
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI3), 0);
}

TEST_F(GaudiOpen, ACardIsFoundByModuleId) {
  const std::uint32_t module = module_id_of(1);
  const OpenCard card(hlthunk_open_by_module_id(module));
  ASSERT_GE(card.fd(), 0);
  EXPECT_EQ(hlthunk_get_device_index_from_module_id(module), 1);
  EXPECT_EQ(hlthunk_open_by_module_id(module), -EBUSY);
  EXPECT_EQ(hlthunk_open_by_module_id(4711), -1);  // no card has it
  EXPECT_EQ(hlthunk_get_device_index_from_module_id(4711), -1);
}

TEST_F(GaudiOpen, ControlNodesAreSharedAndRefuseCallsAboutMemory) {
  const OpenCard owner(open_first_card());
  const Fd one(hlthunk_open_control(0, nullptr));
  const Fd two(hlthunk_open_control_by_name(HLTHUNK_DEVICE_GAUDI2, nullptr));
  const Fd three(hlthunk_open_control_by_module_id(module_id_of(0)));
  const Fd four(hlthunk_open_control_by_bus_id(bus_id_of(0).c_str()));
  for (const Fd* control : {&one, &two, &three, &four}) {
    ASSERT_GE(control->get(), 0);
    EXPECT_EQ(hlthunk_get_device_status_info(control->get()), HL_DEVICE_STATUS_OPERATIONAL);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(control->get(), 1, 0, false, false), 0U);
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(export_range(control->get(), kFirstAddress2, 4096), -ENOTTY);
  }
  EXPECT_EQ(hlthunk_open_control(77, nullptr), -ENOENT);
  EXPECT_EQ(hlthunk_open_control_by_module_id(4711), -EBADF);
  EXPECT_EQ(hlthunk_open_control_by_bus_id("0000:ff:1f.7"), -EBADF);
  EXPECT_EQ(hlthunk_open_control_by_bus_id(nullptr), -EINVAL);
}

TEST_F(GaudiOpen, FdsOfOtherFilesAreRefused) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(hlthunk_memory_unmap(null.get(), kFirstAddress2), -ENOTTY);
  EXPECT_EQ(hlthunk_memory_unmap(-1, kFirstAddress2), -EBADF);
  EXPECT_EQ(hlthunk_get_device_name_from_fd(null.get()), HLTHUNK_DEVICE_INVALID);
  errno = 0;
  EXPECT_EQ(hlthunk_close(-1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(GaudiOpen, ACardHasOneOwnerAcrossProcesses) {
  const std::string id = bus_id_of(0);
  Child owner([&] {
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str());
    return fd >= 0 && hlthunk_device_memory_alloc(fd, kPage2, 0, false, false) != 0 ? 0 : 1;
  });
  ASSERT_EQ(owner.wait_ready(), 0);
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str()), -EBUSY);
  owner.kill();
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str()));
  ASSERT_GE(card.fd(), 0);
  hlthunk_dram_usage_info usage{};
  EXPECT_EQ(hlthunk_get_dram_usage(card.fd(), &usage), 0);
  EXPECT_EQ(usage.dram_free_mem, 127 * kPage2) << "the killed owner's memory is free";
}

TEST_F(GaudiOpen, TwoProcessesHaveACardEach) {
  Child other([] { return open_first_card() >= 0 ? 0 : 1; });
  ASSERT_EQ(other.wait_ready(), 0);
  const OpenCard card(open_first_card());
  ASSERT_GE(card.fd(), 0);
  const MappedMemory memory(card.fd(), 1);
  EXPECT_EQ(memory.address(), kFirstAddress2) << "the cards use the same addresses";
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
}

TEST_F(GaudiOpen, OwnershipFollowsDup) {
  const std::string id = bus_id_of(0);
  OpenCard card(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str()));
  OpenCard copy(::fcntl(card.fd(), F_DUPFD_CLOEXEC, 0));
  card.close();
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, id.c_str()), -EBUSY);
  const MappedMemory memory(copy.fd(), kPage2);
}

TEST_F(GaudiOpen, ThereIsNoCardOutsideAnEmulatedWorld) {
  EXPECT_EQ(
      run_in_child([] {
        ::unsetenv("HBMWIRE_EMULATION_NODE");
        errno = 0;
        if (open_first_card() != -1 || errno != ENOENT) return 1;
        if (hlthunk_open_control(0, nullptr) != -ENOENT) return 2;
        if (hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE) != 0) return 3;
        std::uint32_t count = 1;
        if (synInitialize() != synSuccess || synDeviceGetCount(&count) != synSuccess || count != 0)
          return 4;
        synDeviceId id = 0;
        if (synDeviceAcquire(&id, nullptr) != synNoDeviceFound) return 5;
        return synDeviceAcquireByModuleId(&id, 0) == synNoDeviceFound ? 0 : 6;
      }),
      0);
}

class GaudiOpenByHand : public GaudiTest {
 protected:
  std::vector<std::string> kinds() override { return {"GAUDI2", "GAUDI2"}; }
};

TEST_F(GaudiOpenByHand, ACardWithoutItsMemoryIsGone) {
  std::filesystem::remove(world_->card(0) / "hbm");
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, HandMadeWorld::pci_address(0).c_str()), -ENXIO);
  std::filesystem::resize_file(world_->card(1) / "hbm", 4096);
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, HandMadeWorld::pci_address(1).c_str()), -ENXIO);
}

TEST_F(GaudiOpenByHand, ACardInResetRefusesWork) {
  const OpenCard card(
      hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, HandMadeWorld::pci_address(0).c_str()));
  world_->set_status(0, "in reset");
  world_->set_status(1, "in reset");
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, HandMadeWorld::pci_address(1).c_str()), -EAGAIN);
  EXPECT_EQ(hlthunk_device_memory_free(card.fd(), 1), -EBUSY);
  EXPECT_EQ(hlthunk_get_device_status_info(card.fd()), HL_DEVICE_STATUS_IN_RESET);
  world_->set_status(0, "Operational");
  EXPECT_EQ(hlthunk_device_memory_free(card.fd(), 1), -EINVAL) << "there is no such handle";
}

TEST_F(GaudiOpenByHand, TheModuleIdIsNotTheIndex) {
  const OpenCard card(hlthunk_open_by_module_id(6));  // the second card of HandMadeWorld
  ASSERT_GE(card.fd(), 0);
  std::array<char, 14> id;
  id.fill('x');
  EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(card.fd(), id.data(), 12), 0);
  EXPECT_EQ(id[12], 'x') << "no terminator without room for it";
  EXPECT_EQ(std::string(id.data(), 12), HandMadeWorld::pci_address(1));
}

}  // namespace
}  // namespace hbmwire::test
