// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/multicast.hpp"

#include <algorithm>
#include <cerrno>

#include "emulation/nic/state/allocation.hpp"

namespace hbmwire::emulation::nic {
namespace {

bool is_attached_to(const MulticastRecord& record, const Destination& group) {
  return record.lid == group.lid && record.group == group.gid;
}

/// The record of an attachment, or null. Header::allocation is held.
MulticastRecord* find(SharedState& shared, std::uint32_t qpn, const Destination& group) {
  const auto records = touched(shared.multicasts, shared.header.next_multicast);
  const auto found = std::find_if(records.begin(), records.end(), [&](const MulticastRecord& one) {
    return one.qpn.load() == qpn && is_attached_to(one, group);
  });
  return found == records.end() ? nullptr : &*found;
}

/// Attachments of a QP that is gone, with its process, stay in the table and are free.
bool is_free(SharedState& shared, const MulticastRecord& record) {
  const std::uint32_t qpn = record.qpn.load();
  return qpn == 0 || shared.qps[qp_index(qpn)].qpn.load() != qpn;
}

}  // namespace

int attach_multicast(Process& process, std::uint32_t qpn, const Destination& group) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) return EBUSY;
  if (find(shared, qpn, group) != nullptr) return 0;
  for (std::uint32_t index = 0; index < kMaxMulticastAttachments; ++index) {
    MulticastRecord& record = shared.multicasts[index];
    if (!is_free(shared, record)) continue;
    record.qpn.store(0);
    record.lid = group.lid;
    record.group = group.gid;
    shared.header.next_multicast = std::max(shared.header.next_multicast, index + 1);
    record.qpn.store(qpn);
    return 0;
  }
  return ENOMEM;
}

int detach_multicast(Process& process, std::uint32_t qpn, const Destination& group) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) return EBUSY;
  MulticastRecord* record = find(shared, qpn, group);
  if (record == nullptr) return EINVAL;
  record->qpn.store(0);
  return 0;
}

std::optional<std::uint32_t> count_multicast(Process& process, std::uint32_t qpn) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) return std::nullopt;
  const auto records = touched(shared.multicasts, shared.header.next_multicast);
  return static_cast<std::uint32_t>(
      std::count_if(records.begin(), records.end(),
                    [&](const MulticastRecord& one) { return one.qpn.load() == qpn; }));
}

std::vector<std::uint32_t> multicast_members(Process& process, const Destination& group) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  std::vector<std::uint32_t> members;
  if (!guard.held()) return members;
  for (const MulticastRecord& record : touched(shared.multicasts, shared.header.next_multicast)) {
    if (is_attached_to(record, group) && !is_free(shared, record))
      members.push_back(record.qpn.load());
  }
  return members;
}

}  // namespace hbmwire::emulation::nic
