// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "hbmwire/attach.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "base/forks.hpp"
#include "base/told_cause.hpp"
#include "wire/attach_messages.hpp"

namespace hbmwire::detail {

/// The state that an AttachListener and its publications share. Thread-safe.
///
/// A client connects, sends one request and gets one reply. One epoll set holds all sockets, and a
/// timer that drops clients that send nothing. The application polls this epoll set.
class AttachService {
 public:
  static Result<std::shared_ptr<AttachService>> create();

  AttachService() = default;
  AttachService(const AttachService&) = delete;
  AttachService& operator=(const AttachService&) = delete;
  ~AttachService() = default;

  /// The number and the address of a publication.
  struct Entry {
    std::uint64_t id = 0;
    AttachAddress address;
  };

  Result<Entry> publish(const Allocation& memory, const DmabufRange& range, bool writable);
  void withdraw(std::uint64_t id) noexcept;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  Result<void> progress();

 private:
  /// The descriptor of the dma-buf must be closed before the memory is released, because an
  /// accelerator's driver does not unmap exported memory. Members are destroyed in reverse order.
  struct Publication {
    Allocation memory;
    DmabufRange range;
    bool writable;
    wire::AttachSecret secret;
  };

  /// A connection that has not sent its whole request yet.
  struct Client {
    Fd socket;
    Deadline deadline;
    wire::AttachAssembly<wire::AttachRequest> request;
  };

  using Clients = std::map<std::uint64_t, Client>;

  [[nodiscard]] bool is_the_parents() const noexcept { return forks() != made_in_; }

  Result<void> watch(int fd, std::uint64_t id) const;
  void take_connections();
  void take_connection(Fd socket);
  bool refuse_one();
  void let_the_queue_wait();
  /// Whether the epoll set reports waiting connections from now on.
  void watch_the_queue(bool now);
  void serve(Clients::iterator client);
  /// Sets `fd` to the descriptor that has to go with a grant; leaves it alone for a refusal.
  [[nodiscard]] wire::AttachReply reply_to(const wire::AttachRequest& request, int& fd) const;
  void drop_the_silent();
  void set_timer();

  unsigned made_in_ = forks();
  std::string name_;
  Fd epoll_;
  Fd listener_;
  Fd timer_;
  Fd reserve_;          // a spare descriptor: freed to refuse a client when no other is left
  ToldCause shortage_;  // of descriptors: each cause is logged once

  std::mutex mutex_;  // guards the members below
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Publication> publications_;
  Clients clients_;                      // by number, so that the oldest comes first
  std::optional<Deadline> queue_waits_;  // no connection is accepted before then
};

}  // namespace hbmwire::detail
