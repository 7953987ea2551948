// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "emulation/nic/rdma_cm/tables.hpp"
#include "emulation/nic/state/process.hpp"

/// Locking CmTables, and claiming, releasing and finding its records.
namespace hbmwire::emulation::nic {

inline CmTables& tables_of(const Process& process) { return process.shared().cm; }

/// Holds CmTables::mutex, as Hold does. If the last holder died half way, `busy` is still set, and
/// the tables are repaired first.
class [[nodiscard]] CmLock {
 public:
  explicit CmLock(Process& process);
  CmLock(const CmLock&) = delete;
  CmLock& operator=(const CmLock&) = delete;
  CmLock(CmLock&&) = delete;
  CmLock& operator=(CmLock&&) = delete;
  ~CmLock();

  [[nodiscard]] bool held() const noexcept { return hold_.held(); }

 private:
  CmTables& tables_;
  Hold hold_;
};

/// A step that changes one or both ends of a connection, with at most one event. If the process
/// dies within the step, the next holder undoes it, so the other end is still told that the dead
/// one's end is gone.
class [[nodiscard]] CmWholeStep {
 public:
  /// `other` may be null. CmLock is held, and no other step is under way.
  CmWholeStep(Process& process, const CmId& one, const CmId* other);
  CmWholeStep(const CmWholeStep&) = delete;
  CmWholeStep& operator=(const CmWholeStep&) = delete;
  CmWholeStep(CmWholeStep&&) = delete;
  CmWholeStep& operator=(CmWholeStep&&) = delete;
  ~CmWholeStep();

 private:
  Process& process_;
  CmStep& step_;
};

/// Takes an id for the process in slot `owner`; it is zeroed except for its generation. Returns 0
/// if the table is full.
std::uint32_t claim_id(CmTables& tables, std::uint32_t owner);
void release_id(CmTables& tables, std::uint32_t index);

/// Sends the id's events to that channel from now on.
void set_channel(CmTables& tables, CmId& id, std::uint32_t channel);

/// Says whether the id listens.
void set_listening(CmTables& tables, std::uint32_t index, bool listens);

inline std::uint32_t index_of(const CmTables& tables, const CmId& id) {
  return static_cast<std::uint32_t>(&id - tables.ids);
}

/// The id that a reference means, or null if it is gone.
CmId* find(CmTables& tables, const CmReference& reference);

inline CmReference refer_to(const CmTables& tables, const CmId& id) {
  return {index_of(tables, id), id.generation};
}

}  // namespace hbmwire::emulation::nic
