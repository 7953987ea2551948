// SPDX-License-Identifier: MIT

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/group.hpp"
#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

/// One rank of a group, which ranks.py starts by a launcher. It prints a line of JSON at its end.
/// GROUP_SECONDS is how long it waits for the other ranks; the default is 60. It exits with 1 if
/// the ranks do not meet, and with 3 if its work fails.
///
/// usage: group_rank WORK [ARGUMENT]
///
///   all               an endpoint to each other rank, bytes put by it and checked
///   work              exchanges and puts to the next rank, until something fails
///   broadcast BYTES   by rank 0, three times
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kPageBytes = 4096;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t pages = 0;
  in >> pages >> pages;
  return pages * kPageBytes;
}

struct Rank {
  Context context;
  Worker worker;
  Group group;
  std::uint64_t resident = 0;
  std::size_t open = 0;  // descriptors

  /// To be called while no rank has left yet: then all connections count.
  void measure() {
    resident = resident_bytes();
    open = descriptors();
  }

  [[nodiscard]] std::uint32_t next() const noexcept { return (group.rank() + 1) % group.size(); }
};

std::string failed_text(Group& group) {
  std::string text;
  for (const std::uint32_t rank : group.failed())
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

/// The bytes that rank `from` puts to rank `to` in a round.
std::vector<std::byte> pattern(std::uint32_t from, std::uint32_t to, std::uint32_t round) {
  std::vector<std::byte> bytes(kBlock);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((from * 31 + to * 17 + round * 7 + i) & 0xffU);
  return bytes;
}

Result<Rank> meet() {
  const char* const seconds = std::getenv("GROUP_SECONDS");
  HBMWIRE_TRY_ASSIGN(Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(
      Group group, Group::create(worker, std::chrono::seconds(seconds ? std::atoi(seconds) : 60)));
  Rank rank{std::move(context), std::move(worker), std::move(group)};
  rank.measure();
  return rank;
}

/// Memory with a block for each rank, and the keys of all ranks' memories.
struct Blocks {
  Region from;
  Region into;
  std::vector<MemoryKey> keys;  // of `into` alone: it must outlive the other ranks' puts
  std::vector<std::vector<std::byte>> theirs;  // the packed key of each rank

  static Result<Blocks> make(Rank& rank) {
    const std::uint64_t bytes = kBlock * rank.group.size();
    HBMWIRE_TRY_ASSIGN(Region from,
                       rank.context.allocate_region(MemoryType::host, bytes, Access::remote_read));
    HBMWIRE_TRY_ASSIGN(Region into,
                       rank.context.allocate_region(MemoryType::host, bytes, Access::remote_write));
    HBMWIRE_TRY_ASSIGN(MemoryKey key, MemoryKey::pack(into));
    HBMWIRE_TRY_ASSIGN(auto theirs, rank.group.exchange(key.bytes(), 60s));
    Blocks blocks{std::move(from), std::move(into), {}, std::move(theirs)};
    blocks.keys.push_back(std::move(key));
    return blocks;
  }

  Result<void> put(Rank& rank, std::uint32_t to, std::uint32_t round) const {
    const std::uint32_t self = rank.group.rank();
    std::ranges::copy(pattern(self, to, round), from.host_bytes().subspan(to * kBlock).begin());
    HBMWIRE_TRY_ASSIGN(Endpoint* const endpoint, rank.group.endpoint(to, 60s));
    HBMWIRE_TRY_ASSIGN(RemoteRegion remote, endpoint->remote(theirs[to]));
    HBMWIRE_TRY_ASSIGN(Transfer put, endpoint->put(from.slice(to * kBlock, kBlock),
                                                   remote.slice(self * kBlock, kBlock)));
    return put.wait(60s);
  }

  [[nodiscard]] Result<void> check(Rank& rank, std::uint32_t by, std::uint32_t round) const {
    if (std::ranges::equal(pattern(by, rank.group.rank(), round),
                           into.host_bytes().subspan(by * kBlock, kBlock)))
      return {};
    return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "comparing bytes",
                                          "of rank " + std::to_string(by)));
  }
};

Result<void> all(Rank& rank) {
  HBMWIRE_TRY_ASSIGN(const Blocks blocks, Blocks::make(rank));
  for (std::uint32_t i = 1; i < rank.group.size(); ++i)
    HBMWIRE_TRY(blocks.put(rank, (rank.group.rank() + i) % rank.group.size(), 1));
  HBMWIRE_TRY(rank.group.barrier(60s));
  for (std::uint32_t by = 0; by < rank.group.size(); ++by) {
    if (by != rank.group.rank()) HBMWIRE_TRY(blocks.check(rank, by, 1));
  }
  rank.measure();
  return rank.group.barrier(60s);
}

Result<void> work(Rank& rank) {
  HBMWIRE_TRY_ASSIGN(const Blocks blocks, Blocks::make(rank));
  const std::uint32_t before = (rank.group.rank() + rank.group.size() - 1) % rank.group.size();
  for (std::uint32_t round = 0;; ++round) {
    // A put fails if a rank has ended: the barrier names that rank.
    const auto put = blocks.put(rank, rank.next(), round);
    HBMWIRE_TRY(rank.group.barrier(20s));
    if (!put) {
      // The peer ended after it had come to the barrier: the next call of the group names it.
      HBMWIRE_TRY(rank.group.barrier(20s));
      return put;
    }
    HBMWIRE_TRY(blocks.check(rank, before, round));
    HBMWIRE_TRY(rank.group.barrier(20s));
  }
}

/// Word `i` of the bytes that rank 0 broadcasts in a round. The factor, which is a large prime,
/// gives neighbouring words different bytes.
std::uint32_t broadcast_word(std::uint64_t i, unsigned round) {
  return static_cast<std::uint32_t>(i * 2654435761U + round);
}

Result<void> broadcast(Rank& rank, std::uint64_t bytes) {
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     rank.context.allocate_region(MemoryType::host, bytes,
                                                  Access::remote_write | Access::remote_read));
  for (unsigned round = 0; round < 3; ++round) {
    auto* const words = reinterpret_cast<std::uint32_t*>(memory.host_bytes().data());
    const std::uint64_t count = bytes / sizeof *words;
    for (std::uint64_t i = 0; i < count; ++i)
      words[i] = rank.group.rank() == 0 ? broadcast_word(i, round) : 0;
    HBMWIRE_TRY(rank.group.barrier(60s));
    const auto began = Clock::now();
    HBMWIRE_TRY(rank.group.broadcast(memory.slice(), 0, 60s));
    const double took = seconds_since(began);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] == broadcast_word(i, round)) continue;
      return tl::make_unexpected(
          make_error(Errc::data_mismatch, Stage::verify, "comparing bytes", std::to_string(i * 4)));
    }
    if (rank.group.rank() == 0) std::fprintf(stderr, "broadcast took %.3f s\n", took);
  }
  return {};
}

Result<void> run(Rank& rank, std::string_view what, const char* argument) {
  if (what == "all") return all(rank);
  if (what == "work") return work(rank);
  return broadcast(rank, argument == nullptr ? 1U << 20U : std::strtoull(argument, nullptr, 10));
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const auto began = Clock::now();
  auto rank = meet();
  if (!rank) {
    std::fprintf(stderr, "group_rank: %s\n", describe(rank.error()).c_str());
    return 1;
  }
  const double met = seconds_since(began);
  std::fprintf(stderr, "rank %u met by %s\n", rank->group.rank(), rank->group.launcher().c_str());
  const auto done = run(*rank, arguments[1], count > 2 ? arguments[2] : nullptr);
  std::printf(
      R"({"rank": %u, "size": %u, "launcher": "%s", "met": %.3f, "seconds": %.3f, "rss": %llu, )"
      R"("fds": %zu, "failed": [%s], "error": "%s"})"
      "\n",
      rank->group.rank(), rank->group.size(), rank->group.launcher().c_str(), met,
      seconds_since(began), static_cast<unsigned long long>(rank->resident), rank->open,
      failed_text(rank->group).c_str(), done ? "" : describe(done.error()).c_str());
  std::fflush(stdout);
  return done ? 0 : 3;
}

}  // namespace
}  // namespace hbmwire::test

int main(int count, char** arguments) { return hbmwire::test::main(count, arguments); }
