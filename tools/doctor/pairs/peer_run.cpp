// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/peer_run.hpp"

#include <memory>

#include "hbmwire/context.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/worker.hpp"

#include "tools/common/stopwatch.hpp"
#include "tools/doctor/pairs/contents.hpp"
#include "tools/doctor/pairs/engine_run.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr Access kPeerAccess = Access::local_write | Access::remote_write | Access::remote_read;
constexpr const char* kName = "doctor";

/// A memory with two windows, and the objects that an endpoint needs. Members are destroyed in
/// reverse order.
struct PeerMemory {
  Context context;
  std::shared_ptr<MemoryDomain> domain;
  Region region;
  Worker worker;
};

/// Host memory takes Path::shared_memory, because the CPUs of both processes reach it.
Path path_between(MemoryType type, Path path) noexcept {
  return path == Path::ipc && type == MemoryType::host ? Path::shared_memory : path;
}

Result<PeerMemory> open_peer_memory(const PlanMemory& memory, Path path) {
  // Without a NIC, an endpoint's own messages use TCP.
  const PathPolicy policy{.allow = path == Path::tcp
                                       ? std::vector{path}
                                       : std::vector{path_between(memory.type, path), Path::tcp}};
  ContextOptions options{.memory = {MemoryType::host}, .nics = {"none"}, .paths = policy};
  if (memory.type != MemoryType::host) options.memory.push_back(memory.type);
  MemoryOptions which{.device = memory.device};
  // The other process maps host memory through its descriptor.
  if (memory.type == MemoryType::host && path == Path::ipc) which.host.shared = true;
  HBMWIRE_TRY_ASSIGN(Context context, Context::create(options));
  HBMWIRE_TRY_ASSIGN(auto domain, context.open(memory.type, which));
  HBMWIRE_TRY_ASSIGN(const Allocation allocation, domain->allocate(2 * kWindowBytes));
  HBMWIRE_TRY_ASSIGN(Region region, context.register_memory(allocation, kPeerAccess));
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  return PeerMemory{std::move(context), std::move(domain), std::move(region), std::move(worker)};
}

void tell_error(Voice& voice, const Error& error) {
  voice.say({{"memory_error", to_json(std::optional(error_of(error)))}});
}

Result<void> serve(const PeerServer& server, Voice& voice, int cancel_fd) {
  const Wait wait(server.timing.step, cancel_fd);
  HBMWIRE_TRY_ASSIGN(const PeerMemory memory, open_peer_memory(server.memory, server.path));
  HBMWIRE_TRY_ASSIGN(Listener listener,
                     Listener::create(memory.worker, {.address = "127.0.0.1", .port = 0}));
  HBMWIRE_TRY(listener.advertise(kName, memory.region));
  voice.say({{"port", listener.port()}});
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(wait));
  return peer.wait_closed(wait);
}

Result<void> put_and_get(const PeerClient& client, const PeerMemory& memory, Endpoint& peer,
                         Voice& voice, int cancel_fd, Pair& pair) {
  const Wait wait(client.timing.step, cancel_fd);
  const Pattern pattern{.seed = 4, .tag = Tag::write};
  const std::uint64_t base = memory.region.address();
  Contents contents(
      [&](auto at, auto from) { return memory.domain->copy_in(base + at, from, wait); },
      [&](auto at, auto to) { return memory.domain->copy_out(base + at, to, wait); });
  HBMWIRE_TRY_ASSIGN(const RemoteRegion remote, peer.remote(kName, wait));
  HBMWIRE_TRY(contents.fill(0, pattern));
  HBMWIRE_TRY(contents.poison(kWindowBytes, pattern));
  voice.step(pair.by, "write");
  const Stopwatch writing;
  HBMWIRE_TRY_ASSIGN(Transfer put,
                     peer.put(memory.region.slice(0, kWindowBytes), remote.slice(0, kWindowBytes),
                              {.level = CompletionLevel::visible}));
  HBMWIRE_TRY(put.wait(wait));
  pair.write_bytes_per_second =
      static_cast<double>(kWindowBytes) * 1e9 / static_cast<double>(writing.nanoseconds());
  pair.path = to_string(put.path());
  if (put.path() != path_between(client.memory.type, client.path)) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                          "the bytes went another way", client.memory.name));
  }
  voice.step(pair.by, "read");
  const Stopwatch reading;
  HBMWIRE_TRY_ASSIGN(Transfer get, peer.get(memory.region.slice(kWindowBytes, kWindowBytes),
                                            remote.slice(0, kWindowBytes)));
  HBMWIRE_TRY(get.wait(wait));
  pair.read_bytes_per_second =
      static_cast<double>(kWindowBytes) * 1e9 / static_cast<double>(reading.nanoseconds());
  voice.step(pair.by, "verify");
  HBMWIRE_TRY_ASSIGN(const Comparison found, contents.compare_with(kWindowBytes, pattern));
  pair.verified_bytes = found.bytes;
  pair.wrong_bytes = found.wrong_bytes;
  if (found.wrong_bytes == 0) return {};
  return tl::make_unexpected(
      make_error(Errc::data_mismatch, Stage::verify, "wrong bytes came back", client.memory.name));
}

/// By IPC exchanges bytes with memory of the same device, whose engine reads and writes both
/// memories; by TCP with host memory.
Result<void> exchange_with(const PeerClient& client, Voice& voice, int cancel_fd, Pair& pair) {
  const Wait wait(client.timing.step, cancel_fd);
  const bool same = client.path == Path::ipc;
  HBMWIRE_TRY_ASSIGN(const PeerMemory memory,
                     open_peer_memory(same ? client.memory : PlanMemory{}, client.path));
  pair.copy_path = memory.domain->copy_engine();
  voice.step(pair.by, "connect");
  HBMWIRE_TRY_ASSIGN(
      Endpoint peer,
      Endpoint::connect(memory.worker, fmt::format("127.0.0.1:{}", client.port), wait));
  HBMWIRE_TRY(put_and_get(client, memory, peer, voice, cancel_fd, pair));
  return peer.close(wait);
}

}  // namespace

bool is_shared_by_ipc(MemoryType type) noexcept {
  return has_ipc(type) || type == MemoryType::host;
}

void PeerServer::operator()(Voice& voice, int cancel_fd) const {
  voice.step("", "open");
  if (const auto done = serve(*this, voice, cancel_fd); !done) tell_error(voice, done.error());
}

void PeerClient::operator()(Voice& voice, int cancel_fd) const {
  const bool ipc = path == Path::ipc;
  Pair pair = pair_of(memory, ipc ? "ipc" : "tcp");
  voice.step(pair.by, "open");
  if (const auto done = exchange_with(*this, voice, cancel_fd, pair); done) {
    pair.outcome = ipc ? PairOutcome::ipc : PairOutcome::tcp;
  } else {
    pair.error = error_of(done.error());
  }
  voice.say({{"pair", to_json(pair)}});
}

}  // namespace hbmwire::tools::doctor
