// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "memory/rocm/kernel.hpp"

namespace hbmwire::memory::rocm {
namespace {

namespace fs = std::filesystem;

/// A folder that SYSFS_PATH names while the object lives; it is removed afterwards.
class Folder {
 public:
  Folder() {
    fs::create_directories(path_);
    ::setenv("SYSFS_PATH", path_.c_str(), 1);
  }

  ~Folder() {
    ::unsetenv("SYSFS_PATH");
    fs::remove_all(path_);
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] fs::path write_file(const fs::path& name, std::string_view content) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  fs::path path_ = fs::temp_directory_path() / ("rocm-kernel-" + std::to_string(::getpid()));
};

TEST(RocmKernelOption, IsReadFromItsLine) {
  constexpr std::string_view kOption = "CONFIG_PCI_P2PDMA";
  EXPECT_EQ(option_in_line("CONFIG_PCI_P2PDMA=y", kOption), Known::yes);
  EXPECT_EQ(option_in_line("CONFIG_PCI_P2PDMA=m", kOption), Known::yes);
  EXPECT_EQ(option_in_line("# CONFIG_PCI_P2PDMA is not set", kOption), Known::no);
  EXPECT_EQ(option_in_line("CONFIG_PCI_P2PDMA=n", kOption), Known::no);
  for (const char* other : {"", "#", "# CONFIG_PCI_P2PDMA", "CONFIG_PCI_P2PDMA_TEST=y",
                            "# CONFIG_PCI_P2PDMA_TEST is not set", "CONFIG_PCI=y"}) {
    EXPECT_EQ(option_in_line(other, kOption), Known::unknown) << other;
  }
}

TEST(RocmKernel, ReadsItsConfiguration) {
  const Folder folder;
  const Kernel both(
      folder.write_file("config", "CONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n")
          .string());
  EXPECT_EQ(both.p2pdma(), Known::yes);
  EXPECT_EQ(both.move_notify(), Known::no);
}

TEST(RocmKernel, DoesNotTakeTheUnknownForNo) {
  const Folder folder;
  const Kernel empty(folder.write_file("config", "CONFIG_PCI=y\n").string());
  EXPECT_EQ(empty.p2pdma(), Known::unknown);
  EXPECT_EQ(empty.move_notify(), Known::unknown);
  const Kernel none("/nowhere/config");
  EXPECT_EQ(none.p2pdma(), Known::unknown);
  EXPECT_EQ(none.move_notify(), Known::unknown);
}

TEST(RocmKernel, ReadsGzip) {
  const Folder folder;
  // "CONFIG_PCI_P2PDMA=y\n", compressed by gzip(1) -n.
  constexpr std::array<unsigned char, 40> kCompressed{
      0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x73, 0xf6, 0xf7, 0x73,
      0xf3, 0x74, 0x8f, 0x0f, 0x70, 0xf6, 0x8c, 0x0f, 0x30, 0x0a, 0x70, 0xf1, 0x75, 0xb4,
      0xad, 0xe4, 0x02, 0x00, 0x2d, 0xad, 0x3a, 0x09, 0x14, 0x00, 0x00, 0x00};
  const Kernel kernel(
      folder
          .write_file("config.gz",
                      {reinterpret_cast<const char*>(kCompressed.data()), kCompressed.size()})
          .string());
  EXPECT_EQ(kernel.p2pdma(), Known::yes);
}

TEST(RocmLargeBar, IsAWindowAsLargeAsTheMemory) {
  const Folder folder;
  const auto show = [&](std::string_view lines) {
    static_cast<void>(folder.write_file("bus/pci/devices/0000:c1:00.0/resource", lines));
    return large_bar("0000:c1:00.0", 16ULL << 30);
  };
  EXPECT_EQ(show("0x0000003800000000 0x0000003bffffffff 0x000000000014220c\n"), Known::yes);
  EXPECT_EQ(show("0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n"
                 "0x00000000f0000000 0x00000000f01fffff 0x0000000000140204\n"),
            Known::no);
  EXPECT_EQ(show("0x0000000000000000 0x0000000000000000 0x0000000000000000\n"), Known::unknown);
  EXPECT_EQ(large_bar("0000:c2:00.0", 1), Known::unknown) << "there is no such device";
}

TEST(RocmPeerMemory, IsFoundWhereverItsClientIsListed) {
  for (const char* where : {"kernel/mm/memory_peers/amdkfd/version",
                            "kernel/memory_peers/amdkfd/version", "memory_peers/amdkfd/version"}) {
    const Folder folder;
    EXPECT_FALSE(peer_memory_client());
    const fs::path file = folder.write_file(where, "1.0\n");
    EXPECT_EQ(peer_memory_client(), file.string());
  }
}

}  // namespace
}  // namespace hbmwire::memory::rocm
