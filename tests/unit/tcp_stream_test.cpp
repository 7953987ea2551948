// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "hbmwire/fd.hpp"

#include "own_network.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/lent_memory.hpp"
#include "transport/tcp/stream.hpp"

namespace hbmwire::transport {
namespace {

using namespace std::chrono_literals;
using test::pattern;
using wire::TcpFrame;
using Kind = TcpFrame::Kind;

/// Sends frames that were pushed, and keeps those that arrive.
class Ends final : public FrameUser {
 public:
  struct Item {
    TcpFrame header;
    std::vector<std::byte> bytes;
    const test::LentMemory* lent = nullptr;  // used instead of `bytes`
    bool operator==(const Item&) const = default;
  };

  void push(Item item) {
    item.header.length = static_cast<std::uint32_t>(item.bytes.size());
    going.push_back(std::move(item));
  }

  bool next(OutFrame& frame) noexcept override {
    if (taken_for_sending == going.size()) return false;
    const Item& item = going[taken_for_sending];
    frame.header = item.header;
    // In two parts, like a message with its header.
    const std::size_t first = item.bytes.size() / 3;
    frame.parts = {std::span(item.bytes).first(first), std::span(item.bytes).subspan(first)};
    if (item.lent != nullptr) {
      frame.parts = {item.lent->bytes(), {}};
      frame.header.length = static_cast<std::uint32_t>(item.lent->size_bytes());
      frame.of_application = true;
    }
    frame.mark = taken_for_sending++;
    return true;
  }

  void sent(std::uint64_t mark) noexcept override { marks.push_back(mark); }

  void unreadable(std::uint64_t mark) noexcept override { lost.push_back(mark); }

  void unwritable(const TcpFrame& /*frame*/) noexcept override {
    ++refused;
    how = Place::drop;
  }

  Place place(const TcpFrame& frame, std::uint32_t offset,
              std::span<std::byte>& memory) noexcept override {
    EXPECT_FALSE(placed);
    if (how == Place::later) return how;
    if (how == Place::drop) return how;
    if (how == Place::application) {
      memory = gone->bytes().subspan(offset);
      placed = true;
      return how;
    }
    memory_of.resize(frame.length);
    memory = std::span(memory_of).subspan(offset);
    if (memory.size() > most) memory = memory.first(most);
    placed = true;
    return Place::here;
  }

  void taken(const TcpFrame& /*frame*/, std::uint32_t /*offset*/,
             std::uint32_t /*bytes*/) noexcept override {
    EXPECT_TRUE(std::exchange(placed, false));
  }

  void arrived(const TcpFrame& frame) noexcept override {
    came.push_back({frame, std::exchange(memory_of, {}), nullptr});
  }

  std::deque<Item> going;  // all that were pushed
  std::size_t taken_for_sending = 0;
  std::vector<std::uint64_t> marks;        // of frames that were sent
  std::vector<std::uint64_t> lost;         // of frames whose memory could not be read
  unsigned refused = 0;                    // frames whose memory could not be written
  const test::LentMemory* gone = nullptr;  // memory for Place::application
  Place how = Place::here;                 // the answer of place()
  std::size_t most = ~std::size_t{0};      // bytes that place() offers at once
  bool placed = false;                     // between place() and taken()
  std::vector<std::byte> memory_of;        // of the frame that is arriving
  std::vector<Item> came;                  // whole frames
};

Fd listen_here(sockaddr_in& address) {
  Fd listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listening.get(), 1), 0);
  EXPECT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return listening;
}

/// Two connected sockets, of which the second one is non-blocking.
std::pair<Fd, Fd> connected() {
  sockaddr_in address{};
  const Fd listening = listen_here(address);
  Fd one{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(::connect(one.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  Fd other{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  EXPECT_TRUE(one && other);
  const int on = 1;
  ::setsockopt(one.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {std::move(one), std::move(other)};
}

struct Pair {
  Pair() {
    auto [one, other] = connected();
    ::fcntl(one.get(), F_SETFL, O_NONBLOCK);
    sender.emplace(std::move(one), from, "there");
    receiver.emplace(std::move(other), into, "here");
  }

  /// Sends and receives until `count` frames have arrived in all, for 10 s at most.
  void exchange(std::size_t count) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (into.came.size() < count && std::chrono::steady_clock::now() < until) {
      ASSERT_TRUE(sender->send());
      ASSERT_TRUE(receiver->receive());
    }
    ASSERT_EQ(into.came.size(), count);
  }

  Ends from;
  Ends into;
  std::optional<Stream> sender;
  std::optional<Stream> receiver;
};

/// Frames of many lengths, including those around the limits for copying and for reading directly.
std::vector<Ends::Item> many() {
  std::vector<Ends::Item> items;
  unsigned number = 0;
  for (const std::size_t size :
       {0U, 1U, 31U, 32U, 33U, 4095U, (16U << 10U) - 1, 16U << 10U, (64U << 10U) - 32, 64U << 10U,
        (64U << 10U) + 1, wire::kMaxTcpPayload, 7U, 0U, wire::kMaxTcpPayload - 1, 3U}) {
    ++number;
    items.push_back({{.kind = Kind::write,
                      .flags = TcpFrame::kLast,
                      .length = static_cast<std::uint32_t>(size),
                      .number = number,
                      .address = 4096 * number,
                      .key = 7},
                     pattern(size, number)});
  }
  items.push_back({{.kind = Kind::idle}, {}});
  return items;
}

TEST(TcpStream, BringsFramesOfAnyLengthInTheirOrder) {
  Pair pair;
  const auto items = many();
  for (int round = 0; round < 3; ++round) {
    for (const auto& item : items) pair.from.push(item);
  }
  pair.exchange(3 * items.size());
  for (std::size_t i = 0; i < pair.into.came.size(); ++i) {
    EXPECT_EQ(pair.into.came[i], items[i % items.size()]) << i;
    EXPECT_EQ(pair.from.marks[i], i);
  }
}

TEST(TcpStream, BringsFramesIntoTheReceiversPlaces) {
  for (const std::size_t most : {std::size_t{1000}, std::size_t{100U << 10U}}) {
    Pair pair;
    pair.into.most = most;
    const auto items = many();
    for (const auto& item : items) pair.from.push(item);
    pair.exchange(items.size());
    EXPECT_EQ(pair.into.came, items) << most;
  }
}

/// The bytes of these frames on the wire.
std::vector<std::byte> raw(const std::vector<Ends::Item>& items) {
  std::vector<std::byte> bytes;
  for (const auto& item : items) {
    std::array<std::byte, wire::kTcpFrameBytes> header;
    encode(item.header, header.data());
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.insert(bytes.end(), item.bytes.begin(), item.bytes.end());
  }
  return bytes;
}

TEST(TcpStream, ReadsFramesThatComeCutAnywhere) {
  std::vector<Ends::Item> items = many();
  std::erase_if(items, [](const auto& item) { return item.bytes.size() > 5000; });
  const auto bytes = raw(items);
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{13}, std::size_t{31}, std::size_t{33}, std::size_t{4000}}) {
    auto [one, other] = connected();
    Ends into;
    Stream stream(std::move(other), into, "here");
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const std::size_t count = std::min(piece, bytes.size() - at);
      ASSERT_EQ(::send(one.get(), bytes.data() + at, count, 0), static_cast<ssize_t>(count));
      ASSERT_TRUE(stream.receive());
    }
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (into.came.size() < items.size() && std::chrono::steady_clock::now() < until)
      ASSERT_TRUE(stream.receive());
    EXPECT_EQ(into.came, items) << piece;
  }
}

TEST(TcpStream, WaitsForAPlace) {
  Pair pair;
  pair.from.push({{.kind = Kind::message}, pattern(100000, 1)});
  pair.from.push({{.kind = Kind::idle}, {}});
  pair.into.how = FrameUser::Place::later;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.sender->send());
    const auto arrived = pair.receiver->receive();
    ASSERT_TRUE(arrived);
    EXPECT_EQ(*arrived, 0U);
  }
  pair.into.how = FrameUser::Place::here;
  pair.exchange(2);
  EXPECT_EQ(pair.into.came.front().bytes, pattern(100000, 1));
}

TEST(TcpStream, DropsUnwantedFrames) {
  Pair pair;
  for (const std::size_t size : {std::size_t{10}, std::size_t{wire::kMaxTcpPayload}}) {
    pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(size, 1)});
    pair.from.push({{.kind = Kind::idle}, {}});
  }
  pair.into.how = FrameUser::Place::drop;
  pair.exchange(4);
  EXPECT_EQ(pair.into.came[2].header.length, wire::kMaxTcpPayload);
  EXPECT_EQ(pair.into.came[3].header.kind, Kind::idle);
}

TEST(TcpStream, MemoryOfAFrameCutShortIsReadNoMore) {
  Pair pair;
  const auto whole = pattern(wire::kMaxTcpPayload, 9);
  for (int i = 0; i < 100; ++i)
    pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, whole});
  // Sends. True once the kernel accepts no more: then one frame has begun, and others are queued.
  const auto full = [&] {
    const std::size_t before = pair.from.marks.size();
    EXPECT_TRUE(pair.sender->send());
    return before == pair.from.marks.size() && pair.sender->wants_out();
  };
  while (!full()) {
  }
  const std::size_t sent = pair.from.marks.size();
  ASSERT_LT(sent, pair.from.taken_for_sending);
  pair.sender->cut_short();
  for (auto& item : pair.from.going) std::ranges::fill(item.bytes, std::byte{0xee});
  pair.from.taken_for_sending = pair.from.going.size();  // the stream gets none of those that wait
  pair.from.push({{.kind = Kind::control}, pattern(5, 5)});
  const auto until = std::chrono::steady_clock::now() + 10s;
  const auto over = [&] {
    return !pair.into.came.empty() && pair.into.came.back().header.kind == Kind::control;
  };
  while (!over() && std::chrono::steady_clock::now() < until) {
    ASSERT_TRUE(pair.sender->send());
    ASSERT_TRUE(pair.receiver->receive());
  }
  ASSERT_TRUE(over());
  // A frame that had begun was finished with its original bytes; others did not begin. So `sent`
  // frames came, at most one that had begun, and the control frame.
  ASSERT_LE(pair.into.came.size(), sent + 2);
  ASSERT_GE(pair.into.came.size(), sent + 1);
  for (std::size_t i = 0; i + 1 < pair.into.came.size(); ++i)
    ASSERT_EQ(pair.into.came[i].bytes, whole) << i;
  EXPECT_EQ(pair.from.marks.size(), pair.into.came.size()) << "and nothing else was called sent";
}

/// The sizes: small frames share a call to the kernel, and a large frame has a call of its own.
TEST(TcpStream, AFrameWhoseMemoryIsGoneIsNotSentAndThoseBehindItAreForgotten) {
  for (const std::size_t size : {std::size_t{4096}, std::size_t{wire::kMaxTcpPayload}}) {
    for (const auto how : {test::LentMemory::How::unmapped, test::LentMemory::How::truncated}) {
      Pair pair;
      const test::LentMemory gone(size);
      gone.take_away(how);
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(9, 1)});
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, {}, &gone});
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(9, 2)});
      ASSERT_TRUE(pair.sender->send());
      EXPECT_EQ(pair.from.marks, std::vector<std::uint64_t>{0});
      EXPECT_EQ(pair.from.lost, std::vector<std::uint64_t>{1});
      // The stream continues.
      pair.from.push({{.kind = Kind::control}, pattern(5, 5)});
      pair.exchange(2);
      EXPECT_EQ(pair.into.came[0].bytes, pattern(9, 1));
      EXPECT_EQ(pair.into.came[1].bytes, pattern(5, 5));
    }
  }
}

TEST(TcpStream, AFrameThatWasBegunAndWhoseRestIsGoneEndsTheStream) {
  for (const bool cut : {false, true}) {
    Pair pair;
    const test::LentMemory lent(wire::kMaxTcpPayload);
    for (int i = 0; i < 100; ++i)
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, {}, &lent});
    const auto full = [&] {
      const std::size_t before = pair.from.marks.size();
      EXPECT_TRUE(pair.sender->send());
      return before == pair.from.marks.size() && pair.sender->wants_out();
    };
    while (!full()) {
    }
    const std::size_t sent = pair.from.marks.size();
    lent.take_away(test::LentMemory::How::unmapped);
    if (cut) pair.sender->cut_short();
    pair.from.taken_for_sending = pair.from.going.size();
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!pair.sender->error() && std::chrono::steady_clock::now() < until) {
      static_cast<void>(pair.sender->send());
      static_cast<void>(pair.sender->receive());
      ASSERT_TRUE(pair.receiver->receive());
    }
    ASSERT_TRUE(pair.sender->error());
    EXPECT_EQ(pair.sender->error()->hint, Hint::memory_gone);
    EXPECT_LE(pair.into.came.size(), sent);
  }
}

TEST(TcpStream, FramesForMissingMemoryAreDroppedAndLaterOnesArrive) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{40000}, std::size_t{200000}}) {
    for (const auto how : {test::LentMemory::How::unmapped, test::LentMemory::How::truncated,
                           test::LentMemory::How::read_only}) {
      Pair pair;
      const test::LentMemory gone((size + 4095) / 4096 * 4096);
      gone.take_away(how);
      pair.into.gone = &gone;
      pair.into.how = FrameUser::Place::application;
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(size, 1)});
      pair.exchange(1);
      EXPECT_EQ(pair.into.refused, 1U);
      pair.into.how = FrameUser::Place::here;
      pair.from.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(9, 2)});
      pair.exchange(2);
      EXPECT_EQ(pair.into.came[1].bytes, pattern(9, 2));
    }
  }
}

TEST(TcpStream, EndsAfterBytesThatAreNoFrame) {
  auto [one, other] = connected();
  Ends into;
  Stream stream(std::move(other), into, "node7");
  auto bytes = raw({{{.kind = Kind::idle}, {}}});
  const std::string junk = "GET / HTTP/1.1\r\nHost: nobody.example.org\r\n";
  for (const char c : junk) bytes.push_back(static_cast<std::byte>(c));
  ASSERT_EQ(::send(one.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  const auto arrived = stream.receive();
  ASSERT_TRUE(arrived);
  EXPECT_EQ(*arrived, 1U) << "what came before is not lost";
  for (int again = 0; again < 2; ++again) {
    const auto error = stream.receive();
    ASSERT_FALSE(error);
    EXPECT_EQ(error.error().code, Errc::protocol);
    EXPECT_STREQ(error.error().subject, "node7");
    EXPECT_FALSE(stream.send());
  }
}

// The reader's buffer still contains the good header of the frame before, which must not be taken
// for the bad one.
TEST(TcpStream, AnInvalidHeaderEndsTheStreamWhereverItIsCut) {
  const auto good = raw({{{.kind = Kind::idle}, {}}});
  auto bad = good;
  bad.back() = std::byte{99};
  for (std::size_t cut = 1; cut < bad.size(); ++cut) {
    auto [one, other] = connected();
    Ends into;
    Stream stream(std::move(other), into, "node7");
    const auto send = [&](std::span<const std::byte> bytes) {
      ASSERT_EQ(::send(one.get(), bytes.data(), bytes.size(), 0),
                static_cast<ssize_t>(bytes.size()));
    };
    send(good);
    ASSERT_EQ(stream.receive().value_or(0), 1U);
    send(std::span(bad).first(cut));
    ASSERT_EQ(stream.receive().value_or(1), 0U);
    send(std::span(bad).subspan(cut));
    const auto error = stream.receive();
    ASSERT_FALSE(error) << cut;
    EXPECT_EQ(error.error().code, Errc::protocol);
    EXPECT_EQ(into.came.size(), 1U);
  }
}

TEST(TcpStream, EndsWithThePeerWhereverItStops) {
  const auto bytes = raw({{{.kind = Kind::message, .length = 40}, pattern(40, 1)}});
  for (const std::size_t sent : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{32},
                                 std::size_t{71}, std::size_t{72}}) {
    auto [one, other] = connected();
    Ends into;
    Stream stream(std::move(other), into, "node7");
    ASSERT_EQ(::send(one.get(), bytes.data(), sent, 0), static_cast<ssize_t>(sent));
    one.reset();
    auto result = stream.receive();
    for (int i = 0; i < 3 && result; ++i) result = stream.receive();
    ASSERT_FALSE(result) << sent;
    EXPECT_EQ(result.error().code, Errc::peer_failed);
    EXPECT_EQ(into.came.size(), sent == bytes.size() ? 1U : 0U);
  }
}

TEST(TcpStream, ReceivesFramesFromBeforeThePeersEnd) {
  Pair pair;
  pair.from.push({{.kind = Kind::control}, pattern(9, 2)});
  ASSERT_TRUE(pair.sender->send());
  pair.sender->close();
  // The peer's kernel answers these frames with a reset. Its own earlier frame still arrives.
  pair.into.push({{.kind = Kind::idle}, {}});
  pair.into.push({{.kind = Kind::idle}, {}});
  EXPECT_TRUE(pair.receiver->send());
  const auto arrived = pair.receiver->receive();
  ASSERT_TRUE(arrived);
  EXPECT_EQ(*arrived, 1U);
  EXPECT_FALSE(pair.receiver->receive());
}

/// Sends with `stream` until the peer has no room.
void fill(Stream& stream, Ends& ends) {
  for (int i = 0; i < 200; ++i)
    ends.push({{.kind = Kind::write, .flags = TcpFrame::kLast}, pattern(wire::kMaxTcpPayload, 1)});
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) ASSERT_TRUE(stream.send());
  ASSERT_TRUE(stream.wants_out());
}

TEST(TcpStream, IsNotSilentWhereThePeerHasNoRoom) {
  Pair pair;
  fill(*pair.sender, pair.from);
  const auto until = std::chrono::steady_clock::now() + 1500ms;
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_FALSE(pair.sender->is_silent(std::chrono::steady_clock::now(), 400ms));
    std::this_thread::sleep_for(20ms);
  }
}

TEST(TcpStream, IsNotSilentAfterALongPauseWithoutPolls) {
  Pair pair;
  pair.from.push({{.kind = Kind::idle}, {}});
  pair.exchange(1);
  const auto say_something = [&] {
    // Without TCP_QUICKACK the receiver's kernel acknowledges some 40 ms later.
    const int off = 0;
    ::setsockopt(pair.receiver->fd(), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    pair.from.push({{.kind = Kind::idle}, {}});
    ASSERT_TRUE(pair.sender->send());
  };
  say_something();
  EXPECT_FALSE(pair.sender->is_silent(std::chrono::steady_clock::now(), 200ms));
  std::this_thread::sleep_for(600ms);
  say_something();
  EXPECT_FALSE(pair.sender->is_silent(std::chrono::steady_clock::now(), 200ms));
}

TEST(TcpStream, IsNotSilentWithoutTraffic) {
  Pair pair;
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(pair.sender->is_silent(std::chrono::steady_clock::now(), 10ms));
}

/// Runs in a separate network; returns 0 if the silence was noticed in time.
int notice_the_cut() {
  Pair pair;
  pair.from.push({{.kind = Kind::idle}, {}});
  pair.exchange(1);
  std::this_thread::sleep_for(50ms);
  if (pair.sender->is_silent(std::chrono::steady_clock::now(), 300ms)) return 1;
  if (!test::set_loopback(false)) return test::kNoNetwork;
  pair.from.push({{.kind = Kind::idle}, {}});
  const auto cut = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < cut + 2s) {
    if (!pair.sender->send()) return 2;
    const auto now = std::chrono::steady_clock::now();
    if (pair.sender->is_silent(now, 300ms)) return now - cut < 300ms ? 3 : 0;
    std::this_thread::sleep_for(10ms);
  }
  return 4;
}

TEST(TcpStream, IsSilentWhereThePeerIsCutOff) { test::expect_in_own_network(notice_the_cut); }

}  // namespace
}  // namespace hbmwire::transport
