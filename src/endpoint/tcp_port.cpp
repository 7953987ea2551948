// SPDX-License-Identifier: MIT
#include "endpoint/tcp_port.hpp"

#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/worker_state.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"
#include "transport/tcp/link.hpp"

namespace hbmwire::detail {

namespace {

/// The name in errors and reports in place of a NIC's.
constexpr const char* kName = "tcp";

std::shared_ptr<NicState> stand_in() {
  auto state = std::make_shared<NicState>();
  state->info.name = kName;
  state->info.max_message_bytes = transport::TcpLink::kMaxMessage;
  state->limits.reads_in = state->limits.reads_out = 1;
  state->limits.atomics = true;
  return state;
}

}  // namespace

Result<std::unique_ptr<TcpPort>> TcpPort::create(WorkerState& worker) {
  HBMWIRE_TRY_ASSIGN(
      const Allocation memory,
      worker.context.allocate(MemoryType::host,
                              worker.transfers.size() * sizeof(std::uint64_t) + kSpareBytes));
  HBMWIRE_TRY_ASSIGN(auto results,
                     registration::without_nic(memory, /*why=*/Error{}, Access::local_write));
  auto port = std::make_unique<TcpPort>(
      worker.context, WorkerNic{.nic = handle_of<Nic>(stand_in()),
                                .channel = {},
                                .results = handle_of<Region>(std::move(results))});
  port->nic.staged = std::make_unique<StagedMover>(worker, nullptr);
  return port;
}

TcpPort::TcpPort(const Context& context_of, WorkerNic nic_of)
    : nic(std::move(nic_of)), context_(context_of) {}

std::byte* TcpPort::take_piece(MemoryDomain* device) noexcept {
  if (!pieces_) {
    using transport::PiecePool;
    auto made = guarded(Stage::allocate, [&] {
      return PiecePool::create(context_, nullptr, PiecePool::kPieces, Access::local_write);
    });
    if (!made) {
      if (no_pieces_.is_new(made.error()))
        log_line(LogLevel::warn, [&] { return describe(made.error()); });
      return nullptr;
    }
    pieces_.emplace(std::move(*made));
  }
  if (device != nullptr) pieces_->pin_for(*device);
  return pieces_->take();
}

void TcpPort::give_back(std::byte* piece) noexcept { pieces_->give_back(piece); }

}  // namespace hbmwire::detail
