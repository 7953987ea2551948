// SPDX-License-Identifier: MIT
#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace hbmwire::c {
namespace {

Result<LinkOptions> link_of(const hbmwire_endpoint_options& given) {
  LinkOptions link;
  HBMWIRE_TRY_ASSIGN(link.service_level,
                     optional_of<std::uint8_t>(given.service_level, "service_level"));
  HBMWIRE_TRY_ASSIGN(link.traffic_class,
                     optional_of<std::uint8_t>(given.traffic_class, "traffic_class"));
  HBMWIRE_TRY_ASSIGN(link.pkey_index, optional_of<std::uint16_t>(given.pkey_index, "pkey_index"));
  HBMWIRE_TRY_ASSIGN(link.mtu_bytes, optional_of<std::uint32_t>(given.mtu_bytes, "mtu_bytes"));
  HBMWIRE_TRY_ASSIGN(link.ack_timeout, optional_of<std::uint8_t>(given.ack_timeout, "ack_timeout"));
  HBMWIRE_TRY_ASSIGN(link.retry_count, optional_of<std::uint8_t>(given.retry_count, "retry_count"));
  HBMWIRE_TRY_ASSIGN(link.rnr_retry, optional_of<std::uint8_t>(given.rnr_retry, "rnr_retry"));
  return link;
}

}  // namespace

Result<EndpointOptions> endpoint_options_of(const hbmwire_endpoint_options* options) {
  hbmwire_endpoint_options defaults;
  hbmwire_endpoint_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_endpoint_options given, options_of(options, defaults));
  HBMWIRE_TRY_ASSIGN(const auto key, bytes_of(given.pre_shared_key, given.pre_shared_key_bytes));
  HBMWIRE_TRY_ASSIGN(const auto hello, bytes_of(given.hello, given.hello_bytes));
  EndpointOptions made;
  made.send_depth = given.send_depth;
  made.receive_depth = given.receive_depth;
  made.eager_bytes = given.eager_bytes;
  made.unexpected_bytes = given.unexpected_bytes;
  HBMWIRE_TRY_ASSIGN(made.messages, enum_of(given.messages, MessageMode::handed_out, "messages"));
  made.peer_timeout = duration_of(given.peer_timeout_ns);
  made.operation_timeout = duration_of(given.operation_timeout_ns);
  made.pre_shared_key.assign(key.begin(), key.end());
  made.hello.assign(hello.begin(), hello.end());
  HBMWIRE_TRY_ASSIGN(made.paths,
                     policy_of(given.require_path, given.allow_paths, given.allow_path_count));
  made.retry_connect = given.retry_connect != 0;
  HBMWIRE_TRY_ASSIGN(made.link, link_of(given));
  return made;
}

}  // namespace hbmwire::c

void hbmwire_endpoint_options_init(hbmwire_endpoint_options* options, size_t struct_size) {
  const EndpointOptions library;
  hbmwire_endpoint_options made{};
  made.send_depth = library.send_depth;
  made.receive_depth = library.receive_depth;
  made.eager_bytes = library.eager_bytes;
  made.unexpected_bytes = library.unexpected_bytes;
  made.peer_timeout_ns = c::number_of_ns(library.peer_timeout);
  made.operation_timeout_ns = c::number_of_ns(library.operation_timeout);
  made.messages = HBMWIRE_MESSAGES_MATCHED;
  made.require_path = HBMWIRE_UNSET;
  made.service_level = HBMWIRE_UNSET;
  made.traffic_class = HBMWIRE_UNSET;
  made.pkey_index = HBMWIRE_UNSET;
  made.mtu_bytes = HBMWIRE_UNSET;
  made.ack_timeout = HBMWIRE_UNSET;
  made.retry_count = HBMWIRE_UNSET;
  made.rnr_retry = HBMWIRE_UNSET;
  c::initialise(options, struct_size, made);
}

void hbmwire_put_options_init(hbmwire_put_options* options, size_t struct_size) {
  hbmwire_put_options made{};
  made.level = HBMWIRE_LEVEL_ARRIVED;
  c::initialise(options, struct_size, made);
}
