// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

enum Arming : std::uint32_t { kNotArmed = 0, kArmedForSolicited = 1, kArmedForAny = 2 };

/// Index of a new CQ of `depth` entries, or 0 with errno.
std::uint32_t claim_cq(Process& process, std::uint32_t depth, std::uint64_t cookie,
                       std::uint64_t channel, std::uint64_t async_channel);

/// Gives a CQ another depth, with the entries that wait in it. 0, or an errno, and it is as it was:
/// EINVAL when they would not fit, ENOMEM when the heap is full, EBUSY when it is not to be had.
int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth);

/// Takes a CQ that no QP uses any more out of service; events may no longer come from it. False: it
/// is not to be had now.
[[nodiscard]] bool stop_cq(Process& process, std::uint32_t index);
void release_cq(Process& process, std::uint32_t index);

/// Holds CqRecord::mutex, or not (Hold). What a holder that died left half done is ended first.
class [[nodiscard]] CqHold : public Hold {
 public:
  CqHold(Process& process, CqRecord& cq);
};

/// Appends an entry and wakes whoever armed the CQ. False: the CQ has just overrun, and overrun()
/// below is due as soon as the caller holds no queue lock. An entry that can't be appended now, as
/// a process was stopped with the CQ's lock, is owed by this process.
[[nodiscard]] bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// The same for the completion of a receive, which is consumed with it: the oldest of the QP's own
/// queue, with QpRecord::queue held, or the one it has taken of an SRQ. Nothing happens when there
/// is none: another has flushed it.
[[nodiscard]] bool push_receive(Process& process, std::uint32_t index, QpRecord& qp,
                                const Cqe& entry, bool solicited);

/// Something is going to be pushed: has the place fetched for it.
void prefetch_push(Process& process, std::uint32_t index);

/// A CQ overran: IBV_EVENT_CQ_ERR, and every QP that reports to it goes to ERR with
/// IBV_EVENT_QP_FATAL.
void overrun(Process& process, std::uint32_t index);

/// push() and, where it comes to that, overrun(). No queue lock is held.
void complete(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// Takes the oldest entry. Frees the send slots that it stands for. CqRecord::reading is held, and
/// CqRecord::mutex where CqRecord::ignores_overrun says so.
bool take(Process& process, CqRecord& cq, Cqe& entry);

void arm(Process& process, std::uint32_t index, Arming arming);

/// Removes what a QP left in a CQ: its number may come again.
void purge(Process& process, std::uint32_t index, std::uint32_t qpn);

}  // namespace hbmwire::emulation::nic
