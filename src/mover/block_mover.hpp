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

/// The arguments of Endpoint::put_blocks() or get_blocks().
struct BlockPairs {
  const BlockTableState* here = nullptr;
  const RemoteBlockTableState* there = nullptr;
  BlockNumbers here_numbers = {};
  BlockNumbers there_numbers = {};
  bool gets = false;
};

/// Pairs of blocks that lie side by side at both ends. Offsets count from the areas of the
/// BlockRun.
struct BlockPiece {
  std::uint64_t here_bytes = 0;
  std::uint64_t there_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// The progress of a transfer of blocks. A worker keeps one for each of its transfers.
struct BlockRun {
  [[nodiscard]] bool all_begun() const noexcept { return next == pairs.here_numbers.size; }

  /// Takes the next pair, and following pairs that lie side by side with it at both ends: `most`
  /// blocks at most.
  BlockPiece take(std::uint64_t most) noexcept;
  [[nodiscard]] std::uint64_t side_by_side(std::uint64_t pair, std::uint64_t i, std::uint64_t j,
                                           std::uint64_t most) const noexcept;
  template <class Chain>
  std::uint32_t aim(Chain& chain, std::uint32_t count, std::uint32_t all,
                    std::uint64_t most) noexcept;

  BlockPairs pairs = {};
  std::uint64_t next = 0;  // the first pair that has not begun

  // The areas of the last pair, and how requests reach them.
  const BlockAreas<Region>::Area* here = nullptr;
  const BlockAreas<RemoteRegion>::Area* there = nullptr;
  bool plain = false;   // requests of the endpoint's lane carry the blocks
  bool shared = false;  // this CPU copies them, between host memories of two processes
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t local = 0;  // the address of the area
  std::uint64_t remote = 0;

  TransferState* part = nullptr;  // a part that has not begun completely
  std::size_t behind = 0;         // areas that were read after the bytes, or flushed
  std::bitset<256> written = {};  // areas to be read after the bytes; from 256 areas on several
                                  // share a bit
  bool by_parts = false;          // a part was begun at some time
  bool failed = false;            // has failed alone: no more is begun
  bool visible = false;
};

/// Carries the many blocks of one transfer. Blocks that the endpoint's lane reaches go by chains of
/// its requests. Blocks between host memories of two processes of a node are copied here. Any other
/// piece is a part: a put or get of the library's own, driven by the mover that would drive the
/// same put or get of a program.
class BlockMover final : public Mover {
 public:
  explicit BlockMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  /// Starts a transfer. Errors: as Endpoint::put_blocks() and get_blocks().
  Result<Transfer> move(const BlockPairs& pairs, const PutOptions& put_options);

  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  void abandon(TransferState& transfer) noexcept override;
  bool flush_next(TransferState& transfer) noexcept override;
  std::size_t progress() noexcept override;
  void drain(const Error& why) noexcept override;

  /// A part of `whole`, which went by `route`, is over. `why`: why it has failed; null: it has
  /// succeeded.
  void end_part(TransferState& whole, const Route& route, const Error* why) noexcept;

 private:
  void make_chain();

  /// The NIC's key to an area of device memory that must be flushed after a get; nothing: no flush
  /// is needed.
  [[nodiscard]] std::optional<std::uint32_t> flush_key(
      const BlockAreas<Region>::Area& area) const noexcept;

  /// Errors: the pairs are invalid, or some of them have no path.
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

  /// The most parts that an endpoint has under way. More would gain nothing, since movers finish
  /// one part before they take the next.
  static constexpr std::uint32_t kMostParts = 2;

  EndpointState& endpoint_;
  std::uint32_t parts_ = 0;                          // parts that are not over
  std::unique_ptr<transport::PreparedChain> chain_;  // shared by all transfers; null: there was
                                                     // none yet
  std::uint32_t chain_requests_ = 0;
  bool advancing_ = false;
  bool polled_ = false;  // listed in WorkerState::at_engines, since more is to be copied
};

}  // namespace hbmwire::detail
