// SPDX-License-Identifier: MIT
#include "wire/endpoint_offer.hpp"

#include <algorithm>
#include <tuple>

#include "wire/address_codec.hpp"

namespace hbmwire::wire {

namespace {

// No real offer exceeds these: a peer's number must not make this end reserve without bounds.
constexpr std::uint32_t kMaxReceiveDepth = 65536;
constexpr std::uint32_t kMaxEagerBytes = 1U << 20;

// The control lane's messages are short, so no reader uses the field for its longest message.
// An offer carries `shares` in that field, marked by this bit. Earlier builds write a NIC's limit
// there, which is smaller, and ignore the field when they read.
constexpr std::uint64_t kSharing = std::uint64_t{1} << 63U;
constexpr unsigned kDescriptorBits = 24;
constexpr unsigned kProcessBits = 22;
static_assert(kProcessBits + kDescriptorBits + kSharesEndpointBits == 63);

constexpr std::uint64_t mask_of(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

ConnectionAddress with_shares(ConnectionAddress control,
                              const std::optional<EndpointOffer::Shares>& shares) {
  if (!shares || shares->process > mask_of(kProcessBits) ||
      shares->descriptor > mask_of(kDescriptorBits))
    return control;
  control.max_message_bytes =
      kSharing | std::uint64_t{shares->process} << (kDescriptorBits + kSharesEndpointBits) |
      std::uint64_t{shares->descriptor} << kSharesEndpointBits |
      (shares->endpoint & mask_of(kSharesEndpointBits));
  return control;
}

std::optional<EndpointOffer::Shares> shares_of(std::uint64_t told) noexcept {
  if ((told & kSharing) == 0) return std::nullopt;
  return EndpointOffer::Shares{
      static_cast<std::uint32_t>(told >> (kDescriptorBits + kSharesEndpointBits) &
                                 mask_of(kProcessBits)),
      static_cast<std::uint32_t>(told >> kSharesEndpointBits & mask_of(kDescriptorBits)),
      static_cast<std::uint32_t>(told & mask_of(kSharesEndpointBits))};
}

}  // namespace

std::vector<std::byte> encode(const EndpointOffer& offer) {
  Writer out;
  out.integer(kEndpointVersion);
  put(out, offer.data);
  put(out, with_shares(offer.control, offer.shares));
  out.integer(offer.reads_in);
  out.integer(offer.receive_depth);
  out.integer(offer.places);
  out.integer(offer.eager_bytes);
  out.bytes(offer.node);
  out.integer(static_cast<std::uint8_t>(offer.rails.size()));
  out.integer(offer.nics[0]);
  for (std::size_t i = 0; i < offer.rails.size(); ++i) {
    put(out, offer.rails[i]);
    out.integer(offer.nics[i + 1]);
  }
  out.counted(offer.hello);
  return out.take();
}

Result<EndpointOffer> decode_offer(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto version = in.integer<std::uint16_t>();
  if (bytes.size() >= sizeof version && version != kEndpointVersion) {
    return tl::make_unexpected(
        version_error(Stage::connect, kOtherVersion, {}, version, kEndpointVersion));
  }
  EndpointOffer offer;
  offer.data = get_connection_address(in);
  offer.control = get_connection_address(in);
  offer.shares = shares_of(offer.control.max_message_bytes);
  // The field told `shares`, so the control lane's limit is unknown; no reader uses it.
  if (offer.shares) offer.control.max_message_bytes = offer.data.max_message_bytes;
  offer.reads_in = in.integer<std::uint8_t>();
  offer.receive_depth = in.integer<std::uint32_t>();
  offer.places = in.integer<std::uint32_t>();
  offer.eager_bytes = in.integer<std::uint32_t>();
  offer.node = in.bytes<std::tuple_size_v<NodeId>>();
  const std::size_t rails = in.integer<std::uint8_t>();
  if (rails >= kMostRails) in.fail();
  offer.nics[0] = in.integer<std::uint8_t>();
  for (std::size_t i = 0; i < rails && rails < kMostRails; ++i) {
    offer.rails.push_back(get_connection_address(in));
    offer.nics[i + 1] = in.integer<std::uint8_t>();
  }
  offer.hello = in.counted(kMaxHelloBytes);
  const bool one_process = std::ranges::all_of(offer.rails, [&](const ConnectionAddress& rail) {
    return rail.incarnation == offer.data.incarnation;
  });
  const bool sane = in.complete() && one_process && offer.receive_depth >= 1 &&
                    offer.receive_depth <= kMaxReceiveDepth && offer.places >= 1 &&
                    offer.places <= offer.receive_depth && offer.eager_bytes <= kMaxEagerBytes &&
                    offer.data.incarnation == offer.control.incarnation &&
                    offer.data.queue_pair != offer.control.queue_pair;
  if (!sane) {
    return tl::make_unexpected(make_error(
        Errc::protocol, Stage::connect, "the peer's offer is malformed", {}, Hint::other_version));
  }
  return offer;
}

}  // namespace hbmwire::wire
