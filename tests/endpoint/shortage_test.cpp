// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "emulation/tests/nic/under_plan.hpp"
#include "ends.hpp"
#include "heard.hpp"
#include "tests/support/few_descriptors.hpp"

// A temporary shortage is an error with its name, and no reason for a slower path. Each case runs
// in a process of its own, because libibverbs and the vendors' libraries look for devices only
// once.
namespace hbmwire::test {
namespace {

/// Runs `make` with room for 0, 1, ... more descriptors until it succeeds. Every failure must name
/// the limit.
template <class Make>
auto with_ever_more_descriptors(const Make& make) {
  constexpr int kEnough = 100;
  for (int room = 0;; ++room) {
    auto made = [&] {
      const FewDescriptors few(room);
      return make();
    }();
    if (made || room == kEnough) return value(std::move(made));
    EXPECT_EQ(made.error().code, Errc::exhausted) << room << ": " << describe(made.error());
    EXPECT_EQ(made.error().hint, Hint::descriptor_limit) << room << ": " << describe(made.error());
  }
}

TEST(Shortage, AContextFindsAllDevicesOrNamesTheLimit) {
  const Context context = with_ever_more_descriptors([] { return Context::create(); });
  for (const MemoryProbe& probe : context.memory())
    EXPECT_FALSE(probe.missing) << describe(*probe.missing);
}

TEST(Shortage, AWorkerHasItsNicOrNamesTheLimit) {
  Heard heard;
  const Context context = value(Context::create());
  const Worker worker = with_ever_more_descriptors([&] { return Worker::create(context); });
  EXPECT_EQ(heard.count("endpoints go by TCP"), 0U);
  Memory memory(context, MemoryType::gaudi, 4096);
  EXPECT_EQ(memory.region().path(), Path::zero_copy);
}

TEST(Shortage, ARegionIsRegisteredByItsBestPathOrNamesTheLimit) {
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    SCOPED_TRACE(to_string(type));
    const Context context = value(Context::create());
    const Allocation memory = value(context.allocate(type, 4096));
    static_cast<void>(value(context.open_nics()));
    const Region region =
        with_ever_more_descriptors([&] { return context.register_memory(memory, kAll); });
    EXPECT_EQ(region.path(), Path::zero_copy);
  }
}

/// Another path may replace the dma-buf only for a reason that is permanent.
TEST(Shortage, NoOtherPathReplacesTheBestOneBecauseOfIt) {
  for (const int number : {EMFILE, ENFILE, ENOMEM, EAGAIN}) {
    const std::string plan = "fail,call=ibv_reg_dmabuf_mr,count=1,errno=" + std::to_string(number);
    if (is_under_plan(plan)) {
      // The case in which nvidia_peermem would take over.
      std::filesystem::create_directories(std::filesystem::path(std::getenv("SYSFS_PATH")) /
                                          "module/nvidia_peermem");
      ::setenv("HBMWIRE_CUDA_DMABUF", "try", 1);
      const Context context = value(Context::create());
      const Allocation memory = value(context.allocate(MemoryType::cuda, 4096));
      const auto region = context.register_memory(memory, kAll);
      ASSERT_FALSE(region) << "it went by " << to_string(region->path());
      EXPECT_EQ(region.error().number, number) << describe(region.error());
      EXPECT_NE(region.error().hint, Hint::dmabuf_rejected) << describe(region.error());
      EXPECT_TRUE(context.register_memory(memory, kAll)) << "it has passed";
      return;
    }
    if (std::getenv(kPlanVariable) != nullptr) continue;  // already under one of the other plans
    EXPECT_EQ(status_of(start_under(plan)), 0) << number;
  }
}

TEST(Shortage, AListenerThatIsOutOfDescriptorsTellsBothSidesAndGoesOn) {
  Heard heard;
  const Context context = value(Context::create());
  Worker worker = value(Worker::create(context));
  const Worker client = value(Worker::create(context));
  Listener listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
  const std::string address = "127.0.0.1:" + std::to_string(listener.port());
  const auto connect = [&] {
    Result<Endpoint> endpoint = tl::make_unexpected(Error{});
    beside(worker, [&] { endpoint = Endpoint::connect(client, address, within(10s)); });
    return endpoint;
  };
  const Endpoint first = value(connect());
  {
    const FewDescriptors few(1);  // for the socket of the connecting end
    const auto refused = connect();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::exhausted) << describe(refused.error());
    EXPECT_EQ(refused.error().hint, Hint::peer_full) << describe(refused.error());
    EXPECT_NE(describe(refused.error()).find("descriptors"), std::string::npos);
  }
  EXPECT_GE(heard.count("Too many open files"), 1U);
  EXPECT_GE(heard.count("ulimit -n"), 1U);
  static_cast<void>(value(connect()));
}

/// A thread that cannot sleep cannot wait for the end of transfers in flight either.
TEST(Shortage, AShortageOfDescriptorsKeepsNoThreadFromClosing) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  // Without a thread of the library: a test could borrow the descriptor that such a thread sleeps
  // on.
  Worker worker = value(Worker::create(context, WorkerOptions{}, WorkerThreads::any));
  Worker other = value(Worker::create(context));
  Listener listener = value(Listener::create(other, {.address = "127.0.0.1"}));
  const std::string where = "127.0.0.1:" + std::to_string(listener.port());
  PendingEndpoint pending = value(Endpoint::start_connect(worker, where, Deadline::after(10s)));
  std::optional<Endpoint> theirs;
  while (!pending.transfer().done() || !theirs) {
    worker.progress();
    other.progress();
    if (auto accepted = listener.try_accept()) theirs = std::move(*accepted);
  }
  Endpoint endpoint = value(pending.take());
  Memory large(context, MemoryType::host, 1 << 20);
  const Transfer send = value(endpoint.send(large.all()));
  {
    const FewDescriptors none(0);
    const auto closed = endpoint.close(within(10s));
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().number, EMFILE) << describe(closed.error());
  }
  EXPECT_EQ(endpoint.phase(), EndpointPhase::closed);
}

}  // namespace
}  // namespace hbmwire::test
