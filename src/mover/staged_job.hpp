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

/// A transfer of device memory that no NIC of this end reaches, through pieces of host memory: the
/// device's engine moves between the device and a piece while other pieces and the peer's memory
/// are the NIC's, or the peer's process'.
class StagedJob {
 public:
  /// Who moves between pieces and the peer's memory, and for whom.
  enum class Kind : std::uint8_t {
    nic,     ///< this end's NIC, for a transfer of the application's
    asks,    ///< the peer's process, which no NIC spares: its memory is staged, too
    serves,  ///< this end's NIC, for the peer that asked for it: our memory was exported to it;
             ///< nobody, where the peer's piece is mapped here
  };

  StagedJob(Kind kind, EndpointState& endpoint, TransferState* transfer,
            const transport::Operation& whole, transport::PiecePool& pool);

  /// Does what can be done now. True: nothing of it is under way, and nothing more will be.
  bool advance() noexcept;

  /// The peer's word of a piece. False: it was not asked for that one.
  bool on_proxied(const wire::MessageHeader& answer) noexcept;

  /// Waits for the engine, and gives all pieces back.
  void stop() noexcept;

  // What is to be moved. `whole.local` is the device's memory, whatever its NIC says.
  const Kind kind;
  EndpointState& endpoint;
  TransferState* const transfer;     // null: it serves
  const transport::Operation whole;  // a WRITE out of this memory, or a READ into it
  std::optional<Allocation> memory;  // keeps the domain, whatever becomes of the region
  std::uint64_t token = 0;           // of who asks: the peer's; of who serves: our own
  std::uint32_t id = 0;              // of who serves: the peer's, to be answered
  std::byte* mapped = nullptr;       // of who serves: the peer's memory, if this process has it

  std::optional<Error> error;
  bool denied = false;  // by the key, of this end's memory or the peer's

 private:
  struct Piece {
    enum class State : std::uint8_t {
      copying,  ///< with the engine
      ready,    ///< out of the device, and not handed on yet
      away,     ///< with the NIC, or the peer's process
      moved,    ///< nobody touches it any more
    };
    State state = State::copying;
    std::byte* memory = nullptr;
    std::uint64_t offset_bytes = 0;  // of the transfer
    std::uint64_t length_bytes = 0;
    std::uint32_t slot = 0;  // of EndpointState::ring, where it is, or was, with the NIC
    std::uint32_t id = 0;    // of Rendezvous::ask(), where the peer's process has it
    PendingCopy copy = {};
    std::unique_ptr<ExportHold> hold = {};  // of exported memory: it has the copy
  };

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
  std::optional<unsigned> posted_in_;  // which call of WorkerState::progress()
  std::vector<Piece> pieces_;          // in their order; never more than there is room for
};

}  // namespace hbmwire::detail
