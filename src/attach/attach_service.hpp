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

/// What an AttachListener and its publications share. Thread-safe.
///
/// A client connects, sends one request and gets one reply. All sockets and a timer for the clients
/// that say nothing are in one epoll set, which is what the application polls.
class AttachService {
 public:
  static Result<std::shared_ptr<AttachService>> create();

  AttachService() = default;
  AttachService(const AttachService&) = delete;
  AttachService& operator=(const AttachService&) = delete;
  ~AttachService() = default;

  /// The publication's number and address.
  struct Entry {
    std::uint64_t id = 0;
    AttachAddress address;
  };

  Result<Entry> publish(const Allocation& memory, const DmabufRange& range, bool writable);
  void withdraw(std::uint64_t id) noexcept;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  Result<void> progress();

 private:
  /// The dma-buf's descriptor goes before the memory: an accelerator's driver does not unmap what
  /// is exported.
  struct Publication {
    Allocation memory;
    DmabufRange range;
    bool writable;
    wire::AttachSecret secret;
  };

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
  void watch_the_queue(bool now);
  void serve(Clients::iterator client);
  [[nodiscard]] wire::AttachReply reply_to(const wire::AttachRequest& request, int& fd) const;
  void drop_the_silent();
  void set_timer();

  unsigned made_in_ = forks();
  std::string name_;
  Fd epoll_;
  Fd listener_;
  Fd timer_;
  Fd reserve_;          // its number is for who is refused when there are no others
  ToldCause shortage_;  // of descriptors

  std::mutex mutex_;  // of what follows
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Publication> publications_;
  Clients clients_;                      // by their numbers, so that the oldest is the first
  std::optional<Deadline> queue_waits_;  // until then nobody is taken out of it
};

}  // namespace hbmwire::detail
