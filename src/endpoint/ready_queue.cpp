// SPDX-License-Identifier: MIT
#include "endpoint/ready_queue.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "endpoint/transfer_state.hpp"
#include "message/unexpected_message.hpp"

namespace hbmwire::detail {

Result<void> ReadyQueue::open(int inner, bool several) {
  event_ = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!event_) return tl::make_unexpected(system_error(Stage::open, "eventfd", errno));
  stays_armed_ = several;
  if (inner < 0) return {};
  outer_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!outer_) return tl::make_unexpected(system_error(Stage::open, "epoll_create1", errno));
  for (const int fd : {inner, event_.get()}) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(outer_.get(), EPOLL_CTL_ADD, fd, &readable) != 0)
      return tl::make_unexpected(system_error(Stage::open, "epoll_ctl", errno));
  }
  return {};
}

void ReadyQueue::ring() noexcept {
  // Rings once for each arm(). If several threads may sleep, it rings whenever `event_` is not
  // readable already.
  if (!std::exchange(armed_, stays_armed_ && armed_) || std::exchange(rung_, true)) return;
  ::eventfd_write(event_.get(), 1);
}

void ReadyQueue::silence() noexcept {
  if (!empty() || !std::exchange(rung_, false)) return;
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

void ReadyQueue::add(TransferState& transfer) noexcept {
  transfers_.append(transfer);
  ring();
}

void ReadyQueue::add(UnexpectedMessage& message) noexcept {
  messages_.append(message);
  ring();
}

TransferState* ReadyQueue::take_transfer() noexcept {
  if (transfers_.empty()) return nullptr;
  TransferState& transfer = transfers_.take_first();
  silence();
  return &transfer;
}

UnexpectedMessage* ReadyQueue::take_message() noexcept {
  if (messages_.empty()) return nullptr;
  UnexpectedMessage& message = messages_.take_first();
  silence();
  return &message;
}

Chain<UnexpectedMessage> ReadyQueue::take_messages_of(const EndpointState& endpoint) noexcept {
  Chain<UnexpectedMessage> taken;
  Chain<UnexpectedMessage> left;
  while (!messages_.empty()) {
    UnexpectedMessage& message = messages_.take_first();
    (message.endpoint == &endpoint ? taken : left).append(message);
  }
  messages_ = left;
  silence();
  return taken;
}

}  // namespace hbmwire::detail
