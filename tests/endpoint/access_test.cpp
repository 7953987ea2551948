// SPDX-License-Identifier: MIT
#include <array>
#include <string>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// Each operation checks the access of its own side's region before it begins, on every path. emu0
/// imports dma-bufs, emu1 does not; "none" means TCP.
namespace hbmwire::test {
namespace {

struct Way {
  const char* name;
  std::vector<std::string> nics;
  MemoryType here;
  MemoryType there;
  std::uint64_t bytes;
  std::vector<Path> allow;  // empty means all
  Path path;                // the path of a get
};

const std::vector<Path> kByNic{Path::host, Path::zero_copy, Path::peer_memory, Path::staged,
                               Path::tcp};

const std::array kWays{
    Way{"nic", {"emu0"}, MemoryType::host, MemoryType::host, 64, {}, Path::host},
    Way{"nic_long", {"emu0"}, MemoryType::host, MemoryType::host, 1 << 20, {}, Path::host},
    Way{"rails", {"emu0", "emu1"}, MemoryType::host, MemoryType::host, 16 << 20, {}, Path::host},
    Way{"zero_copy",
        {"emu0"},
        MemoryType::gaudi,
        MemoryType::host,
        4096,
        kByNic,
        Path::nic_loopback},
    Way{"staged", {"emu1"}, MemoryType::cuda, MemoryType::host, 4096, kByNic, Path::staged},
    Way{"served", {"emu1"}, MemoryType::host, MemoryType::cuda, 4096, kByNic, Path::staged},
    Way{"copy", {"emu0"}, MemoryType::cuda, MemoryType::cuda, 4096, {}, Path::copy},
    Way{"copy_to_host", {"emu0"}, MemoryType::host, MemoryType::gaudi, 4096, {}, Path::copy},
    Way{"copy_without_nic", {"none"}, MemoryType::rocm, MemoryType::host, 4096, {}, Path::copy},
    Way{"tcp", {"none"}, MemoryType::host, MemoryType::host, 64, {}, Path::tcp},
    Way{"tcp_device", {"none"}, MemoryType::gaudi, MemoryType::host, 4096, kByNic, Path::tcp},
};

class OwnAccess : public testing::TestWithParam<Way> {
 protected:
  OwnAccess()
      : ends({}, {},
             {.memory = {}, .nics = GetParam().nics, .paths = {.require = {}, .allow = allowed()}}),
        there(ends.context, GetParam().there, bytes()),
        key(value(MemoryKey::pack(there.region()))),
        remote(value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))))),
        words(ends.context, MemoryType::host, 64) {
    there.fill(1);
  }

  static std::vector<Path> allowed() { return GetParam().allow; }

  static std::uint64_t bytes() { return GetParam().bytes; }

  [[nodiscard]] Memory here_for(Access access) const {
    return {ends.context, GetParam().here, bytes(), access};
  }

  void finishes(Result<Transfer> transfer) {
    ASSERT_TRUE(transfer) << describe(transfer.error());
    finish(ends, *transfer);
  }

  template <class T>
  void refused(const Result<T>& started) {
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::permission_denied) << describe(started.error());
    EXPECT_EQ(started.error().stage, Stage::post);
    EXPECT_EQ(started.error().hint, Hint::not_for_local_writing) << describe(started.error());
    EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  }

  [[nodiscard]] RemoteSlice all_there() const { return remote.slice(0, bytes()); }

  Ends ends;
  Memory there;
  MemoryKey key;
  RemoteRegion remote;
  Memory words;
};

TEST_P(OwnAccess, ClosedRegionsTakeNothingAndHarmNothing) {
  Transfer innocent = value(ends.a->receive(words.slice(0, 8), {.tag = 9}));
  for (const Access access : {Access::none, Access::remote_read}) {
    Memory closed = here_for(access);
    closed.fill(2);
    // Reading this region is allowed, which puts it on the fast path of the check.
    finishes(ends.a->put(closed.all(), all_there()));
    refused(ends.a->get(closed.all(), all_there()));
    refused(ends.a->get(closed.slice(1, 1), remote.slice(0, 1)));
    refused(ends.a->receive(closed.all()));
    refused(ends.a->receive(closed.all(), {.tag = 3}));
    finishes(ends.a->put(closed.all(), all_there()));
    refused(ends.a->get(closed.all(), all_there()));
    EXPECT_TRUE(same_bytes(closed.contents(), pattern(bytes(), 2)));
  }
  finishes(ends.b->send(words.slice(8, 8), 9));
  finish(ends, innocent);
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
}

TEST_P(OwnAccess, EveryPartOfAListIsLookedAt) {
  const Memory open = here_for(Access::local_write);
  const Memory closed = here_for(Access::remote_read);
  const std::uint64_t part = bytes() / 4;
  for (std::uint64_t wrong = 0; wrong < 4; ++wrong) {
    std::vector<TransferPart> parts;
    for (std::uint64_t i = 0; i < 4; ++i)
      parts.push_back(
          {(i == wrong ? closed : open).slice(i * part, part), remote.slice(i * part, part)});
    const auto get = ends.a->prepare_get(parts);
    ASSERT_FALSE(get);
    // Lists never move staged memory, whatever its access. The first part's access is checked
    // before that.
    if (get.error().code != Errc::not_supported || wrong == 0) refused(get);
  }
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
}

TEST_P(OwnAccess, WritableRegionsTakeAll) {
  for (const Access access : {Access::local_write, Access::remote_write, Access::remote_atomic}) {
    Memory open = here_for(access);
    open.fill(3);
    Transfer get = value(ends.a->get(open.all(), all_there()));
    finish(ends, get);
    EXPECT_EQ(get.path(), GetParam().path);
    EXPECT_TRUE(same_bytes(open.contents(), pattern(bytes(), 1)));
    Transfer receive = value(ends.a->receive(open.slice(0, 8)));
    finishes(ends.b->send(words.slice(0, 8)));
    finish(ends, receive);
  }
}

TEST_P(OwnAccess, SourcesNeedNoAccess) {
  Memory closed = here_for(Access::none);
  closed.fill(4);
  finishes(ends.a->put(closed.all(), all_there()));
  EXPECT_TRUE(same_bytes(there.contents(), pattern(bytes(), 4)));
  Transfer receive = value(ends.b->receive(words.slice(0, 8)));
  finishes(ends.a->send(closed.slice(0, 8)));
  finish(ends, receive);
  const TransferPart part{closed.all(), all_there()};
  auto list = ends.a->prepare_put({&part, 1});
  if (!list) {
    EXPECT_EQ(list.error().code, Errc::not_supported)
        << "staged memory: " << describe(list.error());
    return;
  }
  there.fill(5);
  finishes(list->post());
  EXPECT_TRUE(same_bytes(there.contents(), pattern(bytes(), 4)));
}

INSTANTIATE_TEST_SUITE_P(All, OwnAccess, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace hbmwire::test
