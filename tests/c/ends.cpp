// SPDX-License-Identifier: MIT
#include "ends.hpp"

#include <algorithm>

namespace hbmwire::c_test {

Context make_context(const hbmwire_context_options* options) {
  return make<Context>(
      [&](auto** made, auto* error) { return hbmwire_context_create(options, made, error); });
}

Worker make_worker(const Context& context, const hbmwire_worker_options* options) {
  return make<Worker>([&](auto** made, auto* error) {
    return hbmwire_worker_create(context.get(), options, made, error);
  });
}

Region make_region(const Context& context, hbmwire_memory_type type, std::uint64_t size,
                   hbmwire_access access) {
  return make<Region>([&](auto** made, auto* error) {
    return hbmwire_context_allocate_region(context.get(), type, size, access, nullptr, made, error);
  });
}

void set(const Region& region, unsigned char value) {
  const std::vector<unsigned char> bytes(kBytes, value);
  good([&](auto* error) {
    return hbmwire_region_write(region.get(), 0, bytes.data(), bytes.size(), 10 * kSecond,
                                HBMWIRE_NO_FD, error);
  });
}

bool has(const Region& region, unsigned char value, std::uint64_t length) {
  std::vector<unsigned char> bytes(length, static_cast<unsigned char>(~value));
  good([&](auto* error) {
    return hbmwire_region_read(region.get(), 0, bytes.data(), length, 10 * kSecond, HBMWIRE_NO_FD,
                               error);
  });
  return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return byte == value; });
}

Ends::Ends(hbmwire_memory_type type, const hbmwire_endpoint_options* options,
           const hbmwire_worker_options* workers)
    : context(make_context()),
      a_worker(make_worker(context, workers)),
      b_worker(make_worker(context, workers)),
      a_region(make_region(context, type)),
      b_region(make_region(context, type)) {
  auto listening = HBMWIRE_MADE(hbmwire_listener_options);
  listening.address = "127.0.0.1";
  listening.endpoint = options;
  listener = make<Listener>([&](auto** made, auto* error) {
    return hbmwire_listener_create(b_worker.get(), &listening, made, error);
  });
  good([&](auto* error) {
    return hbmwire_listener_advertise(listener.get(), "target", b_region.get(), nullptr, error);
  });
  const auto pending = make<Pending>([&](auto** made, auto* error) {
    return hbmwire_endpoint_start_connect(a_worker.get(), address().c_str(), 10 * kSecond, options,
                                          made, error);
  });
  until([&] {
    hbmwire_endpoint* accepted = nullptr;
    if (!b && hbmwire_listener_try_accept(listener.get(), &accepted, nullptr) == HBMWIRE_OK)
      b.reset(accepted);
    return b && hbmwire_transfer_done(hbmwire_pending_endpoint_transfer(pending.get()));
  });
  a = make<Endpoint>([&](auto** made, auto* error) {
    return hbmwire_pending_endpoint_take(pending.get(), made, error);
  });
}

void Ends::finish(hbmwire_transfer* transfer) const {
  ASSERT_NE(transfer, nullptr);
  until([&] { return hbmwire_transfer_done(transfer); });
  bool over = false;
  good([&](auto* error) { return hbmwire_transfer_poll(transfer, &over, error); });
  EXPECT_TRUE(over);
}

std::string Ends::address() const {
  char text[64];
  hbmwire_join_host_port("127.0.0.1", hbmwire_listener_port(listener.get()), text, sizeof text);
  return text;
}

Remote Ends::target() const {
  const auto pending = make<PendingRegion>([&](auto** made, auto* error) {
    return hbmwire_endpoint_start_remote(a.get(), "target", 10 * kSecond, made, error);
  });
  finish(hbmwire_pending_region_transfer(pending.get()));
  return make<Remote>([&](auto** made, auto* error) {
    return hbmwire_pending_region_take(pending.get(), made, error);
  });
}

}  // namespace hbmwire::c_test
