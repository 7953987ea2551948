// SPDX-License-Identifier: MIT
#include "wire/resolve.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <system_error>
#include <thread>

#include "hbmwire/fd.hpp"

#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

/// Counts the look-ups of this process that are running in threads. A child by fork(2) has none of
/// these threads, and counts anew.
class UnderWay {
 public:
  /// Returns false if there are `most` already.
  static bool begin(unsigned most) noexcept {
    const std::uint64_t process = std::uint64_t{forks()} << 32U;
    std::uint64_t seen = state().load(std::memory_order_relaxed);
    while (true) {
      const std::uint64_t count = (seen & ~kCount) == process ? seen & kCount : 0;
      if (count >= most) return false;
      if (state().compare_exchange_weak(seen, process | (count + 1), std::memory_order_relaxed))
        return true;
    }
  }

  static void end() noexcept { state().fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kCount = 0xFFFF'FFFFU;

  /// forks() and the count in one number.
  static std::atomic<std::uint64_t>& state() noexcept {
    static std::atomic<std::uint64_t> state{0};
    return state;
  }
};

}  // namespace

/// The state that a NameLookUp shares with the thread that asks the name server.
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

NameLookUp::NameLookUp(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

NameLookUp::~NameLookUp() {
  // In a child by fork(2) there is no thread that would free the state, so at least the descriptor
  // is closed.
  if (state_ && made_.is_inherited()) state_->done.reset();
}

NameLookUp NameLookUp::make(const std::string& host, std::uint16_t port, bool passive) {
  const auto state = std::make_shared<State>();
  state->host = host;
  state->service = std::to_string(port);
  state->hints.ai_family = AF_UNSPEC;
  state->hints.ai_socktype = SOCK_STREAM;
  state->hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  // First takes the text for a numeric address, or for none: neither needs a name server, nor a
  // thread.
  state->hints.ai_flags |= AI_NUMERICHOST;
  state->run();
  const bool is_ipv6 = host.find(':') != std::string::npos;
  // EAI_NONAME: the text is a name, unless there is none, or it has a colon, as no name has.
  state->over = state->status != EAI_NONAME || host.empty() || is_ipv6;
  return NameLookUp(state);
}

Result<bool> NameLookUp::begin(unsigned most) {
  State& asked = *state_;
  asked.hints.ai_flags &= ~AI_NUMERICHOST;
  if (!UnderWay::begin(most)) return false;
  asked.done = Fd{::eventfd(0, EFD_CLOEXEC)};
  if (!asked.done) {
    const Error why = system_error(Stage::connect, "eventfd", errno, asked.host);
    UnderWay::end();
    return tl::make_unexpected(why);
  }
  try {
    const SignalsBlocked blocked;
    std::thread([state = state_] {
      state->run();
      UnderWay::end();
      state->signal();
    }).detach();
  } catch (const std::system_error& error) {
    UnderWay::end();
    return tl::make_unexpected(thread_failure(Stage::connect, error.code().value(), asked.host));
  } catch (const std::bad_alloc&) {
    UnderWay::end();
    throw;
  }
  return true;
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
  NameLookUp look_up = NameLookUp::make(host, port, passive);
  // No limit: each such look-up blocks a thread of the program, and a program has few of these.
  if (!look_up.over()) HBMWIRE_TRY(look_up.begin(~0U));
  while (!look_up.over())
    HBMWIRE_TRY(wait_for(look_up.fd(), POLLIN, wait, "no answer from the name service", host));
  return look_up.take();
}

}  // namespace hbmwire::wire
