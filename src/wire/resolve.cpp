// SPDX-License-Identifier: MIT
#include "wire/resolve.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

#include "hbmwire/fd.hpp"

#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

struct NameLookUp::State {
  std::string host;
  std::string service;
  addrinfo hints{};
  Fd done;  // an eventfd, written when the thread has finished
  std::atomic<bool> over{false};
  int status = 0;
  int error_number = 0;
  AddressList list;

  void run() {
    addrinfo* found = nullptr;
    status = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
    error_number = errno;
    list.reset(found);
  }

  void signal() {
    over.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    if (::write(done.get(), &one, sizeof one) != sizeof one)
      log_warning("write", "to an eventfd failed", errno);
  }
};

Result<NameLookUp> NameLookUp::start(const std::string& host, std::uint16_t port, bool passive) {
  const auto state = std::make_shared<State>();
  state->host = host;
  state->service = std::to_string(port);
  state->hints.ai_family = AF_UNSPEC;
  state->hints.ai_socktype = SOCK_STREAM;
  state->hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  // A numeric address, or none, needs no name server, and no thread.
  state->hints.ai_flags |= AI_NUMERICHOST;
  state->run();
  const bool is_ipv6 = host.find(':') != std::string::npos;
  if (state->status != EAI_NONAME || host.empty() || is_ipv6) {
    state->over = true;
    return NameLookUp(state);
  }
  state->hints.ai_flags &= ~AI_NUMERICHOST;
  state->done = Fd{::eventfd(0, EFD_CLOEXEC)};
  if (!state->done)
    return tl::make_unexpected(system_error(Stage::connect, "eventfd", errno, host));
  try {
    const SignalsBlocked blocked;
    std::thread([state] {
      state->run();
      state->signal();
    }).detach();
  } catch (const std::system_error& error) {
    return tl::make_unexpected(thread_failure(Stage::connect, error.code().value(), host));
  }
  return NameLookUp(state);
}

bool NameLookUp::over() const noexcept { return state_->over.load(std::memory_order_acquire); }

int NameLookUp::fd() const noexcept { return state_->done.get(); }

Result<AddressList> NameLookUp::take() {
  const std::string& host = state_->host;
  if (state_->status == 0) return std::move(state_->list);
  if (host.find('%') != std::string::npos && host.find(':') != std::string::npos) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                          "no interface has the name behind the address's %", host,
                                          Hint::address_scope));
  }
  Error error =
      make_error(Errc::not_found, Stage::connect, "getaddrinfo", host, Hint::name_resolution);
  if (state_->status == EAI_SYSTEM) {
    error = system_error(Stage::connect, "getaddrinfo", state_->error_number, host,
                         Hint::name_resolution);
  } else {
    error.number_kind = NumberKind::gai_error;
    error.number = state_->status;
  }
  return tl::make_unexpected(error);
}

Result<AddressList> resolve(const std::string& host, std::uint16_t port, bool passive,
                            const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(NameLookUp look_up, NameLookUp::start(host, port, passive));
  if (!look_up.over()) {
    HBMWIRE_TRY(wait_for(look_up.fd(), POLLIN, wait, "no answer from the name service", host));
  }
  return look_up.take();
}

}  // namespace hbmwire::wire
