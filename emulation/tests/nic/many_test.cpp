// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/nic/under_plan.hpp"

/// Tables with many records in use, and full tables.
namespace hbmwire::test {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMany = 10'000;
constexpr std::size_t kOfProcess = 2'000;

/// The memory that the fabric's shared state takes.
std::size_t fabric_bytes() {
  struct stat status {};

  const char* fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  const std::string file = std::string(fabric == nullptr ? "" : fabric) + "/nic.shm";
  if (::stat(file.c_str(), &status) != 0) throw std::runtime_error("no nic.shm");
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

Qp queue_pair_of(const Endpoint& base, std::uint32_t depth = 8) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = base.cq.get();
  wanted.srq = base.srq.get();
  wanted.cap = {depth, depth, 1, 1, 0};
  return Qp(ibv_create_qp(base.pd.get(), &wanted));
}

/// Calls `act` with each QP as the endpoint's only one.
template <typename Act>
void with_each(Endpoint& base, std::vector<Qp>& all, Act act) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::swap(base.qp, all[i]);
    act(i);
    std::swap(base.qp, all[i]);
  }
}

/// Makes queue pairs in INIT with a posted receive, so that all their memory is used.
std::vector<Qp> make_many(Endpoint& base, std::size_t count) {
  std::vector<Qp> all;
  std::set<std::uint32_t> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(queue_pair_of(base));
    if (!all.back()) throw std::runtime_error("queue pair " + std::to_string(i));
    numbers.insert(all.back()->qp_num);
  }
  EXPECT_EQ(numbers.size(), count);
  with_each(base, all, [&](std::size_t) {
    EXPECT_EQ(base.to_init(), 0);
    EXPECT_EQ(base.post_recv(1, 0, 64), 0);
  });
  return all;
}

TEST(ManyQueuePairs, GiveTheirMemoryBack) {
  Endpoint base;
  const std::uint64_t rings = ring_bytes();
  const std::size_t before = fabric_bytes();
  std::vector<Qp> all = make_many(base, kMany);
  const std::size_t with = fabric_bytes();
  all.clear();
  const std::size_t after = fabric_bytes();
  EXPECT_EQ(ring_bytes(), rings);
  EXPECT_LE((with - before) / kMany, 6 * kKiB);
  // The records stay for later queue pairs, and so do 4 MiB of rings.
  EXPECT_LE((after - before) / kMany, kKiB + kKiB / 2);
  RecordProperty("bytes_each", std::to_string((with - before) / kMany));
  RecordProperty("bytes_each_afterwards", std::to_string((after - before) / kMany));
  make_many(base, kMany);
  EXPECT_LE(fabric_bytes(), after + kMiB);
}

TEST(ManyQueuePairs, AsManyCompletionQueuesGiveTheirMemoryBack) {
  const Context context = open_device();
  std::vector<Cq> all;
  for (std::size_t i = 0; i < kMany; ++i)
    all.emplace_back(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const Cq& cq) { return cq == nullptr; }));
  const std::size_t with = fabric_bytes();
  all.clear();
  EXPECT_EQ(ring_bytes(), 0U);
  EXPECT_LE(fabric_bytes(), with + 64 * kKiB);
}

/// One of two processes that are connected by many queue pairs.
void connect_many(const Line& line) {
  Endpoint base;
  std::vector<Qp> all;
  std::vector<Address> there;
  for (std::size_t i = 0; i < kOfProcess; ++i) all.push_back(base.next_qp());
  with_each(base, all, [&](std::size_t) {
    base.psn = 0;  // with_each() swaps the QP alone
    there.push_back(line.exchange(base.address()));
    base.connect(there.back(), {.timeout = 18, .retry_count = 7});
  });
  line.send(true);
  line.receive<bool>();
  with_each(base, all, [&](std::size_t i) {
    ASSERT_EQ(base.rdma(IBV_WR_RDMA_WRITE, i, 0, 8, there[i], 8), 0);
    expect_completion(base, i);
  });
  line.send(true);
  line.receive<bool>();
}

/// Passes on the addresses that each process sends for the other.
void exchange_addresses(const Child& a, const Child& b) {
  for (std::size_t i = 0; i < kOfProcess; ++i) {
    const auto of_a = a.line().receive<Address>();
    a.line().send(b.line().receive<Address>());
    b.line().send(of_a);
  }
}

/// Waits until both processes have reported their next step.
void await_both(const Child& a, const Child& b) {
  a.line().receive<bool>();
  b.line().receive<bool>();
}

TEST(ManyQueuePairs, KilledProcessesAreReaped) {
  Child a(connect_many);
  Child b(connect_many);
  exchange_addresses(a, b);
  await_both(a, b);
  a.line().send(true);
  b.line().send(true);
  await_both(a, b);
  const Context context = open_device();
  EXPECT_GE(records_of_others(), 2 * kOfProcess);
  a.kill();
  b.kill();
  EXPECT_EQ(a.join(), -SIGKILL);
  EXPECT_EQ(b.join(), -SIGKILL);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_EQ(ring_bytes(), 0U);
  EXPECT_TRUE(locks_are_free());
}

TEST(ManyQueuePairs, AProcessKilledWhileItMakesOrDestroysThemLeavesNone) {
  for (const char* step : {"claimed", "released"}) {
    Child child([step](const Line& line) {
      Endpoint base;
      constexpr std::size_t kHalf = 500;
      std::vector<Qp> all = make_many(base, 2 * kHalf);
      for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
      line.send(true);
      set_step_trap(step, kHalf / 2, SIGKILL);
      for (std::size_t i = 0; i < all.size(); i += 2) all[i] = queue_pair_of(base);
      all.clear();
    });
    child.line().receive<bool>();
    EXPECT_EQ(child.join(), -SIGKILL);
    const Context context = open_device();
    EXPECT_EQ(records_of_others(), 0U) << step;
    EXPECT_EQ(ring_bytes(), 0U) << step;
    EXPECT_TRUE(locks_are_free()) << step;
  }
}

TEST(ManyQueuePairs, OneMoreThanTheDeviceHasIsRefused) {
  Pair pair({}, kWithSrq);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(pair.b.context.get(), &device), 0);
  EXPECT_EQ(device.max_qp, 65533);
  std::vector<Qp> all;
  errno = 0;
  while (true) {
    Qp next = queue_pair_of(pair.b);
    if (!next) break;
    all.push_back(std::move(next));
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(device.max_qp) - 2);  // the pair has two
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  const std::uint32_t gone = all[all.size() / 2]->qp_num;
  all[all.size() / 2].reset();
  all[all.size() / 2] = queue_pair_of(pair.b);
  ASSERT_NE(all[all.size() / 2], nullptr);
  EXPECT_NE(all[all.size() / 2]->qp_num, gone);
  EXPECT_EQ(queue_pair_of(pair.b), nullptr);
}

TEST(ManyQueuePairs, APlansLimitCountsEachProcessAlone) {
  if (!under_plan("limit,object=qp,count=100")) return;
  Endpoint base;
  std::vector<Qp> all;
  while (all.size() < 99) all.push_back(base.next_qp());
  EXPECT_EQ(queue_pair_of(base), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  Child other([](const Line&) {
    Pair pair;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, 1);
  });
  EXPECT_EQ(other.join(), 0);
  all.pop_back();
  EXPECT_NE(queue_pair_of(base), nullptr);
}

}  // namespace
}  // namespace hbmwire::test
