// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/robust_mutex.hpp"
#include "emulation/common/share_handle.hpp"

namespace hbmwire::emulation {

// The layout of a GPU's `state`, shared by every process of the node. Zeroed memory is an empty
// one. There are only slots, each taken by the last store into it and given back by one, so that a
// process that is killed half-way leaves nothing that another one could trip over.

/// A process, told from a later one of the same number.
struct ProcessId {
  std::int32_t pid;
  std::uint32_t started;

  bool operator==(const ProcessId&) const = default;
};

struct RangeSlot {
  std::uint32_t live;
  std::uint32_t given_back;  // only exports keep it
  ProcessId owner;
  ExportSegment range;
};

/// One range of an export; an export of several ranges has as many slots.
struct ExportSlot {
  std::uint32_t live;
  std::int32_t watch;    // of the exporter's DeletionWatch
  ProcessId owner;       ///< who has exported it
  std::uint64_t device;  // of the memfd
  std::uint64_t inode;
  ExportSegment range;
};

/// What its owner lets other processes attach.
struct ShareSlot {
  std::uint32_t live;
  std::uint32_t zero;
  ProcessId owner;
  ShareKey key;
  ExportSegment range;
};

/// What a process has attached: kept for it, whatever the range's owner does.
struct AttachmentSlot {
  std::uint32_t live;
  std::uint32_t zero;
  ProcessId owner;  ///< who has attached it
  ExportSegment range;
};

struct GpuMemoryState {
  RobustMutex mutex;
  // Slots from these on were never used.
  std::uint32_t range_end;
  std::uint32_t export_end;
  std::uint32_t share_end;
  std::uint32_t attachment_end;
  // More than granules fit into the largest GPU.
  std::array<RangeSlot, 100'000> ranges;
  std::array<ExportSlot, 200'000> exports;
  // As many as a node's processes may have open handles, and some.
  std::array<ShareSlot, 50'000> shares;
  std::array<AttachmentSlot, 50'000> attachments;
};

}  // namespace hbmwire::emulation
