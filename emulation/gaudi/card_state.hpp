// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "emulation/common/slots.hpp"
#include "emulation/gaudi/card_kind.hpp"

namespace hbmwire::emulation::gaudi {

// The layout of `<node>/gaudi<N>/state`, shared by every process that has the card's fd (by fork,
// dup or SCM_RIGHTS). It has only slots, without counters or lists. The last store into a slot
// takes it, and a single store frees it. So a process that is killed half way leaves the state
// consistent.

/// An allocation of HBM.
struct AllocationSlot {
  std::uint32_t live;
  std::uint32_t handle;
  std::uint64_t offset;  // in the backing file
  std::uint64_t bytes;   // rounded up to whole pages
  std::uint64_t page_bytes;
};

/// A mapping of HBM or host memory in the device's address space.
struct MappingSlot {
  std::uint32_t live;
  std::uint32_t handle;   // of the allocation; 0: host memory, which cannot be exported
  std::uint64_t address;  // as returned to the application
  AddressRange block;     // the part of the device's address space that it occupies
};

/// A living dma-buf.
struct ExportSlot {
  std::uint32_t live;
  std::int32_t watch;          // inotify watch descriptor
  std::uint64_t watch_id;      // the inotify instance of that watch
  std::int32_t watch_process;  // the process that made that watch
  std::uint32_t padding;
  std::uint64_t address;  // base of the mapping, which stays mapped while the dma-buf lives
};

struct StateContent {
  std::uint64_t magic;
  pthread_mutex_t mutex;  // robust, shared between processes
  std::uint64_t open_count;
  std::uint64_t opened_ns;        // CLOCK_MONOTONIC at the owner's open; 0: no owner
  std::uint64_t last_period_ns;   // how long the last owner had it
  std::uint64_t unmanaged_bytes;  // Gaudi1: the bytes that the user has reported as used
  // The driver has no such limits. They exceed every real need: 4096 of the smallest pages make up
  // the largest HBM.
  std::array<AllocationSlot, 4096> allocations;
  std::array<MappingSlot, 8192> mappings;
  std::array<ExportSlot, 4096> exports;
};

/// One process's mapping of a card's state file.
class CardState {
 public:
  /// Maps the file, and initialises a new one. Returns nullptr with errno set on failure.
  static std::unique_ptr<CardState> attach(const std::string& path);
  ~CardState();
  CardState(const CardState&) = delete;
  CardState& operator=(const CardState&) = delete;

  StateContent& content() { return *content_; }

 private:
  explicit CardState(StateContent* content) : content_(content) {}

  StateContent* content_;
};

/// Holds a card's lock against other threads and processes. If its last holder died, the lock is
/// taken over without further action, because the state is consistent (see above).
class StateLock {
 public:
  explicit StateLock(CardState& state);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

  StateContent* operator->() const { return &content_; }

  StateContent& operator*() const { return content_; }

 private:
  StateContent& content_;
};

/// Removes allocations, mappings and exports. The caller holds the lock.
void clear_content(StateContent& content);

}  // namespace hbmwire::emulation::gaudi
