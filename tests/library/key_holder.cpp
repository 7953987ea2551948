// SPDX-License-Identifier: MIT
#include "key_holder.hpp"

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "helpers.hpp"

namespace hbmwire::test {

namespace {

constexpr std::int32_t kRemoteAccessError = 10;  // IBV_WC_REM_ACCESS_ERR

Buffer own_buffer(const Nic& nic) {
  const Context context = take(Context::create());
  return take(Buffer::create(take(context.open(MemoryType::host)), nic, KeyHolder::kMostBytes,
                             Access::local_write));
}

std::optional<Error> outcome(Connection& connection) {
  const auto done = connection.wait(soon());
  if (done) return std::nullopt;
  return done.error();
}

}  // namespace

KeyHolder::KeyHolder(const char* device)
    : nic_(take(Nic::open(device))), buffer_(own_buffer(nic_)) {}

KeyHolder::Link KeyHolder::connect(const Nic& exporter) const {
  Link link{take(Connection::create(nic_, {})), take(Connection::create(exporter, {}))};
  must(link.here.connect(link.there.local()));
  must(link.there.connect(link.here.local()));
  return link;
}

std::optional<Error> KeyHolder::write(const Nic& exporter, const RemoteMemory& to,
                                      std::span<const std::byte> bytes) {
  Link link = connect(exporter);
  must(buffer_.write(0, bytes, soon()));
  must(link.here.post_write(1, {&buffer_.region(), 0, bytes.size()}, to));
  return outcome(link.here);
}

std::optional<Error> KeyHolder::read(const Nic& exporter, const RemoteMemory& from,
                                     std::span<std::byte> bytes) {
  Link link = connect(exporter);
  const std::vector<std::byte> poison(bytes.size(), std::byte{0xee});
  must(buffer_.write(0, poison, soon()));
  must(link.here.post_read(1, {&buffer_.region(), 0, bytes.size()}, from));
  auto error = outcome(link.here);
  must(buffer_.read(0, bytes, soon()));
  return error;
}

bool refused_by_nic(const std::optional<Error>& error) {
  return error && error->number_kind == NumberKind::wc_status &&
         error->number == kRemoteAccessError && error->hint == Hint::remote_key;
}

}  // namespace hbmwire::test
