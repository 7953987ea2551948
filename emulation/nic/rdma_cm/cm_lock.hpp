// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "emulation/nic/rdma_cm/tables.hpp"
#include "emulation/nic/state/process.hpp"

/// Claiming, releasing and walking the records of CmTables.
namespace hbmwire::emulation::nic {

inline CmTables& tables_of(const Process& process) { return process.shared().cm; }

/// Holds CmTables::mutex, or not (Hold). A holder that died half way left `busy` set; the next one
/// puts the tables in order first.
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

/// A step of one end of a connection and of the other, with at most one event. A process that dies
/// within has not taken it, so that what becomes of the dead one's end is told to the other one.
class [[nodiscard]] CmWholeStep {
 public:
  /// `other` may be null. CmLock is held, and no other step under way.
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

/// An id of this process, zeroed but for its generation. 0: the table is full.
std::uint32_t claim_id(CmTables& tables, std::uint32_t owner);
void release_id(CmTables& tables, std::uint32_t index);

/// The id's events go to that channel from now on.
void set_channel(CmTables& tables, CmId& id, std::uint32_t channel);

/// The id listens from now on, or no more.
void set_listening(CmTables& tables, std::uint32_t index, bool listens);

inline std::uint32_t index_of(const CmTables& tables, const CmId& id) {
  return static_cast<std::uint32_t>(&id - tables.ids);
}

/// The id that a reference means, or null when it is gone.
CmId* find(CmTables& tables, const CmReference& reference);

inline CmReference refer_to(const CmTables& tables, const CmId& id) {
  return {index_of(tables, id), id.generation};
}

}  // namespace hbmwire::emulation::nic
