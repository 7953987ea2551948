// SPDX-License-Identifier: MIT
#include "wire/attach_messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hbmwire::wire {
namespace {

const AttachReply kReply{.status = AttachReply::Status::granted,
                         .type = MemoryType::cuda,
                         .writable = true,
                         .offset_bytes = 0x0102030405060708,
                         .length_bytes = 0x1112131415161718,
                         .base_address = 0x2122232425262728,
                         .generation = 0x3132333435363738};

/// Reads the message from a stream that arrives in pieces of `piece_bytes`.
template <class Message>
Result<std::optional<Message>> assemble(const std::vector<std::byte>& bytes,
                                        std::size_t piece_bytes) {
  AttachAssembly<Message> assembly;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t count = std::min({piece_bytes, bytes.size() - at, assembly.room().size()});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, assembly.room().begin());
    at += count;
    HBMWIRE_TRY_ASSIGN(const auto message, assembly.advance(count));
    if (message) return message;
  }
  return std::nullopt;
}

TEST(AttachMessages, ComeThroughHoweverTheyAreCut) {
  AttachRequest request;
  for (std::size_t i = 0; i < request.secret.size(); ++i)
    request.secret.at(i) = static_cast<std::uint8_t>(i + 200);
  const auto bytes = encode(request);
  EXPECT_EQ(bytes.size(), kAttachRequestBytes);
  const auto reply = encode(kReply);
  EXPECT_EQ(reply.size(), kAttachReplyBytes);
  for (std::size_t piece = 1; piece <= reply.size(); ++piece) {
    EXPECT_EQ(*assemble<AttachRequest>(bytes, piece), request) << piece;
    EXPECT_EQ(*assemble<AttachReply>(reply, piece), kReply) << piece;
  }
}

TEST(AttachMessages, AreNotMistakenForEachOther) {
  EXPECT_EQ(assemble<AttachReply>(encode(AttachRequest{}), 1).error().code, Errc::protocol);
  EXPECT_EQ(assemble<AttachRequest>(encode(kReply), 1).error().code, Errc::protocol);
}

TEST(AttachMessages, AnotherVersionIsToldByTheHeaderAlone) {
  auto bytes = encode(kReply);
  bytes.at(9) = std::byte{2};  // the version's low byte
  bytes.resize(kAttachHeaderBytes);
  const Error error = assemble<AttachReply>(bytes, 3).error();
  EXPECT_EQ(error.hint, Hint::other_version);
  EXPECT_EQ(number_text(error), "version 2 there, 1 here");
}

TEST(AttachMessages, ARefusalSaysNothingElse) {
  AttachReply refusal = kReply;
  refusal.status = AttachReply::Status::unknown;
  EXPECT_FALSE(assemble<AttachReply>(encode(refusal), 100));
  const AttachReply plain{.status = AttachReply::Status::other_user};
  EXPECT_EQ(*assemble<AttachReply>(encode(plain), 100), plain);
}

TEST(AttachSecrets, OneDifferentBitMakesAnotherSecret) {
  AttachSecret secret{};
  EXPECT_TRUE(equal_in_constant_time(secret, secret));
  for (std::size_t bit = 0; bit < 8 * secret.size(); ++bit) {
    AttachSecret other = secret;
    other.at(bit / 8) ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_FALSE(equal_in_constant_time(secret, other)) << bit;
  }
}

}  // namespace
}  // namespace hbmwire::wire
