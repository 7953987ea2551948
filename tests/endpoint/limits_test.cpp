// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/nic.hpp"

#include "ends.hpp"
#include "heard.hpp"

/// NICs with limits: emu1 has 102 queue pairs (a worker uses two of them), emu2 has 256 entries in
/// a completion queue, emu3 has 20 memory regions, and emu4 has 4 completion queues and no shared
/// receive queue. emu0 has no such limit.
namespace hbmwire::test {
namespace {

/// A worker on one NIC.
struct Side {
  explicit Side(const std::string& nic)
      : context(value(Context::create({.memory = {MemoryType::host}, .nics = {nic}}))) {}

  Context context;
  Worker worker = value(Worker::create(context));
};

EndpointOptions small_options() {
  return {.send_depth = 8, .receive_depth = 4, .eager_bytes = 64, .unexpected_bytes = 4096};
}

/// A listening and a connecting side, with a thread each.
struct Meeting {
  Meeting(const std::string& listens_on, const std::string& connects_on,
          EndpointOptions with = small_options())
      : there(listens_on),
        here(connects_on),
        listener(value(Listener::create(there.worker, {.address = "127.0.0.1", .endpoint = with}))),
        options(std::move(with)) {}

  Result<void> connect() {
    Result<Endpoint> made = tl::make_unexpected(Error{});
    beside(there.worker, [&] {
      made = Endpoint::connect(here.worker, "127.0.0.1:" + std::to_string(listener.port()),
                               within(10s), options);
    });
    if (!made) return tl::make_unexpected(made.error());
    ours.push_back(std::move(*made));
    theirs.push_back(value(listener.accept(within(10s))));
    return {};
  }

  /// Connects until a connection is refused; returns the error.
  Error connect_until_refused() {
    constexpr std::size_t kMost = 200;
    Result<void> made;
    while (made && ours.size() < kMost) made = connect();
    EXPECT_FALSE(made) << "none of " << ours.size() << " was refused";
    return made ? Error{} : made.error();
  }

  void expect_all_work() {
    Memory memory(there.context, MemoryType::host, 4096);
    const Memory own(here.context, MemoryType::host, 64);
    const MemoryKey key = value(MemoryKey::pack(memory.region()));
    for (Endpoint& endpoint : ours) {
      const RemoteRegion remote = value(endpoint.remote(value(RemoteKey::unpack(key.bytes()))));
      good(value(endpoint.put(own.all(), remote.slice(0, 64))).wait(10s));
    }
  }

  void close_one() {
    theirs.erase(theirs.begin());
    ours.erase(ours.begin());
    const Deadline deadline = Deadline::after(300ms);
    while (!deadline.passed()) {
      there.worker.progress();
      here.worker.progress();
    }
  }

  Side there;
  Side here;
  Listener listener;
  EndpointOptions options;
  std::vector<Endpoint> ours;
  std::vector<Endpoint> theirs;
};

void expect_sentence(const Error& error, const std::vector<const char*>& parts) {
  EXPECT_EQ(error.code, Errc::exhausted);
  const std::string sentence = describe(error);
  for (const char* const part : parts)
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

NicLimits limits_of(const Context& context, const std::string& nic) {
  for (const NicDevice& device : value(context.nics())) {
    if (device.name == nic) return device.limits;
  }
  ADD_FAILURE() << "there is no " << nic;
  return {};
}

TEST(LimitsOfNics, AreListedAsTheNicReportsThem) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  EXPECT_EQ(limits_of(context, "emu1").max_qp, 102U);
  EXPECT_EQ(limits_of(context, "emu2").max_cqe, 256U);
  EXPECT_EQ(limits_of(context, "emu3").max_mr, 20U);
  EXPECT_EQ(limits_of(context, "emu4").max_cq, 4U);
  EXPECT_EQ(limits_of(context, "emu4").max_srq, 0U);
  EXPECT_EQ(NicLimits{.max_qp = 1}.max_peers(), 0U);
}

TEST(LimitsOfNics, MissingQueuePairsFailOnlyTheFiftyFirstEndpoint) {
  Meeting meeting("emu0", "emu1");
  const Error refused = meeting.connect_until_refused();
  EXPECT_EQ(meeting.ours.size(), 50U);
  EXPECT_EQ(meeting.ours.size(), limits_of(meeting.here.context, "emu1").max_peers());
  EXPECT_EQ(refused.hint, Hint::queue_pair_limit);
  expect_sentence(refused, {"open emu1 (max_qp 102): ibv_create_qp:", "close endpoints"});
  meeting.expect_all_work();
  meeting.close_one();
  good(meeting.connect());
  meeting.expect_all_work();
}

TEST(LimitsOfNics, AListenersLimitIsReportedAtBothEnds) {
  Heard heard;
  Meeting meeting("emu1", "emu0");
  const Error refused = meeting.connect_until_refused();
  EXPECT_EQ(meeting.ours.size(), 50U);
  EXPECT_EQ(refused.hint, Hint::peer_full);
  expect_sentence(refused, {"the peer has no room for another endpoint"});
  EXPECT_EQ(heard.count("open emu1 (max_qp 102): ibv_create_qp:"), 1U);
  meeting.expect_all_work();
  meeting.close_one();
  good(meeting.connect());
}

TEST(LimitsOfNics, MissingCompletionQueuesFailTheCallThatNeedsThem) {
  Meeting meeting("emu0", "emu2", {.send_depth = 1024});
  const Error refused = meeting.connect_until_refused();
  EXPECT_EQ(meeting.ours.size(), 0U);
  EXPECT_EQ(refused.hint, Hint::completion_queue_length);
  expect_sentence(refused, {"open emu2 (max_cqe 256)", "send_depth"});
  meeting.options = small_options();
  good(meeting.connect());
  meeting.expect_all_work();
}

TEST(LimitsOfNics, OtherWorkersContinueWithoutMoreCompletionQueues) {
  // Each worker makes one completion queue at once.
  Result<Worker> made = tl::make_unexpected(Error{});
  const Context context = value(Context::create({.memory = {MemoryType::host}, .nics = {"emu4"}}));
  std::vector<Worker> workers;
  while ((made = Worker::create(context)) && workers.size() < 100)
    workers.push_back(std::move(*made));
  ASSERT_FALSE(made);
  EXPECT_EQ(workers.size(), 4U);
  expect_sentence(made.error(), {"open emu4 (max_cq 4): ibv_create_cq:"});
  workers.pop_back();
  EXPECT_TRUE(Worker::create(context));
}

TEST(LimitsOfNics, MissingRegionsFailOnlyTheCallThatNeedsOne) {
  Meeting meeting("emu0", "emu3");
  // Registered before the endpoints have taken all regions.
  const Memory own(meeting.here.context, MemoryType::host, 64);
  const Error refused = meeting.connect_until_refused();
  EXPECT_GT(meeting.ours.size(), 0U);
  EXPECT_EQ(refused.hint, Hint::memlock_limit);
  expect_sentence(refused, {"emu3", "ibv_reg_mr:", "no room for another region"});
  for (Endpoint& endpoint : meeting.ours) EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
  Transfer sent = value(meeting.ours.front().send(own.all()));
  good(sent.wait(10s));
  meeting.close_one();
  good(meeting.connect());
}

}  // namespace
}  // namespace hbmwire::test
