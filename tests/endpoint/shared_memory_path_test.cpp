// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "heard.hpp"
#include "shared_memory_side.hpp"
#include "tests/support/less_rights.hpp"

/// The conditions for shared memory: policies, and restrictions of the kernel.
namespace hbmwire::test {
namespace {

/// Expects that puts, gets and a message take `path`.
void expect_path(const NodeOptions& here, const NodeOptions& there, Path path) {
  ServingProcess peer(there, [](Served& served, const Talk&) {
    Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
    served.finish(receive);
    served.serve();
  });
  Asking side(peer, here);
  for (const std::uint64_t length : {8U, 100'000U}) {
    Transfer put = value(side.put(0, length));
    side.finish(put);
    EXPECT_EQ(put.path(), path) << describe(put.explain());
    Transfer get = value(side.get(0, length));
    side.finish(get);
    EXPECT_EQ(get.path(), path);
  }
  Transfer send = value(side.endpoint.send(side.slice(0, 64)));
  side.finish(send);
  EXPECT_EQ(send.path(), path) << describe(send.explain());
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

class SharedMemoryPolicy : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }
};

/// Path::zero_copy is a NIC's path to device memory. A policy that requires it leaves host memory
/// to the NIC, too, whose path to host memory is Path::host.
TEST_F(SharedMemoryPolicy, APolicyThatRequiresZeroCopyExcludesSharedMemory) {
  expect_path({.paths = {.require = Path::zero_copy}}, {}, Path::host);
}

TEST_F(SharedMemoryPolicy, APolicyOfThePeerExcludesSharedMemory) {
  expect_path({}, {.paths = {.require = Path::zero_copy}}, Path::host);
}

TEST_F(SharedMemoryPolicy, AnAllowListWithoutSharedMemoryTakesTheNic) {
  expect_path({.paths = {.allow = {Path::host, Path::zero_copy, Path::staged}}}, {}, Path::host);
}

TEST_F(SharedMemoryPolicy, APolicyOfTheEndpointExcludesSharedMemory) {
  NodeOptions node;
  node.endpoint.paths.require = Path::zero_copy;
  expect_path(node, {}, Path::host);
}

TEST_F(SharedMemoryPolicy, RequiringSharedMemoryTakesIt) {
  expect_path({.paths = {.require = Path::shared_memory}}, {}, Path::shared_memory);
}

/// Expects the refusal by a path policy.
void expect_refused(const Error& why) {
  EXPECT_EQ(why.code, Errc::permission_denied) << describe(why);
  EXPECT_EQ(why.hint, Hint::path_policy) << describe(why);
}

TEST_F(SharedMemoryPolicy, RequiringSharedMemoryRefusesMemoryOfDevices) {
  ServingProcess peer;
  NodeOptions node;
  node.paths.require = Path::shared_memory;
  Asking side(peer, node);
  const Allocation device = value(side.context.allocate(MemoryType::gaudi, 65536));
  const auto region = side.context.register_memory(device, kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, Errc::permission_denied) << describe(region.error());
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

TEST_F(SharedMemoryPolicy, RequiringSharedMemoryRefusesDevicesOfThePeer) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    Memory device(served.context, MemoryType::gaudi, 65536);
    good(served.listener.advertise("device", device.region()));
    talk.tell(1);
    served.serve();
  });
  NodeOptions node;
  node.paths.require = Path::shared_memory;
  Asking side(peer, node);
  EXPECT_EQ(peer.talk().hear(), 1U);
  const auto device = side.endpoint.remote("device", within(10s));
  ASSERT_FALSE(device);
  expect_refused(device.error());
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// Within one process, shared memory is not used.
TEST_F(SharedMemoryPolicy, RequiringSharedMemoryRefusesAnEndpointOfTheSameProcess) {
  const Context context = value(Context::create({.memory = {}, .nics = {"emu0"}}));
  Worker worker = value(Worker::create(context));
  Worker other = value(Worker::create(context));
  Listener listener = value(Listener::create(other, {.address = "127.0.0.1"}));
  Memory memory(context, MemoryType::host, 4096);
  good(listener.advertise("target", memory.region()));
  std::optional<Endpoint> accepted;
  std::thread accepting([&] {
    if (auto end = listener.accept(within(3s))) accepted = std::move(*end);
    const Deadline answering = Deadline::after(2s);
    while (!answering.passed()) other.progress();
  });
  EndpointOptions requires_it;
  requires_it.paths.require = Path::shared_memory;
  auto connected = Endpoint::connect(worker, "127.0.0.1:" + std::to_string(listener.port()),
                                     within(5s), requires_it);
  std::optional<Error> why;
  if (!connected) {
    why = connected.error();
  } else if (const auto target = connected->remote("target", within(5s)); !target) {
    why = target.error();
  } else if (const auto put = connected->put(memory.slice(0, 8), target->slice(0, 8)); !put) {
    why = put.error();
  }
  accepting.join();
  ASSERT_TRUE(why) << "the put went by another path";
  expect_refused(*why);
}

class SharedMemoryKernel : public ::testing::Test {
 protected:
  SharedMemoryKernel() { ::setenv("HBMWIRE_LOG_LEVEL", "info", 1); }
};

/// Without the right to inspect all processes, this process can map and copy no memory of a process
/// that hides itself (PR_SET_DUMPABLE). The alternative is TCP, because the emulated NIC needs that
/// right itself.
TEST_F(SharedMemoryKernel, APeerWhoseProcessIsHiddenIsReachedByTcp) {
  drop_right_to_trace();
  NodeOptions node;
  node.nics = {"none"};
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    served.await(talk, 1);
    ::prctl(PR_SET_DUMPABLE, 0);
    // The second connection; the first one was made while the process could be inspected.
    served.accept();
    Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
    served.finish(receive);
    EXPECT_EQ(receive.path(), Path::tcp);
    Transfer send = value(served.endpoint->send(served.slice(0, 64)));
    served.finish(send);
    served.serve();
  });
  Heard heard;
  Asking first(peer, node);
  EXPECT_EQ(heard.count("not reached by shared memory"), 0U);
  Transfer put = value(first.put(0, 64));
  first.finish(put);
  EXPECT_EQ(put.path(), Path::shared_memory);
  peer.talk().tell(1);
  Asking side(peer, node);
  EXPECT_EQ(heard.count("not reached by shared memory"), 1U);
  put = value(side.put(0, 100'000));
  side.finish(put);
  EXPECT_EQ(put.path(), Path::tcp) << describe(put.explain());
  EXPECT_TRUE(put.explain().ipc.refusal) << "it says why";
  Transfer receive = value(side.endpoint.receive(side.slice(0, 64)));
  Transfer send = value(side.endpoint.send(side.slice(0, 64)));
  side.finish(send);
  side.finish(receive);
  EXPECT_EQ(send.path(), Path::tcp);
  EXPECT_EQ(receive.path(), Path::tcp);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// Tests two ends, of which this one may not call process_vm_readv(2) and process_vm_writev(2).
/// `shared`: the memory of both is in files that the other one can map. The alternative is TCP,
/// because the emulated NIC needs these calls itself.
void expect_without_copies(bool shared) {
  NodeOptions node;
  node.shared = shared;
  node.nics = {"none"};
  ServingProcess peer(node, [&](Served& served, const Talk&) {
    Transfer receive = value(served.endpoint->receive(served.slice(0, 200'000)));
    served.finish(receive);
    EXPECT_TRUE(same_bytes(served.bytes().first(200'000), pattern(200'000, 5)));
    served.fill(6);
    Transfer send = value(served.endpoint->send(served.slice(0, 200'000)));
    served.finish(send);
    served.serve();
  });
  forbid_copies();
  Heard heard;
  Asking side(peer, node);
  EXPECT_EQ(heard.count("not reached by shared memory"), shared ? 0U : 1U);
  for (const std::uint64_t length : {8U, 100'000U}) {
    Transfer put = value(side.put(0, length));
    side.finish(put);
    EXPECT_EQ(put.path(), shared ? Path::shared_memory : Path::tcp) << describe(put.explain());
  }
  // The whole message has the bytes of pattern 5, with which the peer compares it.
  overlay(side.bytes(), 0, 0, 5, 200'000);
  Transfer send = value(side.endpoint.send(side.slice(0, 200'000)));
  side.finish(send);
  Transfer receive = value(side.endpoint.receive(side.slice(0, 200'000)));
  side.finish(receive);
  EXPECT_EQ(receive.path(), shared ? Path::shared_memory : Path::tcp);
  EXPECT_TRUE(same_bytes(side.bytes().first(200'000),
                         std::span<const std::byte>(pattern(node.bytes, 6)).first(200'000)));
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

TEST_F(SharedMemoryKernel, ForbiddenCopiesStillAllowSharedMappings) { expect_without_copies(true); }

TEST_F(SharedMemoryKernel, ForbiddenCopiesMakePrivateMemoryGoByTcp) {
  expect_without_copies(false);
}

}  // namespace
}  // namespace hbmwire::test
