// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "tests/library/cuda_application.hpp"
#include "tests/library/emulated_hooks.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 65536;

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// GPUs whose memory a kernel module translates, with HBMWIRE_CUDA_DMABUF=HBMWIRE_ROCM_DMABUF=
/// `setting`. The emulated NIC reaches only an integrated GPU's memory in this way.
class PeerMemoryMachine {
 public:
  explicit PeerMemoryMachine(const char* setting)
      : cuda_("HBMWIRE_CUDA_DMABUF", setting), rocm_("HBMWIRE_ROCM_DMABUF", setting) {
    std::filesystem::create_directories(module_);
    std::filesystem::create_directories(client_);
    std::ofstream(client_ / "version") << "1.0\n";
  }

  PeerMemoryMachine(const PeerMemoryMachine&) = delete;
  PeerMemoryMachine& operator=(const PeerMemoryMachine&) = delete;

  ~PeerMemoryMachine() {
    std::filesystem::remove_all(module_);
    std::filesystem::remove_all(client_);
  }

 private:
  const std::filesystem::path sysfs_{std::getenv("SYSFS_PATH")};
  const std::filesystem::path module_ = sysfs_ / "module/nvidia_peermem";
  const std::filesystem::path client_ = sysfs_ / "kernel/mm/memory_peers/amdkfd";
  CudaTrait integrated_{"integrated"};
  Variable cuda_;
  Variable rocm_;
};

RemoteRegion open_to(const Endpoint& endpoint, const Region& region) {
  // The key ends with this function. Its rkey is the region's, by which the NIC still reaches the
  // memory.
  const MemoryKey key = value(MemoryKey::pack(region));
  return value(endpoint.remote(value(RemoteKey::unpack(key.bytes()))));
}

void expect_words(const Error& error, std::initializer_list<const char*> words) {
  for (const char* const word : words)
    EXPECT_NE(describe(error).find(word), std::string::npos)
        << describe(error) << "\nlacks " << word;
}

TEST(Policy, AdmitsThePathsThatItNames) {
  const PathPolicy none;
  const PathPolicy zero_copy{.require = Path::zero_copy};
  const PathPolicy listed{.require = {}, .allow = {Path::zero_copy}};
  for (const Path path : {Path::host, Path::zero_copy, Path::peer_memory})
    EXPECT_TRUE(none.admits(MemoryType::gaudi, path));
  EXPECT_TRUE(zero_copy.admits(MemoryType::host, Path::host)) << "host memory is not copied either";
  EXPECT_TRUE(zero_copy.admits(MemoryType::gaudi, Path::zero_copy));
  EXPECT_FALSE(zero_copy.admits(MemoryType::gaudi, Path::peer_memory));
  EXPECT_FALSE(listed.admits(MemoryType::host, Path::host)) << "the list does not name host";
  EXPECT_TRUE(listed.admits(MemoryType::gaudi, Path::zero_copy));
}

bool is_valid(const PathPolicy& policy) {
  return Context::create({.memory = {}, .paths = policy}).has_value();
}

/// Whether an endpoint may have the one policy while its context has the other.
bool go_together(const PathPolicy& of_endpoint, const PathPolicy& of_context) {
  const Worker worker =
      value(Worker::create(value(Context::create({.memory = {}, .paths = of_context}))));
  const auto made =
      Listener::create(worker, {.address = "127.0.0.1", .endpoint = {.paths = of_endpoint}});
  if (!made) {
    EXPECT_EQ(made.error().stage, Stage::configure) << describe(made.error());
  }
  return made.has_value();
}

TEST(Policy, ContradictionsAreRefusedWhereTheyAreMade) {
  const PathPolicy contradictory{.require = Path::zero_copy, .allow = {Path::host}};
  const auto context = Context::create({.memory = {}, .paths = contradictory});
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, Errc::invalid_argument);
  EXPECT_EQ(context.error().stage, Stage::configure);
  EXPECT_FALSE(is_valid({.require = {}, .allow = {static_cast<Path>(9)}}));
}

TEST(Policy, EndpointAndContextAreBothKept) {
  const PathPolicy zero_copy{.require = Path::zero_copy};
  const PathPolicy peer_memory{.require = Path::peer_memory};
  const PathPolicy no_dmabuf{.require = {}, .allow = {Path::host, Path::peer_memory}};
  const PathPolicy host{.allow = {Path::host}};
  const PathPolicy dmabuf{.allow = {Path::zero_copy}};
  EXPECT_TRUE(go_together(zero_copy, PathPolicy()));
  EXPECT_TRUE(go_together(zero_copy, zero_copy));
  EXPECT_FALSE(go_together(zero_copy, peer_memory));
  EXPECT_FALSE(go_together(zero_copy, no_dmabuf));
  EXPECT_FALSE(go_together(no_dmabuf, zero_copy));
  EXPECT_FALSE(go_together(host, dmabuf)) << "the two lists have no path in common";
  const Context context = value(Context::create({.memory = {}, .paths = zero_copy}));
  const Worker worker = value(Worker::create(context));
  const auto listener = Listener::create(
      worker, {.address = "127.0.0.1", .port = 0, .endpoint = {.paths = peer_memory}});
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().stage, Stage::configure) << describe(listener.error());
  const Listener good_one = value(Listener::create(worker, {.address = "127.0.0.1"}));
  const auto endpoint = Endpoint::connect(worker, "127.0.0.1:" + std::to_string(good_one.port()),
                                          within(5s), {.paths = peer_memory});
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().stage, Stage::configure) << describe(endpoint.error());
}

TEST(Registration, IsRefusedWithTheReasonOfTheBetterPath) {
  const PeerMemoryMachine machine("no");
  const Context context =
      value(Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  for (const MemoryType type : {MemoryType::cuda, MemoryType::rocm}) {
    const auto region = context.register_memory(value(context.allocate(type, kBytes)), kAll);
    ASSERT_FALSE(region) << to_string(type);
    EXPECT_EQ(region.error().code, Errc::permission_denied);
    EXPECT_EQ(region.error().stage, Stage::register_memory);
    expect_words(region.error(), {"the path policy excludes peer memory", "_DMABUF=no"});
  }
  EXPECT_TRUE(context.register_memory(value(context.allocate(MemoryType::host, kBytes)), kAll));
  EXPECT_TRUE(context.register_memory(value(context.allocate(MemoryType::gaudi, kBytes)), kAll));
}

TEST(Registration, IsRefusedWithTheNicsReasonWhereItCanNotImport) {
  const PeerMemoryMachine machine("try");
  const Context context =
      value(Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  const Allocation memory = value(context.allocate(MemoryType::cuda, kBytes));
  value(context.open_nics());
  fail_nth_call("nic", 0, EOPNOTSUPP);
  const auto region = context.register_memory(memory, kAll);
  fail_nth_call("nic", -1, 0);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, Errc::permission_denied);
  EXPECT_EQ(region.error().number, EOPNOTSUPP) << "the NIC's own reason";
  expect_words(region.error(), {"the path policy excludes", "ibv_reg_dmabuf_mr", "emu0"});
}

TEST(Registration, HostMemoryIsLeftOutByAListThatDoesNotNameIt) {
  const Context context =
      value(Context::create({.memory = {}, .paths = {.allow = {Path::zero_copy}}}));
  const auto region =
      context.register_memory(value(context.allocate(MemoryType::host, 4096)), kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().hint, Hint::path_policy);
  expect_words(region.error(), {"the path policy excludes host"});
  EXPECT_TRUE(context.register_memory(value(context.allocate(MemoryType::gaudi, 4096)), kAll));
}

/// The region was registered with the NIC directly, not by the context and its policy.
TEST(AnEndpoint, RefusesARegionThatItsPolicyExcludesBeforeAnythingMoves) {
  const PeerMemoryMachine machine("no");
  Ends ends({.paths = {.require = Path::zero_copy}});
  const Allocation gpu = value(ends.context.allocate(MemoryType::cuda, kBytes));
  const Region region = value(ends.a->nic().register_memory(gpu, kAll));
  Memory target(ends.context, MemoryType::host, kBytes);
  target.fill(2);
  const RemoteRegion remote = open_to(*ends.a, target.region());
  for (const auto& refused : {ends.a->put(region.slice(0, 100), remote.slice(0, 100)),
                              ends.a->get(region.slice(0, 100), remote.slice(0, 100))}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied);
    EXPECT_EQ(refused.error().stage, Stage::post);
    expect_words(refused.error(), {"HBMWIRE_CUDA_DMABUF=no", "excludes"});
  }
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready) << "the refusal fails nothing else";
  EXPECT_TRUE(same_bytes(target.contents(), pattern(kBytes, 2)));
  Memory other(ends.context, MemoryType::gaudi, kBytes);
  Transfer put = value(ends.a->put(other.slice(0, 100), remote.slice(0, 100)));
  good(put.wait(10s));
}

TEST(AnEndpoint, RefusesThePeersMemoryThatItsPolicyExcludes) {
  const PeerMemoryMachine machine("no");
  Ends ends({.paths = {.require = Path::zero_copy}});
  const Region region = value(
      ends.b->nic().register_memory(value(ends.context.allocate(MemoryType::cuda, kBytes)), kAll));
  const MemoryKey key = value(MemoryKey::pack(region));
  const auto remote = ends.a->remote(value(RemoteKey::unpack(key.bytes())));
  ASSERT_FALSE(remote);
  EXPECT_EQ(remote.error().code, Errc::permission_denied);
  expect_words(remote.error(), {"excludes peer memory", "the peer's NIC"});
}

TEST(Policy, TreatsNicLoopbackAsZeroCopy) {
  const PathPolicy zero_copy{.require = Path::zero_copy};
  EXPECT_TRUE(zero_copy.admits(MemoryType::gaudi, Path::nic_loopback));
  EXPECT_FALSE(zero_copy.admits(MemoryType::gaudi, Path::staged));
  EXPECT_TRUE(is_valid({.require = Path::staged}));
  const PathPolicy listed{.allow = {Path::host}};
  EXPECT_FALSE(listed.admits(MemoryType::gaudi, Path::nic_loopback));
  EXPECT_FALSE(is_valid({.require = Path::nic_loopback})) << "a policy names it as zero_copy";
  EXPECT_FALSE(is_valid({.allow = {Path::nic_loopback}}));
}

/// Tests peers in this process. endpoint_paths and endpoint_matrix test the other places.
TEST(AnEndpoint, KnowsWhereItsPeerIs) {
  const Ends ends;
  EXPECT_EQ(ends.a->placement(), Placement::same_process);
  EXPECT_EQ(ends.b->placement(), Placement::same_process);
}

TEST(AReport, TellsEachCandidatePathAndWhyNot) {
  const PeerMemoryMachine machine("no");
  Ends ends;
  Memory source(ends.context, MemoryType::cuda, kBytes);
  Memory target(ends.context, MemoryType::gaudi, kBytes);
  source.fill(1);
  const RemoteRegion remote = open_to(*ends.a, target.region());
  Transfer put = value(ends.a->put(source.all(), remote.slice(0, kBytes)));
  good(put.wait(10s));
  EXPECT_TRUE(same_bytes(target.contents(), pattern(kBytes, 1)));
  const TransferReport report = put.explain();
  EXPECT_EQ(put.path(), Path::peer_memory) << "the worse path of both ends' memories";
  EXPECT_EQ(report.path, Path::peer_memory);
  EXPECT_EQ(report.local_type, MemoryType::cuda);
  EXPECT_EQ(report.remote_type, MemoryType::gaudi);
  EXPECT_EQ(report.remote_path, Path::zero_copy);
  EXPECT_EQ(report.nic, "emu0");
  EXPECT_EQ(report.peer, ends.a->peer());
  ASSERT_EQ(report.local.size(), 4U);
  EXPECT_EQ(report.local[0].path, Path::zero_copy);
  ASSERT_TRUE(report.local[0].refusal);
  expect_words(*report.local[0].refusal, {"HBMWIRE_CUDA_DMABUF=no"});
  EXPECT_TRUE(report.local[1].taken);
  EXPECT_FALSE(report.local[1].refusal);
  EXPECT_TRUE(report.local[2].refusal);
  EXPECT_NE(describe(report).find("HBMWIRE_CUDA_DMABUF=no"), std::string::npos) << describe(report);
}

TEST(AReport, NamesThePathOfThePeersMemory) {
  const PeerMemoryMachine machine("no");
  Ends ends;
  Memory source(ends.context, MemoryType::host, kBytes);
  Memory target(ends.context, MemoryType::cuda, kBytes);
  const RemoteRegion remote = open_to(*ends.a, target.region());
  Transfer put = value(ends.a->put(source.all(), remote.slice(0, kBytes)));
  good(put.wait(10s));
  EXPECT_EQ(put.path(), Path::peer_memory);
  EXPECT_EQ(put.explain().remote_path, Path::peer_memory);
}

TEST(AReport, OutlivesRegionEndpointAndWorker) {
  std::optional<Ends> ends(std::in_place);
  std::string peer = ends->a->peer();
  Transfer put;
  {
    Memory source(ends->context, MemoryType::gaudi, kBytes);
    Memory target(ends->context, MemoryType::rocm, kBytes);
    const RemoteRegion remote = open_to(*ends->a, target.region());
    put = value(ends->a->put(source.all(), remote.slice(0, kBytes)));
    good(put.wait(10s));
  }
  const auto expect_report = [&] {
    const TransferReport report = put.explain();
    EXPECT_EQ(report.path, Path::nic_loopback);
    EXPECT_NE(describe(report).find("NIC loopback"), std::string::npos) << describe(report);
    EXPECT_EQ(report.nic, "emu0");
    EXPECT_EQ(report.peer, peer);
    EXPECT_EQ(report.local_type, MemoryType::gaudi);
    EXPECT_EQ(report.remote_type, MemoryType::rocm);
    ASSERT_EQ(report.local.size(), 4U);
    EXPECT_TRUE(report.local[0].taken);
    EXPECT_TRUE(report.local[1].refusal);
  };
  expect_report();
  ends->a.reset();
  ends->b.reset();
  for (int i = 0; i < 1000; ++i) {
    ends->a_worker.progress();
    ends->b_worker.progress();
  }
  expect_report();
  ends.reset();
  expect_report();
}

/// Each of two endpoints of the process is named by the report of its own transfer.
TEST(AReport, NamesThePeerOfItsOwnEndpoint) {
  Ends first;
  Ends second;
  Memory memory(first.context, MemoryType::host, 4096);
  Memory other(second.context, MemoryType::host, 4096);
  const RemoteRegion there = open_to(*first.a, memory.region());
  const RemoteRegion elsewhere = open_to(*second.a, other.region());
  Transfer one = value(first.a->put(memory.slice(0, 8), there.slice(8, 8)));
  Transfer two = value(second.a->put(other.slice(0, 8), elsewhere.slice(8, 8)));
  good(one.wait(10s));
  good(two.wait(10s));
  EXPECT_EQ(one.explain().peer, first.a->peer());
  EXPECT_EQ(two.explain().peer, second.a->peer());
  EXPECT_NE(one.explain().peer, two.explain().peer);
}

TEST(ABuffer, IsMadeOfMemoryThatIsRegisteredAlready) {
  const Context context = value(Context::create());
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi, MemoryType::rocm}) {
    const Region region =
        value(context.register_memory(value(context.allocate(type, kBytes)), Access::local_write));
    Buffer buffer = value(Buffer::create(region));
    const auto bytes = pattern(kBytes, 5);
    good(buffer.write(0, bytes, within(10s)));
    std::vector<std::byte> read(kBytes);
    good(value(Buffer::create(region)).read(0, read, within(10s)));
    EXPECT_TRUE(read == bytes) << to_string(type);
  }
  const Region closed = value(
      context.register_memory(value(context.allocate(MemoryType::gaudi, kBytes)), Access::none));
  const auto refused = Buffer::create(closed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
}

/// Memory of a GPU that no other test uses, because the message is logged once per process.
Allocation on_gpu(const Context& context, const char* device) {
  return value(context.allocate(MemoryType::cuda, kBytes, {.device = device}));
}

TEST(AWarning, IsGivenOnceForEachDeviceThatIsNotZeroCopy) {
  Heard heard;
  constexpr std::string_view kWords = "not zero-copy";
  {
    const Context context = value(Context::create());
    value(context.register_memory(on_gpu(context, "1"), kAll));
    value(context.register_memory(value(context.allocate(MemoryType::host, kBytes)), kAll));
    EXPECT_EQ(heard.count(kWords), 0U) << "zero-copy, and host memory, need no word";
  }
  const PeerMemoryMachine machine("no");
  const Context context = value(Context::create());
  for (int i = 0; i < 3; ++i) value(context.register_memory(on_gpu(context, "1"), kAll));
  EXPECT_EQ(heard.count(kWords), 1U);
  EXPECT_EQ(heard.count("HBMWIRE_CUDA_DMABUF=no"), 1U) << "the warning gives the reason";
  value(context.register_memory(on_gpu(context, "2"), kAll));
  EXPECT_EQ(heard.count(kWords), 2U) << "another device";
}

TEST(AWarning, IsAlsoGivenForMemoryThatANicRegistered) {
  const PeerMemoryMachine machine("no");
  Heard heard;
  Ends ends;
  const Region region = value(ends.a->nic().register_memory(on_gpu(ends.context, "3"), kAll));
  EXPECT_EQ(heard.count("not zero-copy"), 0U);
  Memory target(ends.context, MemoryType::host, kBytes);
  const RemoteRegion remote = open_to(*ends.a, target.region());
  for (int i = 0; i < 2; ++i) {
    Transfer put = value(ends.a->put(region.slice(0, 100), remote.slice(0, 100)));
    good(put.wait(10s));
  }
  EXPECT_EQ(heard.count("not zero-copy"), 1U);
}

}  // namespace
}  // namespace hbmwire::test
