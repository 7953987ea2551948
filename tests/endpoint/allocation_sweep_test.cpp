// SPDX-License-Identifier: MIT
#include "allocation_sweep.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/attach.hpp"
#include "hbmwire/buffer.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "peer_process.hpp"

// No exception may leave the API. Whichever allocation fails during a whole life of the library's
// objects, each call returns an error or succeeds, works when it is called again, and leaves
// nothing behind.
namespace hbmwire::test {
namespace {

// The stride of the fast suite.
constexpr long kFast = 61;

constexpr std::uint64_t kMemory = 256 << 10;

constexpr auto kLong = 10s;
// The time limit for a question that a peer without memory cannot answer.
constexpr auto kAnswer = 2s;
const EndpointOptions kEndpoint{.send_depth = 16,
                                .receive_depth = 8,
                                .unexpected_bytes = 4096,
                                .peer_timeout = 30ms,
                                .hello = std::vector<std::byte>(1000, std::byte{7})};

/// Registers memory of `type`.
std::optional<Region> memory_of(FailingLife& life, const Context& context, MemoryType type,
                                std::uint64_t bytes) {
  const auto memory = life.make("allocate", [&] { return context.allocate(type, bytes); });
  if (!memory) return std::nullopt;
  return life.make("register_memory", [&] { return context.register_memory(*memory, kAll); });
}

/// Two ends of one worker.
struct TwoEnds {
  std::optional<Worker> worker;
  std::optional<Listener> listener;
  std::optional<Endpoint> a;
  std::optional<Endpoint> b;

  bool make(FailingLife& life, const Context& context, bool thread = false) {
    const WorkerOptions options{.max_transfers = 32, .progress_thread = thread};
    worker = life.make("Worker::create", [&] { return Worker::create(context, options); });
    if (!worker) return false;
    const ListenerOptions listening{.address = "127.0.0.1", .endpoint = kEndpoint};
    listener = life.make("Listener::create", [&] { return Listener::create(*worker, listening); });
    if (!listener) return false;
    return life.make("addresses", [&] { return listener->addresses(); }).has_value();
  }

  /// Each end learns of a failure of the other, so make() connects both again.
  bool connect(FailingLife& life) {
    const std::string where = "localhost:" + std::to_string(listener->port());
    a = life.make("connect",
                  [&] { return Endpoint::connect(*worker, where, within(kLong), kEndpoint); });
    if (!a) return false;
    b = life.use("accept", [&] { return listener->accept(within(200ms)); });
    // A connection that the other end gave up may still have been accepted here.
    for (auto later = listener->try_accept(); later; later = listener->try_accept())
      b = std::move(later);
    if (!b) return false;
    for (const Endpoint* const end : {&*a, &*b})
      EXPECT_TRUE(std::ranges::equal(end->peer_hello(), kEndpoint.hello));
    return true;
  }
};

bool wait(FailingLife& life, const char* what, std::optional<Transfer>& transfer) {
  return transfer && life.done(what, [&] { return transfer->wait(kLong); });
}

/// Runs each operation once. Returns early when the connection breaks.
void work(FailingLife& life, TwoEnds& ends, const Region& source, const Region& target) {
  const auto remote = life.use("remote", [&] { return ends.a->remote("target", within(kAnswer)); });
  const auto key = life.make("MemoryKey::pack", [&] { return MemoryKey::pack(target); });
  if (!key) return;
  const auto theirs =
      life.make("RemoteKey::unpack", [&] { return RemoteKey::unpack(key->bytes()); });
  if (!theirs || !remote) return;
  if (!life.use("remote(key)", [&] { return ends.a->remote(*theirs); })) return;
  const auto slice = [&](std::uint64_t bytes) { return source.slice(0, bytes); };
  const auto put = [&](std::uint64_t bytes) {
    auto one = life.use("put", [&] { return ends.a->put(slice(bytes), remote->slice(0, bytes)); });
    return wait(life, "put's wait", one);
  };
  const auto get = [&](std::uint64_t bytes) {
    auto one = life.use("get", [&] { return ends.a->get(slice(bytes), remote->slice(0, bytes)); });
    return wait(life, "get's wait", one);
  };
  if (!put(8) || !get(8) || !put(source.size_bytes()) || !get(source.size_bytes())) return;
  const auto message = [&](std::uint64_t bytes, std::uint64_t tag) {
    auto come =
        life.use("receive", [&] { return ends.b->receive(target.slice(0, bytes), TagMatch{tag}); });
    auto gone = life.use("send", [&] { return ends.a->send(slice(bytes), tag); });
    return wait(life, "receive's wait", come) && wait(life, "send's wait", gone);
  };
  // Device memory cannot move if neither NIC reaches the memory of its end.
  const bool goes = source.path() != Path::staged;
  if (goes && (!message(8, 1) || !message(source.size_bytes(), 2))) return;
  auto told = life.use("receive_immediate", [&] { return ends.b->receive_immediate(); });
  auto tells = life.use("put with immediate", [&] {
    return ends.a->put(slice(64), remote->slice(0, 64),
                       {.level = CompletionLevel::visible, .immediate = 7});
  });
  if (!wait(life, "put's wait", tells) || !wait(life, "immediate's wait", told)) return;
  const std::array parts{TransferPart{slice(64), remote->slice(64, 64)}};
  // Only the NIC carries lists; its paths come before `staged`.
  if (source.path() < Path::staged && remote->path() < Path::staged) {
    auto list = life.use("prepare_put", [&] { return ends.a->prepare_put(parts); });
    if (!list) return;
    auto listed = life.use("post", [&] { return list->post(); });
    if (!wait(life, "list's wait", listed)) return;
  }
  const auto here = life.make("blocks", [&] { return source.blocks(64); });
  const auto there = life.make("remote blocks", [&] { return remote->blocks(64); });
  if (!here || !there) return;
  constexpr std::array<std::uint32_t, 3> kFrom{0, 7, 8};
  constexpr std::array<std::uint32_t, 3> kTo{9, 1, 2};
  auto blocks =
      life.use("put_blocks", [&] { return ends.a->put_blocks(*here, kFrom, *there, kTo); });
  if (!wait(life, "blocks' wait", blocks)) return;
  auto back = life.use("get_blocks", [&] { return ends.a->get_blocks(*here, kTo, *there, kFrom); });
  if (!wait(life, "got blocks' wait", back)) return;
  auto flushed = life.use("flush", [&] { return ends.a->flush(); });
  wait(life, "flush's wait", flushed);
}

/// Closes both ends in turn, because no other thread drives the first.
void close(FailingLife& life, TwoEnds& ends) {
  life.done("close", [&]() -> Result<void> {
    ends.b.reset();
    return ends.a->close(within(kLong));
  });
  life.end(ends.a);
  life.end(ends.b);
  life.end(ends.listener);
  life.end(ends.worker);
}

void life_of_endpoints(FailingLife& life, MemoryType type, bool thread) {
  const auto context = life.make("Context::create", [] { return Context::create(); });
  if (!context) return;
  const auto source = memory_of(life, *context, type, kMemory);
  const auto target = memory_of(life, *context, type, kMemory);
  TwoEnds ends;
  if (!source || !target || !ends.make(life, *context, thread)) return;
  const auto advertised = life.make("advertise", [&]() -> Result<bool> {
    HBMWIRE_TRY(ends.listener->advertise("target", *target));
    return true;
  });
  if (!advertised || !ends.connect(life)) return;
  work(life, ends, *source, *target);
  close(life, ends);
}

class AllocationSweep : public ::testing::TestWithParam<MemoryType> {};

TEST_P(AllocationSweep, Endpoints) {
  sweep_allocations([](FailingLife& life) { life_of_endpoints(life, GetParam(), false); }, kFast);
}

TEST_P(AllocationSweep, Memory) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const auto domain = life.make("open", [&] { return context->open(GetParam()); });
        if (!domain) return;
        const auto memory = life.make("allocate", [&] { return (*domain)->allocate(kMemory); });
        if (!memory) return;
        life.make("find", [&] { return context->find(memory->address()); });
        const auto region =
            life.make("register_memory", [&] { return context->register_memory(*memory, kAll); });
        if (!region) return;
        auto buffer = life.make("Buffer::create", [&] { return Buffer::create(*region); });
        if (!buffer) return;
        std::vector<std::byte> some(kMemory);
        const auto copied = [&](const auto& copy) {
          return [&]() -> Result<bool> {
            HBMWIRE_TRY(copy());
            return true;
          };
        };
        life.make("write", copied([&] { return buffer->write(0, some, within(kLong)); }));
        life.make("read", copied([&] { return buffer->read(0, some, within(kLong)); }));
        if ((*domain)->copies_from(**domain)) {
          life.make("start_copy_from", copied([&]() -> Result<void> {
                      HBMWIRE_TRY_ASSIGN(auto copy, (*domain)->start_copy_from(
                                                        **domain, memory->address(),
                                                        memory->address() + kMemory / 2, 4096));
                      return copy.wait(within(kLong));
                    }));
        }
        life.end(buffer);
      },
      kFast);
}

std::optional<RegistrationCache> cache_of(FailingLife& life, const Context& context) {
  const auto nics = life.make("open_nics", [&] { return context.open_nics(); });
  if (!nics) return std::nullopt;
  return life.make("RegistrationCache::create",
                   [&] { return RegistrationCache::create(context, *nics); });
}

TEST_P(AllocationSweep, RegistrationCaches) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        auto cache = cache_of(life, *context);
        auto memory = life.make("allocate", [&] { return context->allocate(GetParam(), kMemory); });
        if (!cache || !memory) return;
        for (int i = 0; i < 3; ++i) {
          auto lease = life.make("get", [&] { return cache->get(memory->address(), 4096, kAll); });
          auto other =
              life.make("get", [&] { return cache->get(memory->address() + 8192, 4096, kAll); });
          life.end(lease);
          life.end(other);
          life.make("drop_unused", [&]() -> Result<bool> {
            if (i == 1) cache->drop_unused();
            return cache->statistics().in_use == 0;
          });
        }
        life.end(memory);
        life.end(cache);
      },
      kFast);
}

INSTANTIATE_TEST_SUITE_P(Memories, AllocationSweep,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                           MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(AllocationSweepOf, EndpointsWithAThread) {
  sweep_allocations([](FailingLife& life) { life_of_endpoints(life, MemoryType::host, true); },
                    kFast);
}

/// Whichever allocation for the peer's question fails, both ends end at once and give the reason.
TEST(AllocationFailure, AFailureForAPeersQuestionEndsBothEnds) {
  long nth = 1;
  for (bool failed = true; failed; ++nth) {
    Ends ends({.peer_timeout = 20s});
    EXPECT_FALSE(ends.a->remote("a name that no short string has room for", within(1ms)));
    FailingAllocations::arm(nth, false);
    const Deadline deadline = Deadline::after(200ms);
    while (!FailingAllocations::failed() && !deadline.passed()) ends.b_worker.progress();
    failed = FailingAllocations::failed();
    FailingAllocations::disarm();
    if (!failed) break;
    ASSERT_TRUE(ends.b->error()) << "of allocation " << nth;
    EXPECT_EQ(ends.b->error()->code, Errc::exhausted) << describe(*ends.b->error());
    EXPECT_EQ(ends.b->error()->hint, Hint::host_memory_exhausted);
    ends.drive([&] { return ends.a->phase() == EndpointPhase::failed; });
    EXPECT_EQ(ends.a->error()->code, Errc::peer_failed) << describe(*ends.a->error());
  }
  EXPECT_GT(nth, 2) << "both taking the question in and answering it allocate";
}

TEST(AllocationSweepOf, Nics) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (context) life.make("nics", [&] { return context->nics(); });
      },
      kFast);
}

// The library watches for the end of this memory.
TEST(AllocationSweepOf, RegistrationsOfAnApplicationsMemory) {
  constexpr std::size_t kBytes = 64 << 10;
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        auto cache = cache_of(life, *context);
        if (!cache) return;
        for (int i = 0; i < 2; ++i) {
          void* const memory =
              ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          ASSERT_NE(memory, MAP_FAILED);
          const auto address = reinterpret_cast<std::uintptr_t>(memory);
          auto lease = life.make("get", [&] { return cache->get(address, kBytes, kAll); });
          life.end(lease);
          ::munmap(memory, kBytes);
          life.make("statistics",
                    [&]() -> Result<bool> { return cache->statistics().in_use == 0; });
        }
        life.end(cache);
      },
      kFast);
}

TEST(AllocationSweepOf, ExpiringKeys) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const auto region = memory_of(life, *context, MemoryType::host, 4096);
        if (!region) return;
        const MemoryKeyOptions options{.length_bytes = 64, .expires_after = 1h};
        auto key = life.make("MemoryKey::pack", [&] { return MemoryKey::pack(*region, options); });
        if (!key) return;
        life.make("revoke", [&]() -> Result<bool> {
          HBMWIRE_TRY(key->revoke());
          return true;
        });
        life.end(key);
      },
      kFast);
}

TEST(AllocationSweepOf, Attachments) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const auto region = memory_of(life, *context, MemoryType::gaudi, kMemory);
        auto listener =
            life.make("AttachListener::create", [] { return AttachListener::create(); });
        if (!region || !listener) return;
        auto published = life.make("publish", [&] { return listener->publish(*region); });
        if (!published) return;
        // In another thread, since this call waits for the answer.
        std::atomic<bool> over{false};
        std::thread asking([&] {
          for (int i = 0; i < 50 && !over; ++i)
            over = attach(*context, published->address(), within(500ms)).has_value();
          over = true;
        });
        while (!over) {
          life.make("progress", [&]() -> Result<bool> {
            HBMWIRE_TRY(listener->progress());
            return true;
          });
        }
        asking.join();
        life.end(published);
        life.end(listener);
      },
      kFast);
}

// Without a NIC, the peer's memory moves by IPC, or by pieces that both have mapped.
TEST(AllocationSweepToAPeer, OneEnd) {
  const PeerProcess peer({.peer_timeout = 200ms, .type = MemoryType::cuda});
  sweep_allocations(
      [&](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const auto source = memory_of(life, *context, MemoryType::cuda, PeerProcess::kBytes);
        const WorkerOptions options{.max_transfers = 8};
        auto worker =
            life.make("Worker::create", [&] { return Worker::create(*context, options); });
        if (!source || !worker) return;
        auto end = life.make("connect", [&] {
          return Endpoint::connect(*worker, peer.address(), within(kLong), kEndpoint);
        });
        if (!end) return;
        const auto target =
            life.use("remote", [&] { return end->remote("target", within(kLong)); });
        if (!target) return;
        const auto all = source->slice(0, PeerProcess::kBytes);
        for (int i = 0; i < 2; ++i) {
          auto put =
              life.use("put", [&] { return end->put(all, target->slice(0, PeerProcess::kBytes)); });
          if (!wait(life, "put's wait", put)) return;
          auto get =
              life.use("get", [&] { return end->get(all, target->slice(0, PeerProcess::kBytes)); });
          if (!wait(life, "get's wait", get)) return;
        }
        life.done("close", [&] { return end->close(within(kLong)); });
        life.end(end);
        life.end(worker);
      },
      kFast);
}

/// An end has no memory to handle the peer's question. The peer learns that this end has closed.
TEST(NoMemory, ForAPeersQuestionEndsTheConnectionOfEndpointsByName) {
  set_log_sink([](LogLevel, std::string_view) {});
  {
    Ends ends({.peer_timeout = 300ms});
    Result<RemoteRegion> answer = tl::make_unexpected(Error{});
    std::atomic<bool> answered{false};
    std::thread asking([&] {
      answer = ends.a->remote("target", within(kLong));
      answered = true;
    });
    std::this_thread::sleep_for(100ms);  // the question has arrived, but `b` has not looked
    FailingAllocations::arm(1, true);
    const Deadline deadline = Deadline::after(kLong);
    while (!FailingAllocations::failed() && !deadline.passed()) ends.b_worker.progress();
    FailingAllocations::disarm();
    while (!answered) ends.b_worker.progress();
    asking.join();
    while (ends.b->phase() != EndpointPhase::failed && !deadline.passed()) ends.b_worker.progress();
    ASSERT_TRUE(ends.b->error());
    EXPECT_EQ(ends.b->error()->code, Errc::exhausted) << describe(*ends.b->error());
    EXPECT_EQ(ends.b->error()->hint, Hint::host_memory_exhausted) << describe(*ends.b->error());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::peer_failed) << describe(answer.error());
  }
  set_log_sink({});
}

/// Waits for a pending operation, and returns its result.
template <class Pending>
auto finish(Result<Pending> pending) -> decltype(pending->take()) {
  if (!pending) return tl::make_unexpected(pending.error());
  HBMWIRE_TRY(pending->transfer().wait(kLong));
  return pending->take();
}

TEST(AllocationSweepOf, StartedAndPolledOperations) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const auto memory = memory_of(life, *context, MemoryType::host, kMemory);
        TwoEnds ends;
        if (!memory || !ends.make(life, *context)) return;
        const auto advertised = life.make("advertise", [&]() -> Result<bool> {
          HBMWIRE_TRY(ends.listener->advertise("target", *memory));
          return true;
        });
        if (!advertised) return;
        const std::string where = "localhost:" + std::to_string(ends.listener->port());
        const auto until = [] { return Deadline::after(kLong); };
        const auto connects = [&] {
          return finish(Endpoint::start_connect(*ends.worker, where, until(), kEndpoint));
        };
        ends.a = life.make("start_connect", connects);
        if (!ends.a) return;
        life.use("start_remote", [&] { return finish(ends.a->start_remote("target", until())); });
        life.done("start_close", [&]() -> Result<void> {
          // The accepted end goes at once, so it closes, too.
          while (const auto accepted = ends.listener->try_accept()) continue;
          HBMWIRE_TRY_ASSIGN(Transfer closed, ends.a->start_close(until()));
          return closed.wait(kLong);
        });
        life.use("start_reconnect", [&] { return finish(ends.a->start_reconnect(until())); });
        life.end(ends.a);
        life.end(ends.listener);
        life.end(ends.worker);
      },
      kFast);
}

TEST(AllocationSweepOf, Invitations) {
  sweep_allocations(
      [](FailingLife& life) {
        const auto context = life.make("Context::create", [] { return Context::create(); });
        if (!context) return;
        const WorkerOptions options{.max_transfers = 8};
        auto worker =
            life.make("Worker::create", [&] { return Worker::create(*context, options); });
        if (!worker) return;
        const auto invite = [&] {
          return life.make("EndpointInvitation::create",
                           [&] { return EndpointInvitation::create(*worker, kEndpoint); });
        };
        auto a = invite();
        auto b = invite();
        if (!a || !b) return;
        life.done("start", [&] { return a->start(b->bytes()); });
        auto b_end = life.use("connect", [&] { return b->connect(a->bytes(), within(300ms)); });
        auto a_end = life.use("poll", [&] { return a->poll(); });
        if (b_end) {
          EXPECT_TRUE(std::ranges::equal(b_end->peer_hello(), kEndpoint.hello));
        }
        life.end(a_end);
        life.end(b_end);
        life.end(a);
        life.end(b);
        life.end(worker);
      },
      kFast);
}

}  // namespace
}  // namespace hbmwire::test
