// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/robust_mutex.hpp"
#include "emulation/common/share_handle.hpp"

namespace hbmwire::emulation {

// The layout of a GPU's `state`, shared by every process of the node. Zeroed memory is an empty
// one. It has only slots. The last store into a slot takes it, and a single store frees it. So a
// process that is killed half way leaves the state consistent.

/// A process. The start time distinguishes it from a later process with the same number.
struct ProcessId {
  std::int32_t pid;
  std::uint32_t started;

  bool operator==(const ProcessId&) const = default;
};

/// An allocated range of the GPU's memory.
struct RangeSlot {
  std::uint32_t live;
  std::uint32_t given_back;  // its owner has freed it; only exports and attachments keep it
  ProcessId owner;
  ExportSegment range;
};

/// A range of an export. An export of several ranges has as many slots.
struct ExportSlot {
  std::uint32_t live;
  std::int32_t watch;    // of the exporter's DeletionWatch
  ProcessId owner;       ///< the exporter
  std::uint64_t device;  // of the memfd
  std::uint64_t inode;
  ExportSegment range;
};

/// A range that its owner shares with other processes.
struct ShareSlot {
  std::uint32_t live;
  std::uint32_t zero;
  ProcessId owner;
  ShareKey key;
  ExportSegment range;
};

/// A range that a process has attached. It is kept for that process even if its owner frees it.
struct AttachmentSlot {
  std::uint32_t live;
  std::uint32_t zero;
  ProcessId owner;  ///< the process that has attached it
  ExportSegment range;
};

struct GpuMemoryState {
  RobustMutex mutex;
  // Slots from these on were never used.
  std::uint32_t range_end;
  std::uint32_t export_end;
  std::uint32_t share_end;
  std::uint32_t attachment_end;
  // More than there are granules in the largest GPU.
  std::array<RangeSlot, 100'000> ranges;
  std::array<ExportSlot, 200'000> exports;
  // More than the handles that a node's processes may have open.
  std::array<ShareSlot, 50'000> shares;
  std::array<AttachmentSlot, 50'000> attachments;
};

}  // namespace hbmwire::emulation
