// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/open_descriptors.hpp"

namespace hbmwire::test {

/// A Gaudi2's page of device memory, and the address of its first mapping.
inline constexpr std::uint64_t kPage2 = std::uint64_t{768} << 20;
inline constexpr std::uint64_t kFirstAddress2 = 0x1001'0018'0000'0000;

/// An emulated node with cards of these kinds ("GAUDI2"), made by hand in a temporary directory.
/// The environment names it while this object lives.
class HandMadeWorld {
 public:
  explicit HandMadeWorld(const std::vector<std::string>& kinds);
  ~HandMadeWorld();
  HandMadeWorld(const HandMadeWorld&) = delete;
  HandMadeWorld& operator=(const HandMadeWorld&) = delete;

  /// The folder of a card's files, such as its memory `hbm`.
  [[nodiscard]] std::filesystem::path card(unsigned index) const;
  /// Sets the status that sysfs shows, such as "Operational".
  void set_status(unsigned index, const std::string& status) const;
  [[nodiscard]] static std::string pci_address(unsigned index);

 private:
  std::filesystem::path root_;
};

/// Two Gaudi2: those of `hbmwire emulate` if the test runs under it, otherwise made by hand. At the
/// end the cards must have no objects, and the process no more fds than before.
class GaudiTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// The kinds of the cards; empty for the default. Kinds that are given are made by hand.
  virtual std::vector<std::string> kinds() { return {}; }

  std::unique_ptr<HandMadeWorld> world_;
  int fds_before_ = 0;
};

/// A file descriptor that is closed at the end.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}

  ~Fd() { reset(); }

  Fd(Fd&& other) noexcept : fd_(other.release()) {}

  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  [[nodiscard]] int get() const { return fd_; }

  /// Returns the descriptor and leaves it open.
  int release();
  /// Closes it.
  void reset();

 private:
  int fd_;
};

/// An open card, closed by hlthunk_close.
class OpenCard {
 public:
  explicit OpenCard(int fd) : fd_(fd) {}

  ~OpenCard() { close(); }

  OpenCard(const OpenCard&) = delete;
  OpenCard& operator=(const OpenCard&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  void close();

 private:
  int fd_;
};

/// An allocation with its mapping, freed at the end.
class MappedMemory {
 public:
  MappedMemory(int fd, std::uint64_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  [[nodiscard]] std::uint64_t address() const { return address_; }

  [[nodiscard]] std::uint64_t handle() const { return handle_; }

 private:
  int fd_;
  std::uint64_t handle_;
  std::uint64_t address_;
};

/// hlthunk_open of the first free card of any kind.
int open_first_card();
/// A dma-buf of mapped device memory, or a negative errno.
int export_range(int fd, std::uint64_t address, std::uint64_t bytes, std::uint64_t offset = 0);

/// Opens an export as an importer does: maps the exported range of the descriptor's file.
class ImportedMemory {
 public:
  explicit ImportedMemory(int dmabuf);
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  [[nodiscard]] unsigned char* data() const { return data_; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  [[nodiscard]] std::uint64_t offset() const { return offset_; }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  unsigned char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t offset_ = 0;
  std::string path_;
};

/// Runs the body in a forked child. Returns its exit status, or 128 + the signal that ended it.
int run_in_child(const std::function<int()>& body);

/// A forked child that runs its body and then waits to be told to end.
class Child {
 public:
  /// The body returns 0 when it is ready. wait_ready() reports any other value as a failure.
  explicit Child(const std::function<int()>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Waits for the body's end and returns its result; -1 if the child has ended.
  int wait_ready();
  void end();   ///< the child exits as a program does
  void kill();  ///< SIGKILL

 private:
  void reap();

  pid_t pid_ = -1;
  int ready_ = -1;
  int go_ = -1;
};

/// Waits up to 2 s for the condition. Returns whether it holds.
bool soon(const std::function<bool()>& condition);

/// Pass a descriptor through a socket by SCM_RIGHTS. receive_fd() returns -1 on failure.
void send_fd(int socket, int fd);
int receive_fd(int socket);

}  // namespace hbmwire::test
