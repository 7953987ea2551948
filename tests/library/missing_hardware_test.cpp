// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "open_memory.hpp"

namespace hbmwire {
namespace {

/// A machine without RDMA devices and Gaudi libraries, independent of the real machine.
class MissingHardware : public testing::Test {
 protected:
  MissingHardware() {
    std::filesystem::create_directories(sysfs_ / "class/infiniband_verbs");
    ::setenv("SYSFS_PATH", sysfs_.c_str(), 1);
  }

  ~MissingHardware() override { std::filesystem::remove_all(sysfs_); }

  std::filesystem::path sysfs_ =
      std::filesystem::temp_directory_path() / ("no-hardware-" + std::to_string(::getpid()));
};

TEST_F(MissingHardware, WithoutAnRdmaDeviceTheErrorHasARemedy) {
  if (std::filesystem::exists("/sys/class/infiniband"))
    GTEST_SKIP() << "this machine has RDMA devices";
  const auto nic = Nic::open();
  ASSERT_FALSE(nic);
  EXPECT_EQ(nic.error().code, Errc::not_found);
  const std::string text = describe(nic.error());
  EXPECT_NE(text.find("no RDMA device found"), std::string::npos) << text;
  EXPECT_NE(text.find("hbmwire emulate"), std::string::npos) << text;
}

TEST_F(MissingHardware, WithoutAGaudiTheErrorHasARemedy) {
  if (std::filesystem::exists("/usr/lib/habanalabs"))
    GTEST_SKIP() << "this machine has Gaudi libraries";
  for (const auto owner : {MemoryOptions::Owner::automatic, MemoryOptions::Owner::hl_thunk}) {
    const auto card = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = owner});
    ASSERT_FALSE(card);
    EXPECT_EQ(card.error().code, Errc::not_found);
    const std::string text = describe(card.error());
    EXPECT_NE(text.find("libhl-thunk.so"), std::string::npos) << text;
    EXPECT_NE(text.find("hbmwire emulate"), std::string::npos) << text;
    EXPECT_NE(text.find("use host memory"), std::string::npos) << text;
  }
}

TEST_F(MissingHardware, HostMemoryAndDmabufsNeedNoAccelerator) {
  const auto context = Context::create();
  ASSERT_TRUE(context) << describe(context.error());
  ASSERT_EQ(context->memory().size(), kMemoryTypes.size());
  for (const MemoryType type : {MemoryType::host, MemoryType::dmabuf}) {
    const MemoryProbe& probe = context->memory().at(static_cast<std::size_t>(type));
    EXPECT_EQ(probe.type, type);
    EXPECT_FALSE(probe.missing) << describe(*probe.missing);
  }
  const auto host = context->open(MemoryType::host);
  ASSERT_TRUE(host);
  EXPECT_TRUE((*host)->allocate(4096));

  const Fd file(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const auto memory = context->import_dmabuf({.fd = file.get(), .length_bytes = 4096});
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_EQ(memory->domain().copy_engine(), "CPU");
}

/// Opening missing hardware returns the same error text.
TEST_F(MissingHardware, EveryTypeThatIsMissingSaysSo) {
  const auto context = Context::create();
  for (const MemoryProbe& probe : context->memory()) {
    if (!probe.missing) continue;
    const auto domain = context->open(probe.type);
    ASSERT_FALSE(domain) << to_string(probe.type);
    EXPECT_EQ(describe(domain.error()), describe(*probe.missing));
  }
}

}  // namespace
}  // namespace hbmwire
