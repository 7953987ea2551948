// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "emulation/nic/state/process.hpp"

/// `--like-hardware=scatter`. mlx5 leaves the bytes of a small message in the completion queue
/// entry. ibv_poll_cq() copies them to the elements' addresses, which it takes as addresses of the
/// polling process. (In rdma-core, providers/mlx5: handle_responder and mlx5_copy_to_recv_wqe in
/// cq.c and qp.c; in Linux configure_requester_scat_cqe in drivers/infiniband/hw/mlx5/qp.c.) It
/// does so for messages of up to 32 bytes, with entries of 64 bytes, unless MLX5_SCATTER_TO_CQE=0
/// is set when the queue pair is made:
/// - receives of RC and UC queue pairs, also from a shared receive queue;
/// - data fetched by READs and atomics of RC queue pairs, if all their requests are signaled.
namespace hbmwire::emulation::nic {

/// Whether the environment, as it is now, allows it.
bool scatters_by_environment();

/// The queue pair whose completion keeps the message.
struct Scatterer {
  std::uint32_t slot;  // of the process that will poll it
  std::uint32_t qpn;
};

/// Takes a record for `bytes` bytes that go to `elements`. Returns its index, or 0 if all are
/// taken: the NIC writes to memory then.
std::uint32_t claim_scattered(Process& process, const Scatterer& of, std::uint64_t bytes,
                              std::span<const ibv_sge> elements);
void release_scattered(Process& process, std::uint32_t index);

/// Copies an entry's message to memory when the entry is polled, if the entry has one.
void place_scattered_message(Process& process, const Cqe& entry);

inline void place_scattered(Process& process, const Cqe& entry) {
  if (entry.scattered() != 0) [[unlikely]]
    place_scattered_message(process, entry);
}

/// Frees the messages left in completions of the process `of.slot`: those of the QP `of.qpn`, or
/// all if that is 0.
void release_scattered_of(SharedState& shared, const Scatterer& of);

}  // namespace hbmwire::emulation::nic
