// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/live_machine.hpp"
#include "tools/doctor/evidence/pci_config.hpp"
#include "tools/doctor/evidence/recorder.hpp"
#include "tools/doctor/evidence/scrub.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::StartsWith;

/// The PCI address of a device, by the link "device" in its class's folder.
std::string pci_address_of(Evidence& machine, const std::string& device) {
  const std::string real = machine.real_path(device + "/device").value;
  return real.substr(real.rfind('/') + 1);
}

TEST(DoctorEmulatedMachine, ShowsTheDevicesThatLibibverbsSees) {
  LiveMachine machine;
  EXPECT_THAT(machine.folder("/sys/class/infiniband").values, ElementsAre("emu0", "emu1"));
  const std::string address = pci_address_of(machine, "/sys/class/infiniband/emu1");
  EXPECT_THAT(machine.folder("/sys/bus/pci/devices").values, Contains(address));
  EXPECT_THAT(machine.real_path("/sys/bus/pci/devices/" + address).value,
              StartsWith("/sys/devices/pci"));
  EXPECT_THAT(machine.file("/sys/class/infiniband/emu1/ports/1/state").value, StartsWith("4: "));
  EXPECT_EQ(machine.access("/dev/infiniband/uverbs0").error, 0);
}

TEST(DoctorEmulatedMachine, ShowsCards) {
  LiveMachine machine;
  const std::string address = pci_address_of(machine, "/sys/class/accel/accel0");
  EXPECT_EQ(PciConfig::read(machine, address).u16(0), 0x1da3);
}

TEST(DoctorEmulatedMachine, TellsThatItIsEmulated) {
  LiveMachine machine;
  Recorder recorder(machine);
  const Json info = recorder.call("info")["value"];
  EXPECT_EQ(info["emulated"], true);
  EXPECT_EQ(info["nics"][0]["name"], "emu0");
  EXPECT_TRUE(recorder.record().emulated);
}

// The subnet of a GID in sysfs equals that of the same GID in `hbmwire info`, even after both are
// replaced.
TEST(DoctorEmulatedMachine, EqualAddressesAreReplacedEqually) {
  LiveMachine machine;
  Recorder recorder(machine);
  recorder.file("/sys/class/infiniband/emu0/node_guid");
  recorder.file("/sys/class/infiniband/emu0/ports/1/gids/0");
  recorder.call("info");
  const Record scrub = scrubbed(recorder.record(), names_of_this_machine());
  Archive archive(scrub);
  const std::string guid = recorder.file("/sys/class/infiniband/emu0/node_guid").value;
  EXPECT_EQ(archive_text(scrub).find(guid.substr(0, guid.size() - 1)), std::string::npos);
  EXPECT_THAT(archive.file("/sys/class/infiniband/emu0/ports/1/gids/0").value,
              StartsWith("fe80:0000:0000:0000:0000:0000:0000:000"));
  EXPECT_THAT(archive.call("info")["value"]["nics"][0]["ports"][0]["gids"][0]["gid"],
              testing::ResultOf([](const Json& gid) { return gid.get<std::string>(); },
                                StartsWith("fe80::")));
  EXPECT_EQ(archive.call("info")["value"]["nics"][0]["pci_address"],
            recorder.call("info")["value"]["nics"][0]["pci_address"]);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
