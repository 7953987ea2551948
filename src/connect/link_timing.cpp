// SPDX-License-Identifier: MIT
#include "connect/link_timing.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "verbs/link_options.hpp"

namespace hbmwire::detail {

namespace {

using std::chrono::nanoseconds;

/// The time of all tries: 4.096 us * 2^ack_timeout for the packet and for each retry.
nanoseconds all_tries(const verbs::Wiring& wiring) noexcept {
  return nanoseconds(4096LL << wiring.ack_timeout) * (wiring.retries + 1);
}

/// The part of peer_timeout for retries: half, so that the other half is left for noticing an idle
/// connection.
nanoseconds share_of(nanoseconds peer_timeout) noexcept { return peer_timeout / 2; }

/// "34.4 s", "67.1 ms": three digits, or more if the integer part has more.
std::string text(nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  // Rounded to three digits, a greater number of milliseconds would be 1000.
  const bool small = seconds < 0.9995;
  const double number = small ? seconds * 1e3 : seconds;
  const char* const unit = small ? "ms" : "s";
  return number < 999.5 ? fmt::format("{:.3g} {}", number, unit)
                        : fmt::format("{:.0f} {}", number, unit);
}

}  // namespace

LinkOptions merged(const LinkOptions& options, const LinkOptions& otherwise) noexcept {
  LinkOptions all = options;
  const auto fill = [&](auto member) {
    if (!(all.*member)) all.*member = otherwise.*member;
  };
  fill(&LinkOptions::service_level);
  fill(&LinkOptions::traffic_class);
  fill(&LinkOptions::pkey_index);
  fill(&LinkOptions::mtu_bytes);
  fill(&LinkOptions::ack_timeout);
  fill(&LinkOptions::retry_count);
  fill(&LinkOptions::rnr_retry);
  return all;
}

Result<void> check_link_options(const EndpointOptions& options) {
  HBMWIRE_TRY(verbs::check_range(options.link));
  // An ACK timeout that is left open is derived from the number of retries.
  if (!options.link.ack_timeout || options.peer_timeout == nanoseconds::max()) return {};
  const verbs::Wiring wiring = wiring_by(options);
  const auto refuse = [](const char* why, const std::string& subject) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::configure, why, subject, Hint::retries_outlast));
  };
  const std::string bound = "peer_timeout " + text(options.peer_timeout);
  if (wiring.ack_timeout == 0)
    return refuse("an ACK timeout of 0 waits for ever", "ack_timeout 0, " + bound);
  const nanoseconds sum = all_tries(wiring);
  if (sum <= share_of(options.peer_timeout)) return {};
  const int tries = wiring.retries + 1;
  return refuse("tries may take half of peer_timeout, since an idle peer is asked each quarter",
                fmt::format("{} x {} = {}, {}", tries, text(sum / tries), text(sum), bound));
}

Result<void> check_managed(const LinkOptions& link) {
  const char* const which = link.service_level ? "service_level"
                            : link.pkey_index  ? "pkey_index"
                            : link.mtu_bytes   ? "mtu_bytes"
                                               : nullptr;
  if (which == nullptr) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::configure,
                                        "by rdma_cm the connection manager's route decides this",
                                        which, Hint::rdma_cm_route));
}

verbs::Wiring wiring_by(const EndpointOptions& options) noexcept {
  verbs::Wiring wiring;
  verbs::apply(options.link, wiring);
  if (options.link.ack_timeout) return wiring;
  // 8 is 1 ms: no network answers later, and eight tries take 8 ms.
  constexpr std::uint8_t kLeast = 8;
  constexpr std::uint8_t kMost = 20;
  wiring.ack_timeout = kLeast;
  // Each step doubles the time.
  while (wiring.ack_timeout < kMost && 2 * all_tries(wiring) <= share_of(options.peer_timeout))
    ++wiring.ack_timeout;
  return wiring;
}

}  // namespace hbmwire::detail
