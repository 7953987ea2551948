// SPDX-License-Identifier: MIT
#include <cerrno>
#include <string>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// emu1 has neither dma-buf import nor atomics (`--without`); emu0 has both.
namespace hbmwire::test {
namespace {

constexpr Access kAtomics = Access::local_write | Access::remote_atomic;

Context context_of(const char* nic) {
  return value(Context::create({.memory = {MemoryType::host, MemoryType::gaudi}, .nics = {nic}}));
}

void expect_no_atomics(const Error& error) {
  EXPECT_EQ(error.code, Errc::not_supported);
  EXPECT_EQ(error.hint, Hint::no_atomics);
  EXPECT_NE(describe(error).find("emu1"), std::string::npos) << describe(error);
}

TEST(LackingNic, DeviceMemoryIsRefusedAndTheReasonNamed) {
  const Context context = value(Context::create({.memory = {MemoryType::host, MemoryType::gaudi},
                                                 .nics = {"emu1"},
                                                 .paths = {.require = Path::zero_copy}}));
  const Allocation memory = value(context.allocate(MemoryType::gaudi, 4096));
  const auto region = context.register_memory(memory, Access::local_write | Access::remote_write);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, Errc::permission_denied) << "the policy excludes staging";
  EXPECT_EQ(region.error().hint, Hint::dmabuf_not_supported) << describe(region.error());
  EXPECT_EQ(region.error().number, EOPNOTSUPP) << describe(region.error());
  EXPECT_NE(describe(region.error()).find("emu1"), std::string::npos) << describe(region.error());
}

TEST(LackingNic, MemoryIsNotOpenedToAtomicsThatCantCome) {
  const Context context = context_of("emu1");
  const Allocation memory = value(context.allocate(MemoryType::host, 4096));
  const auto region = context.register_memory(memory, kAtomics);
  ASSERT_FALSE(region);
  expect_no_atomics(region.error());
  EXPECT_TRUE(context.register_memory(memory, Access::local_write | Access::remote_write));
}

TEST(LackingNic, AtomicsAreRefusedBeforeTheyArePosted) {
  const Context here = context_of("emu1");
  const Context there = context_of("emu0");
  const Worker worker = value(Worker::create(here));
  const Worker serving = value(Worker::create(there));
  Listener listener = value(Listener::create(serving, {.address = "127.0.0.1"}));
  std::optional<Endpoint> accepted;
  std::thread accepting([&] { accepted.emplace(value(listener.accept(within(10s)))); });
  Endpoint endpoint =
      value(Endpoint::connect(worker, "127.0.0.1:" + std::to_string(listener.port()), within(10s)));
  accepting.join();

  const Memory word(there, MemoryType::host, 4096, kAtomics);
  const MemoryKey key = value(MemoryKey::pack(word.region()));
  const RemoteRegion remote = value(endpoint.remote(value(RemoteKey::unpack(key.bytes()))));
  const auto added = endpoint.fetch_add(remote.slice(0, 8), 1);
  ASSERT_FALSE(added);
  expect_no_atomics(added.error());
  const auto swapped = endpoint.compare_swap(remote.slice(0, 8), 1, 2);
  ASSERT_FALSE(swapped);
  expect_no_atomics(swapped.error());
  EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
}

}  // namespace
}  // namespace hbmwire::test
