// SPDX-License-Identifier: MIT
//
// Measures how fast a device's engine copies its memory, and how fast puts and gets between two
// processes are, over each path that needs no RDMA hardware. scripts/hardware runs it. The bytes
// are verified in device memory before anything is measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "line.hpp"
#include "tests/support/bytes.hpp"

namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: device_speed MEMORY [--peer MEMORY] [--nic NAME] [--mib N] [--seconds S] WAY...\n"
    "  MEMORY  cuda, rocm, gaudi or host, or a device of it: cuda:1, gaudi:0000:33:00.0\n"
    "  WAY     engine (copies by the device), nic, ipc, tcp (between two processes)\n"
    "  --peer  the other process's memory (as MEMORY); --nic: the NIC of the way nic (emu0)\n";

constexpr Access kAll = Access::local_write | Access::remote_write | Access::remote_read;

struct Choice {
  MemoryType type = MemoryType::host;
  std::string device;
};

struct Options {
  Choice here;
  Choice there;
  std::string nic = "emu0";
  std::uint64_t bytes = 64ULL << 20U;
  double seconds = 1;
  std::vector<std::string_view> ways;
};

/// Returns the value, or throws an exception with the error's message.
template <class T>
T need(Result<T>&& result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

Wait patience() { return {Deadline::after(20s), -1}; }

/// A path between two processes, with its NIC and the paths that the library may use.
struct Way {
  std::string_view name;
  bool by_nic;
  std::vector<Path> allow;
  std::optional<Path> path;  ///< the path that transfers must take, instead of the next best one
};

const std::array<Way, 3>& ways() {
  using enum Path;
  static const std::array<Way, 3> all{Way{"nic", true, {host, zero_copy, peer_memory, staged}, {}},
                                      Way{"ipc", false, {host, ipc, tcp}, ipc},
                                      Way{"tcp", false, {host, tcp}, tcp}};
  return all;
}

/// A process' end of a path: its memory, and the memory's key.
struct End {
  End(const Options& options, const Way& way, const Choice& choice, bool serves)
      : bytes(options.bytes),
        context(need(Context::create({.memory = {},
                                      .nics = {way.by_nic ? options.nic : "none"},
                                      .paths = {.require = {}, .allow = way.allow}}))),
        worker(need(Worker::create(context, {.progress_thread = serves}))),
        memory(need(context.allocate(
            choice.type, bytes,
            {.device = choice.device, .host = {.shared = choice.type == MemoryType::host}}))),
        region(need(context.register_memory(memory, kAll))) {}

  void fill(unsigned seed) {
    need(memory.domain().copy_in(memory.address(), pattern(bytes, seed), patience()));
  }

  [[nodiscard]] bool has(unsigned seed) const {
    std::vector<std::byte> found(bytes);
    need(memory.domain().copy_out(memory.address(), found, patience()));
    return same_bytes(found, pattern(bytes, seed));
  }

  std::uint64_t bytes;
  Context context;
  Worker worker;
  Allocation memory;
  Region region;
};

EndpointOptions endpoint_options() {
  EndpointOptions options;
  options.pre_shared_key.assign(32, std::byte{7});
  return options;
}

struct Question {
  bool fill = false;  ///< true: fill your memory; false: check that it has the bytes
  unsigned seed = 0;
};

/// The other process, whose memory this one writes and reads.
void serve(const Line& line, const Options& options, const Way& way) {
  // The parent begins the paths one after the other.
  if (bool begins = false; !line.next(begins)) return;
  End end(options, way, options.there, true);
  Listener listener =
      need(Listener::create(end.worker, {.address = "127.0.0.1", .endpoint = endpoint_options()}));
  line.send(listener.port());
  const Endpoint endpoint = need(listener.accept(patience()));
  const MemoryKey key = need(MemoryKey::pack(end.region));
  line.send(std::vector<std::byte>(key.bytes().begin(), key.bytes().end()));
  for (Question question; line.next(question);) {
    if (question.fill) end.fill(question.seed);
    line.send(question.fill || end.has(question.seed));
  }
}

/// Bytes per second of `once()`, which moves `bytes` and is called repeatedly.
template <class Once>
double bytes_per_second(const Options& options, Once once) {
  once();  // the set-up during the first call does not count
  const auto begin = Clock::now();
  std::chrono::duration<double> taken{};
  std::uint64_t moved = 0;
  do {
    once();
    moved += options.bytes;
    taken = Clock::now() - begin;
  } while (taken.count() < options.seconds);
  return static_cast<double>(moved) / taken.count();
}

void print(std::string_view name, double rate, std::string_view by) {
  fmt::print("{} {:.2f} GB/s {}\n", name, rate / 1e9, by);
}

void require(bool right, std::string_view what) {
  if (!right) throw std::runtime_error(fmt::format("{}: wrong bytes arrived", what));
}

/// Compares the bytes of a put and of a get with the peer, and then measures both.
void measure_way(const Options& options, const Way& way, const Line& line) {
  line.send(true);
  End end(options, way, options.here, false);
  const auto port = line.receive<std::uint16_t>();
  Endpoint endpoint = need(Endpoint::connect(end.worker, fmt::format("127.0.0.1:{}", port),
                                             patience(), endpoint_options()));
  const RemoteRegion remote = need(endpoint.remote(need(RemoteKey::unpack(line.receive_bytes()))));
  const auto ask = [&](Question question) {
    line.send(question);
    return line.receive<bool>();
  };
  std::string path;
  const auto finish = [&](Result<Transfer>&& started) {
    Transfer transfer = need(std::move(started));
    need(transfer.wait(patience()));
    path = to_string(transfer.path());
    if (way.path && transfer.path() != *way.path)
      throw std::runtime_error("it went another way: " + describe(transfer.explain()));
  };
  const auto put = [&] {
    finish(endpoint.put(end.region.slice(0, end.bytes), remote.slice(0, end.bytes),
                        {.level = CompletionLevel::visible}));
  };
  const auto get = [&] {
    finish(endpoint.get(end.region.slice(0, end.bytes), remote.slice(0, end.bytes)));
  };
  end.fill(1);
  put();
  require(ask({false, 1}), "put");
  ask({true, 2});
  get();
  require(end.has(2), "get");
  print(fmt::format("put_{}", way.name), bytes_per_second(options, put), path);
  print(fmt::format("get_{}", way.name), bytes_per_second(options, get), path);
}

/// Host memory that the engine can access directly, if that helps.
class PinnedHost {
 public:
  PinnedHost(MemoryDomain& domain, std::uint64_t bytes)
      : domain_(domain), bytes_(pattern(bytes, 3)), pinned_(domain.pin_host(bytes_)) {}

  PinnedHost(const PinnedHost&) = delete;
  PinnedHost& operator=(const PinnedHost&) = delete;

  ~PinnedHost() {
    if (pinned_) domain_.unpin_host(bytes_);
  }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

  [[nodiscard]] bool is_pinned() const { return pinned_.has_value(); }

 private:
  MemoryDomain& domain_;
  std::vector<std::byte> bytes_;
  Result<void> pinned_;
};

/// Measures the engine's copies into the device, out of it and within it.
void measure_engine(const Options& options) {
  const Context context = need(Context::create({.memory = {}, .nics = {"none"}}));
  const Allocation memory =
      need(context.allocate(options.here.type, options.bytes, {.device = options.here.device}));
  const Allocation other =
      need(context.allocate(options.here.type, options.bytes, {.device = options.here.device}));
  MemoryDomain& domain = memory.domain();
  if (domain.copy_engine().empty())
    throw std::runtime_error(domain.device().name + ": this process has no copy engine of it");
  PinnedHost host(domain, options.bytes);
  const std::string by = fmt::format("{}, {} host memory", domain.copy_engine(),
                                     host.is_pinned() ? "pinned" : "pageable");
  const auto in = [&] {
    need(need(domain.start_copy_in(memory.address(), host.bytes())).wait(patience()));
  };
  const auto out = [&] {
    need(need(domain.start_copy_out(memory.address(), host.bytes())).wait(patience()));
  };
  print("copy_in", bytes_per_second(options, in), by);
  print("copy_out", bytes_per_second(options, out), by);
  require(same_bytes(host.bytes(), pattern(options.bytes, 3)), "copy");
  if (!domain.copies_from(domain)) return;
  const auto within = [&] {
    need(need(domain.start_copy_from(domain, memory.address(), other.address(), options.bytes))
             .wait(patience()));
  };
  print("copy_within", bytes_per_second(options, within), domain.copy_engine());
}

std::optional<Choice> parse_memory(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  for (const auto type :
       {MemoryType::host, MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    if (name != to_string(type)) continue;
    return Choice{type, std::string(colon == text.npos ? "" : text.substr(colon + 1))};
  }
  return std::nullopt;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && number > 0;
}

bool is_way(std::string_view word) {
  return word == "engine" || std::ranges::find(ways(), word, &Way::name) != ways().end();
}

/// Empty if the command line is wrong.
std::optional<Options> parse(std::span<char*> words) {
  Options options;
  if (words.empty()) return std::nullopt;
  const auto here = parse_memory(words.front());
  if (!here) return std::nullopt;
  options.here = options.there = *here;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (is_way(word)) {
      options.ways.push_back(word);
      continue;
    }
    if (++i == words.size()) return std::nullopt;
    const std::string_view value = words[i];
    std::uint64_t mib = 0;
    if (word == "--peer" && parse_memory(value)) {
      options.there = *parse_memory(value);
    } else if (word == "--nic") {
      options.nic = value;
    } else if (word == "--mib" && parse_number(value, mib) && mib <= 4096) {
      options.bytes = mib << 20U;
    } else if (word != "--seconds" || !parse_number(value, options.seconds)) {
      return std::nullopt;
    }
  }
  return options.ways.empty() ? std::nullopt : std::optional(options);
}

int run(const Options& options) {
  // Starts all of them before the first path uses a vendor's library.
  std::vector<std::pair<const Way*, std::unique_ptr<ForkedPeer>>> peers;
  for (const Way& way : ways()) {
    if (std::ranges::find(options.ways, way.name) == options.ways.end()) continue;
    peers.emplace_back(
        &way, std::make_unique<ForkedPeer>([&](const Line& line) { serve(line, options, way); }));
  }
  int failed = 0;
  const auto attempt = [&](std::string_view name, const auto& measure) {
    try {
      measure();
    } catch (const std::exception& error) {
      fmt::print("{} failed: {}\n", name, error.what());
      ++failed;
    }
    std::fflush(stdout);
  };
  if (std::ranges::find(options.ways, "engine") != options.ways.end())
    attempt("engine", [&] { measure_engine(options); });
  for (const auto& [way, peer] : peers)
    attempt(way->name, [&, &way = way, &peer = peer] { measure_way(options, *way, peer->line()); });
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hbmwire::test

int main(int argc, char** argv) {
  using namespace hbmwire::test;
  try {
    const auto options = parse(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    if (options) return run(*options);
    std::fputs(kUsage, stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_speed: %s\n", error.what());
    return 1;
  }
}
