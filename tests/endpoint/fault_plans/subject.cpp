// SPDX-License-Identifier: MIT
#include "subject.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/log.hpp"

#include "endpoint/endpoint_state.hpp"
#include "tests/library/emulated_hooks.hpp"

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What a busy machine may take besides.
constexpr auto kSlack = 8s;

struct Operation {
  enum class Kind : std::uint8_t { put, get, add, swap } kind = Kind::put;
  std::uint64_t slot = 0;
  std::uint64_t bytes = 0;
  Transfer transfer;
};

std::byte content_of(std::uint64_t operation, std::uint64_t i) {
  return static_cast<std::byte>(1 + (operation * 131 + i * 7) % 255);
}

class Subject {
 public:
  Subject(Scenario& scenario, const Shared& shared) : scenario_(scenario), shared_(shared) {}

  int run();

 private:
  void start_peer();
  Result<void> work();
  Result<void> operate(Endpoint& endpoint, const Slice& memory, const RemoteRegion& target);
  Result<Operation> start(Endpoint& endpoint, const Region& region, const RemoteRegion& target,
                          std::uint64_t number);
  void strike(std::optional<Worker>& worker, std::optional<Endpoint>& endpoint,
              std::vector<Operation>& operations);
  void end(Operation& operation);
  void check_bytes(const std::vector<Operation>& operations, bool all_good);
  void overrun(const Worker& worker);
  void greet_badly() const;
  void link(const char* how);
  char ask(char command);

  void complain(const std::string& what) {
    ++complaints_;
    std::fprintf(stderr, "  %s: %s\n", std::string(scenario_.name()).c_str(), what.c_str());
  }

  Result<void> check_bound(Result<void> result, Clock::time_point begun,
                           std::chrono::nanoseconds allowed, const char* what);

  Scenario& scenario_;
  const Shared& shared_;
  pid_t peer_ = -1;
  int commands_ = -1;
  std::uint16_t port_ = 0;
  int complaints_ = 0;
  bool all_settled_ = true;
  bool struck_ = false;
  bool link_is_down_ = false;
  bool stopped_ = false;
  std::string outcome_ = "done";
};

void Subject::start_peer() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  peer_ = ::fork();
  if (peer_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(pair[0]);
    ::_exit(run_peer(scenario_, shared_, pair[1]));
  }
  ::close(pair[1]);
  commands_ = pair[0];
  if (::read(commands_, &port_, sizeof port_) != sizeof port_) port_ = 0;
}

/// Without those of the emulated hardware.
int descriptors_of_the_program() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += gone || target.find("/hbmwire-") != std::string::npos ? 0 : 1;
  }
  return count;
}

char Subject::ask(char command) {
  if (::write(commands_, &command, 1) != 1 || ::read(commands_, &command, 1) != 1) return 0;
  return command;
}

void Subject::link(const char* how) {
  const std::string command = std::string(HBMWIRE_TOOL) + " emulate --link emu0=" + how;
  // A process that is at work in the NIC may be in its way for a moment.
  for (int i = 0; i < 20; ++i) {
    if (std::system(command.c_str()) == 0) {
      link_is_down_ = how == std::string("down");
      return;
    }
    std::this_thread::sleep_for(10ms);
  }
  complain("the link can't be changed");
}

/// What is no handshake, or the beginning of one, and then nothing or the end.
void Subject::greet_badly() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    std::vector<char> bytes(1 + scenario_.random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(scenario_.random());
    if (scenario_.fault == Fault::truncated_handshake) {
      constexpr std::string_view kStart("hbmw-ep\n\1\0\0\0\0\0\0\0\377\0\1\0", 20);
      const std::size_t length = std::min<std::size_t>(bytes.size(), kStart.size());
      bytes.assign(kStart.begin(), kStart.begin() + static_cast<std::ptrdiff_t>(length));
    }
    static_cast<void>(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  ::close(fd);
}

/// A completion queue that is smaller than what is promised of it.
void Subject::overrun(const Worker& worker) {
  auto& nic = worker.state()->nics.front();
  auto small =
      transport::CompletionQueue::create(nic.nic.state().shared_from_this(), nic.channel.get(), 4);
  if (!small) return;
  (*small)->give_back(1'000'000);
  nic.completions.insert(nic.completions.begin(), std::move(*small));
}

Result<Operation> Subject::start(Endpoint& endpoint, const Region& region,
                                 const RemoteRegion& target, std::uint64_t number) {
  Operation operation;
  const std::uint64_t choice = scenario_.below(10);
  operation.kind = choice < 5   ? Operation::Kind::put
                   : choice < 8 ? Operation::Kind::get
                   : choice < 9 ? Operation::Kind::add
                                : Operation::Kind::swap;
  operation.slot = 1 + number % (kSlots - 1);
  operation.bytes = scenario_.below(kSlotBytes + 1);
  const std::uint64_t at = operation.slot * kSlotBytes;
  const Slice local = region.slice(at, operation.bytes);
  const RemoteSlice remote = target.slice(at, operation.bytes);
  auto* const bytes = reinterpret_cast<std::byte*>(region.address() + at);
  Result<Transfer> started = tl::make_unexpected(Error{});
  switch (operation.kind) {
    case Operation::Kind::put:
      for (std::uint64_t i = 0; i < operation.bytes; ++i) bytes[i] = content_of(number, i);
      started = endpoint.put(
          local, remote,
          {.level = scenario_.below(4) == 0 ? CompletionLevel::visible : CompletionLevel::arrived});
      break;
    case Operation::Kind::get:
      started = endpoint.get(local, remote);
      break;
    case Operation::Kind::add:
      started = endpoint.fetch_add(target.slice(0, 8), 1);
      break;
    case Operation::Kind::swap:
      started = endpoint.compare_swap(target.slice(8, 8), number, number + 1);
      break;
  }
  if (!started) return tl::make_unexpected(started.error());
  operation.transfer = std::move(*started);
  return operation;
}

void Subject::strike(std::optional<Worker>& worker, std::optional<Endpoint>& endpoint,
                     std::vector<Operation>& operations) {
  struck_ = true;
  switch (scenario_.fault) {
    case Fault::kill_peer:
      ::kill(peer_, SIGKILL);
      break;
    case Fault::stop_peer:
      ::kill(peer_, SIGSTOP);
      stopped_ = true;
      break;
    case Fault::link_down_up:
    case Fault::link_down:
      link("down");
      break;
    case Fault::revoke_key:
      ask('r');
      break;
    case Fault::cancel:
      if (!operations.empty())
        static_cast<void>(operations[scenario_.below(operations.size())].transfer.cancel());
      break;
    case Fault::close:
      static_cast<void>(
          endpoint->close({Deadline::after(std::chrono::milliseconds(scenario_.below(300))), -1}));
      break;
    case Fault::drop_endpoint:
      endpoint.reset();
      break;
    case Fault::drop_worker:
      endpoint.reset();
      worker.reset();
      break;
    default:
      break;
  }
}

void Subject::end(Operation& operation) {
  const auto patience = std::chrono::milliseconds(20 + scenario_.below(800));
  const auto begun = Clock::now();
  const auto over = operation.transfer.wait(patience);
  const auto took = Clock::now() - begun;
  const auto bound = patience + std::chrono::milliseconds(2 * scenario_.peer_timeout_ms) + kSlack;
  if (took > bound) complain("a wait took longer than its bound");
  if (!operation.transfer.done()) complain("a transfer is not over after its wait");
  if (over) return;
  outcome_ = std::string(to_string(over.error().code));
  if (describe(over.error()).empty()) complain("an outcome without a name");
  if (!operation.transfer.settled()) all_settled_ = false;
  // What has failed by itself says why: nothing happened that could be it in a plan without faults.
  if (scenario_.fault == Fault::none || scenario_.fault == Fault::bad_handshake ||
      scenario_.fault == Fault::truncated_handshake) {
    if (over.error().code != Errc::timed_out && over.error().code != Errc::cancelled)
      complain("without a fault: " + describe(over.error()));
  }
}

void Subject::check_bytes(const std::vector<Operation>& operations, bool all_good) {
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  const auto guard = shared_.all.first(kGuardBytes);
  const auto other = shared_.all.last(kGuardBytes);
  if (!std::all_of(guard.begin(), guard.end(), is_zero) ||
      !std::all_of(other.begin(), other.end(), is_zero))
    complain("a byte beside the target changed");
  std::vector<std::uint64_t> reach(kSlots);
  for (const Operation& operation : operations) {
    if (operation.kind == Operation::Kind::put)
      reach[operation.slot] = std::max(reach[operation.slot], operation.bytes);
  }
  for (std::uint64_t slot = 1; slot < kSlots; ++slot) {
    const auto rest = shared_.target.subspan(slot * kSlotBytes, kSlotBytes).subspan(reach[slot]);
    if (!std::all_of(rest.begin(), rest.end(), is_zero)) complain("a foreign byte changed");
  }
  if (!all_good) return;
  for (std::size_t n = 0; n < operations.size(); ++n) {
    const Operation& operation = operations[n];
    if (operation.kind != Operation::Kind::put) continue;
    for (std::uint64_t i = 0; i < operation.bytes; ++i) {
      if (shared_.target[operation.slot * kSlotBytes + i] == content_of(n, i)) continue;
      complain("a byte that was put is not there");
      return;
    }
  }
}

Result<void> Subject::work() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(
      Worker made,
      Worker::create(context, {.max_transfers = 256, .progress_thread = scenario_.below(4) == 0}));
  std::optional<Worker> worker(std::move(made));
  if (scenario_.fault == Fault::bad_handshake || scenario_.fault == Fault::truncated_handshake) {
    for (std::uint64_t i = scenario_.below(4); i-- > 0;) greet_badly();
  }
  if (scenario_.fault == Fault::overrun) overrun(*worker);
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     context.allocate(MemoryType::host, shared_.target.size()));
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, Access::local_write));
  EndpointOptions options;
  options.send_depth = static_cast<std::uint32_t>(2 + scenario_.below(64));
  options.peer_timeout = std::chrono::milliseconds(scenario_.peer_timeout_ms);
  HBMWIRE_TRY_ASSIGN(Endpoint connected,
                     Endpoint::connect(*worker, "127.0.0.1:" + std::to_string(port_),
                                       {Deadline::after(20s), -1}, options));
  std::optional<Endpoint> endpoint(std::move(connected));
  HBMWIRE_TRY_ASSIGN(RemoteRegion target, endpoint->remote("target", {Deadline::after(10s), -1}));
  if (scenario_.fault == Fault::wrong_key) target.remote_key ^= 0x5a5a00U;

  std::vector<Operation> operations;
  bool all_good = true;
  for (unsigned n = 0; n < scenario_.operations && endpoint; ++n) {
    if (n == scenario_.at) strike(worker, endpoint, operations);
    if (!endpoint) break;
    auto operation = start(*endpoint, region, target, n);
    if (!operation) {
      outcome_ = std::string(to_string(operation.error().code));
      all_good = false;
      break;
    }
    operations.push_back(std::move(*operation));
    if (scenario_.below(4) == 0) end(operations[scenario_.below(operations.size())]);
    if (scenario_.fault == Fault::link_down_up && link_is_down_ && scenario_.below(3) == 0)
      link("up");
    if (stopped_ && scenario_.below(8) == 0) {
      ::kill(peer_, SIGCONT);
      stopped_ = false;
    }
  }
  for (Operation& operation : operations) {
    end(operation);
    const auto over = operation.transfer.poll();
    all_good = all_good && over && *over;
  }
  // What was reported, and settled, stays as it is.
  const std::vector<std::byte> reported(shared_.all.begin(), shared_.all.end());
  std::this_thread::sleep_for(std::chrono::milliseconds(20 + scenario_.late_ms));
  if (all_settled_ && std::memcmp(reported.data(), shared_.all.data(), reported.size()) != 0)
    complain("bytes changed after the report");
  check_bytes(operations, all_good);

  const bool peer_lives = scenario_.fault != Fault::kill_peer && !stopped_;
  if (endpoint && peer_lives && scenario_.below(2) == 0) {
    if (link_is_down_) link("up");
    static_cast<void>(endpoint->close({Deadline::after(2s), -1}));
    const auto again = endpoint->reconnect({Deadline::after(10s), -1});
    if (!again && scenario_.fault != Fault::failing_call && scenario_.fault != Fault::failing_poll)
      complain("no reconnecting: " + describe(again.error()));
    const auto stale = endpoint->put(region.slice(0, 1), target.slice(0, 1));
    if (stale) complain("an old remote region came back to life");
  }
  if (scenario_.below(2) == 0) worker.reset();
  return {};
}

int Subject::run() {
  start_peer();
  // The libraries are loaded, and what they keep is there.
  if (scenario_.rules.empty()) {
    for (int i = 0; i < 2; ++i) {
      if (auto context = Context::create()) static_cast<void>(context->open_nics());
    }
  }
  const int descriptors = descriptors_of_the_program();
  if (port_ != 0) {
    const auto worked = work();
    if (!worked) {
      outcome_ = "not begun: " + std::string(to_string(worked.error().code));
      const bool may = scenario_.fault == Fault::failing_call ||
                       scenario_.fault == Fault::failing_poll || scenario_.fault == Fault::overrun;
      if (!may) complain("nothing was done: " + describe(worked.error()));
    }
  }
  if (link_is_down_) link("up");
  if (!live_nic_objects().empty()) complain("leaked " + live_nic_objects());
  if (scenario_.rules.empty() && descriptors_of_the_program() != descriptors)
    complain("descriptors: " + std::to_string(descriptors) + " before, " +
             std::to_string(descriptors_of_the_program()) + " after");
  if (stopped_) ::kill(peer_, SIGCONT);
  ::close(commands_);
  int status = 0;
  ::waitpid(peer_, &status, 0);
  const bool killed = scenario_.fault == Fault::kill_peer && struck_;
  if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
    complain("the peer did not end well");
  std::printf("%s: %s\n", std::string(scenario_.name()).c_str(), outcome_.c_str());
  std::fflush(stdout);
  return complaints_ == 0 ? 0 : 1;
}

}  // namespace

int run_subject(std::uint64_t seed, const Shared& shared) {
  Scenario scenario(seed);
  set_log_sink([](LogLevel, std::string_view) {});
  return Subject(scenario, shared).run();
}

}  // namespace hbmwire::test
