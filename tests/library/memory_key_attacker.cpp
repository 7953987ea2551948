// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "emulation/tests/nic/child_process.hpp"
#include "memory_key_attack.hpp"

// A malicious peer that has a memory key. It parses the key itself, and uses the NIC directly
// through libibverbs. hbmwire's library is not linked into this program.
namespace hbmwire::test::attack {
namespace {

/// The contents of a key, at the offsets of docs/memory-keys.md.
struct Key {
  explicit Key(const std::array<unsigned char, 1500>& bytes)
      : writes((bytes[7] & 1U) != 0),
        reads((bytes[7] & 2U) != 0),
        nics(bytes[9]),
        address(number(&bytes[12], 8)),
        length(static_cast<std::uint32_t>(number(&bytes[20], 8))) {
    for (std::uint32_t i = 0; i < nics; ++i)
      keys[i] = static_cast<std::uint32_t>(number(&bytes[52 + 20 * i + 16], 4));
  }

  static std::uint64_t number(const unsigned char* at, int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8U | at[i];
    return value;
  }

  bool writes;
  bool reads;
  std::uint32_t nics;
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t keys[64]{};
};

struct Target {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t nic = 0;
};

class Attacker {
 public:
  explicit Attacker(const Line& line) : line_(line) {}

  void obey(const Order& order);

 private:
  void attack(const Key& key, std::uint32_t nic);
  void atomics(const Key& key, std::uint32_t nic);
  void guess(const Key& key, std::uint32_t regions_own);
  void hammer(const Key& key);
  void both(const char* what, bool allow_write, bool allow_read, const Target& target);
  void attempt(const std::string& what, bool allowed, ibv_wr_opcode opcode, const Target& target);

  const Line& line_;
  Endpoint end_;
  unsigned char next_byte_ = 1;
};

void Attacker::attempt(const std::string& what, bool allowed, ibv_wr_opcode opcode,
                       const Target& target) {
  // The last queue pair lives on until the end of this attempt.
  const Qp before = end_.next_qp();
  line_.send(Knock{true, target.nic, end_.address()});
  end_.connect(line_.receive<Address>());
  Attempt report;
  what.copy(report.what.data(), report.what.size() - 1);
  report.allowed = allowed;
  report.write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  report.atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  report.address = target.address;
  report.length = target.length;
  report.remote_key = target.remote_key;
  std::fill(end_.buffer.begin(), end_.buffer.end(), kPoison);
  if (report.write) {
    for (std::uint32_t i = 0; i < target.length; ++i) end_.buffer[i] = next_byte_++;
    ++next_byte_;  // the next bytes differ, also after a multiple of 256
  }
  ibv_send_wr request{};
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (report.atomic) {
    request.wr.atomic.remote_addr = target.address;
    request.wr.atomic.rkey = target.remote_key;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = target.address;
    request.wr.rdma.rkey = target.remote_key;
  }
  if (end_.post(request, {end_.element(0, target.length)}) != 0) std::abort();
  const auto done = end_.wait();
  report.status = done ? static_cast<std::int32_t>(done->status) : -1;
  report.disclosed = !report.write && std::any_of(end_.buffer.begin(), end_.buffer.end(),
                                                  [](auto byte) { return byte != kPoison; });
  std::copy_n(end_.buffer.begin(), std::min<std::size_t>(target.length, kMostBytes),
              report.bytes.begin());
  line_.send(report);
}

void Attacker::both(const char* what, bool allow_write, bool allow_read, const Target& target) {
  attempt(std::string("write ") + what, allow_write, IBV_WR_RDMA_WRITE, target);
  attempt(std::string("read ") + what, allow_read, IBV_WR_RDMA_READ, target);
}

void Attacker::attack(const Key& key, std::uint32_t nic) {
  const std::uint32_t rkey = key.keys[nic];
  const auto inside = [&](const char* what, std::uint64_t offset, std::uint32_t length) {
    both(what, key.writes, key.reads, {key.address + offset, length, rkey, nic});
  };
  const auto outside = [&](const char* what, std::uint64_t address, std::uint32_t length) {
    both(what, false, false, {address, length, rkey, nic});
  };
  inside("all", 0, key.length);
  inside("the first byte", 0, 1);
  inside("the last byte", key.length - 1, 1);
  inside("some", key.length / 3, key.length / 2);
  outside("the byte before", key.address - 1, 1);
  outside("the byte after", key.address + key.length, 1);
  outside("over the beginning", key.address - 1, 2);
  outside("over the end", key.address + key.length - 1, 2);
  outside("one byte more", key.address, key.length + 1);
  outside("all and both sides", key.address - 1, key.length + 2);
  outside("the page before", key.address - 4096, 64);
  outside("the page after", key.address + key.length + 4096, 64);
  outside("far away", key.address + (std::uint64_t{1} << 40U), 8);
  outside("by the offset alone", 0, 8);
  outside("at the end of all addresses", ~std::uint64_t{0} - 3, 4);
  atomics(key, nic);
  // The key still works as intended.
  inside("all again", 0, key.length);
}

void Attacker::atomics(const Key& key, std::uint32_t nic) {
  const std::uint64_t aligned = (key.address + 7) / 8 * 8;
  const Target target{aligned, 8, key.keys[nic], nic};
  attempt("compare and swap", false, IBV_WR_ATOMIC_CMP_AND_SWP, target);
  attempt("fetch and add", false, IBV_WR_ATOMIC_FETCH_AND_ADD, target);
  if (!key.writes) attempt("write with immediate", false, IBV_WR_RDMA_WRITE_WITH_IMM, target);
}

void Attacker::guess(const Key& key, std::uint32_t regions_own) {
  const std::uint32_t rkey = key.keys[0];
  const auto wrong = [&](const char* what, std::uint32_t guessed) {
    if (guessed != rkey) both(what, false, false, {key.address, 8, guessed, 0});
  };
  wrong("by the region's own key", regions_own);
  wrong("by no key", 0);
  wrong("by the last key there is", ~0U);
  for (const std::uint32_t step : {1U, 2U, 255U, 256U, 512U}) {
    wrong("by a key before", rkey - step);
    wrong("by a key after", rkey + step);
  }
  for (unsigned bit = 0; bit < 32; ++bit) wrong("by a key of one other bit", rkey ^ 1U << bit);
  for (std::uint32_t tag = 0; tag < 256; tag += 3) wrong("by another tag", (rkey & ~0xffU) | tag);
}

void Attacker::hammer(const Key& key) {
  // The last queue pair lives on until the end.
  const Qp before = end_.next_qp();
  line_.send(Knock{true, 0, end_.address()});
  end_.connect(line_.receive<Address>());
  Attempt report;
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = key.address;
  request.wr.rdma.rkey = key.keys[0];
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  // -1: no result yet; 0: IBV_WC_SUCCESS.
  for (bool first = true; report.status <= 0 && std::chrono::steady_clock::now() < patience;
       first = false) {
    std::fill(end_.buffer.begin(), end_.buffer.end(), next_byte_++);
    if (end_.post(request, {end_.element(0, key.length)}) != 0) std::abort();
    const auto done = end_.wait();
    if (!done) std::abort();
    report.status = static_cast<std::int32_t>(done->status);
    if (first) line_.send(report.status == IBV_WC_SUCCESS);
  }
  line_.send(report);
}

void Attacker::obey(const Order& order) {
  const Key key(order.key);
  for (std::uint32_t nic = 0; nic < key.nics; ++nic) {
    if (order.kind == Order::Kind::attack) attack(key, nic);
    if (order.kind == Order::Kind::use || order.kind == Order::Kind::dead) {
      const bool alive = order.kind == Order::Kind::use;
      const bool writes = alive && key.writes;
      const bool reads = alive && key.reads;
      both("all", writes, reads, {key.address, key.length, key.keys[nic], nic});
      both("one byte", writes, reads, {key.address, 1, key.keys[nic], nic});
    }
  }
  if (order.kind == Order::Kind::guess) guess(key, order.regions_own_key);
  if (order.kind == Order::Kind::hammer) {
    hammer(key);
    return;
  }
  line_.send(Knock{});
}

void run(int fd) {
  const Line line(fd);
  Attacker attacker(line);
  for (auto order = line.receive<Order>(); order.kind != Order::Kind::end;
       order = line.receive<Order>()) {
    attacker.obey(order);
  }
}

}  // namespace
}  // namespace hbmwire::test::attack

/// memory_key_attacker FD: a socket to the exporter.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    hbmwire::test::attack::run(std::atoi(argv[1]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacker: %s\n", error.what());
    return 1;
  }
  return 0;
}
