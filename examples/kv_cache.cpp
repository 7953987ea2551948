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
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/buffer.hpp>
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

const EndpointOptions kOptions{.paths = {.require = Path::zero_copy}};

/// A pool of blocks in the card's memory.
Result<Buffer> make_pool(const Context& context, Access access) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     context.allocate(MemoryType::gaudi, kBlocks * kBlockBytes));
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, access));
  return Buffer::create(region);
}

/// Which blocks the request has at this side: `first`, `first` + `step`, ...
BlockTable make_table(std::uint32_t first, std::uint32_t step) {
  BlockTable table{};
  for (std::uint32_t i = 0; i < kUsed; ++i) table.at(i) = (first + i * step) % kBlocks;
  return table;
}

std::byte contents_of(std::uint64_t block, int step) {
  return static_cast<std::byte>(block * 7 + static_cast<std::uint64_t>(step) + 1);
}

/// The decoder's block table travels as a message.
Result<Region> make_message(const Context& context) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     context.allocate(MemoryType::host, sizeof(BlockTable)));
  return context.register_memory(memory, Access::local_write);
}

Result<void> prefill(const Context& context, const Worker& worker, const std::string& node) {
  HBMWIRE_TRY_ASSIGN(Buffer pool, make_pool(context, Access::local_write));
  HBMWIRE_TRY_ASSIGN(const Region message, make_message(context));
  HBMWIRE_TRY_ASSIGN(Endpoint peer,
                     Endpoint::connect(worker, node, {Deadline::after(10s)}, kOptions));
  HBMWIRE_TRY_ASSIGN(const RemoteRegion theirs, peer.remote("kv", {Deadline::after(10s)}));
  HBMWIRE_TRY_ASSIGN(Transfer table, peer.receive(message.slice(0, sizeof(BlockTable))));
  HBMWIRE_TRY(table.wait(10s));
  BlockTable to{};
  std::memcpy(to.data(), reinterpret_cast<const void*>(message.address()), sizeof to);

  // The list is made once; each post() of it costs what the blocks cost.
  const BlockTable from = make_table(3, 5);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < kUsed; ++i) {
    parts.push_back({.local = pool.region().slice(from.at(i) * kBlockBytes, kBlockBytes),
                     .remote = theirs.slice(to.at(i) * kBlockBytes, kBlockBytes)});
  }
  HBMWIRE_TRY_ASSIGN(PreparedTransfer move, peer.prepare_put(parts, {.immediate = kRequest}));
  for (int step = 0; step < kSteps; ++step) {
    for (std::uint64_t i = 0; i < kUsed; ++i) {
      const std::vector<std::byte> block(kBlockBytes, contents_of(i, step));
      HBMWIRE_TRY(pool.write(from.at(i) * kBlockBytes, block, {Deadline::after(10s)}));
    }
    HBMWIRE_TRY_ASSIGN(Transfer transfer, move.post());
    HBMWIRE_TRY(transfer.wait(10s));
    if (step == 0) std::printf("moved: %s\n", describe(transfer.explain()).c_str());
    // The decoder says when it has used them.
    HBMWIRE_TRY_ASSIGN(Transfer used, peer.receive(message.slice(0, sizeof(BlockTable))));
    HBMWIRE_TRY(used.wait(10s));
  }
  return {};
}

/// Whether the request's blocks are what prefill computed, and the others untouched.
Result<void> check(Buffer& pool, const BlockTable& table, int step) {
  std::vector<std::byte> all(kBlocks * kBlockBytes);
  HBMWIRE_TRY(pool.read(0, all, {Deadline::after(10s)}));
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const auto* const place = std::ranges::find(table, block);
    const std::byte expected =
        place == table.end() ? std::byte{0}
                             : contents_of(static_cast<std::uint64_t>(place - table.begin()), step);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(block * kBlockBytes);
    if (std::all_of(begin, begin + kBlockBytes, [&](std::byte b) { return b == expected; }))
      continue;
    return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "comparing a block"));
  }
  return {};
}

Result<void> decode(const Context& context, Worker worker, std::uint16_t port) {
  HBMWIRE_TRY_ASSIGN(Buffer pool, make_pool(context, Access::local_write | Access::remote_write));
  HBMWIRE_TRY(pool.write(0, std::vector<std::byte>(kBlocks * kBlockBytes), {Deadline::after(10s)}));
  HBMWIRE_TRY_ASSIGN(const Region message, make_message(context));
  HBMWIRE_TRY_ASSIGN(Listener listener,
                     Listener::create(worker, {.port = port, .endpoint = kOptions}));
  HBMWIRE_TRY(listener.advertise("kv", pool.region()));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept({Deadline::after(30s)}));

  const BlockTable table = make_table(200, 11);
  std::memcpy(reinterpret_cast<void*>(message.address()), table.data(), sizeof table);
  HBMWIRE_TRY_ASSIGN(Transfer told, peer.send(message.slice(0, sizeof table)));
  HBMWIRE_TRY(told.wait(10s));
  for (int step = 0; step < kSteps; ++step) {
    // Over when the number has come; the blocks came before it, and the card sees them.
    HBMWIRE_TRY_ASSIGN(Transfer arrived,
                       peer.receive_immediate(pool.region().slice(0, pool.size_bytes())));
    HBMWIRE_TRY(arrived.wait(20s));
    if (arrived.value() != kRequest)
      return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "the request"));
    HBMWIRE_TRY(check(pool, table, step));
    HBMWIRE_TRY_ASSIGN(Transfer used, peer.send(message.slice(0, sizeof table)));
    HBMWIRE_TRY(used.wait(10s));
  }
  std::printf("verified\n");
  while (peer.phase() == EndpointPhase::ready) HBMWIRE_TRY(worker.wait({Deadline::after(10s)}));
  return {};
}

Result<void> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  if (arguments.front() != "listen") return prefill(context, worker, arguments.front());
  return decode(context, worker, static_cast<std::uint16_t>(std::stoi(arguments.at(1))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kv_cache listen PORT | kv_cache NODE:PORT\n");
    return 2;
  }
  const auto done = run({argv + 1, argv + argc});
  if (!done) std::fprintf(stderr, "kv_cache: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
