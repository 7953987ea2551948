// SPDX-License-Identifier: MIT
#pragma once

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"

#include "base/forks.hpp"

namespace hbmwire::wire {

struct AddressListDeleter {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

/// Tries the addresses of a name one after the other, until one answers. One thread.
class AddressWalk {
 public:
  AddressWalk() = default;

  /// `name`: for the error if there is no address. `until`: the caller's deadline for all
  /// addresses.
  AddressWalk(AddressList addresses, std::string_view name, const Deadline& until)
      : addresses_(std::move(addresses)),
        next_(addresses_.get()),
        until_(until),
        why_not_(make_error(Errc::not_found, Stage::connect, "the name has no address", name,
                            Hint::name_resolution)) {}

  /// Starts with the next address by `begin(const addrinfo&)`, which returns a Result<void>; if
  /// that fails at once, goes on to the one after it. If no address is left, returns the last error
  /// of a host that refused, else the last error.
  template <class Begin>
  Result<void> next(Begin begin) {
    while (next_ != nullptr) {
      attempt_ = share_of_next();
      const addrinfo& address = *std::exchange(next_, next_->ai_next);
      const Result<void> begun = begin(address);
      if (begun) return {};
      give_up(begun.error());
    }
    return tl::make_unexpected(why_not_);
  }

  /// The time until which the current address may answer, if others are left. An address that drops
  /// packets never refuses, and the kernel would try it for longer than most callers wait.
  [[nodiscard]] const Deadline& attempt() const noexcept { return attempt_; }

  /// Whether to leave the current address: it has not answered in time, and there is another one,
  /// and time for it.
  [[nodiscard]] bool leaves_it() const noexcept {
    return next_ != nullptr && attempt_.passed() && !until_.passed();
  }

  /// Records why the current address failed.
  void give_up(const Error& why) noexcept {
    // A host that refused is a better explanation than an address that cannot be reached.
    const bool tells = why.hint == Hint::connection_refused || why.code == Errc::cancelled;
    if (tells || why_not_.hint != Hint::connection_refused) why_not_ = why;
  }

 private:
  /// The last address gets all the time that is left. Each other one gets an equal share, but at
  /// least the time that RFC 8305 (section 5) gives an address before trying the next one.
  [[nodiscard]] Deadline share_of_next() const noexcept {
    constexpr std::chrono::milliseconds kLeast(250);
    std::int64_t left = 0;
    for (const addrinfo* each = next_; each != nullptr; each = each->ai_next) ++left;
    const std::chrono::milliseconds time(until_.poll_timeout_ms());  // at most an hour
    if (left == 1 || time <= kLeast) return until_;
    return Deadline::after(std::max(kLeast, time / left));
  }

  AddressList addresses_;
  const addrinfo* next_ = nullptr;
  Deadline until_ = Deadline::never();
  Deadline attempt_ = Deadline::never();
  Error why_not_;
};

/// getaddrinfo(3), in its own thread if a name server must be asked. It cannot be cancelled: if
/// necessary, the thread outlives this object.
class NameLookUp {
 public:
  /// For a numeric address it is over at once; otherwise call begin(). `passive`: addresses to
  /// listen on. May throw std::bad_alloc.
  static NameLookUp make(const std::string& host, std::uint16_t port, bool passive);

  NameLookUp(NameLookUp&&) noexcept = default;
  NameLookUp& operator=(NameLookUp&&) noexcept = default;
  NameLookUp(const NameLookUp&) = delete;
  NameLookUp& operator=(const NameLookUp&) = delete;
  ~NameLookUp();

  /// Asks the name server; call it once. Returns false without asking if `most` look-ups of this
  /// process are under way. Errors: Stage::connect. May throw std::bad_alloc.
  Result<bool> begin(unsigned most);

  [[nodiscard]] bool over() const noexcept;

  /// Readable when the look-up is over; -1 if no name server is asked.
  [[nodiscard]] int fd() const noexcept;

  /// The addresses. Call it once, when the look-up is over. Errors: Stage::connect.
  Result<AddressList> take();

 private:
  struct State;

  explicit NameLookUp(std::shared_ptr<State> state) noexcept;

  MadeHere made_;
  std::shared_ptr<State> state_;  // shared with the thread: the last of both frees it
};

/// Looks a name up, and waits for at most `wait`: a name server that does not answer must not keep
/// the caller waiting for half a minute. `passive`: addresses to listen on.
Result<AddressList> resolve(const std::string& host, std::uint16_t port, bool passive,
                            const Wait& wait);

}  // namespace hbmwire::wire
