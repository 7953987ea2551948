// SPDX-License-Identifier: MIT
#include "wire/attach_messages.hpp"

#include <algorithm>

#include "wire/codec.hpp"

namespace hbmwire::wire {

namespace {

// No other protocol begins with these bytes.
constexpr std::array<std::uint8_t, 8> kAttachMagic{'h', 'b', 'm', 'w', '-', 'f', 'd', '\n'};

enum class Kind : std::uint16_t { request = 1, reply = 2 };

constexpr Kind kind_of(const AttachRequest* /*tag*/) { return Kind::request; }

constexpr Kind kind_of(const AttachReply* /*tag*/) { return Kind::reply; }

void put_header(Writer& out, Kind kind, std::size_t message_bytes) {
  out.bytes(kAttachMagic);
  out.integer(kAttachVersion);
  out.integer(static_cast<std::uint16_t>(kind));
  out.integer(static_cast<std::uint32_t>(message_bytes - kAttachHeaderBytes));
}

Error protocol_error(const char* what, Hint hint) {
  return make_error(Errc::protocol, Stage::connect, what, "attach", hint);
}

Error malformed() {
  return protocol_error("the other process sent a malformed message", Hint::not_hbmwire);
}

Result<void> check_header(std::span<const std::byte> header, Kind kind, std::size_t message_bytes) {
  Reader in(header);
  if (in.bytes<kAttachMagic.size()>() != kAttachMagic) {
    return tl::make_unexpected(
        protocol_error("the other process speaks another protocol", Hint::not_hbmwire));
  }
  if (const auto version = in.integer<std::uint16_t>(); version != kAttachVersion) {
    return tl::make_unexpected(
        version_error(Stage::connect, "the other process speaks another version of the protocol",
                      "attach", version, kAttachVersion));
  }
  const bool expected = in.integer<std::uint16_t>() == static_cast<std::uint16_t>(kind) &&
                        in.integer<std::uint32_t>() == message_bytes - kAttachHeaderBytes;
  if (!expected || !in.complete()) return tl::make_unexpected(malformed());
  return {};
}

void get(Reader& in, AttachRequest& request) { request.secret = in.bytes<16>(); }

/// Whether the memory can be imported: it is not empty, and does not wrap around the end of the
/// address space.
bool is_sane(const AttachReply& reply) {
  const std::uint64_t most = ~std::uint64_t{0};
  return reply.length_bytes != 0 && reply.length_bytes <= most - reply.offset_bytes &&
         reply.base_address <= most - reply.offset_bytes - reply.length_bytes;
}

void get(Reader& in, AttachReply& reply) {
  const auto status = in.integer<std::uint8_t>();
  const auto type = in.integer<std::uint8_t>();
  const auto writable = in.integer<std::uint8_t>();
  const auto zero = in.integer<std::uint8_t>();
  if (status > static_cast<std::uint8_t>(AttachReply::Status::no_descriptors) ||
      type >= kMemoryTypes.size() || writable > 1 || zero != 0) {
    in.fail();
    return;
  }
  reply.status = static_cast<AttachReply::Status>(status);
  reply.type = static_cast<MemoryType>(type);
  reply.writable = writable == 1;
  reply.offset_bytes = in.integer<std::uint64_t>();
  reply.length_bytes = in.integer<std::uint64_t>();
  reply.base_address = in.integer<std::uint64_t>();
  reply.generation = in.integer<std::uint64_t>();
  const bool granted = reply.status == AttachReply::Status::granted;
  // A refusal carries nothing but its status.
  AttachReply refusal;
  refusal.status = reply.status;
  if (granted ? !is_sane(reply) : reply != refusal) in.fail();
}

}  // namespace

std::vector<std::byte> encode(const AttachRequest& request) {
  Writer out;
  put_header(out, Kind::request, kAttachRequestBytes);
  out.bytes(request.secret);
  return out.take();
}

std::vector<std::byte> encode(const AttachReply& reply) {
  Writer out;
  put_header(out, Kind::reply, kAttachReplyBytes);
  out.integer(static_cast<std::uint8_t>(reply.status));
  out.integer(static_cast<std::uint8_t>(reply.type));
  out.integer(static_cast<std::uint8_t>(reply.writable ? 1 : 0));
  out.integer(std::uint8_t{0});
  out.integer(reply.offset_bytes);
  out.integer(reply.length_bytes);
  out.integer(reply.base_address);
  out.integer(reply.generation);
  return out.take();
}

bool equal_in_constant_time(const AttachSecret& a, const AttachSecret& b) noexcept {
  // Volatile, so that the compiler cannot end the loop at the first byte that differs.
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = difference | (static_cast<unsigned>(a.at(i)) ^ static_cast<unsigned>(b.at(i)));
  }
  return difference == 0;
}

template <class Message>
std::span<std::byte> AttachAssembly<Message>::room() noexcept {
  const std::size_t end = filled_ < kAttachHeaderBytes ? kAttachHeaderBytes : kBytes;
  return std::span(bytes_).first(end).subspan(filled_);
}

template <class Message>
Result<std::optional<Message>> AttachAssembly<Message>::advance(std::size_t count) {
  filled_ += std::min(count, room().size());
  const auto bytes = std::span<const std::byte>(bytes_);
  if (filled_ == kAttachHeaderBytes) {
    HBMWIRE_TRY(check_header(bytes.first(kAttachHeaderBytes),
                             kind_of(static_cast<const Message*>(nullptr)), kBytes));
  }
  if (filled_ < kBytes) return std::nullopt;
  Reader in(bytes.subspan(kAttachHeaderBytes));
  Message message;
  get(in, message);
  if (!in.complete()) return tl::make_unexpected(malformed());
  return message;
}

template class AttachAssembly<AttachRequest>;
template class AttachAssembly<AttachReply>;

}  // namespace hbmwire::wire
