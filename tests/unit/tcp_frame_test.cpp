// SPDX-License-Identifier: MIT
#include "wire/tcp_frame.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace hbmwire::wire {
namespace {

using FrameKind = TcpFrame::Kind;
using Bytes = std::array<std::byte, kTcpFrameBytes>;

Bytes bytes_of(const TcpFrame& frame) {
  Bytes bytes;
  encode(frame, bytes.data());
  return bytes;
}

bool is_good(const TcpFrame& frame) { return decode_tcp_frame(bytes_of(frame)).has_value(); }

/// A valid frame of each kind.
std::vector<TcpFrame> good_frames() {
  return {
      {.kind = FrameKind::control, .length = 1},
      {.kind = FrameKind::message, .length = kMaxTcpMessage},
      {.kind = FrameKind::write, .length = 5, .number = 1, .address = 4096, .key = ~0ULL},
      {.kind = FrameKind::write, .flags = TcpFrame::kLast, .length = 0, .number = ~0U},
      {.kind = FrameKind::write,
       .flags = TcpFrame::kLast | TcpFrame::kImmediate | TcpFrame::kWindow,
       .length = kMaxTcpPayload,
       .value = 77},
      {.kind = FrameKind::read, .number = 3, .value = kMaxTcpRead, .address = 1, .key = 2},
      {.kind = FrameKind::fetch_add,
       .length = sizeof(TcpOperands),
       .number = 4,
       .address = 8,
       .key = 1},
      {.kind = FrameKind::compare_swap, .length = sizeof(TcpOperands), .number = 4},
      {.kind = FrameKind::data, .length = 8, .number = 9},
      {.kind = FrameKind::data, .flags = TcpFrame::kLast, .length = kMaxTcpPayload, .number = 9},
      {.kind = FrameKind::done, .number = 12},
      {.kind = FrameKind::failed, .status = TcpFrame::Status::unwelcome, .number = 12},
      {.kind = FrameKind::idle},
  };
}

TEST(TcpFrame, ComesBackAsItWent) {
  for (const TcpFrame& frame : good_frames()) {
    const auto back = decode_tcp_frame(bytes_of(frame));
    ASSERT_TRUE(back) << static_cast<int>(frame.kind);
    EXPECT_EQ(*back, frame);
  }
}

TEST(TcpFrame, AnotherVersionIsRefused) {
  for (TcpFrame frame : good_frames()) {
    frame.version = kTcpFrameVersion + 1;
    EXPECT_FALSE(is_good(frame)) << static_cast<int>(frame.kind);
  }
}

TEST(TcpFrame, AnUnknownKindIsRefused) {
  for (const unsigned kind : {0U, 11U, 255U}) {
    Bytes bytes = bytes_of({.kind = FrameKind::idle});
    bytes[1] = static_cast<std::byte>(kind);
    EXPECT_FALSE(decode_tcp_frame(bytes)) << kind;
  }
  Bytes bytes = bytes_of({.kind = FrameKind::failed, .status = TcpFrame::Status::denied});
  bytes[3] = std::byte{5};
  EXPECT_FALSE(decode_tcp_frame(bytes)) << "a status that there is not";
}

TEST(TcpFrame, IsRefusedWithMoreThanMayFollow) {
  const auto refused = [](TcpFrame frame, std::uint32_t length) {
    frame.length = length;
    EXPECT_FALSE(is_good(frame)) << static_cast<int>(frame.kind) << " with " << length;
  };
  refused({.kind = FrameKind::control}, 0);
  refused({.kind = FrameKind::control}, kMaxTcpControl + 1);
  refused({.kind = FrameKind::message}, 0);
  refused({.kind = FrameKind::message}, kMaxTcpMessage + 1);
  refused({.kind = FrameKind::write}, 0);
  refused({.kind = FrameKind::write, .flags = TcpFrame::kLast}, kMaxTcpPayload + 1);
  refused({.kind = FrameKind::data}, 0);
  refused({.kind = FrameKind::data}, kMaxTcpPayload + 1);
  refused({.kind = FrameKind::fetch_add}, 8);
  refused({.kind = FrameKind::compare_swap}, 17);
  refused({.kind = FrameKind::read, .value = 1}, 1);
  refused({.kind = FrameKind::done}, 1);
  refused({.kind = FrameKind::idle}, 1);
}

TEST(TcpFrame, IsRefusedWithFieldsOfAnotherKind) {
  for (const TcpFrame& good : good_frames()) {
    const auto refused = [&](auto change) {
      TcpFrame frame = good;
      change(frame);
      EXPECT_FALSE(is_good(frame)) << static_cast<int>(frame.kind);
    };
    refused([](TcpFrame& frame) { frame.flags |= 8U; });
    if (good.kind != FrameKind::failed)
      refused([](TcpFrame& frame) { frame.status = TcpFrame::Status::denied; });
    else
      refused([](TcpFrame& frame) { frame.status = TcpFrame::Status::none; });
    if (!good.is_request()) {
      refused([](TcpFrame& frame) { frame.address = 1; });
      refused([](TcpFrame& frame) { frame.key = 1; });
      refused([](TcpFrame& frame) { frame.value = 1; });
    }
    if (good.kind == FrameKind::message || good.kind == FrameKind::control ||
        good.kind == FrameKind::idle)
      refused([](TcpFrame& frame) { frame.number = 1; });
  }
  EXPECT_FALSE(is_good({.kind = FrameKind::write, .flags = TcpFrame::kImmediate, .length = 1}))
      << "an immediate before the last bytes";
  EXPECT_FALSE(
      is_good({.kind = FrameKind::write, .flags = TcpFrame::kLast, .length = 1, .value = 5}))
      << "an immediate that is not said";
}

TEST(TcpFrame, EndsWithinTheAddresses) {
  TcpFrame frame{.kind = FrameKind::write, .length = 2, .address = ~0ULL - 2};
  EXPECT_TRUE(is_good(frame));
  frame.address = ~0ULL - 1;
  EXPECT_FALSE(is_good(frame));
  frame = {.kind = FrameKind::read, .value = 100, .address = ~0ULL - 99};
  EXPECT_FALSE(is_good(frame));
  frame = {.kind = FrameKind::read, .value = kMaxTcpRead + 1};
  EXPECT_FALSE(is_good(frame)) << "more than an end answers";
  frame = {.kind = FrameKind::read, .value = 0};
  EXPECT_FALSE(is_good(frame));
}

}  // namespace
}  // namespace hbmwire::wire
