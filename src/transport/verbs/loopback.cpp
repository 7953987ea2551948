// SPDX-License-Identifier: MIT
#include "transport/verbs/loopback.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "hbmwire/low_level/connection.hpp"

#include "memory/bounce_pipeline.hpp"
#include "memory/host/host_domain.hpp"

namespace hbmwire::transport {

namespace {

using memory::BouncePipeline;

constexpr unsigned kSlots = 4;
// Bytes of a slot: enough to hide the cost of handing a piece over, and few enough for all four
// slots to stay in a shared cache.
constexpr std::uint64_t kPieceBytes = 1ULL << 20;

/// Moves pieces by RDMA, so that the region need not be open to any peer: a READ of the bounce
/// buffer writes into the region, and a WRITE to the bounce buffer reads from it.
class NicMover final : public BouncePipeline::Mover {
 public:
  NicMover(Region region, Region bounce, Connection connection)
      : region_(std::move(region)),
        bounce_(std::move(bounce)),
        connection_(std::move(connection)) {}

  [[nodiscard]] std::uint64_t piece_bytes() const noexcept {
    return std::min(kPieceBytes, connection_.max_message_bytes());
  }

  std::byte* memory(unsigned slot) noexcept override {
    return std::bit_cast<std::byte*>(bounce_.address()) + slot * kPieceBytes;
  }

  Result<void> start(const BouncePipeline::Piece& piece) override {
    RemoteMemory host = bounce_.remote();
    host.address += piece.slot * kPieceBytes;
    host.length_bytes = piece.length_bytes;
    const Slice device{&region_, piece.address, piece.length_bytes};
    return piece.direction == BouncePipeline::Direction::in
               ? connection_.post_read(piece.slot, device, host)
               : connection_.post_write(piece.slot, device, host);
  }

  Result<bool> poll(unsigned slot) override {
    // A failed request also ends all later ones in the queue pair.
    if (failure_) return tl::make_unexpected(*failure_);
    while (true) {
      const auto done = connection_.poll();
      if (!done) {
        failure_ = done.error();
        return tl::make_unexpected(*failure_);
      }
      if (!*done) break;
      moved_.at((*done)->id) = true;
    }
    return std::exchange(moved_.at(slot), false);
  }

  // The bounce buffer may be touched later than this, but only by the queue pair, which goes before
  // it.
  bool settle(unsigned /*slot*/) noexcept override { return true; }

 private:
  Region region_;
  Region bounce_;
  Connection connection_;
  std::array<bool, kSlots> moved_{};
  std::optional<Error> failure_;
};

/// Reads one byte and discards it.
class Flush final : public PendingCopy::Work {
 public:
  Result<void> start(BouncePipeline& pipeline, std::uint64_t offset,
                     std::shared_ptr<const void> keep) {
    HBMWIRE_TRY_ASSIGN(copy_, pipeline.start_out(offset, {&byte_, 1}, std::move(keep)));
    return {};
  }

  Result<bool> poll() override { return copy_.poll(); }

 private:
  std::byte byte_{};
  PendingCopy copy_;  // destroyed before byte_, which it writes
};

}  // namespace

/// The NIC as the pipeline's mover. Declared first, so that it outlives the pipeline.
struct Loopback::State {
  State(Region region, Region bounce, Connection connection)
      : mover(std::move(region), std::move(bounce), std::move(connection)),
        pipeline(mover, kSlots, mover.piece_bytes()) {}

  NicMover mover;
  BouncePipeline pipeline;
};

Loopback::Loopback(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Loopback::Loopback(Loopback&&) noexcept = default;
Loopback& Loopback::operator=(Loopback&&) noexcept = default;
Loopback::~Loopback() = default;

Result<Loopback> Loopback::create(const Nic& nic, const Region& region) {
  HBMWIRE_TRY_ASSIGN(const Allocation allocation,
                     memory::host::make_domain()->allocate(kSlots * kPieceBytes));
  HBMWIRE_TRY_ASSIGN(Region bounce,
                     nic.register_memory(allocation, Access::local_write | Access::remote_write |
                                                         Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Connection connection,
                     Connection::create(nic, {.send_depth = kSlots, .receive_depth = 1}));
  HBMWIRE_TRY(connection.connect(connection.local()));
  return Loopback(std::make_unique<State>(region, std::move(bounce), std::move(connection)));
}

Result<PendingCopy> Loopback::start_copy_in(std::uint64_t offset, std::span<const std::byte> from,
                                            std::shared_ptr<const void> keep) {
  return state_->pipeline.start_in(offset, from, std::move(keep));
}

Result<PendingCopy> Loopback::start_copy_out(std::uint64_t offset, std::span<std::byte> to,
                                             std::shared_ptr<const void> keep) {
  return state_->pipeline.start_out(offset, to, std::move(keep));
}

Result<PendingCopy> Loopback::start_flush(std::uint64_t offset, std::shared_ptr<const void> keep) {
  auto flush = std::make_unique<Flush>();
  HBMWIRE_TRY(flush->start(state_->pipeline, offset, std::move(keep)));
  return PendingCopy(std::move(flush));
}

}  // namespace hbmwire::transport
