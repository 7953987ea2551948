// SPDX-License-Identifier: MIT
#include "endpoint/tcp_port.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/tcp_link.hpp"
#include "endpoint/worker_state.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {

namespace {

/// Named in errors and reports where a NIC's name stands otherwise.
constexpr const char* kName = "tcp";

std::shared_ptr<NicState> stand_in() {
  auto state = std::make_shared<NicState>();
  state->info.name = kName;
  state->info.max_message_bytes = TcpLink::kMaxMessage;
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
  HBMWIRE_TRY_ASSIGN(auto results, registration::without_nic(memory, Error{}, Access::local_write));
  auto port = std::make_unique<TcpPort>(
      worker.context, WorkerNic{Nic(stand_in()), {}, Region(std::move(results)), {}, {}, {}});
  port->nic.staged = std::make_unique<StagedMover>(worker, nullptr);
  return port;
}

TcpPort::TcpPort(const Context& context_of, WorkerNic nic_of)
    : CompletionQueue(false), nic(std::move(nic_of)), of_(context_of) {}

Result<void> TcpPort::arm() {
  for (TcpLink* const link : links_) link->wake_by_socket();
  return {};
}

std::byte* TcpPort::take_piece(MemoryDomain* device) noexcept {
  if (!pieces_) {
    using transport::PiecePool;
    auto made = guarded(Stage::allocate, [&] {
      return PiecePool::create(of_, nullptr, PiecePool::kPieces, Access::local_write);
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

void TcpPort::add(TcpLink& link, std::size_t completions) {
  links_.reserve(links_.size() + 1);
  // Forgotten completions keep their places until they would have been polled.
  const auto waiting = static_cast<std::size_t>(end_ - first_);
  const std::size_t needed = waiting + most_ + completions;
  if (needed > ready_.size()) {
    std::vector<Completion> larger(std::bit_ceil(needed));
    for (std::uint64_t at = first_; at != end_; ++at)
      larger[at % larger.size()] = ready_[at % ready_.size()];
    ready_ = std::move(larger);
  }
  most_ += completions;
  links_.push_back(&link);
}

void TcpPort::forget(const TcpLink& link, std::size_t completions) noexcept {
  most_ -= completions;
  for (std::uint64_t at = first_; at != end_; ++at) {
    Completion& completion = ready_[at % ready_.size()];
    if (completion.link == &link) completion.link = nullptr;
  }
  std::erase(links_, &link);
}

void TcpPort::complete(const TcpLink& link, const transport::Completion& completion) noexcept {
  assert(end_ - first_ < ready_.size());
  ready_[end_++ % ready_.size()] = {&link, completion};
}

int TcpPort::poll(std::span<transport::Completion> into) noexcept {
  // What is over already is told without a system call, but not for ever: who only sends hears of
  // what its peers ask for, too.
  if (first_ == end_ || ++told_unasked_ == kMostUnasked) {
    told_unasked_ = 0;
    // By index: none is made or destroyed meanwhile, but that is for others to keep to.
    // NOLINTNEXTLINE(modernize-loop-convert)
    for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->progress();
  }
  std::size_t count = 0;
  while (count < into.size() && first_ != end_) {
    const Completion& completion = ready_[first_++ % ready_.size()];
    if (completion.link != nullptr) into[count++] = completion.what;
  }
  return static_cast<int>(count);
}

}  // namespace hbmwire::detail
