// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

#include "bench/common/timing.hpp"
#include "bench/endpoint/our_end.hpp"

namespace hbmwire::bench {

/// As `scripts/bench movers` sets the node up: emu1 imports no dma-bufs.
inline constexpr const char* kNic = "emu0";
inline constexpr const char* kPlainNic = "emu1";

/// What the rows move: far more than the caches next to a CPU hold.
inline constexpr std::size_t kLarge = 16 << 20;

/// Memory, and the NICs that register it.
struct Holding {
  const char* nic;
  MemoryType type;
  const char* second_nic = nullptr;
  bool serves = false;  // its process makes progress all the time
  bool stages = true;   // its policy admits that
  bool shared = false;  // of host memory: other processes map it

  [[nodiscard]] std::vector<std::string> nics() const {
    std::vector<std::string> names{nic};
    if (second_nic != nullptr) names.emplace_back(second_nic);
    return names;
  }

  [[nodiscard]] ContextOptions options() const {
    ContextOptions options{.memory = {}, .nics = nics()};
    // Host memory goes by shared memory in its own row alone; IPC is named for GPUs.
    options.paths.allow = {Path::host, Path::zero_copy, Path::staged,
                           Path::copy, Path::tcp,       Path::ipc};
    if (!stages) options.paths.allow = {Path::host, Path::tcp};
    if (shared) options.paths.allow = {Path::shared_memory, Path::host, Path::tcp};
    return options;
  }
};

/// An endpoint whose memory is not the Bytes of its row, but allocated by the library.
class MemoryEnd {
 public:
  MemoryEnd(const Place& place, const Holding& holding)
      : context_(need(Context::create(holding.options()))),
        worker_(need(Worker::create(context_, {.progress_thread = holding.serves}))),
        memory_(allocate(holding.type, holding.shared)),
        region_(register_all(memory_)),
        key_(need(MemoryKey::pack(region_))),
        endpoint_(connect(worker_, place, keyed_options())),
        remote_(exchange(endpoint_, key_, place.line)) {}

  /// Threads stay where they begin, and an engine's begin with its first copies.
  void begin_engine(Path path) {
    const OnSecondCpu engine;
    put_ns(path);
  }

  /// One put of all of it until it is over, by `path`.
  double put_ns(Path path) { return put_ns(region_, path); }

  /// The same of as much host memory, by the same NIC.
  double host_put_ns() {
    if (!host_) host_ = register_all(allocate(MemoryType::host));
    return put_ns(*host_, Path::host);
  }

  [[nodiscard]] const Allocation& memory() const { return memory_; }

 private:
  [[nodiscard]] Allocation allocate(MemoryType type, bool shared = false) const {
    const OnSecondCpu engine;
    return need(context_.allocate(type, kLarge, {.device = {}, .host = {.shared = shared}}));
  }

  [[nodiscard]] Region register_all(const Allocation& memory) const {
    return need(context_.register_memory(
        memory, Access::local_write | Access::remote_write | Access::remote_read));
  }

  double put_ns(const Region& region, Path path) {
    const double before = now_ns();
    Transfer put = need(endpoint_.put(region.slice(0, kLarge), remote_.slice(0, kLarge)));
    // Who waits for a peer's engine leaves the CPU to that, where the engine is none.
    if (path == Path::ipc || path == Path::tcp)
      need(put.wait({Deadline::after(std::chrono::seconds(20)), -1}));
    while (!need(put.poll())) continue;
    const double took = now_ns() - before;
    if (put.path() != path)
      throw std::runtime_error("it went another way: " + describe(put.explain()));
    return took;
  }

  Context context_;
  Worker worker_;
  Allocation memory_;
  Region region_;
  std::optional<Region> host_;
  MemoryKey key_;
  Endpoint endpoint_;
  RemoteRegion remote_;
};

}  // namespace hbmwire::bench
