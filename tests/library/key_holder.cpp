// SPDX-License-Identifier: MIT
#include "key_holder.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "hbmwire/context.hpp"

namespace hbmwire::test {

namespace {

constexpr std::int32_t kRemoteAccessError = 10;  // IBV_WC_REM_ACCESS_ERR

Wait soon() { return {Deadline::after(std::chrono::seconds(10)), -1}; }

template <class T>
T need(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

Buffer own_buffer(const Nic& nic) {
  const Context context = need(Context::create());
  return need(Buffer::create(need(context.open(MemoryType::host)), nic, KeyHolder::kMostBytes,
                             Access::local_write));
}

std::optional<Error> outcome(Connection& connection) {
  const auto done = connection.wait(soon());
  if (done) return std::nullopt;
  return done.error();
}

}  // namespace

KeyHolder::KeyHolder(const char* device)
    : nic_(need(Nic::open(device))), buffer_(own_buffer(nic_)) {}

KeyHolder::Link KeyHolder::connect(const Nic& exporter) const {
  Link link{need(Connection::create(nic_, {})), need(Connection::create(exporter, {}))};
  need(link.here.connect(link.there.local()));
  need(link.there.connect(link.here.local()));
  return link;
}

std::optional<Error> KeyHolder::write(const Nic& exporter, const RemoteMemory& to,
                                      std::span<const std::byte> bytes) {
  Link link = connect(exporter);
  need(buffer_.write(0, bytes, soon()));
  need(link.here.post_write(1, {&buffer_.region(), 0, bytes.size()}, to));
  return outcome(link.here);
}

std::optional<Error> KeyHolder::read(const Nic& exporter, const RemoteMemory& from,
                                     std::span<std::byte> bytes) {
  Link link = connect(exporter);
  const std::vector<std::byte> poison(bytes.size(), std::byte{0xee});
  need(buffer_.write(0, poison, soon()));
  need(link.here.post_read(1, {&buffer_.region(), 0, bytes.size()}, from));
  auto error = outcome(link.here);
  need(buffer_.read(0, bytes, soon()));
  return error;
}

bool refused_by_nic(const std::optional<Error>& error) {
  return error && error->number_kind == NumberKind::wc_status &&
         error->number == kRemoteAccessError && error->hint == Hint::remote_key;
}

}  // namespace hbmwire::test
