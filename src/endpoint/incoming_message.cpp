// SPDX-License-Identifier: MIT
#include "hbmwire/incoming_message.hpp"

#include <memory>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

namespace detail {

namespace {

/// The labels of a message that the program reads in place, in host memory.
TransferLabels labels_of(const UnexpectedMessage& message) noexcept {
  const bool by_tcp = message.endpoint->paths.by_tcp();
  return {.kind = TransferKind::receive,
          .path = message.by_ring ? Path::shared_memory
                  : by_tcp        ? Path::tcp
                                  : Path::host,
          .local = MemoryType::host,
          .remote = type_of(message.header.path)};
}

}  // namespace

}  // namespace detail

std::uint64_t IncomingMessage::endpoint_id() const noexcept { return state_->endpoint->number; }

std::optional<std::uint64_t> IncomingMessage::tag() const noexcept {
  if (!state_->header.tagged_kind()) return std::nullopt;
  return state_->header.tag;
}

std::uint64_t IncomingMessage::length_bytes() const noexcept { return state_->header.length; }

bool IncomingMessage::is_here() const noexcept { return state_->header.carries(); }

std::span<const std::byte> IncomingMessage::bytes() const noexcept {
  if (!is_here()) return {};
  return {state_->bytes, state_->header.length};
}

Result<Transfer> IncomingMessage::receive(const Slice& into) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    // The worker may go with its last message; this keeps it until the end of the call.
    const std::shared_ptr<detail::WorkerState> worker = state_->keeps_worker;
    const detail::WorkerLock lock(*worker);
    HBMWIRE_TRY(worker->check_process(Stage::post));
    auto transfer = state_->endpoint->messages.receive_handed_out(*state_, into);
    if (transfer) state_ = nullptr;
    return transfer;
  });
}

void IncomingMessage::let_go() noexcept {
  detail::UnexpectedMessage& message = *std::exchange(state_, nullptr);
  const std::shared_ptr<detail::WorkerState> worker = std::move(message.keeps_worker);
  if (worker->made.is_inherited()) return;
  const detail::WorkerLock lock(*worker);
  if (message.header.carries()) {
    worker->counts.note_looked_at(*message.endpoint, detail::labels_of(message),
                                  message.header.length);
  }
  message.endpoint->messages.let_go(message);
}

}  // namespace hbmwire
