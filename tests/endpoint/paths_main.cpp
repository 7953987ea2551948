// SPDX-License-Identifier: MIT
// usage: endpoint_paths serve HERE THERE             the other side, which prints its ports
//        endpoint_paths lead TABLE PLACE HERE THERE   ports on stdin; HERE, THERE: nics, or none
// Tests every pair of memories with every pair of NICs of a place, and compares with the table.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "matrix_side.hpp"
#include "paths_table.hpp"

namespace {

using namespace hbmwire;
using matrix::must;

/// The sessions of both sides, in this order.
struct Session {
  const char* here;
  const char* there;
  bool required;
};

std::vector<Session> sessions_of(std::string_view here, std::string_view there) {
  std::vector<Session> sessions;
  for (const bool required : {false, true}) {
    for (const char* const mine : {"dma-buf", "plain", "none"}) {
      for (const char* const theirs : {"dma-buf", "plain", "none"}) {
        const bool has_mine = (here == "none") == (std::string_view(mine) == "none");
        const bool has_theirs = (there == "none") == (std::string_view(theirs) == "none");
        if (has_mine && has_theirs) sessions.push_back({mine, theirs, required});
      }
    }
    if (here == "none" || there == "none") continue;
    sessions.push_back({"two", "two", required});
    sessions.push_back({"two", "dma-buf", required});
  }
  return sessions;
}

/// Held while a NIC is opened, which writes to the environment, and while a context is made, which
/// reads it: both sides may be threads of one process.
std::mutex environment;

/// Makes a context and opens its NICs. emu0 and emu2 import dma-bufs, emu1 does not (paths.sh).
Context context_of(std::string_view nic, bool required) {
  const std::scoped_lock lock(environment);
  ContextOptions options;
  if (nic != "none") options.nics = {nic == "plain" ? "emu1" : "emu0"};
  if (nic == "two") options.nics.emplace_back("emu2");
  if (required) options.paths.require = Path::zero_copy;
  Context context = must(Context::create(options));
  if (nic != "none") must(context.open_nics());
  return context;
}

Worker worker_of(const Context& context) {
  const std::scoped_lock lock(environment);
  return must(Worker::create(context));
}

/// A possible memory of this end in a transfer.
struct LocalMemory {
  MemoryType type;
  bool shared = false;  ///< host memory that the peer's process can open
};

std::vector<LocalMemory> local_memories() {
  std::vector<LocalMemory> all{{.type = MemoryType::host, .shared = true}};
  for (const MemoryType type : kMemoryTypes) all.push_back({.type = type});
  return all;
}

constexpr std::size_t kSize = 3;  // index in matrix::kSizes: 65537 bytes

/// The leading side of one session. Without an endpoint it refuses everything.
class Leader {
 public:
  Leader(const Session& session, std::uint16_t port)
      : context_(context_of(session.here, session.required)),
        by_two_(std::string_view(session.there) == "two"),
        required_(session.required) {
    try {
      worker_.emplace(worker_of(context_));
      channel_.emplace(matrix::Channel::connect(port));
      endpoint_.emplace(must(Endpoint::connect(
          *worker_, "127.0.0.1:" + std::to_string(channel_->hear<std::uint16_t>()),
          {Deadline::after(matrix::kPatience), -1})));
    } catch (const std::exception& error) {
      refusal_ = error.what();
    }
  }

  ~Leader() {
    try {
      if (endpoint_) channel_->say(matrix::Command{});
    } catch (const std::exception&) {
      // The other side has already ended, and its error was printed.
    }
  }

  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// The path of the transfer if the bytes are right; "refused" if it did not begin.
  std::string path_of(matrix::Operation what, const LocalMemory& here, MemoryType there) {
    if (!endpoint_) return "refused";
    const bool gets = what == matrix::Operation::get;
    const auto place = [](const auto& all, auto one) {
      return static_cast<std::size_t>(std::ranges::find(all, one) - all.begin());
    };
    matrix::Row row{};
    row[matrix::operation] = place(matrix::kOperations, what);
    row[matrix::source] = place(kMemoryTypes, gets ? there : here.type);
    row[matrix::target] = place(kMemoryTypes, gets ? here.type : there);
    row[matrix::size] = kSize;
    seed_ += 2;
    matrix::Command command{
        .what = matrix::Command::What::prepare, .row = row, .seed = seed_, .expected_number = 0};
    std::optional<matrix::Memory> memory;
    std::optional<RemoteRegion> remote;
    Transfer transfer;
    try {
      tell(command);
      remote = must(endpoint_->remote(must(RemoteKey::unpack(channel_->hear_bytes()))));
      memory.emplace(context_, here.type, matrix::kSizes[kSize], Access::local_write, here.shared);
      memory->fill(seed_ + 1);
      const RemoteSlice all = remote->slice(matrix::Memory::kGuard, matrix::kSizes[kSize]);
      transfer =
          must(gets ? endpoint_->get(memory->slice(), all)
                    : endpoint_->put(memory->slice(), all, {.level = CompletionLevel::visible}));
    } catch (const std::exception& error) {
      refusal_ = error.what();
      return "refused";
    }
    must(transfer.wait(matrix::kPatience));
    command.what = matrix::Command::What::check;
    tell(command);
    memory->expect(seed_ + 1, gets ? seed_ : seed_ + 1);
    return name_of(transfer.path()) +
           (is_by_right_nics(transfer.explain()) ? "" : " by other NICs");
  }

  /// The name in the table.
  [[nodiscard]] std::string kind_of(MemoryType type) const {
    if (type == MemoryType::host) return "host";
    if (type == MemoryType::dmabuf) return "imported";
    const bool has_engine = !must(context_.open(type))->copy_engine().empty();
    return !has_engine ? "without engine" : has_ipc(type) ? "GPU" : "engine";
  }

  [[nodiscard]] bool has_engine(MemoryType type) const {
    return kind_of(type) == "engine" || kind_of(type) == "GPU";
  }

  /// The reason of the last refusal.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

 private:
  /// Whether several NICs carried the transfer exactly if both ends have them. If engines of this
  /// process also copy the memory, one NIC carries it.
  [[nodiscard]] bool is_by_right_nics(const TransferReport& report) const {
    // The paths up to nic_loopback are a NIC's.
    const bool by_nic = report.path <= Path::nic_loopback;
    if (endpoint_->placement() == Placement::same_process && !required_) return true;
    if (!by_two_ || !by_nic) return report.rails.empty();
    return report.rails.size() == 2 &&
           std::ranges::all_of(report.rails, [](const auto& rail) { return rail.bytes != 0; });
  }

  void tell(const matrix::Command& command) {
    channel_->say(command);
    const auto wrong = channel_->hear_bytes();
    if (!wrong.empty())
      throw std::runtime_error(
          std::string(reinterpret_cast<const char*>(wrong.data()), wrong.size()));
  }

  /// The name of the enumerator.
  static std::string name_of(Path path) {
    constexpr std::array kNames{"host", "zero_copy", "peer_memory", "nic_loopback", "staged",
                                "copy", "tcp",       "ipc",         "shared_memory"};
    return kNames.at(static_cast<std::size_t>(path));
  }

  Context context_;
  std::optional<matrix::Channel> channel_;
  std::optional<Worker> worker_;
  std::optional<Endpoint> endpoint_;
  bool by_two_;
  bool required_;
  std::string refusal_;
  unsigned seed_ = 0;
};

int serve(std::string_view there, const std::vector<Session>& sessions,
          const std::function<void(std::uint16_t)>& ready) {
  for (const Session& session : sessions) {
    const Context context = context_of(session.there, session.required);
    if (session.required && std::string_view(session.here) == "none") {
      ready(0);  // no client connects
      continue;
    }
    try {
      matrix::serve(context, ready);
    } catch (const std::exception& error) {
      // The leading side notices by the end of the connection.
      if (there != "none") std::fprintf(stderr, "serving: %s\n", error.what());
    }
  }
  return 0;
}

int lead(const std::string& file, const std::string& place, const std::vector<Session>& sessions,
         const std::function<std::uint16_t()>& next_port) {
  const auto table = paths::read_table(file);
  std::size_t wrong = 0;
  std::size_t count = 0;
  for (const Session& session : sessions) {
    Leader leader(session, next_port());
    std::set<std::string> reasons;
    for (const LocalMemory& here : local_memories()) {
      for (const MemoryType there : kMemoryTypes) {
        const std::string kind = here.shared ? "shared" : leader.kind_of(here.type);
        const paths::Case which{.here = {kind, session.here},
                                .there = {leader.kind_of(there), session.there},
                                .place = place,
                                .same_engine = here.type == there && leader.has_engine(there)};
        const paths::Row& row = paths::row_of(table, which);
        const std::string& expected = session.required ? row.required : row.path;
        for (const auto what : {matrix::Operation::put, matrix::Operation::get}) {
          ++count;
          std::string seen;
          try {
            seen = leader.path_of(what, here, there);
          } catch (const std::exception& error) {
            seen = error.what();
          }
          if (seen == "refused") reasons.insert(leader.refusal());
          if (seen == expected) continue;
          ++wrong;
          std::printf("%s %s (%s) - %s (%s), %s%s: %s, and not %s %s\n",
                      std::string(matrix::to_string(what)).c_str(), kind.c_str(), session.here,
                      std::string(to_string(there)).c_str(), session.there, place.c_str(),
                      session.required ? ", zero_copy required" : "", seen.c_str(),
                      expected.c_str(), seen == "refused" ? leader.refusal().c_str() : "");
        }
      }
    }
    for (const std::string& reason : reasons)
      std::printf("%s - %s refuses: %s\n", session.here, session.there, reason.c_str());
  }
  std::printf("%zu of %zu paths are other ones\n", wrong, count);
  return wrong == 0 && count != 0 ? 0 : 1;
}

std::uint16_t told_port() {
  unsigned port = 0;
  if (!(std::cin >> port)) throw std::runtime_error("the other side says no port");
  return static_cast<std::uint16_t>(port);
}

void say_port(std::uint16_t port) {
  std::printf("%u\n", port);
  std::fflush(stdout);
}

/// Runs both sides in one process.
int within(const std::string& file, const std::vector<Session>& sessions, std::string_view nics) {
  std::mutex mutex;
  std::condition_variable told;
  std::deque<std::uint16_t> ports;
  std::thread serving([&] {
    serve(nics, sessions, [&](std::uint16_t port) {
      const std::scoped_lock lock(mutex);
      ports.push_back(port);
      told.notify_one();
    });
  });
  const int failed = lead(file, "process", sessions, [&] {
    std::unique_lock lock(mutex);
    told.wait(lock, [&] { return !ports.empty(); });
    const std::uint16_t port = ports.front();
    ports.pop_front();
    return port;
  });
  serving.join();
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    // The serving side runs the sessions of any leading side, as its commands say.
    if (arguments.size() == 3 && arguments[0] == "serve")
      return serve(arguments[2], sessions_of(arguments[1], arguments[2]), say_port);
    if (arguments.size() == 5 && arguments[0] == "lead") {
      const auto sessions = sessions_of(arguments[3], arguments[4]);
      if (arguments[2] == "process") return within(arguments[1], sessions, arguments[4]);
      return lead(arguments[1], arguments[2], sessions, told_port);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: endpoint_paths serve HERE THERE | lead TABLE PLACE HERE THERE\n"
               "HERE, THERE: nics|none, of the leading and of the serving side\n");
  return 2;
}
