// SPDX-License-Identifier: MIT
#include "hbmwire/transfer.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

void hbmwire_transfer_free(hbmwire_transfer* transfer) {
  if (transfer != nullptr && transfer->is_own()) delete transfer;
}

hbmwire_status hbmwire_transfer_poll(hbmwire_transfer* transfer, bool* over, hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}, {over, "over"}}, [&]() -> Result<void> {
    *over = false;
    HBMWIRE_TRY_ASSIGN(*over, transfer->at->poll());
    return {};
  });
}

bool hbmwire_transfer_done(const hbmwire_transfer* transfer) {
  return transfer == nullptr || transfer->at->done();
}

hbmwire_status hbmwire_transfer_wait(hbmwire_transfer* transfer, int64_t timeout_ns,
                                     int32_t cancel_fd, hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}},
                [&] { return transfer->at->wait(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_transfer_poll_until(hbmwire_transfer* transfer, int64_t timeout_ns,
                                           int32_t cancel_fd, bool* over, hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}, {over, "over"}}, [&]() -> Result<void> {
    *over = false;
    HBMWIRE_TRY_ASSIGN(*over, transfer->at->poll_until(c::wait_of(timeout_ns, cancel_fd)));
    return {};
  });
}

hbmwire_status hbmwire_transfer_notify(hbmwire_transfer* transfer, uint64_t cookie,
                                       hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}}, [&]() -> Result<void> {
    transfer->at->notify(cookie);
    return {};
  });
}

hbmwire_status hbmwire_transfer_cancel(hbmwire_transfer* transfer, hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}}, [&] { return transfer->at->cancel(); });
}

hbmwire_status hbmwire_transfer_request_cancel(hbmwire_transfer* transfer, hbmwire_error* error) {
  return c::run(error, {{transfer, "transfer"}}, [&] { return transfer->at->request_cancel(); });
}

bool hbmwire_transfer_settled(const hbmwire_transfer* transfer) {
  return transfer == nullptr || transfer->at->settled();
}

uint64_t hbmwire_transfer_bytes(const hbmwire_transfer* transfer) {
  return transfer == nullptr ? 0 : transfer->at->bytes();
}

uint64_t hbmwire_transfer_value(const hbmwire_transfer* transfer) {
  return transfer == nullptr ? 0 : transfer->at->value();
}

hbmwire_path hbmwire_transfer_path(const hbmwire_transfer* transfer) {
  return transfer == nullptr ? -1 : c::number_of(transfer->at->path());
}

hbmwire_status hbmwire_transfer_explain(const hbmwire_transfer* transfer, hbmwire_report** report,
                                        hbmwire_error* error) {
  return c::create(report, error, {{transfer, "transfer"}},
                   [&] { return Result<TransferReport>(transfer->at->explain()); });
}
