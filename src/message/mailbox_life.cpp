// SPDX-License-Identifier: MIT
#include <bit>
#include <optional>
#include <utility>

#include "base/guarded.hpp"
#include "base/incarnation.hpp"
#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using Status = TransferState::Status;

Result<void> EndpointState::make_mailbox(std::byte* headers, std::byte* unexpected_pool,
                                         std::uint32_t pool_units) {
  mail.headers = headers;
  mail.headers_key = buffers.front().local_key;
  // Of those that wait each has a credit, or a place in the pool.
  mail.matching.make(unexpected_pool, pool_units, options.receive_depth);
  if (worker_nic.mover == nullptr) return {};
  HBMWIRE_TRY_ASSIGN(mail.for_mover,
                     worker_nic.mover->admit(std::bit_cast<std::byte*>(messages->address()),
                                             messages->size_bytes()));
  return {};
}

Result<void> EndpointState::post_receives() {
  for (MessageBuffer& buffer : buffers) {
    HBMWIRE_TRY(data->post_receive(transport::to_id(&buffer, transport::Tag::message),
                                   {buffer.bytes, message_bytes}, buffer.local_key));
    ++receives_posted;
  }
  return {};
}

void EndpointState::mark_messages_failed() noexcept {
  while (TransferState* const transfer = mail.matching.take_any_receive()) {
    transfer->receives = false;
    ending.mark_failed(*transfer);
  }
  // Each of these has a part that only the peer, or the send queue, could have ended.
  // Its requests may still complete well, but it is not over by that.
  const auto end_part = [&](TransferState& transfer) {
    if (transfer.then == Then::over) transfer.then = Then::cut;
    if (--transfer.parts == 0 && !transfer.waiting) go_on(transfer);
  };
  while (!mail.urgent.empty()) end_part(mail.urgent.take_first());
  mail.sent.clear([&](TransferState& transfer, std::uint32_t /*place*/) { end_part(transfer); });
  mail.clearing.clear([&](TransferState& transfer, std::uint32_t place) {
    mail.keys[place].reset();
    end_part(transfer);
  });
  mail.answers.clear();
  mail.pressing = false;
}

void EndpointState::fail_receives(const Error& why) noexcept {
  while (TransferState* const transfer = mail.matching.take_any_receive())
    worker->fail(*transfer, why, true);
}

bool EndpointState::cancel_receive(TransferState& transfer, const Error& why) noexcept {
  if (!transfer.receives || !mail.matching.cancel(transfer)) return false;
  worker->fail(transfer, why, true);
  return true;
}

void EndpointState::warn_of_copies() noexcept {
  if (device_over_tcp && !std::exchange(warned_of_tcp, true)) {
    log_line(LogLevel::warn, [&] {
      return "device memory goes to and from " + peer +
             (paths.placement() == Placement::two_nodes ? " by TCP"
                                                        : " by TCP or through shared host memory") +
             ", not zero-copy: one of both ends has no RDMA device";
    });
  }
  if (!mail.copied_to_device || mail.warned) return;
  mail.warned = true;
  log_line(LogLevel::warn, [&] {
    return "messages from " + peer +
           " come at once and are carried to device memory by the NIC, not zero-copy; "
           "PathPolicy::require zero_copy or EndpointOptions::eager_bytes 0 make them come by "
           "rendezvous";
  });
}

Result<std::uint32_t> EndpointState::open_to_peer(TransferState& transfer) noexcept {
  if (is_staged(transfer)) {
    return tl::make_unexpected(
        make_error(Errc::not_supported, Stage::complete,
                   "neither end's NIC reaches the other's memory: the sender's is not open to "
                   "reading, and this one is staged",
                   peer));
  }
  HBMWIRE_TRY_ASSIGN(auto key, guarded(Stage::complete,
                                       [&] { return open_part(transfer, Access::remote_write); }));
  const std::uint32_t remote_key = remote_key_of(*key);
  mail.keys[Slots::place_of(transfer.id)] = std::move(key);
  return remote_key;
}

Result<std::unique_ptr<MemoryKeyState>> EndpointState::open_part(const TransferState& transfer,
                                                                 Access access) const {
  const RegionState& region = *transfer.region;
  auto key = std::make_unique<MemoryKeyState>();
  key->info = {.type = region.allocation.domain().device().type,
               .address = transfer.operation.local,
               .length_bytes = transfer.bytes,
               .access = access,
               .incarnation = incarnation()};
  key->info.nics.resize(region.registrations.size());
  HBMWIRE_TRY(key->register_own(region));
  return key;
}

std::uint32_t EndpointState::remote_key_of(const MemoryKeyState& key) const noexcept {
  const auto ours =
      std::ranges::find(key.registrations, nic, [](const auto& each) { return each.nic.get(); });
  return ours->mr.get()->rkey;
}

Result<Transfer> WorkerState::flush(const Slice& memory) noexcept {
  HBMWIRE_TRY(check_process(Stage::post));
  const auto refuse = [](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post, why));
  };
  if (memory.region == nullptr) return refuse("a slice of no region");
  const RegionState& region = memory.region->state();
  const std::uint64_t size = region.allocation.size_bytes();
  if (memory.offset_bytes > size || memory.length_bytes > size - memory.offset_bytes)
    return refuse("the slice leaves its region");
  WorkerNic* flushes = nullptr;
  std::optional<std::uint32_t> key;
  for (WorkerNic& nic : nics) {
    key = region.local_key(nic.nic.state());
    flushes = &nic;
    if (key) break;
  }
  // What no NIC has none has written.
  if (!key && !region.registrations.empty())
    return refuse("the slice's region is not registered with one of the worker's NICs");
  TransferState* const transfer = take();
  if (transfer == nullptr) {
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::post,
                                          "all of the worker's transfers are in use", {},
                                          Hint::transfers_exhausted));
  }
  transfer->endpoint = nullptr;
  transfer->parts = 0;
  transfer->bytes = memory.length_bytes;
  transfer->path = region.path;
  transfer->record = region.record;
  transfer->connection = 0;  // none
  transfer->remote = kUnknownRemote;
  transfer->protocol = Protocol::direct;
  transfer->held = true;
  transfer->status = Status::active;
  transfer->operation = {};
  transfer->operation.local = region.address() + memory.offset_bytes;
  transfer->operation.local_key = key.value_or(0);
  transfer->operation.length = memory.length_bytes;
  if (region.path == Path::host || !key || memory.length_bytes == 0) {
    succeed(*transfer);  // the CPU, or the engine, sees what a completion told of
  } else {
    flushes->mover->start(*transfer, 0);
  }
  return Transfer(transfer);
}

}  // namespace hbmwire::detail
