// SPDX-License-Identifier: MIT
#include "subject.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/hbmwire.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "operation.hpp"
#include "tests/endpoint/internals.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/change_link.hpp"

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPieceBytes = 64U << 10U;  // the smallest piece that a NIC gets

/// Whether no transfer may fail: without a fault that concerns transfers, or if only the link of a
/// further NIC goes down. Such a NIC is taken out, and the others carry its transfers.
bool is_harmless(const Scenario& scenario) {
  const bool of_link = scenario.fault == Fault::link_down || scenario.fault == Fault::link_down_up;
  return scenario.fault == Fault::none || scenario.fault == Fault::bad_handshake ||
         scenario.fault == Fault::truncated_handshake || (of_link && scenario.nic != "emu0");
}

class Subject {
 public:
  Subject(Scenario& scenario, const Shared& shared, const char* program)
      : scenario_(scenario), shared_(shared), program_(program) {}

  int run();

 private:
  void start_peer();
  void map_peers(std::span<std::byte> place) const;
  [[noreturn]] void become_peer(int commands);
  Result<void> work();
  /// Lets the fault happen.
  void strike(std::optional<Worker>& worker, std::optional<Endpoint>& endpoint,
              std::vector<Operation>& operations);
  /// Waits for an operation, and checks its outcome.
  void end(Operation& operation);
  void check_foreign_bytes(const std::vector<Operation>& operations);
  void check_sum(const std::vector<Operation>& operations);
  void check_bytes(const std::vector<Operation>& operations, const Region& region);
  void check_told(Worker& worker);
  void check_rest(const std::vector<Operation>& operations);
  void greet_badly() const;
  void set_link(const char* how);
  /// Sends a command to the peer, and waits until it was carried out. Returns 0 if the peer has
  /// gone.
  char ask(char command);

  void complain(const std::string& what) {
    ++complaints_;
    std::fprintf(stderr, "  %s: %s\n", std::string(scenario_.name()).c_str(), what.c_str());
  }

  Scenario& scenario_;
  const Shared& shared_;
  const char* program_;
  pid_t peer_ = -1;
  int commands_ = -1;
  std::uint16_t port_ = 0;
  int complaints_ = 0;
  std::vector<bool> succeeded_;  // whether each operation did, by its number
  bool all_settled_ = true;
  bool struck_ = false;
  bool link_is_down_ = false;
  bool stopped_ = false;
  std::string outcome_ = "done";
};

void Subject::become_peer(int commands) {
  Scenario scenario = scenario_;  // drawing from a copy leaves the plan's own numbers alone
  const bool inbox_is_open = scenario.below(2) == 0;
  const std::array<std::string, 5> arguments{
      std::to_string(commands), std::to_string(shared_.file),
      std::to_string(scenario.peer_timeout_ms), std::to_string(inbox_is_open ? 1 : 0),
      std::to_string(scenario.fault == Fault::failing_call ? 1 : 0)};
  for (const int fd : {commands, shared_.file}) ::fcntl(fd, F_SETFD, 0);
  const char* const memory = scenario.is_shared_there ? "shared" : nullptr;
  ::execl(program_, program_, "--peer", arguments[0].c_str(), arguments[1].c_str(),
          arguments[2].c_str(), arguments[3].c_str(), arguments[4].c_str(), memory,
          static_cast<char*>(nullptr));
  std::fprintf(stderr, "  %s: %s\n", program_, std::strerror(errno));
  ::_exit(127);
}

void Subject::start_peer() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  peer_ = ::fork();
  if (peer_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(pair[0]);
    become_peer(pair[1]);
  }
  ::close(pair[1]);
  commands_ = pair[0];
  if (::read(commands_, &port_, sizeof port_) != sizeof port_) port_ = 0;
  if (port_ == 0 || !scenario_.is_shared_there) return;
  map_peers(shared_.target);
  map_peers(shared_.inbox);
}

/// Maps the peer's own memory, so that this process can read it even after the peer has ended.
void Subject::map_peers(std::span<std::byte> place) const {
  int number = -1;
  if (::read(commands_, &number, sizeof number) != sizeof number) std::abort();
  const std::string path = "/proc/" + std::to_string(peer_) + "/fd/" + std::to_string(number);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (::mmap(place.data(), place.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(),
             0) == MAP_FAILED)
    std::abort();
}

/// Every second operation is also reported by Worker::next_done().
bool is_told(std::uint64_t number) { return number % 2 == 0; }

/// Leaves out descriptors of the emulated hardware.
int descriptors_of_the_program() { return open_descriptors("/hbmwire-"); }

char Subject::ask(char command) {
  if (::write(commands_, &command, 1) != 1 || ::read(commands_, &command, 1) != 1) return 0;
  return command;
}

void Subject::set_link(const char* how) {
  // Another process that works in the NIC may hold a lock for a moment.
  for (int i = 0; i < 20; ++i) {
    if (change_link(scenario_.nic + "=" + how)) {
      link_is_down_ = how == std::string("down");
      return;
    }
    std::this_thread::sleep_for(10ms);
  }
  complain("the link can't be changed");
}

/// Sends random bytes, or the beginning of a handshake, and closes the connection.
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
      set_link("down");
      break;
    case Fault::revoke_key:
      ask('r');
      break;
    case Fault::cancel:
      if (!operations.empty()) {
        Transfer& victim = operations[scenario_.below(operations.size())].transfer;
        static_cast<void>(scenario_.below(2) == 0 ? victim.cancel() : victim.request_cancel());
      }
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
  if (over) {
    const Path path = shares_memory() ? Path::shared_memory : Path::host;
    if (operation.is_single() && operation.bytes != 0 && operation.transfer.path() != path)
      complain("a put or get went another way than this run's");
    const bool large = operation.kind == Operation::Kind::put && operation.bytes > kPieceBytes;
    if (has_rails() && scenario_.rules.empty() && !struck_ && large &&
        operation.transfer.explain().rails.size() != 2)
      complain("a large put went by one NIC alone");
    return;
  }
  outcome_ = std::string(to_string(over.error().code));
  if (describe(over.error()).empty()) complain("an outcome without a name");
  if (!operation.transfer.settled()) all_settled_ = false;
  // In a plan without faults, no transfer may fail by itself.
  if (is_harmless(scenario_)) {
    if (over.error().code != Errc::timed_out && over.error().code != Errc::cancelled)
      complain("without a fault: " + describe(over.error()));
  }
}

/// Each operation that requested a notification was reported once, with the right result.
void Subject::check_told(Worker& worker) {
  std::vector<bool> told(succeeded_.size());
  while (const auto done = worker.next_done()) {
    if (done->cookie >= told.size() || !is_told(done->cookie) || told[done->cookie])
      return complain("a transfer is told of that was not to be, or twice");
    told[done->cookie] = true;
    if (done->result.has_value() != succeeded_[done->cookie])
      complain("a transfer is told of as another outcome than its own");
  }
  for (std::size_t number = 0; number < told.size(); ++number) {
    if (told[number] != is_told(number)) return complain("a transfer is not told of");
  }
}

namespace {

bool is_zero(std::byte byte) { return byte == std::byte{0}; }

bool holds(std::span<const std::byte> memory, const Operation& operation) {
  for (std::uint64_t i = 0; i < operation.bytes; ++i) {
    if (memory[i] != content_of(operation.number, i)) return false;
  }
  return true;
}

/// The place where the bytes of a put or a message belong.
std::span<std::byte> place_of(const Shared& shared, const Operation& operation) {
  if (operation.writes_target())
    return shared.target.subspan(operation.slot * kSlotBytes, kSlotBytes);
  const std::uint64_t slot =
      operation.ordinal + (operation.kind == Operation::Kind::tagged ? kSlots : 0);
  return shared.inbox.subspan(slot * kSlotBytes, kSlotBytes);
}

}  // namespace

/// A failed operation may have been executed, but none twice.
void Subject::check_sum(const std::vector<Operation>& operations) {
  std::uint64_t sum = 0;
  std::memcpy(&sum, shared_.target.data(), sizeof sum);
  std::uint64_t succeeded = 0;
  std::uint64_t all = 0;
  for (const Operation& operation : operations) {
    if (operation.kind != Operation::Kind::add) continue;
    ++all;
    if (succeeded_.at(operation.number)) ++succeeded;
  }
  if (sum < succeeded || sum > all) complain("an atomic was carried out twice, or not at all");
}

/// Bytes that no operation wrote are unchanged.
void Subject::check_foreign_bytes(const std::vector<Operation>& operations) {
  std::vector<std::byte> rest(shared_.all.begin(), shared_.all.end());
  const auto forget = [&](std::span<const std::byte> bytes) {
    std::fill_n(rest.begin() + (bytes.data() - shared_.all.data()), bytes.size(), std::byte{0});
  };
  forget(shared_.target.first(kSlotBytes));  // the atomics' slot
  for (const Operation& operation : operations) {
    if (operation.writes_target() || operation.is_message())
      forget(place_of(shared_, operation).first(operation.bytes));
  }
  if (!std::ranges::all_of(rest, is_zero)) complain("a foreign byte changed");
}

void Subject::check_bytes(const std::vector<Operation>& operations, const Region& region) {
  check_foreign_bytes(operations);
  check_sum(operations);
  for (const Operation& operation : operations) {
    const bool arrived =
        operation.transfer.done() && succeeded_.at(operation.number) && operation.taken;
    const bool has_place = operation.writes_target() || operation.is_message();
    if (arrived && has_place && !holds(place_of(shared_, operation), operation))
      complain("a byte that was put or taken is not there: operation " +
               std::to_string(operation.number) + " of kind " +
               std::to_string(static_cast<int>(operation.kind)));
    if (operation.kind != Operation::Kind::echo || !succeeded_.at(operation.number)) continue;
    const auto sent = std::ranges::find_if(operations, [&](const Operation& other) {
      return other.kind == Operation::Kind::tagged && other.ordinal == operation.ordinal;
    });
    const std::span local(
        reinterpret_cast<std::byte*>(region.address() + operation.slot * kSlotBytes), kSlotBytes);
    if (sent == operations.end() || operation.transfer.bytes() != sent->bytes ||
        !holds(local, *sent) || !std::ranges::all_of(local.subspan(sent->bytes), is_zero))
      complain("an echo is not what was sent");
  }
}

/// Bytes of reported and settled operations do not change any more.
void Subject::check_rest(const std::vector<Operation>& operations) {
  std::vector<std::byte> reported(shared_.all.begin(), shared_.all.end());
  std::this_thread::sleep_for(std::chrono::milliseconds(20 + scenario_.late_ms));
  for (const Operation& operation : operations) {
    // A message that was over when it was sent may arrive at any time.
    if (operation.taken || !succeeded_.at(operation.number)) continue;
    const auto place = place_of(shared_, operation);
    std::ranges::copy(place, reported.begin() + (place.data() - shared_.all.data()));
  }
  if (all_settled_ && std::memcmp(reported.data(), shared_.all.data(), reported.size()) != 0)
    complain("bytes changed after the report");
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
  if (scenario_.fault == Fault::overrun) internals::shorten_next_queue(*worker, 4);
  HBMWIRE_TRY_ASSIGN(
      const Allocation memory,
      context.allocate(MemoryType::host, shared_.target.size(),
                       {.device = {}, .host = {.shared = scenario_.is_shared_here}}));
  Access open = Access::local_write;
  if (scenario_.below(2) == 0) open = open | Access::remote_read;
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, open));
  EndpointOptions options;
  options.send_depth = static_cast<std::uint32_t>(2 + scenario_.below(64));
  options.eager_bytes = 1024;  // small, so that messages use all protocols
  options.receive_depth = static_cast<std::uint32_t>(4 + scenario_.below(64));
  options.peer_timeout = std::chrono::milliseconds(scenario_.peer_timeout_ms);
  HBMWIRE_TRY_ASSIGN(Endpoint connected,
                     Endpoint::connect(*worker, "127.0.0.1:" + std::to_string(port_),
                                       {Deadline::after(20s), -1}, options));
  std::optional<Endpoint> endpoint(std::move(connected));
  HBMWIRE_TRY_ASSIGN(RemoteRegion target, endpoint->remote("target", {Deadline::after(10s), -1}));
  if (scenario_.fault == Fault::wrong_key) {
    auto wrong = internals::look_at(target);
    wrong.remote_key ^= 0x5a5a00U;
    if (shares_memory()) wrong.token ^= 1U;
    internals::set(target, wrong);
  }

  std::vector<Operation> operations;
  Starter starter(scenario_, region, target);
  for (unsigned n = 0; n < scenario_.operations && endpoint; ++n) {
    if (n == scenario_.at) strike(worker, endpoint, operations);
    if (!endpoint) break;
    auto operation = starter.start(*endpoint, n);
    if (!operation) {
      outcome_ = std::string(to_string(operation.error().code));
      break;
    }
    operations.push_back(std::move(*operation));
    if (is_told(n)) operations.back().transfer.notify(n);
    if (scenario_.below(4) == 0) end(operations[scenario_.below(operations.size())]);
    if (scenario_.fault == Fault::link_down_up && link_is_down_ && scenario_.below(3) == 0)
      set_link("up");
    if (stopped_ && scenario_.below(8) == 0) {
      ::kill(peer_, SIGCONT);
      stopped_ = false;
    }
  }
  for (Operation& operation : operations) {
    end(operation);
    const auto over = operation.transfer.poll();
    succeeded_.push_back(over && *over);
  }
  if (worker) check_told(*worker);
  check_rest(operations);
  check_bytes(operations, region);

  const bool peer_lives = scenario_.fault != Fault::kill_peer && !stopped_;
  if (endpoint && peer_lives && scenario_.below(2) == 0) {
    if (link_is_down_) set_link("up");
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
  // By now all libraries are loaded and have made their permanent objects.
  if (scenario_.rules.empty()) {
    for (int i = 0; i < 2; ++i) {
      if (auto context = Context::create()) static_cast<void>(context->open_nics());
    }
    if (shares_memory()) internals::make_shared_files();
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
  if (link_is_down_) set_link("up");
  // On real hardware, a process of another machine cannot hold up a NIC. An emulated NIC can be
  // held up by a process that was stopped within one of its steps (emulation/docs/adr/0011), and
  // then refuses to destroy the objects involved.
  const bool held_up = stopped_ && nic_locks_not_had() != 0;
  if (!live_nic_objects().empty() && !held_up) complain("leaked " + live_nic_objects());
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

int run_subject(std::uint64_t seed, const Shared& shared, const char* program) {
  Scenario scenario(seed);
  set_log_sink([](LogLevel, std::string_view) {});
  return Subject(scenario, shared, program).run();
}

}  // namespace hbmwire::test
