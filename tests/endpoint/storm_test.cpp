// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"

#include "ends.hpp"

/// Many clients in processes of their own connect to one listener at the same moment.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kClientsOfProcess = 50;

/// Memory that the processes share.
struct Plan {
  std::atomic<unsigned> prepared = 0;
  std::atomic<unsigned> connected = 0;
  std::atomic<unsigned> failed = 0;
  std::atomic<std::uint16_t> port = 0;
  std::array<char, 512> why{};  // of the first client that failed
};

Plan& shared_plan() {
  void* const memory =
      ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) Plan;
}

/// A start signal on which all processes sleep. Waiting for a time by polling the clock would keep
/// the machine busy.
class Signal {
 public:
  Signal() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_ = Fd(ends[0]);
    write_ = Fd(ends[1]);
  }

  /// Closes this process' copy. wait() returns in every process that has a copy by fork(2) once
  /// each of them has called give().
  void give() { write_.reset(); }

  void wait() const {
    char byte = 0;
    while (::read(read_.get(), &byte, 1) < 0 && errno == EINTR) continue;
  }

 private:
  Fd read_;
  Fd write_;
};

/// Options of the smaller storm, which may have to share its machine.
EndpointOptions small_options() {
  return {.send_depth = 16,
          .receive_depth = 8,
          .eager_bytes = 256,
          .unexpected_bytes = 4096,
          .retry_connect = true};
}

/// Processes of clients. They connect when told to. If requested, they connect again after the
/// listener's process has dropped them.
class Clients {
 public:
  Clients(unsigned processes, EndpointOptions options, bool again = false)
      : options_(std::move(options)), again_(again), count_(processes * kClientsOfProcess) {
    for (unsigned i = 0; i < processes; ++i) {
      const pid_t process = ::fork();
      if (process == 0) be_process();
      children_.push_back(process);
    }
  }

  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  ~Clients() {
    begin_.give();
    end_.give();
    for (const pid_t child : children_) {
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ::munmap(&plan_, sizeof plan_);
  }

  [[nodiscard]] unsigned count() const noexcept { return count_; }

  /// Makes all connect to this port at the same moment.
  void connect(std::uint16_t port) {
    const Deadline deadline = Deadline::after(60s);
    while (plan_.prepared < count_ && !deadline.passed()) ::usleep(10000);
    EXPECT_EQ(plan_.prepared, count_);
    plan_.port = port;
    begin_.give();
  }

  /// The number of connections; clients that connected again count twice.
  [[nodiscard]] unsigned connected() const noexcept { return plan_.connected; }

  [[nodiscard]] bool has_failed() const noexcept { return plan_.failed != 0; }

  [[nodiscard]] const char* why() const noexcept { return plan_.why.data(); }

 private:
  [[noreturn]] void be_process() {
    begin_.give();
    end_.give();
    const Context context = value(Context::create({.memory = {MemoryType::host}}));
    std::vector<std::thread> clients;
    for (unsigned i = 0; i < kClientsOfProcess; ++i)
      clients.emplace_back([&] { be_client(context); });
    for (std::thread& client : clients) client.join();
    // Without a goodbye from each endpoint.
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }

  void be_client(const Context& context) {
    const Worker worker = value(Worker::create(context, {.max_transfers = 64}));
    ++plan_.prepared;
    begin_.wait();
    auto endpoint =
        Endpoint::connect(worker, "127.0.0.1:" + std::to_string(plan_.port), within(20s), options_);
    count(endpoint.map([](const Endpoint&) {}));
    if (endpoint && again_) {
      static_cast<void>(endpoint->wait_closed(within(60s)));
      count(endpoint->reconnect(within(20s)));
    }
    end_.wait();
  }

  void count(const Result<void>& connected) {
    if (connected) {
      ++plan_.connected;
    } else if (plan_.failed++ == 0) {
      std::snprintf(plan_.why.data(), plan_.why.size(), "%s", describe(connected.error()).c_str());
    }
  }

  Plan& plan_ = shared_plan();
  Signal begin_;
  Signal end_;
  EndpointOptions options_;
  bool again_;
  unsigned count_;
  std::vector<pid_t> children_;
};

/// The listener that the clients connect to.
struct Meeting {
  explicit Meeting(const EndpointOptions& options, std::uint16_t port = 0)
      : listener(value(Listener::create(
            worker, {.address = "127.0.0.1", .port = port, .endpoint = options}))) {}

  /// Accepts clients until so many have connected, or it takes too long. Returns the time of each.
  std::vector<Clock::time_point> take(const Clients& clients, unsigned until) {
    const Deadline deadline = Deadline::after(20s);
    std::vector<Clock::time_point> times;
    const auto keep = [&](std::optional<Endpoint> endpoint) {
      if (!endpoint) return false;
      endpoints.push_back(std::move(*endpoint));
      times.push_back(Clock::now());
      return true;
    };
    while (clients.connected() < until && !clients.has_failed() && !deadline.passed()) {
      if (!keep(listener.try_accept())) static_cast<void>(worker.wait(within(10ms)));
    }
    while (keep(listener.try_accept())) continue;
    EXPECT_EQ(clients.connected(), until) << clients.why();
    return times;
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  Listener listener;
  std::vector<Endpoint> endpoints;
};

void allow_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::int64_t milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

TEST(Storm, AllSimultaneousClientsConnectInTime) {
  const char* const number = std::getenv("STORM_PROCESSES");
  const unsigned processes = number == nullptr ? 4 : static_cast<unsigned>(std::atoi(number));
  const EndpointOptions options =
      number == nullptr ? small_options() : EndpointOptions{.retry_connect = true};
  allow_descriptors();
  Clients clients(processes, options);
  Meeting meeting(options);
  clients.connect(meeting.listener.port());
  const auto began = Clock::now();
  EXPECT_EQ(meeting.take(clients, clients.count()).size(), clients.count());
  const auto took = Clock::now() - began;
  EXPECT_LT(took, 20s);
  std::printf("%u clients in %lld ms\n", clients.count(),
              static_cast<long long>(milliseconds(took)));
  for (const Endpoint& endpoint : meeting.endpoints)
    EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
}

/// All peers notice at the same moment that the listener has ended.
TEST(Storm, ARestartedListenerMeetsItsPeersSpreadOverTime) {
  allow_descriptors();
  const EndpointOptions options = small_options();
  Clients clients(2, options, true);
  std::optional<Meeting> meeting(std::in_place, options);
  const std::uint16_t port = meeting->listener.port();
  clients.connect(port);
  EXPECT_EQ(meeting->take(clients, clients.count()).size(), clients.count());
  meeting.reset();
  meeting.emplace(options, port);
  const auto times = meeting->take(clients, 2 * clients.count());
  ASSERT_EQ(times.size(), clients.count());
  // Each pauses for up to a second. It is practically impossible that less than a tenth of them
  // begins in the second half of it.
  EXPECT_GT(times[times.size() * 9 / 10] - times.front(), 500ms);
  for (const Endpoint& endpoint : meeting->endpoints)
    EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
}

}  // namespace
}  // namespace hbmwire::test
