// SPDX-License-Identifier: MIT
#include "endpoint/done_queue.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

Result<void> DoneQueue::open(int inner) {
  event_ = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!event_) return tl::make_unexpected(system_error(Stage::open, "eventfd", errno));
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

void DoneQueue::add(TransferState& transfer) noexcept {
  transfers_.append(transfer);
  if (!std::exchange(armed_, false) || std::exchange(rung_, true)) return;
  ::eventfd_write(event_.get(), 1);
}

TransferState* DoneQueue::take() noexcept {
  if (transfers_.empty()) return nullptr;
  TransferState& transfer = transfers_.take_first();
  if (transfers_.empty() && std::exchange(rung_, false)) {
    eventfd_t rings = 0;
    ::eventfd_read(event_.get(), &rings);
  }
  return &transfer;
}

}  // namespace hbmwire::detail
