// SPDX-License-Identifier: MIT
#include "hbmwire/trace.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "in_child.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::test {
namespace {

using Json = nlohmann::json;

// ThreadSanitizer forbids threads in a child of a process with threads.
#ifdef __SANITIZE_THREAD__
constexpr bool kHasThreadsInChildren = false;
#else
constexpr bool kHasThreadsInChildren = true;
#endif

/// Provides a folder for files.
class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "hbmwire-trace-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }

  ~TraceTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  [[nodiscard]] static std::vector<Json> events_of(const std::string& file) {
    std::ifstream in(file);
    return Json::parse(in).get<std::vector<Json>>();
  }

  /// Only the transfers.
  [[nodiscard]] static std::vector<Json> transfers_of(const std::string& file) {
    auto events = events_of(file);
    std::erase_if(
        events, [](const Json& event) { return event.value("cat", "").rfind("transfer", 0) != 0; });
    return events;
  }

  std::filesystem::path folder_;
};

/// Two ends and memory.
struct Pair {
  explicit Pair(WorkerOptions options = {}) : ends({}, options) {}

  Transfer put(std::uint64_t bytes = 8) {
    return value(ends.a->put(memory.slice(0, bytes), remote.slice(0, bytes)));
  }

  void puts(int count) {
    for (int i = 0; i < count; ++i) good(put().wait(10s));
  }

  Ends ends;
  Memory memory{ends.context, MemoryType::host, 1 << 20};
  MemoryKey key = value(MemoryKey::pack(memory.region()));
  RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
};

TEST_F(TraceTest, HasTransfersOfWorkersThatWereThereBefore) {
  Pair pair;
  pair.puts(3);
  Trace trace = value(Trace::start({.file = path("t.json")}));
  EXPECT_EQ(trace.file(), path("t.json"));
  pair.puts(2);
  Transfer receive = value(pair.ends.b->receive(pair.memory.slice(64, 8)));
  Transfer send = value(pair.ends.a->send(pair.memory.slice(0, 8)));
  finish(pair.ends, receive);
  finish(pair.ends, send);
  EXPECT_EQ(value(trace.stop()), (TraceCounts{.transfers = 4}));
  pair.puts(1);
  const auto transfers = transfers_of(path("t.json"));
  ASSERT_EQ(transfers.size(), 4U);
  EXPECT_EQ(transfers[0].at("name"), "put");
  const Json& args = transfers[0].at("args");
  EXPECT_EQ(args.at("bytes"), 8);
  EXPECT_EQ(args.at("nic"), "emu0");
  EXPECT_EQ(args.at("peer"), pair.ends.a->peer());
  EXPECT_EQ(args.at("endpoint"), pair.ends.a->id());
  EXPECT_EQ(args.at("protocol"), "inlined");
  EXPECT_EQ(args.at("local"), "host");
  EXPECT_EQ(args.at("remote"), "host");
  std::map<std::string, std::string> waits;
  for (const Json& each : transfers)
    waits[each.at("name")] = each.at("args").value("wait", std::string());
  EXPECT_EQ(waits["receive"], "message");
  EXPECT_EQ(waits["send"], "");
}

TEST_F(TraceTest, NamesTheReasonsOfWaits) {
  // The peer has places for four messages, and receives none at first.
  Ends ends({.receive_depth = 4, .unexpected_bytes = 0}, {.receive_pool_bytes = 0});
  Memory memory(ends.context, MemoryType::host, 4096);
  Trace trace = value(Trace::start({.file = path("t.json")}));
  std::vector<Transfer> all;
  for (int i = 0; i < 12; ++i) all.push_back(value(ends.a->send(memory.slice(0, 64))));
  for (int i = 0; i < 12; ++i) all.push_back(value(ends.b->receive(memory.slice(64, 64))));
  for (Transfer& each : all) finish(ends, each);
  value(trace.stop());
  std::map<std::string, int> waits;
  for (const Json& each : transfers_of(path("t.json"))) {
    if (each.at("name") == "send") ++waits[each.at("args").value("wait", std::string())];
  }
  EXPECT_EQ(waits["credit"], 1) << "the first send for which there was no credit";
  EXPECT_GT(waits["order"], 0) << "the sends behind that one";
  EXPECT_GE(waits[""], 4);
  EXPECT_EQ(waits.size(), 3U);
}

TEST_F(TraceTest, HasTasksByTheirNames) {
  Pair pair;
  Trace trace = value(Trace::start({.file = path("t.json")}));
  Transfer close = value(pair.ends.a->start_close(Deadline::after(10s)));
  finish(pair.ends, close);
  EXPECT_EQ(value(trace.stop()).transfers, 1U);
  const auto transfers = transfers_of(path("t.json"));
  ASSERT_EQ(transfers.size(), 1U);
  EXPECT_EQ(transfers[0].at("name"), "task");
  EXPECT_EQ(transfers[0].at("args").at("by"), "close");
  EXPECT_FALSE(transfers[0].at("args").contains("endpoint"));
}

TEST_F(TraceTest, TellsOfAFileThatCouldNotBeWritten) {
  // The limit of the file size acts like a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told += line; });
  Pair pair;
  Trace trace = value(Trace::start({.file = path("t.json")}));
  const rlimit small{65536, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  pair.puts(2000);
  const auto stopped = trace.stop();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  set_log_sink({});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().number, EFBIG) << describe(stopped.error());
  EXPECT_FALSE(events_of(path("t.json")).empty()) << "the file is whole";
  EXPECT_EQ(events_of(path("t.json")).back().at("name"), "trace ends");
}

TEST_F(TraceTest, EndsAndBeginsAnew) {
  Pair pair;
  for (int i = 0; i < 3; ++i) {
    const std::string file = path(std::to_string(i) + ".json");
    Trace trace = value(Trace::start({.file = file}));
    pair.puts(i + 1);
    // Round 1 does not stop its trace: the destructor does.
    if (i != 1) {
      EXPECT_EQ(value(trace.stop()).transfers, static_cast<std::uint64_t>(i) + 1);
      EXPECT_EQ(trace.stop().error().code, Errc::not_found) << "the trace has ended";
    }
  }
  for (int i = 0; i < 3; ++i) {
    const auto transfers = transfers_of(path(std::to_string(i) + ".json"));
    EXPECT_EQ(transfers.size(), static_cast<std::size_t>(i) + 1);
  }
}

TEST_F(TraceTest, DoesNotHaveTransfersThatBeganBefore) {
  Pair pair;
  Transfer before = value(pair.ends.b->receive(pair.memory.slice(64, 8)));
  Trace one = value(Trace::start({.file = path("1.json")}));
  Transfer meanwhile = value(pair.ends.b->receive(pair.memory.slice(64, 8)));
  value(one.stop());
  Trace two = value(Trace::start({.file = path("2.json")}));
  for (Transfer* receive : {&before, &meanwhile}) {
    Transfer send = value(pair.ends.a->send(pair.memory.slice(0, 8)));
    finish(pair.ends, *receive);
    finish(pair.ends, send);
  }
  EXPECT_EQ(value(two.stop()).transfers, 2U) << "the sends";
  EXPECT_EQ(transfers_of(path("1.json")).size(), 0U);
  for (const Json& transfer : transfers_of(path("2.json"))) EXPECT_EQ(transfer.at("name"), "send");
}

TEST_F(TraceTest, IsOneAtATime) {
  Trace trace = value(Trace::start({.file = path("t.json")}));
  const auto second = Trace::start({.file = path("u.json")});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy) << describe(second.error());
  EXPECT_FALSE(std::filesystem::exists(path("u.json")));
  Trace moved = std::move(trace);
  EXPECT_TRUE(moved.stop());
  EXPECT_TRUE(Trace::start({.file = path("u.json")}));
}

TEST_F(TraceTest, RefusesImpossibleOptions) {
  const auto refused = [](const TraceOptions& options) {
    const auto trace = Trace::start(options);
    EXPECT_FALSE(trace);
    return trace ? Error() : trace.error();
  };
  EXPECT_EQ(refused({}).code, Errc::invalid_argument);
  EXPECT_EQ(refused({.file = path("t.json"), .most_bytes = 1000}).code, Errc::invalid_argument);
  EXPECT_EQ(refused({.file = path("none/t.json")}).number, ENOENT);
  EXPECT_EQ(refused({.file = "/dev/full"}).code, Errc::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TraceTest, TakesAnotherNameIfTheFileExists) {
  const std::string pid = std::to_string(::getpid());
  set_log_sink([](LogLevel, std::string_view) {});
  const std::vector<std::string> names{"t.json", "t.json." + pid, "t.json." + pid + ".2",
                                       "t.json." + pid + ".3"};
  for (const std::string& name : names)
    EXPECT_EQ(value(Trace::start({.file = path("t.json")})).file(), path(name));
  set_log_sink({});
  EXPECT_EQ(value(Trace::start({.file = path("%p-%%-%x-%")})).file(), path(pid + "-%-%x-%"));
}

TEST_F(TraceTest, SaysNothingOfTimesThatWereNotAskedFor) {
  Pair pair;
  const Trace trace = value(Trace::start({.file = path("t.json")}));
  Transfer put = pair.put();
  good(put.wait(10s));
  EXPECT_FALSE(put.explain().times);
}

TEST_F(TraceTest, TakesFileNamesThatAreNoText) {
  // A control character, a quote, and a byte that is no UTF-8.
  Pair pair;
  Trace trace = value(Trace::start({.file = path("\x01\"\xff.json")}));
  pair.puts(1);
  EXPECT_EQ(value(trace.stop()).transfers, 1U);
  EXPECT_EQ(transfers_of(trace.file()).size(), 1U);
}

TEST_F(TraceTest, HasTransfersOfDestroyedWorkers) {
  Trace trace = value(Trace::start({.file = path("t.json")}));
  for (int i = 0; i < 20; ++i) Pair().puts(5);
  EXPECT_EQ(value(trace.stop()).transfers, 100U);
  std::map<std::string, int> peers;
  for (const Json& transfer : transfers_of(path("t.json"))) ++peers[transfer.at("args").at("peer")];
  EXPECT_FALSE(peers.contains("")) << "an endpoint was forgotten before its transfers";
}

TEST_F(TraceTest, AChildDoesNotInheritItsParentsTrace) {
  Pair pair;
  Trace trace = value(Trace::start({.file = path("t.json")}));
  pair.puts(2);
  EXPECT_TRUE(passes_in_child([&] {
    EXPECT_EQ(trace.stop().error().code, Errc::not_found);
    if (!kHasThreadsInChildren) return;
    Trace own = value(Trace::start({.file = path("child.json")}));
    EXPECT_EQ(value(own.stop()), TraceCounts());
    EXPECT_EQ(events_of(path("child.json")).size(), 3U);
  }));
  pair.puts(2);
  EXPECT_EQ(value(trace.stop()).transfers, 4U);
  EXPECT_EQ(transfers_of(path("t.json")).size(), 4U);
}

TEST_F(TraceTest, StopsInAChildWithoutItsParentsLock) {
  // A refused start takes the lock, like the writer.
  Trace trace = value(Trace::start({.file = path("t.json")}));
  std::jthread holder([&](const std::stop_token& token) {
    while (!token.stop_requested()) static_cast<void>(Trace::start({.file = path("u.json")}));
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(passes_in_child([&] { EXPECT_EQ(trace.stop().error().code, Errc::not_found); }));
  }
}

TEST_F(TraceTest, BeginsAndEndsWhileOthersWork) {
  Pair pair({.progress_thread = true});
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!over) good(pair.put().wait(10s));
    });
  }
  std::vector<TraceCounts> all;
  for (int i = 0; i < 8; ++i) {
    Trace trace = value(Trace::start({.file = path(std::to_string(i) + ".json")}));
    std::this_thread::sleep_for(2ms);
    all.push_back(value(trace.stop()));
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  std::uint64_t transfers = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(transfers_of(path(std::to_string(i) + ".json")).size(), all[i].transfers);
    transfers += all[i].transfers;
  }
  EXPECT_GT(transfers, 0U);
}

TEST_F(TraceTest, BeginsAndEndsWhileAWorkerWithoutALockWorks) {
  Pair pair;
  std::atomic<bool> over{false};
  std::thread works([&] {
    while (!over) good(pair.put().wait(10s));
  });
  std::uint64_t transfers = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string file = path(std::to_string(i) + ".json");
    Trace trace = value(Trace::start({.file = file}));
    std::this_thread::sleep_for(5ms);
    transfers += value(trace.stop()).transfers;
  }
  over = true;
  works.join();
  EXPECT_GT(transfers, 0U);
}

}  // namespace
}  // namespace hbmwire::test
