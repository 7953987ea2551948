// SPDX-License-Identifier: MIT
// Moves the key-value cache of a request from the node that computed it (prefill) to the one that
// goes on with it (decode): blocks that lie scattered in one card's memory go into other blocks of
// another card's, in one transfer, and a number tells the decoder that they are there.
//
//   node2$ kv_cache listen 7000       decodes
//   node1$ kv_cache node2:7000        prefills
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBlockBytes = 64 << 10;
constexpr std::uint64_t kBlocks = 256;  // of each side's pool
constexpr std::uint64_t kUsed = 24;     // of the request
constexpr std::uint32_t kRequest = 4711;
constexpr int kSteps = 3;  // how often the same blocks are sent, with other contents

using BlockTable = std::array<std::uint32_t, kUsed>;

/// Which blocks the request has at this side: `first`, `first` + `step`, ...
BlockTable make_table(std::uint32_t first, std::uint32_t step) {
  BlockTable table{};
  for (std::uint32_t i = 0; i < kUsed; ++i) table.at(i) = (first + i * step) % kBlocks;
  return table;
}

std::byte contents_of(std::uint64_t block, int step) {
  return static_cast<std::byte>(block * 7 + static_cast<std::uint64_t>(step) + 1);
}

/// The block table in a message.
BlockTable& table_in(const Region& message) {
  return *reinterpret_cast<BlockTable*>(message.host_bytes().data());
}

/// A pool whose blocks hold what they should in this step: those of `table` the request's contents.
std::vector<std::byte> expected_pool(const BlockTable& table, int step) {
  std::vector<std::byte> all(kBlocks * kBlockBytes);
  for (std::uint64_t i = 0; i < kUsed; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(table.at(i) * kBlockBytes);
    std::fill_n(begin, kBlockBytes, contents_of(i, step));
  }
  return all;
}

Result<bool> prefill(Endpoint& peer, const Region& pool, const Region& message) {
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote("kv", 10s));
  // The decoder's block table comes as a message.
  HBMWIRE_TRY_ASSIGN(auto told, peer.receive(message.slice()));
  HBMWIRE_TRY(told.wait(10s));
  const BlockTable from = make_table(3, 5);
  const BlockTable to = table_in(message);

  // The list is made once; each post() of it costs what the blocks cost.
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < kUsed; ++i) {
    parts.push_back({.local = pool.slice(from.at(i) * kBlockBytes, kBlockBytes),
                     .remote = theirs.slice(to.at(i) * kBlockBytes, kBlockBytes)});
  }
  HBMWIRE_TRY_ASSIGN(auto move, peer.prepare_put(parts, {.immediate = kRequest}));
  for (int step = 0; step < kSteps; ++step) {
    HBMWIRE_TRY(pool.write(0, expected_pool(from, step), 10s));
    HBMWIRE_TRY_ASSIGN(auto moved, move.post());
    HBMWIRE_TRY(moved.wait(10s));
    if (step == 0) std::printf("moved: %s\n", describe(moved.explain()).c_str());
    // The decoder says when it has used them.
    HBMWIRE_TRY_ASSIGN(auto used, peer.receive(message.slice()));
    HBMWIRE_TRY(used.wait(10s));
  }
  return true;
}

Result<bool> decode(Endpoint& peer, const Region& pool, const Region& message) {
  const BlockTable table = make_table(200, 11);
  table_in(message) = table;
  HBMWIRE_TRY_ASSIGN(auto told, peer.send(message.slice()));
  HBMWIRE_TRY(told.wait(10s));
  std::vector<std::byte> all(kBlocks * kBlockBytes);
  for (int step = 0; step < kSteps; ++step) {
    // Over when the number has come; the blocks came before it, and the card sees them.
    HBMWIRE_TRY_ASSIGN(auto arrived, peer.receive_immediate(pool.slice()));
    HBMWIRE_TRY(arrived.wait(20s));
    if (arrived.value() != kRequest) return false;
    HBMWIRE_TRY(pool.read(0, all, 10s));
    if (all != expected_pool(table, step)) return false;
    HBMWIRE_TRY_ASSIGN(auto used, peer.send(message.slice()));
    HBMWIRE_TRY(used.wait(10s));
  }
  std::printf("verified\n");
  HBMWIRE_TRY(peer.wait_closed(10s));
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context,
                     Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region pool,
                     context.allocate_region(MemoryType::gaudi, kBlocks * kBlockBytes,
                                             Access::local_write | Access::remote_write));
  HBMWIRE_TRY(pool.write(0, std::vector<std::byte>(pool.size_bytes()), 10s));
  HBMWIRE_TRY_ASSIGN(
      const Region message,
      context.allocate_region(MemoryType::host, sizeof(BlockTable), Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(auto peer, Endpoint::connect(worker, arguments.front(), 10s));
    return prefill(peer, pool, message);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(auto listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("kv", pool));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(auto peer, listener.accept(30s));
  return decode(peer, pool, message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kv_cache listen PORT | kv_cache NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "kv_cache: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
