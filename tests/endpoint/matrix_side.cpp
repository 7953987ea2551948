// SPDX-License-Identifier: MIT
#include "matrix_side.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"

#include "tests/support/stream.hpp"

namespace hbmwire::matrix {

namespace {

// Not a power of two, so that contents shifted by a page are noticed.
constexpr std::uint64_t kPeriod = 1'048'573;

/// The bytes that fill(`seed`) writes from `offset` on. They are a window of one stretch of noise,
/// so that gigabytes of them cost only copies.
void write_noise(std::span<std::byte> out, unsigned seed, std::uint64_t offset) {
  static const std::vector<std::byte> noise = [] {
    std::vector<std::byte> bytes(kPeriod);
    std::uint64_t x = 0x9e3779b97f4a7c15ULL;
    for (std::byte& byte : bytes) {
      x ^= x << 13U;
      x ^= x >> 7U;
      x ^= x << 17U;
      byte = static_cast<std::byte>(x);
    }
    return bytes;
  }();
  std::uint64_t at = (offset + seed * 7919ULL) % kPeriod;
  while (!out.empty()) {
    const std::size_t count = std::min<std::size_t>(out.size(), kPeriod - at);
    std::memcpy(out.data(), noise.data() + at, count);
    out = out.subspan(count);
    at = 0;
  }
}

Wait patience() { return {Deadline::after(kPatience), -1}; }

/// A foreign dma-buf: a memfd, which the emulated NIC accepts as one.
Allocation foreign_dmabuf(const Context& context, std::uint64_t size_bytes) {
  const std::uint64_t page = 4096;
  const std::uint64_t whole = (size_bytes + page - 1) / page * page;
  const Fd file(::memfd_create("hbmwire-matrix", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0)
    throw std::runtime_error("no memfd");
  return must(context.import_dmabuf({.fd = file.get(), .length_bytes = size_bytes}));
}

Allocation allocate(const Context& context, MemoryType type, std::uint64_t size_bytes,
                    bool shared) {
  if (type == MemoryType::dmabuf) return foreign_dmabuf(context, size_bytes);
  return must(context.allocate(type, size_bytes, {.device = {}, .host = {.shared = shared}}));
}

[[noreturn]] void fail(const char* call) {
  throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

void send_at_once(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("setsockopt");
}

}  // namespace

Memory::Memory(const Context& context, MemoryType type, std::uint64_t size_bytes, Access access,
               bool shared)
    : size_(size_bytes),
      region_(must(context.register_memory(allocate(context, type, size_bytes + 2 * kGuard, shared),
                                           access))),
      buffer_(must(region_.nics().empty()
                       ? Buffer::create(region_)
                       : Buffer::create(region_.allocation(), must(context.open_nics()).front(),
                                        Access::local_write))) {}

void Memory::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  must(buffer_.write(offset, bytes, patience()));
}

/// Copies piece by piece, which stays in the cache. For hundreds of megabytes, the pages of a whole
/// copy would cost more than the copy.
template <class Piece>
void Memory::for_each_piece(const Piece& piece) const {
  constexpr std::uint64_t kPiece = 1 << 20;
  const std::uint64_t size = region_.size_bytes();
  for (std::uint64_t at = 0; at < size; at += kPiece) piece(at, std::min(kPiece, size - at));
}

void Memory::fill(unsigned seed) {
  std::vector<std::byte> bytes;
  for_each_piece([&](std::uint64_t at, std::uint64_t length) {
    bytes.resize(length);
    write_noise(bytes, seed, at);
    write(at, bytes);
  });
}

void Memory::expect(unsigned seed, unsigned middle) {
  std::vector<std::byte> seen;
  std::vector<std::byte> expected;
  for_each_piece([&](std::uint64_t at, std::uint64_t length) {
    seen.resize(length);
    expected.resize(length);
    must(buffer_.read(at, seen, patience()));
    write_noise(expected, seed, at);
    const std::uint64_t begin = std::max(at, kGuard);
    const std::uint64_t end = std::min(at + length, kGuard + size_);
    if (begin < end)
      write_noise(std::span(expected).subspan(begin - at, end - begin), middle, begin);
    if (std::memcmp(seen.data(), expected.data(), length) == 0) return;
    const auto [first, other] = std::ranges::mismatch(seen, expected);
    throw std::runtime_error("byte " +
                             std::to_string(at + static_cast<std::uint64_t>(first - seen.begin())) +
                             " of " + std::to_string(region_.size_bytes()) + " differs");
  });
}

void Memory::set_number(std::uint64_t number) {
  write(kGuard, std::as_bytes(std::span(&number, 1)));
}

std::uint64_t Memory::number() {
  std::uint64_t number = 0;
  must(buffer_.read(kGuard, std::as_writable_bytes(std::span(&number, 1)), patience()));
  return number;
}

Channel::Channel(Fd socket) : socket_(std::move(socket)) { send_at_once(socket_.get()); }

Channel Channel::connect(std::uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    fail("connect");
  return Channel(std::move(socket));
}

void Channel::write(std::span<const std::byte> bytes) {
  if (!test::write_all(socket_.get(), bytes)) fail("send");
}

std::vector<std::byte> Channel::read(std::size_t size) {
  std::vector<std::byte> bytes(size);
  // The other side may itself wait for kPatience.
  if (!test::read_all(socket_.get(), bytes, kPatience * 2))
    throw std::runtime_error("the other side has gone, or says nothing");
  return bytes;
}

bool Channel::readable(std::chrono::milliseconds time) {
  return test::is_readable(socket_.get(), time);
}

void Channel::say_bytes(std::span<const std::byte> bytes) {
  say(static_cast<std::uint64_t>(bytes.size()));
  write(bytes);
}

std::vector<std::byte> Channel::hear_bytes() { return read(hear<std::uint64_t>()); }

}  // namespace hbmwire::matrix
