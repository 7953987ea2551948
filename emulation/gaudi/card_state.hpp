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
// dup or SCM_RIGHTS). There are no counters and no lists in it, only slots, each taken by the last
// store into it and given back by one: a process that is killed half-way through leaves nothing
// that another one could trip over.

struct AllocationSlot {
  std::uint32_t live;
  std::uint32_t handle;
  std::uint64_t offset;  // in the backing file
  std::uint64_t bytes;   // rounded up to pages
  std::uint64_t page_bytes;
};

struct MappingSlot {
  std::uint32_t live;
  std::uint32_t handle;   // of the allocation; 0: host memory, which can't be exported
  std::uint64_t address;  // what the application got
  AddressRange block;     // what it takes of the device's address space
};

struct ExportSlot {
  std::uint32_t live;
  std::int32_t watch;          // inotify watch descriptor, of
  std::uint64_t watch_id;      // this inotify instance,
  std::int32_t watch_process;  // made by this process
  std::uint32_t padding;
  std::uint64_t address;  // base of the mapping that it keeps from being unmapped
};

struct StateContent {
  std::uint64_t magic;
  pthread_mutex_t mutex;  // robust, shared between processes
  std::uint64_t open_count;
  std::uint64_t opened_ns;  // CLOCK_MONOTONIC of the present owner's open; 0: nobody owns the card
  std::uint64_t last_period_ns;   // how long the last owner had it
  std::uint64_t unmanaged_bytes;  // Gaudi1: what the user says that he uses
  // The driver knows no such limits. They are far above what fits: 4096 smallest pages make up the
  // largest HBM.
  std::array<AllocationSlot, 4096> allocations;
  std::array<MappingSlot, 8192> mappings;
  std::array<ExportSlot, 4096> exports;
};

/// One process's mapping of a card's state file.
class CardState {
 public:
  /// Maps the file, and makes it ready when it is new. Returns nullptr with errno set on failure.
  static std::unique_ptr<CardState> attach(const std::string& path);
  ~CardState();
  CardState(const CardState&) = delete;
  CardState& operator=(const CardState&) = delete;

  StateContent& content() { return *content_; }

 private:
  explicit CardState(StateContent* content) : content_(content) {}

  StateContent* content_;
};

/// Holds a card's lock, against threads and processes alike. A holder that died is passed over in
/// silence: see above.
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

/// Forgets allocations, mappings and exports. Call with the lock held.
void clear_content(StateContent& content);

}  // namespace hbmwire::emulation::gaudi
