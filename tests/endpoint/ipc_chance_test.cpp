// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "ipc_side.hpp"

/// Puts and gets between memories of two processes while failures occur. Some go by IPC, some by
/// shared memory, and some by neither. Each round runs in a process of its own, because vendors'
/// libraries need that.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kChanceBytes = PeerProcess::kBytes;

/// Pairs that use shared memory.
constexpr std::array kHostPairs{IpcPair{MemoryType::host, MemoryType::host, "none"},
                                IpcPair{MemoryType::host, MemoryType::host, "emu0"}};

enum class Fault : std::uint8_t { none, kill, stop, cancel, drop, close };

/// The actions of one round, all derived from its seed.
class Round {
 public:
  explicit Round(unsigned seed)
      : random_(seed),
        pair_(pair_of(below(kIpcPairs.size() + kHostPairs.size()))),
        fault_(static_cast<Fault>(below(6))),
        peer_({.type = pair_.peers, .nic = pair_.nic}),
        side_(peer_, pair_.type, pair_.nic) {}

  void run() {
    const unsigned count = 1 + static_cast<unsigned>(below(6));
    const unsigned at = static_cast<unsigned>(below(count));
    here_ = side_.contents();
    for (unsigned i = 0; i < count && !dropped_ && side_.endpoint.phase() == EndpointPhase::ready;
         ++i) {
      start();
      for (std::uint64_t n = below(3) == 0 ? 0 : below(2000); n != 0; --n) side_.worker.progress();
      if (i == at) go_wrong();
    }
    if (fault_ == Fault::none || fault_ == Fault::stop) return expect_all();
    for (Transfer& each : transfers_) static_cast<void>(each.wait(within(10s)));
    expect_quiet();
  }

 private:
  static const IpcPair& pair_of(std::uint64_t number) {
    return number < kIpcPairs.size() ? kIpcPairs.at(number)
                                     : kHostPairs.at(number - kIpcPairs.size());
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void start() {
    const std::uint64_t length = 1 + below(below(2) == 0 ? 9000 : kChanceBytes);
    const std::uint64_t offset = below(kChanceBytes - length + 1);
    const bool puts = below(2) == 0;
    transfers_.push_back(puts ? side_.put(offset, length) : side_.get(offset, length));
    const auto begin = static_cast<std::ptrdiff_t>(offset);
    std::vector<std::byte>& from = puts ? here_ : there_;
    std::copy_n(from.begin() + begin, length, (puts ? there_ : here_).begin() + begin);
    // A round that compares all bytes waits for each transfer, because the next one may read or
    // change the same bytes.
    if (fault_ == Fault::none || fault_ == Fault::stop) good(transfers_.back().wait(within(10s)));
  }

  void go_wrong() {
    switch (fault_) {
      case Fault::none:
        break;
      case Fault::kill:
        peer_.kill();
        break;
      case Fault::stop:
        peer_.stop_anywhere();
        ::usleep(static_cast<useconds_t>(below(100'000)));
        peer_.go_on();
        break;
      case Fault::cancel:
        static_cast<void>(transfers_.at(below(transfers_.size())).cancel());
        break;
      case Fault::drop: {
        // Destroyed while it moves bytes.
        const Endpoint gone = std::move(side_.endpoint);
        dropped_ = true;
        break;
      }
      case Fault::close:
        static_cast<void>(side_.endpoint.close(within(5s)));
        break;
    }
  }

  void expect_all() {
    EXPECT_TRUE(same_bytes(side_.contents(), here_));
    side_.expect_there(there_);
  }

  /// Expects that no byte of this side changes any more.
  void expect_quiet() {
    for (Transfer& each : transfers_) EXPECT_TRUE(each.done());
    const auto now = side_.contents();
    for (int i = 0; i < 300; ++i) side_.worker.progress();
    EXPECT_TRUE(same_bytes(side_.contents(), now));
    EXPECT_EQ(internals::look_at(side_.worker).staged, 0U);
  }

  std::mt19937_64 random_;
  IpcPair pair_;
  Fault fault_;
  PeerProcess peer_;
  IpcSide side_;
  bool dropped_ = false;
  std::vector<Transfer> transfers_;
  std::vector<std::byte> here_;
  std::vector<std::byte> there_ = std::vector<std::byte>(kChanceBytes);
};

// The environment variables IPC_SEED and IPC_ROUNDS choose the first seed and the number of rounds,
// so that one failed round can be repeated.
unsigned number_in_environment(const char* variable, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST(IpcChance, TransfersArriveOrFailDespiteRandomFaults) {
  ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
  const unsigned first = number_in_environment("IPC_SEED", 1);
  const unsigned rounds = number_in_environment("IPC_ROUNDS", 40);
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    const pid_t child = ::fork();
    if (child == 0) {
      set_log_sink([](LogLevel, std::string_view) {});
      try {
        Round(seed).run();
      } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
        std::fflush(stdout);
        ::_exit(1);
      }
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "IPC_SEED=" << seed;
  }
}

}  // namespace
}  // namespace hbmwire::test
