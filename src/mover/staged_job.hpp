// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "registration/exports.hpp"
#include "transport/lane.hpp"
#include "transport/staged/piece_pool.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;

/// A transfer of device memory that no NIC of this end reaches, through pieces of host memory
/// (bounce buffers). The device's engine copies between the device and one piece, while the NIC, or
/// the peer's process, moves other pieces to or from the peer's memory.
class StagedJob {
 public:
  /// Which side moves bytes between pieces and the peer's memory, and for which transfer.
  enum class Kind : std::uint8_t {
    nic,     ///< this end's NIC, for a transfer of the application
    asks,    ///< the peer's process, since the peer's memory is staged, too
    serves,  ///< this end's NIC, for a request of the peer to our exported memory; no NIC at all if
             ///< the peer's piece is mapped here
  };

  StagedJob(Kind kind, EndpointState& endpoint, TransferState* transfer,
            const transport::Operation& whole, transport::PiecePool& pool);

  /// Does whatever can be done now. True: nothing of the job is under way, and nothing more will
  /// be.
  bool advance() noexcept;

  /// The peer has answered about a piece. False: it was not asked for that piece.
  bool on_proxied(const wire::MessageHeader& answer) noexcept;

  /// Waits for the engine, and gives all pieces back.
  void stop() noexcept;

  // The bytes to move. `whole.local` is the device's memory, even if a NIC cannot reach it.
  const Kind kind;
  EndpointState& endpoint;
  TransferState* const transfer;     // null: the job serves the peer
  const transport::Operation whole;  // a WRITE out of this memory, or a READ into it
  std::optional<Allocation> memory;  // keeps the domain, even if the region goes
  std::uint64_t token = 0;           // names the exported memory: the peer's if the job asks, our
                                     // own if it serves
  std::uint32_t id = 0;              // if it serves: the peer's id for the answer
  std::byte* mapped = nullptr;       // if it serves: the peer's memory, if this process has mapped
                                     // it

  std::optional<Error> error;
  bool denied = false;  // by the key of this end's memory, or of the peer's

 private:
  struct Piece {
    enum class State : std::uint8_t {
      copying,  ///< the engine has it
      ready,    ///< copied out of the device, and not handed on yet
      away,     ///< with the NIC, or the peer's process
      moved,    ///< neither engine nor NIC touches it any more
    };
    State state = State::copying;
    std::byte* memory = nullptr;
    std::uint64_t offset_bytes = 0;  // of the transfer
    std::uint64_t length_bytes = 0;
    std::uint32_t slot = 0;  // its place in the send queue, if the NIC has or had it
    std::uint32_t id = 0;    // as ProxiedMover::ask() gave it, if the peer's process has the piece
    PendingCopy copy = {};
    std::unique_ptr<ExportHold> hold = {};  // for exported memory: it has the copy
  };

  /// Whether bytes go from this end's device to the peer.
  [[nodiscard]] bool out() const noexcept { return whole.opcode != transport::Opcode::read; }

  [[nodiscard]] bool all_begun() const noexcept { return begun_bytes_ == whole.length; }

  [[nodiscard]] bool goes_on() const noexcept;
  [[nodiscard]] bool is_over(const Piece& piece) const noexcept;
  [[nodiscard]] transport::Operation part_of(const Piece& piece) const noexcept;
  void take_completions() noexcept;
  void ask_engine() noexcept;
  void post_ready() noexcept;
  void start_pieces() noexcept;
  [[nodiscard]] Piece next_piece() noexcept;
  bool start_piece(Piece& piece) noexcept;
  void start_copy(Piece& piece) noexcept;
  void start_exported_copy(Piece& piece) noexcept;
  bool hand_on(Piece& piece) noexcept;
  void drop_pieces() noexcept;
  void give_back(const Piece& piece) noexcept;
  void fail_with(const Error& why) noexcept;

  transport::PiecePool& pool_;
  std::uint64_t begun_bytes_ = 0;
  std::optional<unsigned> posted_in_;  // the call of WorkerState::progress() that posted last
  std::vector<Piece> pieces_;          // in their order; the vector never grows beyond its first
                                       // capacity
};

}  // namespace hbmwire::detail
