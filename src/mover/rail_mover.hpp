// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "endpoint/oldest_watch.hpp"
#include "endpoint/remote_region_state.hpp"
#include "mover/mover.hpp"
#include "transport/verbs/lane.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

class RailMover;
struct EndpointState;
struct Rail;
struct TransferState;
struct WorkerNic;

/// A range of a transfer's bytes.
struct RailPart {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// A part that a rail carries: a WRITE and the READ of its last byte, or a READ. Each request is
/// signaled.
struct RailPiece {
  Rail* rail = nullptr;
  TransferState* transfer = nullptr;  // null: no request of it is under way
  RailPart part;
  std::uint32_t requests = 0;  // requests that have not completed
  bool failed = false;
};

/// A lane on a further NIC, which carries only pieces.
struct Rail {
  static constexpr std::uint32_t kPieces = 4;  // under way at a time: while one is being sent the
                                               // others are queued at the NIC

  Rail(RailMover& mover_of, WorkerNic& nic_of, std::chrono::nanoseconds step) noexcept
      : mover(&mover_of), nic(nic_of), watch(step) {}

  /// Whether the rail can move no more bytes, at either end.
  [[nodiscard]] bool settled() const noexcept { return closed && outstanding == 0 && peer_closed; }

  RailMover* mover;
  WorkerNic& nic;
  std::unique_ptr<transport::VerbsLane> lane;
  ConnectionAddress remote;
  std::uint8_t index = 0;                 // its index in EndpointOffer::rails, from 1 on
  bool closed = false;                    // in ERROR, or destroyed: taken out for good
  bool cut = false;                       // its queue pair is destroyed
  bool peer_closed = false;               // the peer has closed its end
  bool heard_down = false;                // wire::RailDown has come
  bool must_answer = false;               // the peer waits for wire::RailClosed
  std::array<RailPiece, kPieces> pieces;  // a ring: a lane completes requests in their order
  std::uint32_t head = 0;                 // pieces ever posted
  std::uint32_t outstanding = 0;          // of these, pieces that are not over
  // Parts that it failed to carry: those under way, and one that it did not take.
  std::array<RailPart, kPieces + 1> again{};
  std::uint32_t again_count = 0;
  OldestWatch watch;
  std::chrono::steady_clock::time_point closed_at{};
};

/// The state of a transfer by rails, beside its TransferState. Index 0 is the endpoint's
/// own lane.
struct RailUse {
  std::array<std::uint64_t, wire::kMostRails> bytes{};  // bytes that each rail carried
  std::array<std::uint32_t, wire::kMostRails> remote_keys{};
  std::array<std::uint8_t, wire::kMostRails> order{};  // the order in which they are asked
  std::uint8_t rails = 0;                              // the rails that may carry it, as bits
  std::uint8_t flushed = 0;                            // how many of them flush_next() has looked
                                                       // at
};

/// Adds a rail on `nic` at `address` to this end's offer.
void offer_rail(wire::EndpointOffer& own, const WorkerState& worker, const WorkerNic& nic,
                const ConnectionAddress& address);

/// Notes the key by which the rail `index`, from 1 on, reaches the region: the key of the NIC at
/// `remote`, the peer's end of the rail.
void set_rail_key(RemoteRegionState& region, const RemoteKey& key, const ConnectionAddress& remote,
                  std::size_t index);

/// Carries large puts and gets of one endpoint by several NICs. Like the other movers, it works at
/// the head of the endpoint's queue, and begins when earlier requests of the endpoint's NIC are
/// over. It cuts the transfer into pieces. The rail with the least under way takes the next piece,
/// so that a faster rail carries more. A rail that fails is taken out at both ends, for the
/// endpoint's life. Only when both ends have done that are its pieces sent again, by the other
/// rails (docs/adr/0024).
///
/// A piece that a further NIC has is a part of the transfer (TransferState::parts), and its
/// endpoint counts it as `moving`.
class RailMover final : public Mover {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::uint64_t kMostPieceBytes = std::uint64_t{1} << 20U;

  explicit RailMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  ~RailMover() override;

  /// Makes lanes on `nics`, the endpoint's further NICs. Null: there are none, or none is wanted. A
  /// lane that cannot be made is logged. Errors: as verbs::port_entries(), since a link option that
  /// not all NICs can keep is a mistake of the program, and no failure.
  static Result<std::unique_ptr<RailMover>> create(EndpointState& endpoint,
                                                   std::span<WorkerNic* const> nics);

  // --- connecting (rail_mover.cpp)

  void offer(wire::EndpointOffer& own) const;

  /// Wires up as many rails as the peer has, too. False: no rail is left.
  bool connect(const wire::EndpointOffer& theirs);

  [[nodiscard]] std::span<const std::unique_ptr<Rail>> rails() const noexcept { return rails_; }

  /// Notes the keys of the further NICs by which the peer's memory is reached.
  void set_keys(RemoteRegionState& region, const RemoteKey& key) const;

  // --- transfers (rail_mover_datapath.cpp)

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;

  [[nodiscard]] std::uint64_t asked_from() const noexcept override { return from_bytes_; }

  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;
  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;

  /// Flushes the bytes that the next NIC has brought.
  bool flush_next(TransferState& transfer) noexcept override;

  void on_completion(RailPiece& piece, const transport::Completion& completion) noexcept;

  // --- the end of rails (rail_mover.cpp)

  /// The peer has taken a rail out. False: there is no rail with that index, or the peer did so
  /// before.
  bool on_down(std::uint8_t index) noexcept;

  /// The peer has closed a rail that was taken out here. A message that no rail waits for is
  /// dropped.
  void on_closed(std::uint8_t index) noexcept;

  /// Puts all rails into ERROR, since the endpoint ends.
  void close() noexcept;

  /// Destroys their queue pairs: no request completes any more.
  void cut() noexcept;

  void look_after(Clock::time_point at) noexcept;
  void on_lost(const transport::CompletionQueue& queue) noexcept;

 private:
  using Order = std::array<std::uint8_t, wire::kMostRails>;

  /// A piece on the endpoint's own lane.
  struct OwnPiece {
    std::uint32_t slot = 0;  // its place in the send queue
    std::uint64_t length_bytes = 0;
  };

  [[nodiscard]] std::uint8_t rails_of(const RegionState& local,
                                      const RemoteRegionState& there) const noexcept;
  [[nodiscard]] Order order_for(const std::string& pci_address) noexcept;
  void begin(TransferState& transfer) noexcept;
  void take_own_completions() noexcept;
  [[nodiscard]] bool idle() const noexcept;
  [[nodiscard]] bool must_begin_again(const TransferState& transfer) const noexcept;
  void begin_again(TransferState& transfer) noexcept;
  [[nodiscard]] std::uint32_t least_loaded(const RailUse& use) const noexcept;
  [[nodiscard]] std::optional<RailPart> next_part(const TransferState& transfer) noexcept;
  bool post_next(TransferState& transfer) noexcept;
  void post_own(TransferState& transfer, const RailPart& part) noexcept;
  void post(Rail& rail, TransferState& transfer, const RailPart& part) noexcept;
  TransferState& release(RailPiece& piece) noexcept;
  void settle(RailPiece& piece) noexcept;
  void on_failed(RailPiece& piece, const transport::Completion& completion) noexcept;
  void lose(Rail& rail, const Error& why, TransferState* culprit) noexcept;
  void cut(Rail& rail) noexcept;
  void close(Rail& rail) noexcept;
  void answer(Rail& rail) noexcept;
  [[nodiscard]] Rail* at(std::uint8_t index) const noexcept;

  EndpointState& endpoint_;
  std::uint64_t from_bytes_ = 0;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::map<std::string, Order, std::less<>> orders_;  // by the PCI address of the device whose
                                                      // memory is carried

  // The transfer under way, and its progress.
  const TransferState* job_ = nullptr;
  std::uint32_t before_ = 0;  // place in the send queue: it waits for requests before it
  std::uint64_t piece_bytes_ = 0;
  std::uint64_t begun_bytes_ = 0;
  std::array<OwnPiece, Rail::kPieces> own_{};
  std::uint32_t own_head_ = 0;   // pieces ever posted on the endpoint's own lane
  std::uint32_t own_count_ = 0;  // of these, pieces that are not over
};

}  // namespace hbmwire::detail
