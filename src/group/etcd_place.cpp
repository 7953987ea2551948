// SPDX-License-Identifier: MIT
#include "group/etcd_place.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "group/left_addresses.hpp"
#include "group/pause.hpp"

namespace hbmwire::detail {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKeepEvery(3000);  // the lease lasts ten seconds: two renewals may fail
// Short, because the meeting point's thread waits meanwhile, and the ranks wait for that thread.
constexpr milliseconds kRenewPatience(500);
constexpr milliseconds kRemakePatience(2000);
constexpr milliseconds kEndPatience(1000);
// The lease of a process that was killed has run out by then: ten seconds, and what etcd takes.
constexpr milliseconds kLeasePatience(13000);
constexpr milliseconds kEtcdAgain(200);

}  // namespace

Result<std::unique_ptr<MeetingPlace>> EtcdPlace::create(MeetingName meeting) {
  HBMWIRE_TRY_ASSIGN(auto http, HttpClient::create());
  EtcdRequests requests(std::move(http), meeting);
  return std::make_unique<EtcdPlace>(std::move(meeting), std::move(requests));
}

EtcdPlace::EtcdPlace(MeetingName meeting, EtcdRequests requests)
    : meeting_(std::move(meeting)), requests_(std::move(requests)) {}

EtcdPlace::~EtcdPlace() {
  // A child by fork(2) must not end the lease of its parent.
  if (!lease_ || made_.is_inherited()) return;
  const auto ended = guarded(Stage::connect, [&] {
    return requests_.revoke_lease(*lease_, Deadline::after(kEndPatience));
  });
  // If the server has gone, the lease runs out by itself.
  if (!ended) log_line(LogLevel::info, [&] { return "etcd: " + describe(ended.error()); });
}

Result<bool> EtcdPlace::make_key(const Wait& wait) {
  if (has_key_) return true;
  if (!lease_) {
    HBMWIRE_TRY_ASSIGN(lease_, requests_.grant_lease(wait));
  }
  auto made = requests_.make_key(*lease_, text_, wait);
  // An earlier attempt may have made the key although its answer was lost: such a key hangs on this
  // lease, and can be changed by it.
  if (made && !*made) made = requests_.change_key(*lease_, text_, wait);
  if (made && *made) {
    has_key_ = true;
    return true;
  }
  // The next attempt takes a new lease: this one may run out before.
  const auto ended = requests_.revoke_lease(*std::exchange(lease_, std::nullopt), wait);
  if (!made) return tl::make_unexpected(made.error());
  HBMWIRE_TRY(ended);
  return false;
}

Result<bool> EtcdPlace::claim(const Wait& wait) { return make_key(wait); }

Result<void> EtcdPlace::leave(const std::vector<std::string>& addresses, const Wait& wait) {
  text_ = left_text(addresses);
  const Deadline patience = Deadline::after(kLeasePatience);
  for (;;) {
    HBMWIRE_TRY_ASSIGN(const bool is_ours, make_key(wait));
    if (is_ours) break;
    if (patience.passed()) {
      return tl::make_unexpected(make_error(Errc::busy, Stage::connect,
                                            "another process has the meeting point of this name",
                                            meeting_.text, Hint::group_launcher));
    }
    HBMWIRE_TRY(pause_for(kEtcdAgain, wait, "waiting for an earlier lease to end", meeting_.text));
  }
  HBMWIRE_TRY_ASSIGN(const bool is_changed, requests_.change_key(*lease_, text_, wait));
  if (is_changed) return {};
  // The lease has run out: the place was claimed long ago, and not kept since.
  has_key_ = false;
  return tl::make_unexpected(make_error(Errc::peer_failed, Stage::connect,
                                        "the lease of this process' key has run out", meeting_.text,
                                        Hint::group_launcher));
}

Result<std::vector<std::string>> EtcdPlace::look(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const std::string text, requests_.read_key(wait));
  return addresses_in(text);
}

std::optional<milliseconds> EtcdPlace::keep_every() const noexcept { return kKeepEvery; }

Result<void> EtcdPlace::keep() {
  if (lease_) {
    HBMWIRE_TRY_ASSIGN(const bool is_renewed,
                       requests_.renew_lease(*lease_, Deadline::after(kRenewPatience)));
    if (!is_renewed) {
      lease_.reset();
      has_key_ = false;
    }
  }
  if (has_key_ || text_.empty()) return {};
  HBMWIRE_TRY_ASSIGN(const bool is_ours, make_key(Deadline::after(kRemakePatience)));
  if (is_ours) return {};
  return tl::make_unexpected(make_error(Errc::busy, Stage::connect,
                                        "another process has taken the meeting point of this name",
                                        meeting_.text, Hint::group_launcher));
}

}  // namespace hbmwire::detail
