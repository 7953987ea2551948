// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"

/// IBV_ATOMIC_HCA: atomics of all queue pairs in all processes are atomic with respect to each
/// other.
namespace hbmwire::test {
namespace {

constexpr std::size_t kChildren = 3;
constexpr std::uint64_t kRounds = 1500;

/// Executes an atomic on the peer's word. Returns the old value, in host order.
std::uint64_t atomic(Endpoint& self, const Address& peer, ibv_wr_opcode opcode,
                     std::uint64_t compare_add, std::uint64_t swap = 0) {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = peer.buffer;
  request.wr.atomic.rkey = peer.rkey;
  request.wr.atomic.compare_add = compare_add;
  request.wr.atomic.swap = swap;
  EXPECT_EQ(self.post(request, {self.element(0, 8)}), 0);
  expect_completion(self, 0);
  std::uint64_t old = 0;
  std::memcpy(&old, self.buffer.data(), sizeof old);
  return old;
}

/// A child's body: connects, does its share, and ends when the other side has sent a value.
void work(const Line& line, const std::function<void(Endpoint&, const Address&)>& share) {
  Endpoint self;
  const Address peer = line.exchange(self.address());
  self.connect(peer);
  line.receive<bool>();
  share(self, peer);
  line.send(true);
  line.receive<bool>();
}

/// The owner of a word that children reach, each over its own connection.
class Word {
 public:
  explicit Word(const std::vector<std::unique_ptr<Child>>& children, int memfd = -1) {
    for (const auto& child : children) {
      Endpoint& end = *ends_.emplace_back(std::make_unique<Endpoint>());
      // All connections reach the same memory, by an MR in each protection domain.
      mrs_.emplace_back(memfd < 0 ? (ibv_reg_mr)(end.pd.get(), &value, sizeof value, kAllAccess)
                                  : ibv_reg_dmabuf_mr(end.pd.get(), 0, 8, 0, memfd, kAllAccess));
      EXPECT_NE(mrs_.back(), nullptr);
      Address mine = end.address();
      mine.buffer = memfd < 0 ? reinterpret_cast<std::uint64_t>(&value) : 0;
      mine.rkey = mrs_.back()->rkey;
      end.connect(child->line().exchange(mine));
    }
    for (const auto& child : children) child->line().send(true);
  }

  alignas(8) std::uint64_t value = 0;

 private:
  std::vector<std::unique_ptr<Endpoint>> ends_;
  std::vector<Mr> mrs_;
};

void add_ones(Endpoint& self, const Address& peer) {
  std::uint64_t before = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t old = atomic(self, peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
    EXPECT_TRUE(round == 0 || old > before) << "the word decreased: " << old << " after " << before;
    before = old;
  }
}

std::vector<std::unique_ptr<Child>> fork_children(
    const std::function<void(Endpoint&, const Address&)>& share) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t index = 0; index < kChildren; ++index) {
    children.push_back(std::make_unique<Child>([&share](const Line& line) { work(line, share); }));
  }
  return children;
}

/// Waits until all children have done their share, and ends them.
void finish(const std::vector<std::unique_ptr<Child>>& children) {
  for (const auto& child : children) child->line().receive<bool>();
  for (const auto& child : children) {
    child->line().send(true);
    EXPECT_EQ(child->join(), 0);
  }
}

TEST(Atomics, SeveralProcessesLoseNoAddition) {
  const auto children = fork_children(add_ones);
  const Word word(children);
  finish(children);
  EXPECT_EQ(word.value, kChildren * kRounds);
}

TEST(Atomics, SeveralProcessesLoseNoAdditionInMappedMemory) {
  const auto children = fork_children(add_ones);
  const Fd memfd(::memfd_create("atomics", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memfd.get(), 4096), 0);
  const Word word(children, memfd.get());
  finish(children);
  std::uint64_t value = 0;
  ASSERT_EQ(::pread(memfd.get(), &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, kChildren * kRounds);
}

/// Adds by compare-and-swap: a swap that did not find its expected value changes nothing.
TEST(Atomics, CompareAndSwapReplacesOnlyAnEqualValue) {
  const auto children = fork_children([](Endpoint& self, const Address& peer) {
    std::uint64_t guess = 0;
    for (std::uint64_t done = 0; done < kRounds / 3;) {
      const std::uint64_t old = atomic(self, peer, IBV_WR_ATOMIC_CMP_AND_SWP, guess, guess + 1);
      done += old == guess ? 1U : 0U;
      guess = old == guess ? guess + 1 : old;
    }
  });
  const Word word(children);
  finish(children);
  EXPECT_EQ(word.value, kChildren * (kRounds / 3));
}

/// The killed process adds multiples of 2^20, so the low bits count the additions of the others.
TEST(Atomics, OtherProcessesGoOnWhenOneIsKilled) {
  auto children = fork_children(add_ones);
  children.push_back(std::make_unique<Child>([](const Line& line) {
    work(line, [](Endpoint& self, const Address& peer) {
      for (;;) atomic(self, peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 1U << 20U);
    });
  }));
  const Word word(children);
  ::usleep(3000);
  children.back()->kill();
  children.back()->join();
  children.pop_back();
  finish(children);
  EXPECT_EQ(word.value % (1U << 20U), kChildren * kRounds);
}

TEST(Atomics, ValuesAreInTheHostsByteOrderAndWrapAround) {
  Pair pair;
  const std::uint64_t start = 0xffffffffffffff00;
  std::memcpy(pair.b.buffer.data(), &start, sizeof start);
  EXPECT_EQ(atomic(pair.a, pair.b.address(), IBV_WR_ATOMIC_FETCH_AND_ADD, 0x101), start);
  std::uint64_t now = 0;
  std::memcpy(&now, pair.b.buffer.data(), sizeof now);
  EXPECT_EQ(now, 1U);
}

TEST(Atomics, ScatterTheirResult) {
  Pair pair;
  const std::uint64_t start = 0x1122334455667788;
  std::memcpy(pair.b.buffer.data(), &start, sizeof start);
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = pair.b.address().buffer;
  request.wr.atomic.rkey = pair.b.mr->rkey;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(100, 3), pair.a.element(200, 5)}), 0);
  EXPECT_EQ(expect_completion(pair.a, 0).byte_len, 8U);
  EXPECT_EQ(std::memcmp(pair.a.buffer.data() + 100, &start, 3), 0);
  EXPECT_EQ(std::memcmp(pair.a.buffer.data() + 200, reinterpret_cast<const char*>(&start) + 3, 5),
            0);
}

TEST(Atomics, LengthsOtherThanEightBytesFail) {
  for (const std::uint32_t length : {0U, 4U, 7U, 9U, 16U}) {
    Pair pair;
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    request.wr.atomic.remote_addr = pair.b.address().buffer;
    request.wr.atomic.rkey = pair.b.mr->rkey;
    ASSERT_EQ(pair.a.post(request, {pair.a.element(0, length)}), 0);
    expect_completion(pair.a, 1, IBV_WC_LOC_LEN_ERR);
  }
}

TEST(Atomics, InlineAtomicsAreRefused) {
  Pair pair;
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), EINVAL);
}

}  // namespace
}  // namespace hbmwire::test
