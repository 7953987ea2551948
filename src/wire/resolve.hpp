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

/// The addresses of a name, one after the other, until one answers. One thread.
class AddressWalk {
 public:
  AddressWalk() = default;

  /// `name`: for the error where there is none. `until`: the caller's deadline for all of them.
  AddressWalk(AddressList addresses, std::string_view name, const Deadline& until)
      : addresses_(std::move(addresses)),
        next_(addresses_.get()),
        until_(until),
        why_not_(make_error(Errc::not_found, Stage::connect, "the name has no address", name,
                            Hint::name_resolution)) {}

  /// Begins with the next one by `begin(const addrinfo&)`, a Result<void>; where that fails at
  /// once, with the one after it. The error, when none is left: the last one's who refused, else
  /// the last one's.
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

  /// Until when the one that was begun with may answer, if others are left. An address that drops
  /// packets refuses nothing, and the kernel tries it for longer than most callers wait.
  [[nodiscard]] const Deadline& attempt() const noexcept { return attempt_; }

  /// It has not answered in its time, and there is another one to try, and time for that.
  [[nodiscard]] bool leaves_it() const noexcept {
    return next_ != nullptr && attempt_.passed() && !until_.passed();
  }

  /// Why the one that was begun with is not it.
  void give_up(const Error& why) noexcept {
    // A host that is there and refused says more than addresses that are not to be reached.
    const bool tells = why.hint == Hint::connection_refused || why.code == Errc::cancelled;
    if (tells || why_not_.hint != Hint::connection_refused) why_not_ = why;
  }

 private:
  /// The last one has all the time that is left. Each other one has an equal share of that, but no
  /// less than RFC 8305 (section 5) gives an address before it tries the next one.
  [[nodiscard]] Deadline share_of_next() const noexcept {
    constexpr std::chrono::milliseconds kLeast(250);
    std::int64_t left = 0;
    for (const addrinfo* each = next_; each != nullptr; each = each->ai_next) ++left;
    const std::chrono::milliseconds time(until_.poll_timeout_ms());  // an hour at most
    if (left == 1 || time <= kLeast) return until_;
    return Deadline::after(std::max(kLeast, time / left));
  }

  AddressList addresses_;
  const addrinfo* next_ = nullptr;
  Deadline until_ = Deadline::never();
  Deadline attempt_ = Deadline::never();
  Error why_not_;
};

/// getaddrinfo(3) beside, in a thread where a name server has to be asked. It can't be called off:
/// the thread outlives this where it has to.
class NameLookUp {
 public:
  /// Over already for a numeric address; else begin() is next. `passive`: addresses to listen on.
  /// May throw std::bad_alloc.
  static NameLookUp make(const std::string& host, std::uint16_t port, bool passive);

  NameLookUp(NameLookUp&&) noexcept = default;
  NameLookUp& operator=(NameLookUp&&) noexcept = default;
  NameLookUp(const NameLookUp&) = delete;
  NameLookUp& operator=(const NameLookUp&) = delete;
  ~NameLookUp();

  /// Asks the name server, once; false: it does not, since `most` look-ups of this process are
  /// under way. Errors: Stage::connect. May throw std::bad_alloc.
  Result<bool> begin(unsigned most);

  [[nodiscard]] bool over() const noexcept;

  /// Readable when it is over; -1: no name server is asked.
  [[nodiscard]] int fd() const noexcept;

  /// The addresses, of one that is over, once. Errors: Stage::connect.
  Result<AddressList> take();

 private:
  struct State;

  explicit NameLookUp(std::shared_ptr<State> state) noexcept;

  MadeHere made_;
  std::shared_ptr<State> state_;  // the thread's, too: the last of both frees it
};

/// The same with a deadline: a name server that does not answer must not hold the caller for
/// half a minute. `passive`: addresses to listen on.
Result<AddressList> resolve(const std::string& host, std::uint16_t port, bool passive,
                            const Wait& wait);

}  // namespace hbmwire::wire
