// SPDX-License-Identifier: MIT
#include "wire/resolve.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "hbmwire/fd.hpp"

#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

/// One look-up, shared by the caller and the thread that runs it: whoever is last frees it.
struct NameLookUp {
  std::string host;
  std::string service;
  addrinfo hints{};
  Fd done;  // an eventfd, written when the thread has finished
  int status = 0;
  int error_number = 0;
  AddressList list;

  void run() {
    addrinfo* found = nullptr;
    status = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
    error_number = errno;
    list.reset(found);
  }

  void signal() const {
    const std::uint64_t one = 1;
    if (::write(done.get(), &one, sizeof one) != sizeof one) {
      log_warning("write", "to an eventfd failed", errno);
    }
  }
};

/// Runs the look-up in a thread, which may outlive the wait: getaddrinfo(3) can't be called off.
Result<void> run_within(const std::shared_ptr<NameLookUp>& look_up, const Wait& wait) {
  look_up->done = Fd{::eventfd(0, EFD_CLOEXEC)};
  if (!look_up->done) {
    return tl::make_unexpected(system_error(Stage::connect, "eventfd", errno, look_up->host));
  }
  try {
    const SignalsBlocked blocked;
    std::thread([look_up] {
      look_up->run();
      look_up->signal();
    }).detach();
  } catch (const std::system_error& error) {
    return tl::make_unexpected(thread_failure(Stage::connect, error.code().value(), look_up->host));
  }
  HBMWIRE_TRY(wait_for(look_up->done.get(), POLLIN, wait, "no answer from the name service",
                       look_up->host));
  std::uint64_t signalled = 0;  // reading it orders the thread's results before our use of them
  if (::read(look_up->done.get(), &signalled, sizeof signalled) != sizeof signalled) {
    return tl::make_unexpected(system_error(Stage::connect, "read", errno, look_up->host));
  }
  return {};
}

}  // namespace

Result<AddressList> resolve(const std::string& host, std::uint16_t port, bool passive,
                            const Wait& wait) {
  auto look_up = std::make_shared<NameLookUp>();
  look_up->host = host;
  look_up->service = std::to_string(port);
  look_up->hints.ai_family = AF_UNSPEC;
  look_up->hints.ai_socktype = SOCK_STREAM;
  look_up->hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  // A numeric address, or none, needs no name server, and no thread.
  look_up->hints.ai_flags |= AI_NUMERICHOST;
  look_up->run();
  const bool is_ipv6 = host.find(':') != std::string::npos;
  if (look_up->status == EAI_NONAME && !host.empty() && !is_ipv6) {
    look_up->hints.ai_flags &= ~AI_NUMERICHOST;
    HBMWIRE_TRY(run_within(look_up, wait));
  }
  if (look_up->status == 0) return std::move(look_up->list);
  if (host.find('%') != std::string::npos && is_ipv6) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                          "no interface has the name behind the address's %", host,
                                          Hint::address_scope));
  }
  Error error =
      make_error(Errc::not_found, Stage::connect, "getaddrinfo", host, Hint::name_resolution);
  if (look_up->status == EAI_SYSTEM) {
    error = system_error(Stage::connect, "getaddrinfo", look_up->error_number, host,
                         Hint::name_resolution);
  } else {
    error.number_kind = NumberKind::gai_error;
    error.number = look_up->status;
  }
  return tl::make_unexpected(error);
}

}  // namespace hbmwire::wire
