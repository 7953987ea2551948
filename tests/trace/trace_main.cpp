// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hbmwire/blocks.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

// Runs transfers of each kind between two endpoints of this process, to be traced (run.py). Prints
// their counts: {"put": [transfers, bytes], ...}. usage: endpoint_trace WHAT TRANSFERS
//
//   mixed      all kinds, from host memory
//   device     the same, from the memory of a Gaudi card
//   contexts   the same, by two contexts after each other
//   threads    puts from several threads
//   fork       all kinds, in a child of fork(2), too
//   cancelled  all kinds, then receives that are cancelled
//   killed     all kinds, then SIGKILL
//   exits      all kinds, then exit(3)
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// Counts the transfers that were done, by kind.
class Tally {
 public:
  void add(const char* kind, std::uint64_t bytes) {
    auto& [count, sum] = kinds_[kind];
    ++count;
    sum += bytes;
    ++all_;
  }

  void add(const Tally& other) {
    for (const auto& [kind, done] : other.kinds_) {
      kinds_[kind].first += done.first;
      kinds_[kind].second += done.second;
    }
    all_ += other.all_;
  }

  [[nodiscard]] std::uint64_t all() const { return all_; }

  void print() const {
    std::string text;
    for (const auto& [kind, done] : kinds_) {
      text += text.empty() ? "{" : ", ";
      text += "\"" + kind + "\": [" + std::to_string(done.first) + ", " +
              std::to_string(done.second) + "]";
    }
    std::printf("%s}\n", text.c_str());
    std::fflush(stdout);
  }

 private:
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> kinds_;
  std::uint64_t all_ = 0;
};

/// Two ends, and their transfers.
class Work {
 public:
  explicit Work(WorkerOptions options = {}, MemoryType type = MemoryType::host)
      : ends_({}, options), memory_(ends_.context, type, kBytes) {
    const std::vector<TransferPart> parts{{memory_.slice(0, 32), remote_.slice(256, 32)},
                                          {memory_.slice(64, 32), remote_.slice(512, 32)}};
    list_.emplace(value(ends_.a->prepare_put(parts)));
  }

  /// Runs `transfers` transfers, or one more if the last step consists of two.
  void run(std::uint64_t transfers, Tally& tally) {
    const std::uint64_t until = tally.all() + transfers;
    if (transfers > 2 * kBurst) burst(tally);
    for (unsigned i = 0; tally.all() < until; ++i) step(i, tally);
    for (Transfer& transfer : window_) {
      if (transfer) finish(ends_, transfer);
      transfer.reset();
    }
  }

  /// Cancels `count` receives.
  void cancel(unsigned count, Tally& tally) {
    for (unsigned i = 0; i < count; ++i) {
      Transfer receive = value(ends_.b->receive(memory_.slice(2048, 64)));
      good(receive.request_cancel());
      EXPECT_TRUE(receive.done());
      tally.add("receive", 64);
    }
  }

  Ends& ends() { return ends_; }

 private:
  static constexpr unsigned kBurst = 300;

  /// More transfers than the send queue has room for.
  void burst(Tally& tally) {
    std::vector<Transfer> all;
    for (unsigned i = 0; i < kBurst; ++i) {
      all.push_back(value(ends_.a->put(memory_.slice(0, 8), remote_.slice(kBytes / 2, 8))));
      tally.add("put", 8);
    }
    for (Transfer& put : all) finish(ends_, put);
  }

  /// Puts the transfer in the window, in the place of one that has ended.
  void keep(unsigned i, Transfer transfer) {
    Transfer& place = window_[i % window_.size()];
    if (place) ends_.drive([&] { return place.done(); });
    place = std::move(transfer);
  }

  void wait_both(Transfer one, Transfer other) {
    finish(ends_, one);
    finish(ends_, other);
  }

  /// Most steps are a put or a get; every eighth one is something else.
  void step(unsigned i, Tally& tally) {
    Endpoint& a = *ends_.a;
    switch (i % 64) {
      case 7:
        wait_both(value(ends_.b->receive(memory_.slice(8192, 128))),
                  value(a.send(memory_.slice(0, 100))));
        tally.add("send", 100);
        return tally.add("receive", 100);
      case 15:
        wait_both(value(ends_.b->receive(memory_.slice(65536, 65536))),
                  value(a.send(memory_.slice(0, 65536))));
        tally.add("send", 65536);
        return tally.add("receive", 65536);
      case 23:
        keep(i, value(a.fetch_add(remote_.slice(1024, 8), 1)));
        return tally.add("atomic", 8);
      case 31:
        wait_both(value(ends_.b->receive_immediate({})),
                  value(a.put(memory_.slice(0, 64), remote_.slice(4096, 64), {.immediate = i})));
        tally.add("put", 64);
        return tally.add("immediate", 64);
      case 39: {
        Transfer list = value(list_->post());
        finish(ends_, list);
        return tally.add("put", 64);
      }
      case 47: {
        constexpr std::array<std::uint32_t, 3> kFrom{0, 5, 9};
        constexpr std::array<std::uint32_t, 3> kTo{1, 2, 3};
        Transfer blocks = value(a.put_blocks(blocks_, kFrom, there_, kTo));
        finish(ends_, blocks);
        return tally.add("put", 3 * 64);
      }
      case 55:
        keep(i, value(a.flush()));
        return tally.add("flush", 0);
      default:
        break;
    }
    const std::uint64_t bytes = i % 1024 == 3 ? kBytes / 2 : i % 3 == 0 ? 4096 : 8;
    const bool gets = i % 2 == 0;
    keep(i, value(gets ? a.get(memory_.slice(0, bytes), remote_.slice(kBytes / 2, bytes))
                       : a.put(memory_.slice(0, bytes), remote_.slice(kBytes / 2, bytes))));
    tally.add(gets ? "get" : "put", bytes);
  }

  Ends ends_;
  Memory memory_;
  MemoryKey key_ = value(MemoryKey::pack(memory_.region()));
  RemoteRegion remote_ = value(ends_.a->remote(value(RemoteKey::unpack(key_.bytes()))));
  BlockTable blocks_ = value(BlockTable::create(std::array{memory_.slice(0, 4096)}, 64));
  RemoteBlockTable there_ =
      value(RemoteBlockTable::create(std::array{remote_.slice(kBytes / 2, 4096)}, 64));
  std::optional<PreparedTransfer> list_;
  std::array<Transfer, 256> window_;
};

/// Puts from several threads through one worker that the library drives.
void run_threads(std::uint64_t transfers, Tally& tally) {
  Ends ends({}, {.progress_thread = true});
  Memory memory(ends.context, MemoryType::host, kBytes);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  constexpr unsigned kThreads = 4;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < transfers / kThreads; ++i)
        good(value(ends.a->put(memory.slice(0, 8), remote.slice(64, 8))).wait(10s));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t i = 0; i < transfers / kThreads * kThreads; ++i) tally.add("put", 8);
}

/// The child's transfers go into its own trace; it prints its line before the parent.
void run_fork(std::uint64_t transfers, Tally& tally) {
  std::optional<Work> work(std::in_place);
  work->run(transfers / 2, tally);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    Tally own;
    Work().run(transfers / 2, own);
    own.print();
    std::exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  work->run(transfers / 2, tally);
}

int run(std::string_view what, std::uint64_t transfers) {
  Tally tally;
  if (what == "threads") {
    run_threads(transfers, tally);
  } else if (what == "fork") {
    run_fork(transfers, tally);
  } else if (what == "contexts") {
    Work one;
    Work other;
    one.run(transfers / 2, tally);
    other.run(transfers / 2, tally);
  } else if (what == "cancelled") {
    Work work;
    work.run(transfers, tally);
    work.cancel(10, tally);
    // Destroys the endpoint with transfers in flight.
    Transfer receive = value(work.ends().b->receive({}));
    work.ends().b.reset();
    work.ends().drive([&] { return receive.done(); });
    tally.add("receive", 0);
  } else if (what == "device") {
    Work work({}, MemoryType::gaudi);
    work.run(transfers, tally);
  } else {
    Work work;
    work.run(transfers, tally);
    if (what == "killed") {
      tally.print();
      // Gives the thread time to write all events.
      std::this_thread::sleep_for(200ms);
      ::raise(SIGKILL);
    } else if (what == "exits") {
      tally.print();
      std::exit(0);  // while all objects of the library exist
    }
  }
  tally.print();
  return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

}  // namespace
}  // namespace hbmwire::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return hbmwire::test::run(argv[1], std::strtoull(argv[2], nullptr, 10));
}
