// SPDX-License-Identifier: MIT
//
// Memory counts as exported while the kernel knows a reference to its dma-buf, whichever process
// has it and however it ends.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/testing_hooks.hpp"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

/// Two connected sockets, which carry descriptors.
struct Sockets {
  Sockets() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    near = Fd(ends[0]);
    far = Fd(ends[1]);
  }

  Fd near;
  Fd far;
};

class GaudiLiveness : public GaudiTest {
 protected:
  void SetUp() override {
    GaudiTest::SetUp();
    fd_ = open_first_card();
    ASSERT_GE(fd_, 0);
    handle_ = hlthunk_device_memory_alloc(fd_, kPage2, 0, true, false);
    address_ = hlthunk_device_memory_map(fd_, handle_, 0);
    dmabuf_ = Fd(export_range(fd_, address_, kPage2));
    ASSERT_GE(dmabuf_.get(), 0);
  }

  void TearDown() override {
    dmabuf_.reset();
    if (fd_ >= 0) {
      hlthunk_memory_unmap(fd_, address_);  // fails if expect_not_exported() has unmapped it
      EXPECT_EQ(hlthunk_device_memory_free(fd_, handle_), 0);
      EXPECT_EQ(hlthunk_close(fd_), 0);
    }
    GaudiTest::TearDown();
  }

  /// The driver refuses to unmap and free exported memory.
  void expect_exported() const {
    EXPECT_EQ(hlthunk_memory_unmap(fd_, address_), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(fd_, handle_), -EINVAL);
    EXPECT_EQ(hbmwire_gaudi_live_objects(0, "export"), 1U);
  }

  /// Unmaps the memory, which succeeds only if it is not exported.
  void expect_not_exported() const { EXPECT_EQ(hlthunk_memory_unmap(fd_, address_), 0); }

  int fd_ = -1;
  std::uint64_t handle_ = 0;
  std::uint64_t address_ = 0;
  Fd dmabuf_;
};

TEST_F(GaudiLiveness, AnFdHoldsTheMapping) {
  expect_exported();
  dmabuf_.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, ADuplicateHoldsTheMapping) {
  Fd copy(::fcntl(dmabuf_.get(), F_DUPFD_CLOEXEC, 0));
  dmabuf_.reset();
  expect_exported();
  copy.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AForkedChildHoldsTheMapping) {
  Child child([] { return 0; });
  ASSERT_EQ(child.wait_ready(), 0);
  dmabuf_.reset();
  expect_exported();
  child.end();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AKilledChildHoldsTheMappingNoLonger) {
  Child child([] { return 0; });
  ASSERT_EQ(child.wait_ready(), 0);
  dmabuf_.reset();
  expect_exported();
  child.kill();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AMessageInFlightHoldsTheMapping) {
  Sockets sockets;
  send_fd(sockets.near.get(), dmabuf_.get());
  dmabuf_.reset();
  expect_exported();
  // The message waits at the far end until that is closed.
  sockets.near.reset();
  expect_exported();
  sockets.far.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AReceiverHoldsTheMapping) {
  Sockets sockets;
  send_fd(sockets.near.get(), dmabuf_.get());
  Fd received(receive_fd(sockets.far.get()));
  ASSERT_GE(received.get(), 0);
  dmabuf_.reset();
  sockets = Sockets{};
  expect_exported();
  received.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AMemoryRegionHoldsTheMappingAfterTheFdIsClosed) {
  // The reference that the NIC plugin keeps while an MR lives.
  Fd region(::fcntl(dmabuf_.get(), F_DUPFD_CLOEXEC, 0));
  {
    const ImportedMemory imported(dmabuf_.get());
    EXPECT_NE(imported.data(), nullptr);
  }
  dmabuf_.reset();
  expect_exported();
  region.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, AnEndedImportHoldsNothing) {
  { const ImportedMemory imported(dmabuf_.get()); }
  dmabuf_.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, ASecondExportAloneHoldsTheMapping) {
  Fd second(export_range(fd_, address_, 4096));
  dmabuf_.reset();
  expect_exported();
  second.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, OnlyTheExportedMappingIsHeld) {
  const std::uint64_t other = hlthunk_device_memory_map(fd_, handle_, 0);
  EXPECT_EQ(hlthunk_memory_unmap(fd_, other), 0);
  expect_exported();
}

TEST_F(GaudiLiveness, AProcessKnowsTheExportsAndUnmappingsOfItsChild) {
  Sockets sockets;
  dmabuf_.reset();
  EXPECT_EQ(run_in_child([&] {  // the child notices the end of the parent's export, and unmaps
              return hlthunk_memory_unmap(fd_, address_) == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(hlthunk_memory_unmap(fd_, address_), -EINVAL) << "the child has unmapped it";
  EXPECT_EQ(run_in_child([&] {  // the child exports, sends the descriptor here and ends
              address_ = hlthunk_device_memory_map(fd_, handle_, 0);
              const Fd exported(export_range(fd_, address_, 4096));
              send_fd(sockets.near.get(), exported.get());
              return address_ == kFirstAddress2 ? 0 : 1;
            }),
            0);
  Fd received(receive_fd(sockets.far.get()));
  ASSERT_GE(received.get(), 0);
  expect_exported();
  received.reset();
  expect_not_exported();
}

TEST_F(GaudiLiveness, TheCardStaysBusyUntilTheLastExportIsGone) {
  ASSERT_EQ(hlthunk_close(fd_), 0);
  fd_ = -1;
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "export"), 1U);
  const int other = open_first_card();  // the second card
  ASSERT_GE(other, 0);
  EXPECT_EQ(open_first_card(), -1) << "both cards are busy";
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(run_in_child([] { return open_first_card() == -1 && errno == EBUSY ? 0 : 1; }), 0);
  dmabuf_.reset();
  int freed = -1;
  EXPECT_TRUE(soon([&] { return (freed = open_first_card()) >= 0; }));
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "mapping"), 0U) << "freed with the card";
  EXPECT_EQ(hlthunk_close(freed), 0);
  EXPECT_EQ(hlthunk_close(other), 0);
}

}  // namespace
}  // namespace hbmwire::test
