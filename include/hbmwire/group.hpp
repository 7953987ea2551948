// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/worker.hpp"

/// Groups: processes that a launcher has started, and how they meet (docs/groups.md).
namespace hbmwire {

namespace detail {
struct GroupState;
struct Internals;
}  // namespace detail

/// How the processes of a group find each other. Options that are left open come from the settings
/// (HBMWIRE_GROUP, HBMWIRE_GROUP_RANK, HBMWIRE_GROUP_SIZE), else from the launcher: PMIx, or the
/// environment of torchrun, Slurm, Open MPI, MPICH, or an indexed job of Kubernetes.
struct GroupOptions {
  /// Where the processes meet: "tcp://host:port" (rank 0 listens there), "pmix", "file:///path" (a
  /// file that all of them see), "etcd://host:port/name" (keys below `name`, with a lease), "env"
  /// (the launcher's environment, without PMIx). Empty: the setting's, else the launcher's.
  std::string meeting = {};

  /// This process' number, 0 to size - 1. Empty: the launcher's. With a file or etcd it may stay
  /// open: ranks are then given in the order in which the processes come.
  std::optional<std::uint32_t> rank = {};

  /// How many processes the group has, 1 to 4,096. Empty: the launcher's.
  std::optional<std::uint32_t> size = {};

  /// The address of this machine that the other ranks connect to, as ListenerOptions::address;
  /// empty: all addresses, of which they take the first that answers.
  std::string address = {};

  /// For the endpoints between ranks. The pre-shared key guards the meeting, too; `hello`,
  /// `retry_connect` and `messages` other than matched are refused.
  EndpointOptions endpoint = {};
};

/// One process of a group.
struct GroupMember {
  std::uint32_t rank = 0;                   ///< 0 to size - 1
  std::string host;                         ///< the name of its machine, gethostname(2)
  std::vector<std::string> addresses = {};  ///< where it accepts endpoints: "host:port"
};

/// How Group::broadcast() moves and checks the bytes.
struct BroadcastOptions {
  /// Bytes that a rank hands on at a time; 4 KiB to 1 GiB.
  std::uint64_t piece_bytes = std::uint64_t{4} << 20U;

  /// Whether each rank compares a digest of its memory, as its device sees it, with the root's.
  bool verify = true;
};

/// The processes that a launcher has started together: each has a rank, exchanges bytes with all
/// others, and gets an endpoint to any of them when it first asks. Every call has a deadline, and
/// its error names the ranks that did not come, or have gone. No collectives library: it starts
/// transfers between many, and does not replace NCCL, RCCL, HCCL or MPI.
///
/// Rank 0 has the meeting point, a thread of the library and a TCP port that the other ranks stay
/// connected to. A rank that ends, or is killed, is noticed there, and all others are told. When
/// rank 0 ends, the whole group ends, and the other ranks are told so.
///
/// Move-only; used by its worker's thread. exchange(), exchange_among_present(), barrier(),
/// broadcast() and rejoin() are called by all ranks, in the same order. Calls that wait drive the
/// worker. In a child by fork(2) each call is refused (Errc::not_supported).
class HBMWIRE_API Group {
 public:
  using PresentBytes = std::vector<std::optional<std::vector<std::byte>>>;

  /// Meets the other ranks: waits until all `size` are there. A process that replaces one that has
  /// ended joins by the same call, when the others call rejoin(). Errors: Stage::configure:
  /// Errc::not_found: nothing says where to meet, or which rank this is (Hint::group_launcher);
  /// Errc::invalid_argument: invalid options. Stage::connect: Errc::timed_out: the ranks that did
  /// not come are the subject; errors of a meeting place that does not answer, with the place as
  /// subject; Errc::permission_denied: the pre-shared keys differ; Errc::busy: another process has
  /// this rank, or the meeting point's port; Errc::protocol: the ranks do not agree on the size;
  /// Errc::cancelled; as Worker::create() and Listener::create().
  static Result<Group> create(const Worker& worker, const Wait& wait,
                              const GroupOptions& options = {});

  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Leaves the group, and closes its endpoints. The other ranks take that for an end of this rank,
  /// unless all ranks leave after the same call.
  ~Group();

  /// The number of this process, 0 to size() - 1.
  [[nodiscard]] std::uint32_t rank() const noexcept;

  /// How many processes the group has.
  [[nodiscard]] std::uint32_t size() const noexcept;

  /// 1 after create() of a new group, and one more after each rejoin().
  [[nodiscard]] std::uint32_t epoch() const noexcept;

  /// The source of rank, size and meeting point: "PMIx", "torchrun's environment" and so on.
  [[nodiscard]] const std::string& launcher() const noexcept;

  /// All ranks of this epoch, in their order.
  [[nodiscard]] const std::vector<GroupMember>& members() const noexcept;

  /// Ranks that are known to have ended since the last create() or rejoin(), or were given up by
  /// exchange_among_present(), in their order. Does not wait.
  [[nodiscard]] std::vector<std::uint32_t> failed();

  /// Gives each rank's bytes to all ranks: element r is what rank r gave, 0 to 1 MiB. Errors:
  /// Errc::peer_failed (Hint::group_rank_gone): ranks that have ended are the subject; they count
  /// as ended until rejoin(). Errc::timed_out: the ranks that did not come are the subject; the
  /// call must not be repeated before rejoin(). Errc::cancelled, likewise; Errc::invalid_argument:
  /// too many bytes.
  Result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine,
                                                       const Wait& wait);

  /// exchange() among the ranks that are there: the element of a rank that has ended is empty. A
  /// rank that has not come when rank 0's `wait` ends is given up, as if it had ended. Errors: rank
  /// 0 has ended (Errc::peer_failed), or does not answer (Errc::timed_out, a second after the
  /// deadline); this rank was given up (Errc::peer_failed).
  Result<PresentBytes> exchange_among_present(std::span<const std::byte> mine, const Wait& wait);

  /// exchange() of nothing.
  Result<void> barrier(const Wait& wait);

  /// The endpoint to another rank, which is made when either of both first asks, and is the same
  /// connection for both. The other rank need only make progress, and call nothing. Valid until the
  /// group goes, rejoin(), or drop_endpoint(). Errors: as Endpoint::connect(), with the rank as
  /// subject; Errc::invalid_argument: no such rank, or this one.
  Result<Endpoint*> endpoint(std::uint32_t rank, const Wait& wait);

  /// Ends the endpoint to a rank, if there is one; the next endpoint() makes another.
  void drop_endpoint(std::uint32_t rank) noexcept;

  /// Brings `root`'s bytes to all ranks. Each rank passes them to the next one piece by piece, so
  /// it takes the time of one transfer and a few pieces. `memory` has the same length at all ranks,
  /// and is registered for Access::remote_write, except at the root. Errors: as exchange(); a rank
  /// that failed, or whose bytes differ (Errc::data_mismatch), is the subject, at every rank.
  Result<void> broadcast(const Slice& memory, std::uint32_t root, const Wait& wait,
                         const BroadcastOptions& options = {});

  /// Meets again, under a new epoch(): those that are left, and processes that replace the others,
  /// which call create(). All endpoints of the group end. Errors: as create(); then all is as
  /// before, and it may be called again.
  Result<void> rejoin(const Wait& wait);

 private:
  friend struct detail::Internals;

  explicit Group(std::unique_ptr<detail::GroupState> state) noexcept;

  std::unique_ptr<detail::GroupState> state_;
};

}  // namespace hbmwire
