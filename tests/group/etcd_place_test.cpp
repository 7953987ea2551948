// SPDX-License-Identifier: MIT
#include "group/etcd_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stores.hpp"
#include "tests/group/ranks_in_threads.hpp"
#include "tests/support/other_process.hpp"

namespace hbmwire::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Addresses = std::vector<std::string>;
using test::FakeStore;

const Addresses kMine{"10.0.0.1:7000", "[fd00::1]:7000"};

std::unique_ptr<MeetingPlace> place_at(std::uint16_t port, const std::string& name) {
  auto meeting = parse_meeting("etcd://127.0.0.1:" + std::to_string(port) + "/" + name);
  EXPECT_TRUE(meeting);
  auto place = EtcdPlace::create(*std::move(meeting));
  EXPECT_TRUE(place) << describe(place.error());
  return place ? *std::move(place) : nullptr;
}

// --- a real etcd

class EtcdPlaces : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_ = std::make_unique<test::Etcd>(); }

  static void TearDownTestSuite() { etcd_.reset(); }

  void SetUp() override {
    if (!etcd_->is_installed()) GTEST_SKIP() << "there is no etcd: install etcd-server";
    ASSERT_TRUE(etcd_->is_ready());
  }

  static std::unique_ptr<MeetingPlace> place(const std::string& name) {
    return place_at(etcd_->port(), name);
  }

  static Addresses look(const std::string& name) {
    const auto found = place(name)->look(5s);
    EXPECT_TRUE(found) << describe(found.error());
    return found.value_or(Addresses());
  }

  static std::unique_ptr<test::Etcd> etcd_;
};

std::unique_ptr<test::Etcd> EtcdPlaces::etcd_;

TEST_F(EtcdPlaces, AddressesAreFoundUntilThePlaceGoes) {
  EXPECT_TRUE(look("a/b c").empty());
  {
    const auto mine = place("a/b c");
    ASSERT_TRUE(mine->leave(kMine, 5s));
    EXPECT_EQ(look("a/b c"), kMine);
    EXPECT_TRUE(look("a").empty());
    EXPECT_TRUE(mine->keep());
    ASSERT_TRUE(mine->leave({"10.0.0.9:1"}, 5s));
    EXPECT_EQ(look("a/b c"), Addresses{"10.0.0.9:1"});
  }
  EXPECT_TRUE(look("a/b c").empty());
}

TEST_F(EtcdPlaces, OneOfManyThatClaimANameAtOnceHasIt) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> winners{0};
    std::vector<std::unique_ptr<MeetingPlace>> places;
    for (int i = 0; i < 8; ++i) places.push_back(place("race"));
    {
      std::vector<std::jthread> threads;
      for (const auto& each : places) {
        threads.emplace_back([&winners, mine = each.get()] {
          const auto claimed = mine->claim(10s);
          EXPECT_TRUE(claimed) << describe(claimed.error());
          if (claimed && *claimed) ++winners;
        });
      }
    }
    EXPECT_EQ(winners, 1);
    EXPECT_TRUE(look("race").empty());
  }
}

TEST_F(EtcdPlaces, ANameThatAnotherProcessKeepsIsBusy) {
  const auto theirs = place("taken");
  ASSERT_TRUE(*theirs->claim(5s));
  EXPECT_FALSE(*place("taken")->claim(5s));
  const auto late = place("taken")->leave(kMine, 500ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  EXPECT_TRUE(*place("another")->claim(5s));
}

TEST_F(EtcdPlaces, ALeaseEndsWithItsProcessAndNotBefore) {
  test::OtherProcess killed([](const test::Talk& talk) {
    const auto theirs = place("killed");
    talk.tell(theirs->leave(kMine, 5s) ? 1 : 0);
    ::pause();
  });
  ASSERT_EQ(killed.talk().hear(), 1U);
  const auto kept = place("kept");
  const auto forgotten = place("forgotten");
  ASSERT_TRUE(kept->leave(kMine, 5s));
  ASSERT_TRUE(forgotten->leave(kMine, 5s));
  const auto began = Clock::now();
  killed.kill();
  EXPECT_EQ(look("killed"), kMine) << "etcd cannot know yet";
  // 14 s: a lease of ten seconds, and the time that etcd takes to notice the lease's end.
  while (Clock::now() - began < 14s && !(look("killed").empty() && look("forgotten").empty())) {
    std::this_thread::sleep_for(500ms);
    EXPECT_TRUE(kept->keep());
  }
  EXPECT_TRUE(look("killed").empty());
  EXPECT_TRUE(look("forgotten").empty());
  EXPECT_EQ(look("kept"), kMine);
  // A process that was stopped for longer than its lease puts its key back.
  EXPECT_TRUE(forgotten->keep());
  EXPECT_EQ(look("forgotten"), kMine);
}

TEST_F(EtcdPlaces, TheNameOfAKilledProcessIsTakenOver) {
  test::OtherProcess killed([](const test::Talk& talk) {
    const auto theirs = place("over");
    talk.tell(theirs->leave(kMine, 5s) ? 1 : 0);
    ::pause();
  });
  ASSERT_EQ(killed.talk().hear(), 1U);
  killed.kill();
  const auto mine = place("over");
  const auto left = mine->leave({"10.0.0.2:1"}, 30s);
  EXPECT_TRUE(left) << describe(left.error());
  EXPECT_EQ(look("over"), Addresses{"10.0.0.2:1"});
}

TEST_F(EtcdPlaces, AChildOfForkEndsNoLease) {
  auto mine = place("fork");
  ASSERT_TRUE(mine->leave(kMine, 5s));
  test::OtherProcess child([&](const test::Talk&) { mine.reset(); });
  child.expect_good();
  EXPECT_EQ(look("fork"), kMine);
}

TEST_F(EtcdPlaces, APlaceThatWasLeftWithoutAddressesHasNone) {
  const auto mine = place("other");
  ASSERT_TRUE(mine->leave({}, 5s));
  EXPECT_TRUE(look("other").empty());
}

TEST_F(EtcdPlaces, AServerThatIsStoppedHoldsNoCallBeyondItsDeadline) {
  const auto mine = place("stopped");
  ASSERT_TRUE(mine->leave(kMine, 5s));
  etcd_->stop();
  const auto began = Clock::now();
  EXPECT_EQ(mine->look(300ms).error().code, Errc::timed_out);
  EXPECT_EQ(place("stopped")->claim(300ms).error().code, Errc::timed_out);
  // All ranks wait for the meeting point's thread, which calls keep(): so keep() has short
  // deadlines of its own.
  const auto kept = mine->keep();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, Errc::timed_out);
  EXPECT_LT(Clock::now() - began, 3s);
  etcd_->go_on();
  EXPECT_EQ(look("stopped"), kMine);
  EXPECT_TRUE(mine->keep());
}

TEST_F(EtcdPlaces, AGroupThatHasMetGoesOnWhileTheServerIsStopped) {
  std::latch met(2);
  const auto rank = [&](std::uint32_t number) {
    GroupOptions options;
    options.meeting = "etcd://127.0.0.1:" + std::to_string(etcd_->port()) + "/goes-on";
    options.rank = number;
    options.size = 2;
    options.address = "127.0.0.1";
    auto joined = test::join(options);
    ASSERT_TRUE(joined) << describe(joined.error());
    met.arrive_and_wait();
    if (number == 0) etcd_->stop();
    // The meeting point fails to renew its lease twice in that time.
    for (int i = 0; i < 35; ++i) {
      const auto passed = joined->group.barrier(5s);
      ASSERT_TRUE(passed) << describe(passed.error());
      std::this_thread::sleep_for(200ms);
    }
    if (number == 0) etcd_->go_on();
    const auto passed = joined->group.barrier(5s);
    EXPECT_TRUE(passed) << describe(passed.error());
  };
  std::jthread other([&] { rank(1); });
  rank(0);
}

// --- servers that are not etcd

/// Expects that look() and claim() fail by the deadline, with one sentence that names the meeting.
/// Returns the error of look().
Error error_of(const FakeStore& store, std::chrono::milliseconds time = 500ms) {
  const auto mine = place_at(store.port(), "name");
  const auto began = Clock::now();
  const auto looked = mine->look(time);
  const auto claimed = mine->claim(time);
  EXPECT_LT(Clock::now() - began, 2 * time + 1500ms);
  EXPECT_FALSE(looked);
  EXPECT_FALSE(claimed);
  if (looked || claimed) return {};
  EXPECT_EQ(looked.error().code, claimed.error().code) << describe(claimed.error());
  EXPECT_EQ(looked.error().stage, Stage::connect);
  const std::string sentence = describe(looked.error());
  EXPECT_THAT(sentence, ::testing::HasSubstr("etcd://127.0.0.1:"));
  EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  EXPECT_NE(looked.error().hint, Hint::none) << sentence;
  return looked.error();
}

std::string http(std::string_view status, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + std::string(body);
}

Errc code_of_answer(const std::string& answer) {
  return error_of(FakeStore([&](FakeStore::Visit& visit) { visit.say(answer); })).code;
}

TEST(EtcdAnswers, ServersThatAreNotEtcdAreNamedAsSuch) {
  EXPECT_EQ(code_of_answer("SSH-2.0-OpenSSH_9.2\r\n"), Errc::protocol);
  EXPECT_EQ(code_of_answer(std::string(5000, '\xff')), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", "<html>hello</html>")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", "")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", "[]")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", "{}")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", R"({"header": 3, "ID": "x"})")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("200 OK", std::string(500'000, '['))), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("404 Not Found", "404 page not found")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("301 Moved", "")), Errc::protocol);
  EXPECT_EQ(code_of_answer(http("503 Unavailable", "busy")), Errc::protocol);
}

TEST(EtcdAnswers, RefusalsOfEtcdAreToldApart) {
  constexpr std::string_view kNoUser =
      R"({"error": "etcdserver: user name is empty", "code": 3, "message": "etcdserver: user name is empty"})";
  EXPECT_EQ(code_of_answer(http("400 Bad Request", kNoUser)), Errc::permission_denied);
  EXPECT_EQ(code_of_answer(http("401 Unauthorized", "{}")), Errc::permission_denied);
  EXPECT_EQ(code_of_answer(http("403 Forbidden", "")), Errc::permission_denied);
  constexpr std::string_view kNoSpace =
      R"({"error": "etcdserver: mvcc: database space exceeded", "code": 8})";
  EXPECT_EQ(code_of_answer(http("503 Service Unavailable", kNoSpace)), Errc::peer_failed);
  constexpr std::string_view kNewer = R"({"code": 14, "message": "etcdserver: no leader"})";
  EXPECT_EQ(code_of_answer(http("503 Service Unavailable", kNewer)), Errc::peer_failed);
}

TEST(EtcdAnswers, ServersThatBreakOffAreNamed) {
  const FakeStore closes([](FakeStore::Visit&) {});
  EXPECT_EQ(error_of(closes).code, Errc::peer_failed);
  const FakeStore closes_at_once([](FakeStore::Visit&) {}, FakeStore::Reads::nothing);
  EXPECT_EQ(error_of(closes_at_once).code, Errc::peer_failed);
  const std::string whole = http("200 OK", R"({"header": {}})");
  const FakeStore half(
      [&](FakeStore::Visit& visit) { visit.say(whole.substr(0, whole.size() - 5)); });
  EXPECT_EQ(error_of(half).code, Errc::peer_failed);
  std::uint16_t port = 0;
  {
    const FakeStore gone([](FakeStore::Visit&) {});
    port = gone.port();
  }
  const auto refused = place_at(port, "name")->look(500ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::peer_failed) << describe(refused.error());
  EXPECT_EQ(refused.error().hint, Hint::connection_refused);
}

TEST(EtcdAnswers, CallsToServersThatStallEndAtTheDeadline) {
  const FakeStore silent([](FakeStore::Visit& visit) { visit.wait(); });
  EXPECT_EQ(error_of(silent).code, Errc::timed_out);
  const std::string whole = http("200 OK", R"({"header": {}})");
  for (const std::size_t part : {std::size_t{9}, whole.size() - 3}) {
    const FakeStore stalls([&](FakeStore::Visit& visit) {
      visit.say(whole.substr(0, part));
      visit.wait();
    });
    EXPECT_EQ(error_of(stalls).code, Errc::timed_out);
  }
  const FakeStore drips([](FakeStore::Visit& visit) {
    visit.say("HTTP/1.1 200 OK\r\n\r\n");
    while (visit.say("[")) visit.wait(10ms);
  });
  EXPECT_EQ(error_of(drips).code, Errc::timed_out);
}

TEST(EtcdAnswers, AnEndlessAnswerIsRefused) {
  const FakeStore endless([](FakeStore::Visit& visit) {
    visit.say("HTTP/1.1 200 OK\r\n\r\n");
    while (visit.say(std::string(65536, ' '))) continue;
  });
  EXPECT_EQ(error_of(endless, 5s).code, Errc::protocol);
  const FakeStore headers([](FakeStore::Visit& visit) {
    visit.say("HTTP/1.1 200 OK\r\n");
    while (visit.say("X-More: " + std::string(4000, 'x') + "\r\n")) continue;
  });
  EXPECT_NE(error_of(headers, 5s).code, Errc::timed_out);
}

TEST(EtcdAnswers, ASlowAnswerInTimeIsTaken) {
  const std::string whole = http("200 OK", R"({"header": {"revision": "1"}})");
  const FakeStore slow([&](FakeStore::Visit& visit) {
    for (const char letter : whole) {
      visit.say(std::string(1, letter));
      visit.wait(2ms);
    }
  });
  const auto looked = place_at(slow.port(), "name")->look(10s);
  ASSERT_TRUE(looked) << describe(looked.error());
  EXPECT_TRUE(looked->empty());
}

TEST(EtcdAnswers, ForeignValuesAreNoAddresses) {
  const auto answer = [](std::string_view value) {
    const std::string whole = http("200 OK", R"({"header": {}, "kvs": [{"key": "eA==", "value": )" +
                                                 std::string(value) + "}]}");
    const FakeStore store([&](FakeStore::Visit& visit) { visit.say(whole); });
    return place_at(store.port(), "name")->look(5s);
  };
  EXPECT_EQ(answer("7").error().code, Errc::protocol);
  EXPECT_EQ(answer(R"("not base64!")").error().code, Errc::protocol);
  // The value is "hello" in base64.
  EXPECT_TRUE(answer(R"("aGVsbG8=")")->empty());
  EXPECT_TRUE(answer("null")->empty());
}

TEST(EtcdAnswers, ACallIsCancelledByItsDescriptor) {
  const FakeStore silent([](FakeStore::Visit& visit) { visit.wait(); });
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  const auto mine = place_at(silent.port(), "name");
  const auto looked = mine->look({Deadline::after(30s), cancel.get()});
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().code, Errc::cancelled);
}

}  // namespace
}  // namespace hbmwire::detail
