// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Builds a configuration space for a test.
class ConfigBytes {
 public:
  explicit ConfigBytes(std::size_t size) : bytes_(size, '\0') {
    put(0x00, 0x15b3, 2);  // the vendor
    put(0x02, 0x1021, 2);  // the device
  }

  ConfigBytes& put(std::size_t offset, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      bytes_.at(offset + i) = static_cast<char>(value >> (8 * i) & 0xffU);
    return *this;
  }

  /// Sets the status bit that a list exists, and the place of its first capability.
  ConfigBytes& list_capabilities(std::uint8_t first) {
    return put(0x06, 0x10, 2).put(0x34, first, 1);
  }

  /// An extended capability: its id, version 1, and the place of the next one.
  ConfigBytes& extended(std::size_t offset, std::uint32_t id, std::uint32_t next) {
    return put(offset, id | 1U << 16U | next << 20U, 4);
  }

  [[nodiscard]] PciConfig made() const { return PciConfig(bytes_); }

 private:
  std::string bytes_;
};

constexpr auto kFound = PciCapability::State::found;
constexpr auto kAbsent = PciCapability::State::absent;
constexpr auto kUnknown = PciCapability::State::unknown;

/// Has the capabilities power management (1) and PCI Express (0x10).
ConfigBytes express(std::size_t size) {
  return ConfigBytes(size).list_capabilities(0x40).put(0x40, 0x6001, 2).put(0x60, 0x0010, 2);
}

TEST(DoctorPciConfig, ReadsNumbersInTheirBounds) {
  const PciConfig config = ConfigBytes(64).put(0x3c, 0x04030201, 4).made();
  EXPECT_EQ(config.u8(0x3f), 4);
  EXPECT_EQ(config.u16(0x3e), 0x0403);
  EXPECT_EQ(config.u32(0x3c), 0x04030201U);
  EXPECT_EQ(config.u32(0x3d), std::nullopt);
  EXPECT_EQ(config.u16(0x3f), std::nullopt);
  EXPECT_EQ(config.u8(0x40), std::nullopt);
}

TEST(DoctorPciConfig, FindsCapabilities) {
  const PciConfig config = express(4096).made();
  EXPECT_EQ(config.find_capability(1), (PciCapability{kFound, 0x40}));
  EXPECT_EQ(config.find_capability(kPciExpressCapability), (PciCapability{kFound, 0x60}));
  EXPECT_EQ(config.find_capability(5).state, kAbsent);
}

TEST(DoctorPciConfig, FindsExtendedCapabilities) {
  const PciConfig config =
      express(4096).extended(0x100, 1, 0x148).extended(0x148, kAcsExtended, 0).made();
  EXPECT_EQ(config.find_extended(kAcsExtended), (PciCapability{kFound, 0x148}));
  EXPECT_EQ(config.find_extended(kAtsExtended).state, kAbsent);
  EXPECT_EQ(express(4096).made().find_extended(kAcsExtended).state, kAbsent);
}

TEST(DoctorPciConfig, UnreadableBytesAreUnknown) {
  const PciConfig header = PciConfig(express(4096).made().bytes().substr(0, 64));
  EXPECT_EQ(header.find_capability(1).state, kUnknown);
  EXPECT_EQ(header.find_extended(kAcsExtended).state, kUnknown);
  // The kernel can access only its first 256 bytes.
  EXPECT_EQ(express(256).made().find_extended(kAcsExtended).state, kUnknown);
  EXPECT_EQ(PciConfig("").find_capability(1).state, kUnknown);
  EXPECT_EQ(PciConfig("").find_extended(1).state, kUnknown);
}

TEST(DoctorPciConfig, ConventionalFunctionsHaveNoExtendedCapabilities) {
  EXPECT_EQ(ConfigBytes(256).made().find_extended(kAcsExtended).state, kAbsent);
  EXPECT_EQ(ConfigBytes(64).made().find_extended(kAcsExtended).state, kAbsent);
  EXPECT_EQ(ConfigBytes(64).made().find_capability(1).state, kAbsent);
}

TEST(DoctorPciConfig, DoesNotBelieveAFunctionThatFellOffItsBus) {
  const PciConfig gone(std::string(4096, '\xff'));
  EXPECT_EQ(gone.find_capability(1).state, kUnknown);
  EXPECT_EQ(gone.find_extended(1).state, kUnknown);
}

TEST(DoctorPciConfig, LoopsAndWildPointersEnd) {
  // A capability that is its own successor.
  EXPECT_EQ(ConfigBytes(256).list_capabilities(0x40).put(0x40, 0x4001, 2).made().find_capability(9),
            (PciCapability{kUnknown, 0}));
  // A capability within the header.
  EXPECT_EQ(ConfigBytes(256).list_capabilities(0x04).made().find_capability(9).state, kUnknown);
  // The same for extended capabilities.
  EXPECT_EQ(express(4096).extended(0x100, 1, 0x100).made().find_extended(9).state, kUnknown);
  EXPECT_EQ(express(4096).extended(0x100, 1, 0x010).made().find_extended(9).state, kUnknown);
  // The successor lies at the end, where zeros end the list.
  EXPECT_EQ(express(4096).extended(0x100, 1, 0xffc).made().find_extended(9).state, kAbsent);
  // The successor lies behind the bytes that could be read.
  EXPECT_EQ(express(1024).extended(0x100, 1, 0x800).made().find_extended(9).state, kUnknown);
}

TEST(DoctorPciConfig, IsReadOfTheMachine) {
  Record record;
  record.files["/sys/bus/pci/devices/0000:3a:00.0/config"].value = express(256).made().bytes();
  record.files["/sys/bus/pci/devices/0000:3b:00.0/config"].error = EACCES;
  Archive machine(std::move(record));
  EXPECT_EQ(PciConfig::read(machine, "0000:3a:00.0").u16(0), 0x15b3);
  EXPECT_EQ(PciConfig::read(machine, "0000:3b:00.0").error(), EACCES);
  EXPECT_EQ(PciConfig::read(machine, "0000:3c:00.0").error(), ENOENT);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
