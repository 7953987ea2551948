// SPDX-License-Identifier: MIT
#include "wire/memory_key.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "wire/codec.hpp"

namespace hbmwire::wire {

namespace {

constexpr std::array<std::uint8_t, 4> kKeyMagic{'h', 'b', 'm', 'k'};
constexpr std::size_t kChecksumBytes = 4;

// Bits of the access byte.
constexpr std::uint8_t kRemoteWrite = 1;
constexpr std::uint8_t kRemoteRead = 2;
constexpr std::uint8_t kRemoteAtomic = 4;

// The number of a memory type on the wire is its place in the enumeration: only append.
static_assert(static_cast<int>(MemoryType::host) == 0 && static_cast<int>(MemoryType::gaudi) == 1 &&
              static_cast<int>(MemoryType::cuda) == 2 && static_cast<int>(MemoryType::rocm) == 3 &&
              static_cast<int>(MemoryType::dmabuf) == 4 && kMemoryTypes.size() == 5);

// The number of a path is its place, too.
static_assert(static_cast<int>(Path::host) == 0 && static_cast<int>(Path::zero_copy) == 1 &&
              static_cast<int>(Path::peer_memory) == 2 && static_cast<int>(Path::staged) == 4);

using Expiry = std::chrono::sys_time<std::chrono::nanoseconds>;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // of CRC-32C, with its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1U) ^ ((remainder & 1U) != 0 ? kPolynomial : 0);
    table.at(i) = remainder;
  }
  return table;
}

std::uint8_t access_bits(Access access) noexcept {
  return static_cast<std::uint8_t>((has(access, Access::remote_write) ? kRemoteWrite : 0) |
                                   (has(access, Access::remote_read) ? kRemoteRead : 0) |
                                   (has(access, Access::remote_atomic) ? kRemoteAtomic : 0));
}

Access access_of(std::uint8_t bits) noexcept {
  return ((bits & kRemoteWrite) != 0 ? Access::remote_write : Access::none) |
         ((bits & kRemoteRead) != 0 ? Access::remote_read : Access::none) |
         ((bits & kRemoteAtomic) != 0 ? Access::remote_atomic : Access::none);
}

void write_key(Writer& out, const MemoryKeyInfo& key) {
  out.bytes(kKeyMagic);
  out.integer(kMemoryKeyVersion);
  out.integer(static_cast<std::uint8_t>(key.type));
  out.integer(access_bits(key.access));
  out.integer(static_cast<std::uint8_t>(key.attach ? 1 : 0));
  out.integer(static_cast<std::uint8_t>(key.nics.size()));
  out.integer(static_cast<std::uint8_t>(key.path));
  out.integer(std::uint8_t{0});
  out.integer(key.address);
  out.integer(key.length_bytes);
  out.integer(key.incarnation);
  out.integer(key.expires ? static_cast<std::uint64_t>(key.expires->time_since_epoch().count())
                          : 0);
  out.integer(key.token);
  for (const MemoryKeyNic& nic : key.nics) {
    out.bytes(nic.gid);
    out.integer(nic.remote_key);
  }
  if (!key.attach) return;
  out.text(key.attach->socket, kMaxSocketBytes);
  out.bytes(key.attach->secret);
}

/// Reads the fields after the version. is_sane() checks for impossible values later; those that it
/// could not see any more are checked here.
MemoryKeyInfo read_key(Reader& in) {
  MemoryKeyInfo key;
  key.type = static_cast<MemoryType>(in.integer<std::uint8_t>());
  const auto access = in.integer<std::uint8_t>();
  key.access = access_of(access);
  const auto attach = in.integer<std::uint8_t>();
  const std::size_t nics = in.integer<std::uint8_t>();
  key.path = static_cast<Path>(in.integer<std::uint8_t>());
  const auto reserved = in.integer<std::uint8_t>();
  key.address = in.integer<std::uint64_t>();
  key.length_bytes = in.integer<std::uint64_t>();
  key.incarnation = in.integer<std::uint64_t>();
  const auto expires = in.integer<std::uint64_t>();
  key.token = in.integer<std::uint64_t>();
  constexpr auto kLastExpiry =
      static_cast<std::uint64_t>(std::numeric_limits<std::chrono::nanoseconds::rep>::max());
  if (access != access_bits(key.access) || attach > 1 || nics > kMaxKeyNics || reserved != 0 ||
      expires > kLastExpiry) {
    in.fail();
    return key;
  }
  if (expires != 0)
    key.expires = Expiry(std::chrono::nanoseconds(static_cast<std::int64_t>(expires)));
  for (std::size_t i = 0; i < nics; ++i)
    key.nics.push_back({.gid = in.bytes<16>(), .remote_key = in.integer<std::uint32_t>()});
  if (attach == 0) return key;
  key.attach.emplace();
  key.attach->socket = in.text(kMaxSocketBytes);
  key.attach->secret = in.bytes<16>();
  return key;
}

tl::unexpected<Error> refuse(const char* why, Hint hint) {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::connect, why, {}, hint));
}

}  // namespace

bool is_sane(const std::vector<MemoryKeyNic>& nics) noexcept {
  if (nics.size() > kMaxKeyNics) return false;
  for (auto nic = nics.begin(); nic != nics.end(); ++nic) {
    if (nic->gid == std::array<std::uint8_t, 16>{}) return false;
    if (std::any_of(nics.begin(), nic, [&](const auto& other) { return other.gid == nic->gid; }))
      return false;
  }
  return true;
}

bool is_sane(const MemoryKeyInfo& info) noexcept {
  const bool known_type =
      std::find(kMemoryTypes.begin(), kMemoryTypes.end(), info.type) != kMemoryTypes.end();
  // Host memory is reached by Path::host alone. A device's memory may have any path up to
  // peer_memory, and is staged if no NIC reaches it.
  const bool path = info.type == MemoryType::host ? info.path == Path::host
                    : info.nics.empty()           ? info.path == Path::staged
                                                  : info.path <= Path::peer_memory;
  const bool range =
      info.length_bytes != 0 && info.length_bytes <= ~std::uint64_t{0} - info.address;
  const bool access =
      info.access != Access::none && info.access == access_of(access_bits(info.access));
  const bool expires = !info.expires || info.expires->time_since_epoch().count() > 0;
  const bool attach = !info.attach || (!info.attach->socket.empty() &&
                                       info.attach->socket.size() <= kMaxSocketBytes);
  return known_type && path && range && access && info.incarnation != 0 && info.token != 0 &&
         expires && attach && is_sane(info.nics);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  static constexpr auto kTable = make_crc_table();
  std::uint32_t remainder = ~0U;
  for (const std::byte byte : bytes) {
    const auto index = static_cast<std::uint8_t>(remainder) ^ std::to_integer<std::uint8_t>(byte);
    remainder = remainder >> 8U ^ kTable.at(static_cast<std::size_t>(index));
  }
  return ~remainder;
}

std::vector<std::byte> encode(const MemoryKeyInfo& info) {
  Writer body;
  write_key(body, info);
  std::vector<std::byte> bytes = body.take();
  Writer checksum;
  checksum.integer(crc32c(bytes));
  const std::vector<std::byte> end = checksum.take();
  bytes.insert(bytes.end(), end.begin(), end.end());
  return bytes;
}

Result<MemoryKeyInfo> decode_memory_key(std::span<const std::byte> bytes) {
  constexpr const char* kMalformed = "the memory key is malformed";
  if (bytes.size() <= kChecksumBytes || bytes.size() > kMaxKeyBytes)
    return refuse("the bytes are no memory key", Hint::memory_key_bytes);
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  Reader in(body);
  if (in.bytes<kKeyMagic.size()>() != kKeyMagic)
    return refuse("the bytes are no memory key", Hint::memory_key_bytes);
  // Checked before the checksum, which may be elsewhere in another version.
  if (const auto version = in.integer<std::uint16_t>(); version != kMemoryKeyVersion) {
    return tl::make_unexpected(version_error(Stage::connect, "the memory key is of another version",
                                             {}, version, kMemoryKeyVersion));
  }
  Reader end(bytes.last(kChecksumBytes));
  if (end.integer<std::uint32_t>() != crc32c(body))
    return refuse("the memory key was changed on its way", Hint::memory_key_bytes);
  MemoryKeyInfo key = read_key(in);
  if (!in.complete() || !is_sane(key)) return refuse(kMalformed, Hint::memory_key_bytes);
  return key;
}

}  // namespace hbmwire::wire
