// SPDX-License-Identifier: MIT
#include "hbmwire/group.hpp"

#include <latch>
#include <optional>
#include <random>
#include <set>

#include "ranks_in_threads.hpp"
#include "tests/endpoint/in_child.hpp"

namespace hbmwire::test {
namespace {

template <class T>
void good(const Result<T>& result) {
  EXPECT_TRUE(result) << describe(result.error());
}

std::string subject(const Error& error) { return error.subject; }

// --- meeting

TEST(Group, RanksMeetAndKnowEachOther) {
  at_all_ranks(4, [](Rank& rank) {
    EXPECT_EQ(rank.group.size(), 4U);
    EXPECT_EQ(rank.group.epoch(), 1U);
    ASSERT_EQ(rank.group.members().size(), 4U);
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(rank.group.members()[i].rank, i);
      EXPECT_FALSE(rank.group.members()[i].host.empty());
      ASSERT_FALSE(rank.group.members()[i].addresses.empty());
      EXPECT_EQ(rank.group.members()[i].addresses.front().rfind("127.0.0.1:", 0), 0U);
    }
    good(rank.group.barrier(10s));
  });
}

TEST(Group, AGroupOfOneMeetsItself) {
  at_all_ranks(1, [](Rank& rank) {
    const auto all = rank.group.exchange(bytes_of("alone"), 5s);
    good(all);
    EXPECT_EQ(all->size(), 1U);
    EXPECT_EQ(text_of(all->front()), "alone");
  });
}

TEST(Group, ProcessesWithoutARankAreGivenOneEach) {
  std::mutex mutex;
  std::set<std::uint32_t> ranks;
  at_all_ranks(
      5,
      [&](Rank& rank) {
        const std::scoped_lock lock(mutex);
        EXPECT_TRUE(ranks.insert(rank.number()).second);
      },
      [](GroupOptions& options) { options.rank.reset(); });
  EXPECT_EQ(ranks, (std::set<std::uint32_t>{0, 1, 2, 3, 4}));
}

TEST(Group, RanksThatDoNotComeAreNamedAtTheDeadline) {
  const Place place;
  std::vector<std::jthread> threads;
  for (const std::uint32_t number : {0U, 2U}) {
    threads.emplace_back([&, number] {
      const auto rank = join(options_of(place, number, 8), 3s);
      ASSERT_FALSE(rank);
      EXPECT_EQ(rank.error().code, Errc::timed_out);
      EXPECT_EQ(subject(rank.error()), "ranks 1, 3-7") << describe(rank.error());
    });
  }
}

TEST(Group, AMissingRankZeroIsNamed) {
  const Place place;
  const auto rank = join(options_of(place, 1, 2), 300ms);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().code, Errc::timed_out);
  EXPECT_EQ(subject(rank.error()), "rank 0");
}

TEST(Group, ARankZeroThatGaveUpIsNamedWithTheRanksItMissed) {
  const Place place;
  std::jthread zero([&] { EXPECT_FALSE(join(options_of(place, 0, 4), 1s)); });
  std::jthread two([&] {
    const auto rank = join(options_of(place, 2, 4), 3s);
    ASSERT_FALSE(rank);
    EXPECT_EQ(subject(rank.error()), "ranks 0, 1, 3") << describe(rank.error());
  });
}

TEST(Group, AStoreThatDoesNotAnswerIsNamed) {
  const Place place;
  GroupOptions options = options_of(place, 1, 2);
  options.meeting = "etcd://127.0.0.1:1/group";
  const auto rank = join(options, 500ms);
  ASSERT_FALSE(rank);
  EXPECT_EQ(subject(rank.error()), "etcd://127.0.0.1:1/group") << describe(rank.error());
}

TEST(Group, RanksThatDoNotAgreeOnTheSizeAreRefused) {
  const Place place;
  std::jthread first([&] { EXPECT_FALSE(join(options_of(place, 0, 2), 2s)); });
  const auto rank = join(options_of(place, 1, 3), 5s);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().code, Errc::protocol);
}

TEST(Group, TwoProcessesOfOneRankAreRefused) {
  const Place place;
  std::latch met(2);
  std::latch tried(1);
  const auto at = [&](std::uint32_t number) {
    auto rank = join(options_of(place, number, 2));
    good(rank);
    met.count_down();
    tried.wait();
  };
  std::jthread zero([&] { at(0); });
  std::jthread one([&] { at(1); });
  met.wait();
  // It tries again until its time is over, which is often in the middle of an attempt.
  for (int i = 0; i < 5; ++i) {
    const auto twin = join(options_of(place, 1, 2), 1000ms + i * 10ms);
    ASSERT_FALSE(twin);
    EXPECT_EQ(twin.error().code, Errc::busy) << describe(twin.error());
  }
  tried.count_down();
}

TEST(Group, AnotherPreSharedKeyIsRefused) {
  const Place place;
  std::jthread first([&] { EXPECT_FALSE(join(options_of(place, 0, 2), 2s)); });
  GroupOptions options = options_of(place, 1, 2);
  options.endpoint.pre_shared_key = bytes_of("quite another key than theirs");
  const auto rank = join(options, 5s);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().code, Errc::permission_denied);
}

TEST(Group, ImpossibleOptionsAreRefused) {
  const Place place;
  const auto refused = [&](const auto& change) {
    GroupOptions options = options_of(place, 0, 2);
    change(options);
    const auto rank = join(options, 100ms);
    EXPECT_FALSE(rank);
    return !rank && rank.error().code == Errc::invalid_argument &&
           rank.error().stage == Stage::configure;
  };
  EXPECT_TRUE(refused([](GroupOptions& options) { options.size = 0; }));
  EXPECT_TRUE(refused([](GroupOptions& options) { options.size = 4097; }));
  EXPECT_TRUE(refused([](GroupOptions& options) { options.rank = 2; }));
  EXPECT_TRUE(refused([](GroupOptions& options) { options.meeting = "gopher://here"; }));
  EXPECT_TRUE(refused([](GroupOptions& options) { options.endpoint.retry_connect = true; }));
  EXPECT_TRUE(refused([](GroupOptions& options) { options.endpoint.hello = bytes_of("me"); }));
}

TEST(Group, AChildOfForkHasNoPartInTheGroup) {
  at_all_ranks(1, [](Rank& rank) {
    EXPECT_TRUE(passes_in_child([&] {
      EXPECT_EQ(rank.group.barrier(1s).error().code, Errc::not_supported);
      EXPECT_EQ(rank.group.endpoint(0, 1s).error().code, Errc::not_supported);
      EXPECT_EQ(rank.group.rejoin(1s).error().code, Errc::not_supported);
      EXPECT_TRUE(rank.group.failed().empty());
      const Group gone = std::move(rank.group);
    }));
    good(rank.group.barrier(5s));
  });
}

// --- exchanging

TEST(Group, EveryRankGetsTheBytesOfAll) {
  at_all_ranks(6, [](Rank& rank) {
    for (int round = 0; round < 50; ++round) {
      const auto all = rank.group.exchange(
          bytes_of(std::to_string(rank.number()) + "/" + std::to_string(round)), 10s);
      good(all);
      ASSERT_EQ(all->size(), 6U);
      for (std::uint32_t i = 0; i < 6; ++i)
        EXPECT_EQ(text_of((*all)[i]), std::to_string(i) + "/" + std::to_string(round));
    }
  });
}

TEST(Group, LongAndEmptyPartsArriveWhole) {
  at_all_ranks(3, [](Rank& rank) {
    const std::size_t length = rank.number() == 1 ? 0 : (std::size_t{1} << 20U) - rank.number();
    const std::vector<std::byte> mine(length, std::byte(rank.number() + 1));
    const auto all = rank.group.exchange(mine, 20s);
    good(all);
    ASSERT_EQ(all->size(), 3U);
    EXPECT_EQ((*all)[0], std::vector<std::byte>(1U << 20U, std::byte{1}));
    EXPECT_TRUE((*all)[1].empty());
    EXPECT_EQ((*all)[2], std::vector<std::byte>((1U << 20U) - 2, std::byte{3}));
    const auto refused = rank.group.exchange(std::vector<std::byte>((1U << 20U) + 1), 1s);
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    good(rank.group.barrier(5s));
  });
}

TEST(Group, ARankThatDoesNotComeToACallIsNamed) {
  std::latch over(3);
  at_all_ranks(3, [&](Rank& rank) {
    if (rank.number() == 2) return over.arrive_and_wait();
    const auto late = rank.group.barrier(2s);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::timed_out);
    EXPECT_EQ(subject(late.error()), "rank 2");
    over.arrive_and_wait();
  });
}

TEST(Group, ACallIsCancelledByItsDescriptor) {
  at_all_ranks(2, [](Rank& rank) {
    if (rank.number() == 1) return std::this_thread::sleep_for(500ms);
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    ASSERT_EQ(::write(pipe[1], "x", 1), 1);
    EXPECT_EQ(rank.group.barrier({Deadline::after(10s), pipe[0]}).error().code, Errc::cancelled);
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
}

TEST(Group, ARankThatHasEndedIsNamedToAllOthers) {
  at_all_ranks(5, [](Rank& rank) {
    if (rank.number() == 3) return;
    const auto began = std::chrono::steady_clock::now();
    const auto failed = rank.group.barrier(20s);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::peer_failed);
    EXPECT_EQ(subject(failed.error()), "rank 3");
    EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
    EXPECT_EQ(rank.group.failed(), std::vector<std::uint32_t>{3});
    const auto rest = rank.group.exchange_among_present(bytes_of("here"), 10s);
    good(rest);
    for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ((*rest)[i].has_value(), i != 3);
  });
}

TEST(Group, RanksThatAreLateAreGivenUp) {
  std::latch over(4);
  at_all_ranks(4, [&](Rank& rank) {
    if (rank.number() == 1) {
      std::this_thread::sleep_for(600ms);
      const auto late = rank.group.exchange_among_present({}, 5s);
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code, Errc::peer_failed) << describe(late.error());
      over.arrive_and_wait();
      return;
    }
    const auto rest = rank.group.exchange_among_present(bytes_of("x"), 300ms);
    good(rest);
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ((*rest)[i].has_value(), i != 1);
    EXPECT_EQ(rank.group.failed(), std::vector<std::uint32_t>{1});
    over.arrive_and_wait();
  });
}

TEST(Group, TheEndOfRankZeroIsNamed) {
  at_all_ranks(3, [](Rank& rank) {
    if (rank.number() == 0) return;
    const auto failed = rank.group.barrier(10s);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::peer_failed);
    EXPECT_EQ(subject(failed.error()).rfind("rank", 0), 0U);
    EXPECT_NE(subject(failed.error()).find('0'), std::string::npos) << describe(failed.error());
  });
}

TEST(Group, RanksInDifferentCallsAreToldSo) {
  at_all_ranks(2, [](Rank& rank) {
    const auto done = rank.number() == 0
                          ? rank.group.exchange({}, 5s).map([](const auto&) {})
                          : rank.group.exchange_among_present({}, 5s).map([](const auto&) {});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::protocol);
  });
}

TEST(Group, AReplacementJoinsUnderANewEpoch) {
  const Place place;
  std::latch gone(1);
  std::optional<std::jthread> replacement;
  std::vector<std::jthread> threads;
  for (std::uint32_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      auto rank = join(options_of(place, number, 4));
      ASSERT_TRUE(rank) << describe(rank.error());
      if (number == 2) {
        // Rank 2 leaves the group.
        rank = tl::make_unexpected(Error{});
        gone.count_down();
        return;
      }
      EXPECT_EQ(rank->group.barrier(10s).error().code, Errc::peer_failed);
      good(rank->group.rejoin(10s));
      EXPECT_EQ(rank->group.epoch(), 2U);
      EXPECT_TRUE(rank->group.failed().empty());
      good(rank->group.barrier(10s));
      good(rank->group.endpoint((number + 2) % 4, 10s));
      good(rank->group.barrier(10s));
    });
  }
  gone.wait();
  auto rank = join(options_of(place, 2, 4));
  ASSERT_TRUE(rank) << describe(rank.error());
  EXPECT_EQ(rank->group.epoch(), 2U);
  good(rank->group.barrier(10s));
  good(rank->group.endpoint(0, 10s));
  good(rank->group.barrier(10s));
}

TEST(Group, AReplacementOfRankZeroBringsTheGroupBack) {
  const Place place;
  std::latch gone(1);
  std::vector<std::jthread> threads;
  for (std::uint32_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      auto rank = join(options_of(place, number, 3));
      ASSERT_TRUE(rank) << describe(rank.error());
      if (number == 0) {
        // Rank 0 leaves the group.
        rank = tl::make_unexpected(Error{});
        gone.count_down();
        return;
      }
      EXPECT_EQ(rank->group.barrier(10s).error().code, Errc::peer_failed);
      good(rank->group.rejoin(10s));
      EXPECT_EQ(rank->group.epoch(), 2U);
      good(rank->group.barrier(10s));
    });
  }
  gone.wait();
  auto rank = join(options_of(place, 0, 3));
  ASSERT_TRUE(rank) << describe(rank.error());
  EXPECT_EQ(rank->group.epoch(), 2U);
  good(rank->group.barrier(10s));
}

// --- endpoints

/// A message from each rank to each other one, by the endpoints of the group.
void talk_to_all(Rank& rank, unsigned seed) {
  std::vector<std::uint32_t> others;
  for (std::uint32_t other = 0; other < rank.group.size(); ++other) {
    if (other != rank.number()) others.push_back(other);
  }
  std::shuffle(others.begin(), others.end(), std::mt19937(seed + rank.number()));
  const Region from = rank.memory(64, static_cast<std::uint8_t>(rank.number() + 1));
  const Region into = rank.memory(64 * rank.group.size(), 0);
  std::vector<Transfer> transfers;
  for (const std::uint32_t other : others) {
    const auto endpoint = rank.group.endpoint(other, 20s);
    ASSERT_TRUE(endpoint) << describe(endpoint.error());
    transfers.push_back(*(*endpoint)->send(from.slice(), seed));
    transfers.push_back(*(*endpoint)->receive(into.slice(other * 64, 64), TagMatch{.tag = seed}));
  }
  good(rank.worker.wait_all(transfers, 20s));
  for (const std::uint32_t other : others) {
    EXPECT_EQ(into.host_bytes()[other * 64], std::byte(other + 1));
    // Asking again gives the same connection.
    EXPECT_EQ(*rank.group.endpoint(other, 1s), *rank.group.endpoint(other, 1s));
  }
  good(rank.group.barrier(20s));
}

TEST(GroupEndpoints, TwoRanksGetTheEndsOfOneConnection) {
  for (unsigned seed = 0; seed < 5; ++seed)
    at_all_ranks(6, [&](Rank& rank) { talk_to_all(rank, seed); });
}

TEST(GroupEndpoints, ARankThatOnlyMakesProgressIsReached) {
  at_all_ranks(3, [](Rank& rank) {
    const Region memory = rank.memory(4096, 0);
    if (rank.number() != 1) {
      const auto endpoint = rank.group.endpoint(1, 10s);
      ASSERT_TRUE(endpoint) << describe(endpoint.error());
      good((*endpoint)->send(memory.slice(0, 8))->wait(10s));
      good(rank.group.barrier(10s));
      return;
    }
    // Rank 1 makes no call of the group until both others have connected.
    const Deadline until = Deadline::after(500ms);
    while (!until.passed()) rank.worker.progress();
    for (const std::uint32_t other : {0U, 2U}) {
      const auto endpoint = rank.group.endpoint(other, 10s);
      ASSERT_TRUE(endpoint) << describe(endpoint.error());
      good((*endpoint)->receive(memory.slice(0, 8))->wait(10s));
    }
    good(rank.group.barrier(10s));
  });
}

TEST(GroupEndpoints, ADroppedEndpointIsMadeAnew) {
  at_all_ranks(2, [](Rank& rank) {
    for (unsigned round = 0; round < 4; ++round) {
      const auto endpoint = rank.group.endpoint(1 - rank.number(), 10s);
      ASSERT_TRUE(endpoint) << describe(endpoint.error());
      const Region memory = rank.memory(8, static_cast<std::uint8_t>(round));
      auto moved = rank.number() == 0 ? (*endpoint)->send(memory.slice())
                                      : (*endpoint)->receive(memory.slice());
      good(moved->wait(10s));
      good(rank.group.barrier(10s));
      rank.group.drop_endpoint(1 - rank.number());
      good(rank.group.barrier(10s));
    }
  });
}

TEST(GroupEndpoints, NumbersOfNoOtherRankAreRefused) {
  at_all_ranks(2, [](Rank& rank) {
    for (const std::uint32_t other : {rank.number(), 2U, ~0U}) {
      const auto endpoint = rank.group.endpoint(other, 1s);
      ASSERT_FALSE(endpoint);
      EXPECT_EQ(endpoint.error().code, Errc::invalid_argument);
    }
    good(rank.group.barrier(10s));
  });
}

TEST(GroupEndpoints, ARankThatHasEndedIsNamedAtOnce) {
  std::latch both(2);
  at_all_ranks(3, [&](Rank& rank) {
    if (rank.number() == 1) return;
    const auto began = std::chrono::steady_clock::now();
    const auto endpoint = rank.group.endpoint(1, 20s);
    both.arrive_and_wait();
    // The endpoint may have been made before rank 1 ended.
    if (endpoint) return;
    EXPECT_EQ(subject(endpoint.error()), "rank 1") << describe(endpoint.error());
    EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  });
}

TEST(GroupEndpoints, WorkersWithAThreadOfTheLibraryAreServed) {
  const Place place;
  std::vector<std::jthread> threads;
  for (std::uint32_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      const Context context = *Context::create();
      const Worker worker = *Worker::create(context, {.progress_thread = true});
      auto group = Group::create(worker, 20s, options_of(place, number, 3));
      ASSERT_TRUE(group) << describe(group.error());
      Rank rank{context, worker, std::move(*group)};
      talk_to_all(rank, 7);
    });
  }
}

// --- broadcast

TEST(GroupBroadcast, EveryRankHasTheRootsBytes) {
  at_all_ranks(5, [](Rank& rank) {
    for (std::uint32_t root = 0; root < 5; ++root) {
      for (const std::uint64_t length :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{100001}}) {
        const auto value = static_cast<std::uint8_t>(rank.number() == root ? root + 17 : 0);
        const Region memory = rank.memory(length + 32, value);
        good(rank.group.broadcast(memory.slice(16, length), root, 20s, {.piece_bytes = 4096}));
        EXPECT_EQ(memory.host_bytes()[15], std::byte{value});
        EXPECT_EQ(memory.host_bytes()[16 + length], std::byte{value});
        for (std::uint64_t i = 0; i < length; i += 511)
          ASSERT_EQ(memory.host_bytes()[16 + i], std::byte(root + 17));
      }
    }
  });
}

TEST(GroupBroadcast, ARankWithAnotherLengthIsNamed) {
  at_all_ranks(3, [](Rank& rank) {
    const Region memory = rank.memory(8192, 1);
    const auto refused =
        rank.group.broadcast(memory.slice(0, rank.number() == 2 ? 4096 : 8192), 0, 10s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    EXPECT_EQ(subject(refused.error()), rank.number() == 2 ? "ranks 0, 1" : "rank 2");
    good(rank.group.barrier(10s));
  });
}

TEST(GroupBroadcast, ARankThatHasEndedIsNamedToAll) {
  // All three ranks stay until their calls are over: a rank that left earlier would be named, too.
  std::latch over(3);
  at_all_ranks(4, [&](Rank& rank) {
    if (rank.number() == 2) return;
    const Region memory = rank.memory(1U << 20U, 1);
    const auto failed = rank.group.broadcast(memory.slice(), 0, 10s, {.piece_bytes = 4096});
    over.arrive_and_wait();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::peer_failed);
    EXPECT_EQ(subject(failed.error()), "rank 2");
    // A rank that leaves before the others have looked would be named, too.
    good(rank.group.exchange_among_present({}, 10s));
  });
}

TEST(GroupBroadcast, MemoryThatCannotBeWrittenIsRefused) {
  at_all_ranks(2, [](Rank& rank) {
    const Region memory =
        *rank.context.allocate_region(MemoryType::host, 4096, Access::remote_read);
    if (rank.number() == 0) return;
    EXPECT_FALSE(rank.group.broadcast(memory.slice(), 0, 1s));
    EXPECT_FALSE(rank.group.broadcast(memory.slice(), 2, 1s));
    EXPECT_FALSE(rank.group.broadcast(memory.slice(4000, 100), 0, 1s));
    EXPECT_FALSE(rank.group.broadcast({}, 0, 1s));
    EXPECT_FALSE(rank.group.broadcast(memory.slice(), 0, 1s, {.piece_bytes = 1}));
  });
}

}  // namespace
}  // namespace hbmwire::test
