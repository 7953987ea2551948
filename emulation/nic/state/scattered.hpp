// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "emulation/nic/state/process.hpp"

/// `--like-hardware=scatter`. mlx5 leaves the bytes of a small message in the completion queue's
/// entry; ibv_poll_cq copies them to the addresses of the elements, as addresses of its process.
/// (In rdma-core, providers/mlx5: handle_responder and mlx5_copy_to_recv_wqe in cq.c and qp.c; in
/// Linux configure_requester_scat_cqe in drivers/infiniband/hw/mlx5/qp.c.) It does so for
///   receives of RC and UC queue pairs, from a shared receive queue too;
///   what READs and atomics of RC queue pairs fetch, if all their requests are signaled;
/// up to 32 bytes with entries of 64, unless MLX5_SCATTER_TO_CQE=0 when the queue pair is made.
namespace hbmwire::emulation::nic {

/// The environment's word, now.
bool scatters_by_environment();

/// Whose completion a message is to stay in.
struct Scatterer {
  std::uint32_t slot;  // of the process that will poll it
  std::uint32_t qpn;
};

/// Index of a record for `bytes` bytes that will go to `elements`; 0 when all are taken: the NIC
/// then writes to memory.
std::uint32_t claim_scattered(Process& process, const Scatterer& of, std::uint64_t bytes,
                              std::span<const ibv_sge> elements);
void release_scattered(Process& process, std::uint32_t index);

/// What polling does with an entry's message, if it has one.
void place_scattered_message(Process& process, const Cqe& entry);

inline void place_scattered(Process& process, const Cqe& entry) {
  if (entry.scattered() != 0) [[unlikely]]
    place_scattered_message(process, entry);
}

/// What was left in completions of the process in `slot`: in those of one QP, or with 0 of all.
void release_scattered_of(SharedState& shared, const Scatterer& of);

}  // namespace hbmwire::emulation::nic
