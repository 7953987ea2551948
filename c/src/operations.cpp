// SPDX-License-Identifier: MIT
#include "hbmwire/endpoint.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<std::vector<TransferPart>> parts_of(const hbmwire_part* parts, std::size_t count) {
  if (count != 0) HBMWIRE_TRY(c::need({{parts, "parts"}}));
  std::vector<TransferPart> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(&parts[i].local));
    HBMWIRE_TRY_ASSIGN(const RemoteSlice remote, c::slice_of(&parts[i].remote));
    all.push_back({local, remote});
  }
  return all;
}

}  // namespace

hbmwire_status hbmwire_endpoint_put(hbmwire_endpoint* endpoint, const hbmwire_slice* from,
                                    const hbmwire_remote_slice* to,
                                    const hbmwire_put_options* options, hbmwire_transfer** transfer,
                                    hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(from));
    HBMWIRE_TRY_ASSIGN(const RemoteSlice remote, c::slice_of(to));
    HBMWIRE_TRY_ASSIGN(const PutOptions wanted, c::put_options_of(options));
    return endpoint->value->put(local, remote, wanted);
  });
}

hbmwire_status hbmwire_endpoint_get(hbmwire_endpoint* endpoint, const hbmwire_slice* into,
                                    const hbmwire_remote_slice* from, hbmwire_transfer** transfer,
                                    hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(into));
    HBMWIRE_TRY_ASSIGN(const RemoteSlice remote, c::slice_of(from));
    return endpoint->value->get(local, remote);
  });
}

hbmwire_status hbmwire_endpoint_prepare_put(hbmwire_endpoint* endpoint, const hbmwire_part* parts,
                                            size_t count, const hbmwire_put_options* options,
                                            hbmwire_prepared** prepared, hbmwire_error* error) {
  return c::create(prepared, error, {{endpoint, "endpoint"}}, [&]() -> Result<PreparedTransfer> {
    HBMWIRE_TRY_ASSIGN(const auto all, parts_of(parts, count));
    HBMWIRE_TRY_ASSIGN(const PutOptions wanted, c::put_options_of(options));
    return endpoint->value->prepare_put(all, wanted);
  });
}

hbmwire_status hbmwire_endpoint_prepare_get(hbmwire_endpoint* endpoint, const hbmwire_part* parts,
                                            size_t count, hbmwire_prepared** prepared,
                                            hbmwire_error* error) {
  return c::create(prepared, error, {{endpoint, "endpoint"}}, [&]() -> Result<PreparedTransfer> {
    HBMWIRE_TRY_ASSIGN(const auto all, parts_of(parts, count));
    return endpoint->value->prepare_get(all);
  });
}

hbmwire_status hbmwire_prepared_post(hbmwire_prepared* prepared, hbmwire_transfer** transfer,
                                     hbmwire_error* error) {
  return c::create(transfer, error, {{prepared, "prepared"}},
                   [&] { return prepared->value->post(); });
}

void hbmwire_prepared_free(hbmwire_prepared* prepared) { delete prepared; }

hbmwire_status hbmwire_endpoint_fetch_add(hbmwire_endpoint* endpoint,
                                          const hbmwire_remote_slice* at, uint64_t add,
                                          hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const RemoteSlice remote, c::slice_of(at));
    return endpoint->value->fetch_add(remote, add);
  });
}

hbmwire_status hbmwire_endpoint_compare_swap(hbmwire_endpoint* endpoint,
                                             const hbmwire_remote_slice* at, uint64_t expected,
                                             uint64_t desired, hbmwire_transfer** transfer,
                                             hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const RemoteSlice remote, c::slice_of(at));
    return endpoint->value->compare_swap(remote, expected, desired);
  });
}

hbmwire_status hbmwire_endpoint_send(hbmwire_endpoint* endpoint, const hbmwire_slice* from,
                                     hbmwire_level level, hbmwire_transfer** transfer,
                                     hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(from));
    HBMWIRE_TRY_ASSIGN(const auto wanted, c::enum_of(level, CompletionLevel::visible, "level"));
    return endpoint->value->send(local, SendOptions{.level = wanted});
  });
}

hbmwire_status hbmwire_endpoint_send_tagged(hbmwire_endpoint* endpoint, const hbmwire_slice* from,
                                            uint64_t tag, hbmwire_level level,
                                            hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(from));
    HBMWIRE_TRY_ASSIGN(const auto wanted, c::enum_of(level, CompletionLevel::visible, "level"));
    return endpoint->value->send(local, tag, SendOptions{.level = wanted});
  });
}

hbmwire_status hbmwire_endpoint_receive(hbmwire_endpoint* endpoint, const hbmwire_slice* into,
                                        hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(into));
    return endpoint->value->receive(local);
  });
}

hbmwire_status hbmwire_endpoint_receive_tagged(hbmwire_endpoint* endpoint,
                                               const hbmwire_slice* into, uint64_t tag,
                                               uint64_t mask, hbmwire_transfer** transfer,
                                               hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice local, c::slice_of(into));
    return endpoint->value->receive(local, TagMatch{.tag = tag, .mask = mask});
  });
}

hbmwire_status hbmwire_endpoint_receive_immediate(hbmwire_endpoint* endpoint,
                                                  const hbmwire_slice* written,
                                                  hbmwire_transfer** transfer,
                                                  hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}}, [&]() -> Result<Transfer> {
    Slice memory;
    if (written != nullptr) {
      HBMWIRE_TRY_ASSIGN(memory, c::slice_of(written));
    }
    return endpoint->value->receive_immediate(memory);
  });
}

hbmwire_status hbmwire_endpoint_flush(hbmwire_endpoint* endpoint, hbmwire_transfer** transfer,
                                      hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}},
                   [&] { return endpoint->value->flush(); });
}
