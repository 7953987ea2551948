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

/// The NICs that `scripts/bench movers` sets up; emu1 imports no dma-bufs.
inline constexpr const char* kNic = "emu0";
inline constexpr const char* kPlainNic = "emu1";

/// Length of the rows' puts: far more than the caches near a CPU hold.
inline constexpr std::size_t kLarge = 16 << 20;

/// Memory, and the NICs that register it.
struct Holding {
  const char* nic;
  MemoryType type;
  const char* second_nic = nullptr;
  bool serves = false;  // a thread of the library makes progress all the time
  bool stages = true;   // the context's policy admits staging
  bool shared = false;  // host memory that other processes can map

  [[nodiscard]] std::vector<std::string> nics() const {
    std::vector<std::string> names{nic};
    if (second_nic != nullptr) names.emplace_back(second_nic);
    return names;
  }

  [[nodiscard]] ContextOptions options() const {
    ContextOptions options{.memory = {}, .nics = nics()};
    // Without Path::shared_memory, by which host memory goes only if it is `shared`.
    options.paths.allow = {Path::host, Path::zero_copy, Path::staged,
                           Path::copy, Path::tcp,       Path::ipc};
    if (!stages) options.paths.allow = {Path::host, Path::tcp};
    if (shared) options.paths.allow = {Path::shared_memory, Path::host, Path::tcp};
    return options;
  }
};

/// An endpoint whose memory is allocated by the library, unlike the Bytes of other rows.
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

  /// Threads stay on the CPU where they begin, and an engine's threads begin with its first copies.
  void begin_engine(Path path) {
    const OnSecondCpu engine;
    put_ns(path);
  }

  /// Puts all of the memory by `path`. Returns the time until the put is over.
  double put_ns(Path path) { return put_ns(region_, path); }

  /// Puts host memory of the same length by the same NIC. Returns the time until the put is over.
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
    // A sleeping wait leaves the CPU to the peer, whose process copies if it has no real engine.
    if (path == Path::ipc || path == Path::tcp) need(put.wait(std::chrono::seconds(20)));
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
