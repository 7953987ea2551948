// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "ends.hpp"

// Groups: ranks as threads of one process, each with a context and a worker of its own.
namespace hbmwire::c_test {
namespace {

constexpr const char* kKey = "a key that only this test has";

/// A file by which the ranks of a test meet.
class Place {
 public:
  Place() {
    std::string pattern = std::filesystem::temp_directory_path() / "hbmwire-c-group-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    meeting_ = "file://" + (folder_ / "group").string();
  }

  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  ~Place() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] const std::string& meeting() const noexcept { return meeting_; }

 private:
  std::filesystem::path folder_;
  std::string meeting_;
};

struct Rank {
  Context context;
  Worker worker;
  Group group;
  std::uint32_t number = 0;

  explicit operator bool() const noexcept { return group != nullptr; }

  [[nodiscard]] hbmwire_group* get() const noexcept { return group.get(); }

  [[nodiscard]] Exchanged exchange(const std::string& mine) const {
    return make<Exchanged>([&](auto** made, auto* error) {
      return hbmwire_group_exchange(get(), mine.data(), mine.size(), 20 * kSecond, HBMWIRE_NO_FD,
                                    made, error);
    });
  }

  void barrier() const {
    good([&](auto* error) {
      return hbmwire_group_barrier(get(), 20 * kSecond, HBMWIRE_NO_FD, error);
    });
  }

  [[nodiscard]] hbmwire_endpoint* endpoint(std::uint32_t to) const {
    hbmwire_endpoint* endpoint = nullptr;
    good([&](auto* error) {
      return hbmwire_group_endpoint(get(), to, 20 * kSecond, HBMWIRE_NO_FD, &endpoint, error);
    });
    return endpoint;
  }

  [[nodiscard]] std::vector<std::uint32_t> failed() const {
    std::vector<std::uint32_t> ranks(8);
    std::size_t count = 0;
    good([&](auto* error) {
      return hbmwire_group_failed(get(), ranks.data(), ranks.size(), &count, error);
    });
    ranks.resize(count);
    return ranks;
  }
};

/// Joins as rank `number` of `size`, and expects the status `expected`. If that is a failure, the
/// group is empty, and `why` gets the subject of the error.
Rank join(const Place& place, std::int32_t number, std::int32_t size,
          std::int64_t timeout_ns = 20 * kSecond, hbmwire_status expected = HBMWIRE_OK,
          std::string* why = nullptr) {
  Rank rank{.context = make_context(), .worker = {}, .group = {}};
  rank.worker = make_worker(rank.context);
  auto endpoint = HBMWIRE_MADE(hbmwire_endpoint_options);
  endpoint.pre_shared_key = kKey;
  endpoint.pre_shared_key_bytes = std::strlen(kKey);
  auto options = HBMWIRE_MADE(hbmwire_group_options);
  options.meeting = place.meeting().c_str();
  options.address = "127.0.0.1";
  options.endpoint = &endpoint;
  options.rank = number;
  options.size = size;
  Failure failed;
  hbmwire_group* group = nullptr;
  EXPECT_EQ(hbmwire_group_create(rank.worker.get(), timeout_ns, HBMWIRE_NO_FD, &options, &group,
                                 &failed.error),
            expected)
      << failed.text();
  if (why != nullptr) *why = failed.error.subject;
  rank.group.reset(group);
  rank.number = hbmwire_group_rank(group);
  return rank;
}

/// `work` at each of `size` ranks, each in a thread.
void at_all_ranks(std::int32_t size, const std::function<void(Rank&)>& work) {
  const Place place;
  std::vector<std::jthread> threads;
  for (std::int32_t number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      Rank rank = join(place, number, size);
      if (rank) work(rank);
    });
  }
}

std::string text_of(const Exchanged& all, std::uint32_t rank) {
  std::size_t size = 0;
  const void* const bytes = hbmwire_exchanged_bytes(all.get(), rank, &size);
  if (bytes == nullptr) return "nothing";
  return {static_cast<const char*>(bytes), size};
}

TEST(CGroup, RanksKnowEachOther) {
  at_all_ranks(3, [](Rank& rank) {
    EXPECT_EQ(hbmwire_group_size(rank.get()), 3U);
    EXPECT_EQ(hbmwire_group_epoch(rank.get()), 1U);
    EXPECT_STRNE(hbmwire_group_launcher(rank.get()), "");
    for (std::uint32_t other = 0; other < 3; ++other) {
      auto member = HBMWIRE_MADE(hbmwire_group_member);
      good(
          [&](auto* error) { return hbmwire_group_get_member(rank.get(), other, &member, error); });
      EXPECT_EQ(member.rank, other);
      EXPECT_STRNE(member.host, "");
      ASSERT_EQ(member.address_count, 1U);
      EXPECT_EQ(std::string(hbmwire_group_address(rank.get(), other, 0)).rfind("127.0.0.1:", 0),
                0U);
      EXPECT_EQ(hbmwire_group_address(rank.get(), other, 1), nullptr);
    }
    EXPECT_EQ(hbmwire_group_address(rank.get(), 3, 0), nullptr);
    auto member = HBMWIRE_MADE(hbmwire_group_member);
    refused(HBMWIRE_INVALID_ARGUMENT,
            [&](auto* error) { return hbmwire_group_get_member(rank.get(), 3, &member, error); });
    rank.barrier();
  });
}

TEST(CGroup, EachRankGetsTheBytesOfAll) {
  at_all_ranks(3, [](Rank& rank) {
    const Exchanged all =
        rank.exchange(rank.number == 1 ? "" : "rank " + std::to_string(rank.number));
    ASSERT_EQ(hbmwire_exchanged_count(all.get()), 3U);
    EXPECT_EQ(text_of(all, 0), "rank 0");
    EXPECT_EQ(text_of(all, 1), "");
    EXPECT_NE(hbmwire_exchanged_bytes(all.get(), 1, nullptr), nullptr);
    EXPECT_EQ(text_of(all, 2), "rank 2");
    EXPECT_EQ(text_of(all, 3), "nothing");
    hbmwire_exchanged* none = nullptr;
    refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
      return hbmwire_group_exchange(rank.get(), nullptr, 1, kSecond, HBMWIRE_NO_FD, &none, error);
    });
    rank.barrier();
  });
}

TEST(CGroup, ARankThatHasEndedIsNamed) {
  at_all_ranks(3, [](Rank& rank) {
    if (rank.number == 1) return;
    Failure why;
    EXPECT_EQ(hbmwire_group_barrier(rank.get(), 20 * kSecond, HBMWIRE_NO_FD, &why.error),
              HBMWIRE_PEER_FAILED);
    EXPECT_STREQ(why.error.subject, "rank 1");
    EXPECT_EQ(why.error.hint, HBMWIRE_HINT_GROUP_RANK_GONE);
    EXPECT_EQ(rank.failed(), std::vector<std::uint32_t>{1});
    std::size_t count = 0;
    good([&](auto* error) { return hbmwire_group_failed(rank.get(), nullptr, 0, &count, error); });
    EXPECT_EQ(count, 1U);
    const auto rest = make<Exchanged>([&](auto** made, auto* error) {
      return hbmwire_group_exchange_among_present(rank.get(), "x", 1, 20 * kSecond, HBMWIRE_NO_FD,
                                                  made, error);
    });
    EXPECT_EQ(text_of(rest, 0), "x");
    EXPECT_EQ(text_of(rest, 1), "nothing");
    EXPECT_EQ(text_of(rest, 2), "x");
  });
}

TEST(CGroup, RanksThatDoNotComeAreNamedAtTheDeadline) {
  const Place place;
  std::string who;
  // The deadline also bounds the coming of rank 0 itself, hence 3 s for a busy machine.
  join(place, 0, 4, 3 * kSecond, HBMWIRE_TIMED_OUT, &who);
  EXPECT_EQ(who, "ranks 1-3");
}

TEST(CGroup, ACallIsCancelledByItsDescriptor) {
  std::atomic<bool> cancelled = false;
  at_all_ranks(2, [&](Rank& rank) {
    if (rank.number == 1) {
      while (!cancelled) std::this_thread::yield();
      return;
    }
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    ASSERT_EQ(::write(pipe[1], "x", 1), 1);
    refused(HBMWIRE_CANCELLED, [&](auto* error) {
      return hbmwire_group_barrier(rank.get(), 20 * kSecond, pipe[0], error);
    });
    cancelled = true;
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
}

TEST(CGroup, OptionsThatCannotBeAreRefused) {
  const Place place;
  join(place, 2, 2, kSecond, HBMWIRE_INVALID_ARGUMENT);
  join(place, 0, 5000, kSecond, HBMWIRE_INVALID_ARGUMENT);
  join(place, -7, 2, kSecond, HBMWIRE_INVALID_ARGUMENT);
}

// --- endpoints

/// Sends a word to `to` by the group's endpoint, and receives one.
void talk(const Rank& rank, std::uint32_t to) {
  hbmwire_endpoint* const endpoint = rank.endpoint(to);
  ASSERT_NE(endpoint, nullptr);
  const Region region = make_region(rank.context);
  set(region, static_cast<unsigned char>(rank.number + 1));
  const hbmwire_slice from{region.get(), 0, 64};
  const hbmwire_slice into{region.get(), 64, 64};
  const auto receiving = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_receive(endpoint, &into, made, error);
  });
  const auto sending = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_send(endpoint, &from, HBMWIRE_LEVEL_SENT, made, error);
  });
  for (const Transfer* one : {&sending, &receiving}) {
    good([&](auto* error) {
      return hbmwire_transfer_wait(one->get(), 20 * kSecond, HBMWIRE_NO_FD, error);
    });
  }
  const auto* const bytes =
      static_cast<const unsigned char*>(hbmwire_region_host_bytes(region.get()));
  EXPECT_EQ(bytes[64], to + 1);
}

TEST(CGroup, EndpointsOfAGroupAreNotTheCallersToFree) {
  at_all_ranks(3, [](Rank& rank) {
    for (std::uint32_t other = 0; other < 3; ++other) {
      if (other != rank.number) talk(rank, other);
    }
    const std::uint32_t next = (rank.number + 1) % 3;
    hbmwire_endpoint* const endpoint = rank.endpoint(next);
    hbmwire_endpoint_free(endpoint);  // does nothing: the group owns it
    EXPECT_EQ(rank.endpoint(next), endpoint);
    EXPECT_EQ(hbmwire_endpoint_phase(endpoint), HBMWIRE_PHASE_READY);
    for (const std::uint32_t none : {rank.number, 3U}) {
      hbmwire_endpoint* no_endpoint = endpoint;
      refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
        return hbmwire_group_endpoint(rank.get(), none, kSecond, HBMWIRE_NO_FD, &no_endpoint,
                                      error);
      });
      EXPECT_EQ(no_endpoint, nullptr);
    }
    rank.barrier();
  });
}

TEST(CGroup, ADroppedEndpointIsMadeAnew) {
  at_all_ranks(2, [](Rank& rank) {
    const std::uint32_t other = 1 - rank.number;
    for (int round = 0; round < 3; ++round) {
      talk(rank, other);
      rank.barrier();
      hbmwire_group_drop_endpoint(rank.get(), other);
      rank.barrier();
    }
  });
}

TEST(CGroup, AReplacementJoinsUnderANewEpoch) {
  const Place place;
  const auto stay = [&](std::int32_t number) {
    const Rank rank = join(place, number, 3);
    ASSERT_TRUE(rank);
    talk(rank, 1 - rank.number);
    refused(HBMWIRE_PEER_FAILED, [&](auto* error) {
      return hbmwire_group_barrier(rank.get(), 20 * kSecond, HBMWIRE_NO_FD, error);
    });
    good([&](auto* error) {
      return hbmwire_group_rejoin(rank.get(), 20 * kSecond, HBMWIRE_NO_FD, error);
    });
    EXPECT_EQ(hbmwire_group_epoch(rank.get()), 2U);
    EXPECT_TRUE(rank.failed().empty());
    talk(rank, 1 - rank.number);
    rank.barrier();
  };
  const std::jthread zero([&] { stay(0); });
  const std::jthread one([&] { stay(1); });
  { const Rank ends = join(place, 2, 3); }
  const Rank rank = join(place, 2, 3);
  ASSERT_TRUE(rank);
  EXPECT_EQ(hbmwire_group_epoch(rank.get()), 2U);
  rank.barrier();
}

// --- broadcast

TEST(CGroup, BroadcastBringsTheRootsBytesToAll) {
  for (const hbmwire_memory_type type : {HBMWIRE_MEMORY_HOST, HBMWIRE_MEMORY_GAUDI}) {
    at_all_ranks(3, [&](Rank& rank) {
      const bool on_card = type == HBMWIRE_MEMORY_GAUDI && rank.number == 1;  // there is one card
      const Region region =
          make_region(rank.context, on_card ? HBMWIRE_MEMORY_GAUDI : HBMWIRE_MEMORY_HOST, kBytes);
      set(region, static_cast<unsigned char>(rank.number + 1));
      const hbmwire_slice memory{region.get(), 0, kBytes};
      for (const std::uint32_t root : {0U, 2U}) {
        rank.barrier();
        if (rank.number == root) set(region, static_cast<unsigned char>(root + 101));
        auto options = HBMWIRE_MADE(hbmwire_broadcast_options);
        options.verify = root == 0 ? 1 : 0;
        good([&](auto* error) {
          return hbmwire_group_broadcast(rank.get(), &memory, root, 20 * kSecond, HBMWIRE_NO_FD,
                                         root == 0 ? nullptr : &options, error);
        });
        EXPECT_TRUE(has(region, static_cast<unsigned char>(root + 101)));
      }
      auto options = HBMWIRE_MADE(hbmwire_broadcast_options);
      options.piece_bytes = 1;
      refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
        return hbmwire_group_broadcast(rank.get(), &memory, 0, kSecond, HBMWIRE_NO_FD, &options,
                                       error);
      });
      refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
        return hbmwire_group_broadcast(rank.get(), &memory, 3, kSecond, HBMWIRE_NO_FD, nullptr,
                                       error);
      });
      rank.barrier();
    });
  }
}

}  // namespace
}  // namespace hbmwire::c_test
