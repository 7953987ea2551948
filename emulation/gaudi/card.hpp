// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "emulation/common/deletion_watch.hpp"
#include "emulation/gaudi/card_kind.hpp"
#include "emulation/gaudi/card_state.hpp"

namespace hbmwire::emulation::gaudi {

/// A card's description from sysfs, and where its files are.
struct CardIdentity {
  unsigned index = 0;
  const CardKind* kind = nullptr;
  std::uint32_t pci_device_id = 0;
  std::uint32_t module_id = 0;
  std::string pci_address;          ///< "dddd:bb:dd.f"
  std::filesystem::path sysfs;      ///< .../sys/class/accel/accelN/device
  std::filesystem::path directory;  ///< <node>/gaudiN
  dev_t file_system = 0;            ///< of <node>/gaudiN/device, to recognise the card's fds
  ino_t inode = 0;

  bool operator==(const CardIdentity&) const = default;
};

/// An allocation of HBM.
struct MemoryRequest {
  std::uint64_t bytes = 0;
  std::uint64_t page_bytes = 0;  ///< 0: the default page size
};

/// A range of host memory to be mapped for the card.
struct HostRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// A range of mapped HBM to be exported as a dma-buf.
struct ExportRange {
  std::uint64_t address = 0;  ///< base address of a mapping
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< distance from the base
};

/// The place of a device address in the card's backing file.
struct Backing {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct MemoryUsage {
  std::uint64_t free_bytes = 0;
  std::uint64_t used_bytes = 0;
};

/// A card as the kernel driver presents it: its functions return the results of the driver's
/// ioctls, 0 or -errno. Thread-safe. The state is shared with every other process that has the
/// card's fd.
class Card {
 public:
  explicit Card(CardIdentity identity) : identity_(std::move(identity)) {}

  [[nodiscard]] const CardIdentity& identity() const { return identity_; }

  [[nodiscard]] const CardKind& kind() const { return *identity_.kind; }

  [[nodiscard]] std::string hbm_path() const { return (identity_.directory / "hbm").string(); }

  /// The path of the card's PostedWrites. Empty if NICs' writes are visible at once.
  [[nodiscard]] std::string posted_path() const;

  /// The status from sysfs. Memory operations are refused unless it is operational.
  [[nodiscard]] hl_device_status status() const;

  // card.cpp: ownership of the card
  /// Opens the node of the card's one owner. Returns an fd or -errno.
  int open_primary();
  int open_control();
  /// Closes an fd of either node. Releases the card if that was the owner's last fd.
  int close(int fd);
  /// Called in a forked child, which has the keeper's fd but not its thread.
  void after_fork_in_child();

  // memory.cpp
  int allocate(const MemoryRequest& request, std::uint64_t& handle);
  int free(std::uint64_t handle);
  int map_device(std::uint64_t handle, std::uint64_t hint, std::uint64_t& address);
  int map_host(const HostRange& range, std::uint64_t hint, std::uint32_t flags,
               std::uint64_t& address);
  int unmap(std::uint64_t address);
  int usage(MemoryUsage& usage);
  /// Finds the memory of the mapping that begins at `address`; on a card without an MMU, the memory
  /// from `address` on.
  int find_backing(std::uint64_t address, Backing& backing);

  // exports.cpp
  int export_dmabuf(const ExportRange& range);

  /// The shared state, mapped on first use. Returns nullptr with errno set on failure. Callable
  /// from any thread.
  CardState* state();

  /// Removes exports that have ended and returns how many live. The caller holds the lock.
  std::uint64_t collect_exports(StateContent& content) const;

 private:
  int take_ownership();
  int check_backing_file() const;
  void release_if_unowned();
  /// Removes all allocations, mappings and exports, and the contents of the HBM.
  void wipe(StateContent& content);
  int keep_busy(int fd);
  void wait_for_exports();
  void punch(std::uint64_t offset, std::uint64_t bytes) const;
  int find_exportable(StateContent& content, const ExportRange& range, Backing& backing) const;
  int publish(StateContent& content, const ExportRange& range, const Backing& backing);

  CardIdentity identity_;
  std::unique_ptr<CardState> state_;

  // Guarded by the state's lock:
  DeletionWatch watch_;
  int keeper_ = -1;  // keeps the card busy after hlthunk_close() as long as exports live
};

}  // namespace hbmwire::emulation::gaudi
