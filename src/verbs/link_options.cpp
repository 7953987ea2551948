// SPDX-License-Identifier: MIT
#include "verbs/link_options.hpp"

#include <string>

#include "verbs/calls.hpp"
#include "verbs/port.hpp"

namespace hbmwire::verbs {

namespace {

/// The pkey table may have holes, where the key is 0 (IBTA vol. 1, 10.9.2).
Result<void> check_pkey(const detail::NicState& nic, std::uint16_t index) {
  ibv_port_attr attributes{};
  HBMWIRE_TRY(from_errno_result(ibv_query_port(nic.context.get(), nic.info.port, &attributes),
                                Stage::connect, "ibv_query_port", nic.info.name));
  __be16 key = 0;
  const bool found = index < attributes.pkey_tbl_len &&
                     ibv_query_pkey(nic.context.get(), nic.info.port, index, &key) == 0 && key != 0;
  if (found) return {};
  return tl::make_unexpected(make_error(
      Errc::not_found, Stage::connect, "its port has no partition key at this index",
      with_count(nic.info.name, "pkey", index, attributes.pkey_tbl_len), Hint::link_options));
}

}  // namespace

Result<void> check_range(const LinkOptions& link) {
  const auto refuse = [](const char* why, const char* which, unsigned value) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why,
                                          std::string(which) + ' ' + std::to_string(value),
                                          Hint::link_options));
  };
  if (link.service_level && *link.service_level > 15)
    return refuse("a service level is 0 to 15", "service_level", *link.service_level);
  if (link.mtu_bytes && mtu_bytes(mtu_from_bytes(*link.mtu_bytes)) != *link.mtu_bytes)
    return refuse("a path MTU is 256, 512, 1024, 2048 or 4096 bytes", "mtu_bytes", *link.mtu_bytes);
  if (link.ack_timeout && *link.ack_timeout > 31)
    return refuse("an ACK timeout is 4.096 us * 2^N with N of 0 to 31", "ack_timeout",
                  *link.ack_timeout);
  if (link.retry_count && *link.retry_count > 7)
    return refuse("a retry count is 0 to 7", "retry_count", *link.retry_count);
  if (link.rnr_retry && *link.rnr_retry > 7)
    return refuse("a receiver-not-ready retry count is 0 to 7, where 7 is without end", "rnr_retry",
                  *link.rnr_retry);
  return {};
}

void apply(const LinkOptions& link, Wiring& wiring) noexcept {
  wiring.service_level = link.service_level.value_or(wiring.service_level);
  wiring.traffic_class = link.traffic_class.value_or(wiring.traffic_class);
  wiring.ack_timeout = link.ack_timeout.value_or(wiring.ack_timeout);
  wiring.retries = link.retry_count.value_or(wiring.retries);
  wiring.receiver_retries = link.rnr_retry.value_or(wiring.receiver_retries);
  // The traffic class of the connection manager's path is also a setting of this end.
  if (wiring.path && link.traffic_class) wiring.path->traffic_class = *link.traffic_class;
}

Result<PortEntries> port_entries(const detail::NicState& nic, const LinkOptions& link) {
  const PortEntries entries{.pkey_index = link.pkey_index.value_or(0),
                            .mtu_bytes = link.mtu_bytes.value_or(nic.info.mtu_bytes)};
  if (link.pkey_index) HBMWIRE_TRY(check_pkey(nic, entries.pkey_index));
  if (entries.mtu_bytes > nic.info.mtu_bytes) {
    return tl::make_unexpected(make_error(
        Errc::not_supported, Stage::connect, "its port has a smaller MTU than the one asked for",
        nic.info.name + " (MTU " + std::to_string(nic.info.mtu_bytes) + ", mtu_bytes " +
            std::to_string(entries.mtu_bytes) + ')',
        Hint::link_options));
  }
  return entries;
}

}  // namespace hbmwire::verbs
