// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"

#include "internals.hpp"
#include "peer_process.hpp"

/// Memory of two processes of a node. emu0 imports dma-bufs, emu1 does not; "none" is TCP.
namespace hbmwire::test {

/// The types of this end's and of the peer's memory, and the NIC for transfers that do not use IPC.
struct IpcPair {
  MemoryType type;
  MemoryType peers;
  const char* nic;
};

inline constexpr std::array kIpcPairs{IpcPair{MemoryType::cuda, MemoryType::cuda, "emu0"},
                                      IpcPair{MemoryType::cuda, MemoryType::cuda, "emu1"},
                                      IpcPair{MemoryType::cuda, MemoryType::cuda, "none"},
                                      IpcPair{MemoryType::rocm, MemoryType::rocm, "emu0"},
                                      IpcPair{MemoryType::rocm, MemoryType::rocm, "emu1"},
                                      IpcPair{MemoryType::rocm, MemoryType::rocm, "none"},
                                      IpcPair{MemoryType::host, MemoryType::gaudi, "none"},
                                      IpcPair{MemoryType::host, MemoryType::cuda, "none"},
                                      IpcPair{MemoryType::host, MemoryType::rocm, "emu1"},
                                      IpcPair{MemoryType::host, MemoryType::gaudi, "emu1"}};

inline std::string name_of(const ::testing::TestParamInfo<IpcPair>& pair) {
  const auto& [type, peers, nic] = pair.param;
  const std::string both = type == peers ? "" : "_" + std::string(to_string(peers));
  return std::string(to_string(type)) + both + "_" + nic;
}

inline PeerProcess::Options options_of(const IpcPair& pair) {
  return {.type = pair.peers, .nic = pair.nic};
}

/// Allocates memory that another process of the node can open.
inline Allocation allocate_shareable(const Context& context, MemoryType type, std::uint64_t bytes,
                                     const char* device = "") {
  return value(context.allocate(type, bytes,
                                {.device = device, .host = {.shared = type == MemoryType::host}}));
}

/// Allows all paths. Naming IPC puts it before the NIC.
inline const PathPolicy kAsksFirst{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::copy, Path::tcp,
              Path::ipc, Path::shared_memory}};

/// Host memory uses the NIC or TCP.
inline const PathPolicy kWithoutSharedMemory{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::copy, Path::tcp,
              Path::ipc}};

/// This process' end, with shareable memory. An empty `nic` means that of the environment.
struct IpcSide {
  explicit IpcSide(const PeerProcess& peer, MemoryType type, const char* nic = "emu0",
                   const PathPolicy& paths = kAsksFirst, const char* device = "")
      : context(value(Context::create({.memory = {}, .nics = named(nic), .paths = paths}))),
        worker(value(Worker::create(context))),
        memory(allocate_shareable(context, type, PeerProcess::kBytes, device)),
        region(value(context.register_memory(memory, kAll))),
        endpoint(
            value(Endpoint::connect(worker, peer.address(), within(20s), {.peer_timeout = 400ms}))),
        target(value(endpoint.remote("target", within(20s)))) {
    fill(1);
  }

  static std::vector<std::string> named(const std::string& nic) {
    return nic.empty() ? std::vector<std::string>{} : std::vector{nic};
  }

  void fill(unsigned seed) {
    good(
        memory.domain().copy_in(memory.address(), pattern(PeerProcess::kBytes, seed), within(20s)));
  }

  [[nodiscard]] std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(PeerProcess::kBytes);
    good(memory.domain().copy_out(memory.address(), bytes, within(20s)));
    return bytes;
  }

  [[nodiscard]] Transfer put(std::uint64_t offset = 0, std::uint64_t bytes = PeerProcess::kBytes) {
    return value(endpoint.put(region.slice(offset, bytes), target.slice(offset, bytes)));
  }

  [[nodiscard]] Transfer get(std::uint64_t offset = 0, std::uint64_t bytes = PeerProcess::kBytes) {
    return value(endpoint.get(region.slice(offset, bytes), target.slice(offset, bytes)));
  }

  /// Gets everything back, and compares it.
  void expect_there(const std::vector<std::byte>& bytes) {
    fill(77);
    good(get().wait(within(10s)));
    EXPECT_TRUE(same_bytes(contents(), bytes));
  }

  Context context;
  Worker worker;
  Allocation memory;
  Region region;
  Endpoint endpoint;
  RemoteRegion target;
};

}  // namespace hbmwire::test
