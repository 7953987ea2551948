// SPDX-License-Identifier: MIT
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/blocks.hpp"

#include "endpoint/block_tables.hpp"
#include "mover/mover.hpp"

namespace hbmwire::detail {

/// A program's arguments of Endpoint::put_blocks() or get_blocks().
struct BlockPairs {
  const BlockTableState* here = nullptr;
  const RemoteBlockTableState* there = nullptr;
  BlockNumbers here_numbers = {};
  BlockNumbers there_numbers = {};
  bool gets = false;
};

/// Pairs that lie side by side at both ends, as offsets in the areas that a BlockRun is in.
struct BlockPiece {
  std::uint64_t here_bytes = 0;
  std::uint64_t there_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// How far a transfer of blocks is. A worker keeps one for each of its transfers.
struct BlockRun {
  [[nodiscard]] bool all_begun() const noexcept { return next == pairs.here_numbers.size; }

  /// Takes the next pair and what lies behind it at both ends, `most` blocks at most.
  BlockPiece take(std::uint64_t most) noexcept;
  [[nodiscard]] std::uint64_t side_by_side(std::uint64_t pair, std::uint64_t i, std::uint64_t j,
                                           std::uint64_t most) const noexcept;
  template <class Chain>
  std::uint32_t aim(Chain& chain, std::uint32_t count, std::uint32_t all,
                    std::uint64_t most) noexcept;

  BlockPairs pairs = {};
  std::uint64_t next = 0;  // the first pair that is not begun

  // The areas of the pair that was looked at last, and how requests get there.
  const BlockAreas<Region>::Area* here = nullptr;
  const BlockAreas<RemoteRegion>::Area* there = nullptr;
  bool plain = false;   // by requests of the endpoint's lane
  bool shared = false;  // by this CPU, between host memories of two processes
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t local = 0;  // the address of the area
  std::uint64_t remote = 0;

  TransferState* part = nullptr;  // not all of it is begun
  std::size_t behind = 0;         // areas that were read behind the bytes, or flushed
  std::bitset<256> written = {};  // areas that are to be read behind the bytes; more share a bit
  bool by_parts = false;          // a part was begun, ever
  bool failed = false;            // alone: no more is begun
  bool visible = false;
};

/// The many blocks of one transfer. Those that the endpoint's lane reaches go by chains of its
/// requests, those between host memories of two processes of a node are copied here. Each piece of
/// the others is a part: a put or get of the library's own, which the mover drives here that would
/// drive the program's.
class BlockMover final : public Mover {
 public:
  explicit BlockMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  /// Errors: as Endpoint::put_blocks() and get_blocks().
  Result<Transfer> move(const BlockPairs& pairs, const PutOptions& put_options);

  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  void abandon(TransferState& transfer) noexcept override;
  bool flush_next(TransferState& transfer) noexcept override;
  std::size_t progress() noexcept override;
  void drain(const Error& why) noexcept override;

  /// A part of `whole` is over that went by `route`; `why`: it has failed.
  void end_part(TransferState& whole, const Route& route, const Error* why) noexcept;

 private:
  void make_chain();

  /// The NIC's key to an area of a device's, which is flushed behind a get; none: it need not be.
  [[nodiscard]] std::optional<std::uint32_t> flush_key(
      const BlockAreas<Region>::Area& area) const noexcept;

  /// Errors: what of the pairs no path could carry.
  [[nodiscard]] Result<void> check(const BlockPairs& pairs, bool visible) const;
  bool begin_next(TransferState& whole, BlockRun& run) noexcept;
  bool enter(TransferState& whole, BlockRun& run) noexcept;
  bool enter_plain(TransferState& whole, BlockRun& run, const Slice& here,
                   const RemoteRegionState& distant) noexcept;
  static void take_route(TransferState& whole, const Route& route) noexcept;
  bool post_chain(TransferState& whole, BlockRun& run) noexcept;
  bool copy_shared(TransferState& whole, BlockRun& run) noexcept;
  bool poll_on() noexcept;
  void poll_no_more() noexcept;
  bool begin_part(TransferState& whole, BlockRun& run) noexcept;
  Result<void> start_part(TransferState& part, const BlockRun& run, const Move& move);
  bool advance_part(BlockRun& run) noexcept;
  bool post_behind(TransferState& whole, BlockRun& run) noexcept;
  void fail_alone(TransferState& whole, const Error& why) noexcept;

  /// An endpoint has no more under way: movers that finish one before they take the next gain
  /// nothing by it.
  static constexpr std::uint32_t kMostParts = 2;

  EndpointState& endpoint_;
  std::uint32_t parts_ = 0;                          // that are not over
  std::unique_ptr<transport::PreparedChain> chain_;  // of all transfers; null: there was none
  std::uint32_t chain_requests_ = 0;
  bool advancing_ = false;
  bool polled_ = false;  // among WorkerState::at_engines, as there is more to be copied
};

}  // namespace hbmwire::detail
