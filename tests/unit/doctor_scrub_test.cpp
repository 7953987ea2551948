// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/doctor/evidence/placeholders.hpp"
#include "tools/doctor/evidence/scrub.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::ElementsAre;

std::string replaced(const std::string& text) { return Placeholders().text(text, false); }

TEST(DoctorPlaceholders, KeepTheFamilyOfAddresses) {
  EXPECT_EQ(replaced("192.0.2.17"), "10.0.1.17");
  EXPECT_EQ(replaced("169.254.7.1"), "169.254.1.1");
  EXPECT_EQ(replaced("2a00:1450:4001:82b::200e"), "2001:db8:0:1::1");
  EXPECT_EQ(replaced("fdaa:1:2:3::5"), "fd00:0:0:1::1");
  EXPECT_EQ(replaced("fe80::a8bb:ccff:fedd:eeff%eth0"), "fe80::1%eth0");
  EXPECT_EQ(replaced("::ffff:192.0.2.17"), "::ffff:10.0.1.17");
  EXPECT_EQ(replaced("aa:bb:cc:dd:ee:0f"), "02:00:00:00:00:01");
  EXPECT_EQ(replaced("b8:3f:d2:03:00:aa:bb:cc"), "00:00:00:00:00:00:00:01");
  EXPECT_EQ(replaced("b83f:d203:00aa:bbcc"), "0000:0000:0000:0001");
  EXPECT_EQ(replaced("01-aa-bb-cc-dd-ee-0f"), "01-02-00-00-00-00-01");
  EXPECT_EQ(replaced("9e107d9d-372b-4b68-8c1d-3542a419d6aa"),
            "00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(replaced("9e107d9d372b4b688c1d3542a419d6aa"), "00000000000000000000000000000001");
  EXPECT_EQ(replaced("enxaabbccddee0f"), "enx020000000001");
}

TEST(DoctorPlaceholders, KeepTheFormThatSysfsHas) {
  EXPECT_EQ(replaced("fe80:0000:0000:0000:ba3f:d2ff:fe03:aabb\n"),
            "fe80:0000:0000:0000:0000:0000:0000:0001\n");
  EXPECT_EQ(replaced("0000:0000:0000:0000:0000:ffff:c000:0211\n"),
            "0000:0000:0000:0000:0000:ffff:0a00:0111\n");
}

TEST(DoctorPlaceholders, KeepEqualityAndSubnets) {
  Placeholders same;
  EXPECT_EQ(same.text("192.0.2.1 192.0.2.2 198.51.100.1 192.0.2.1", false),
            "10.0.1.1 10.0.1.2 10.0.2.1 10.0.1.1");
  EXPECT_EQ(same.text("2a00:1:2:3::9 2a00:1:2:3::a 2a00:1:2:4::9", false),
            "2001:db8:0:1::1 2001:db8:0:1::2 2001:db8:0:2::1");
  // A port's GID ends with its GUID.
  EXPECT_EQ(same.text("fe80::b83f:d203:aa:bbcc b83f:d203:00aa:bbcc", false),
            "fe80::3 0000:0000:0000:0003");
}

TEST(DoctorPlaceholders, FindAddressesInTexts) {
  EXPECT_EQ(replaced("connect to 192.0.2.1:4711: refused."), "connect to 10.0.1.1:4711: refused.");
  EXPECT_EQ(replaced("[2a00:1:2:3::9]:4711, mtu 4096"), "[2001:db8:0:1::1]:4711, mtu 4096");
  EXPECT_EQ(replaced("ip=192.0.2.1::192.0.2.254:255.255.255.0:box:eth0:off"),
            "ip=10.0.1.1::10.0.1.254:255.255.255.0:box:eth0:off");
  EXPECT_EQ(replaced("root=UUID=9e107d9d-372b-4b68-8c1d-3542a419d6aa ro"),
            "root=UUID=00000000-0000-0000-0000-000000000001 ro");
  EXPECT_EQ(replaced("GPU-9e107d9d-372b-4b68-8c1d-3542a419d6aa"),
            "GPU-00000000-0000-0000-0000-000000000001");
}

TEST(DoctorPlaceholders, LeaveEverythingElse) {
  for (const char* text : {"0000:3a:00.0",
                           "/sys/devices/pci0000:30/0000:30:01.0/0000:3a:00.0",
                           "4: ACTIVE",
                           "::",
                           "::1",
                           "127.0.0.1",
                           "0.0.0.0",
                           "255.255.255.0",
                           "224.0.0.1",
                           "ff02::1",
                           "00:00:00:00:00:00",
                           "ff:ff:ff:ff:ff:ff",
                           "0000:0000:0000:0000",
                           "12:30:45",
                           "20.39.1002",
                           "6.1.0-13-amd64",
                           "mlx5_0",
                           "32.0 GT/s PCIe",
                           "1.2.3.4.5",
                           "0-3,8",
                           "hbmwire::Error",
                           "enp1s0",

                           "deadbeef",
                           "00000000,0000ffff",
                           "pci:v000015B3d00001021sv000015B3sd00000027bc02sc00i00",
                           ""})
    EXPECT_EQ(replaced(text), text);
  EXPECT_EQ(Placeholders().text("1.2.3.4", true), "1.2.3.4");  // a version number
}

class DoctorScrub : public testing::Test {
 protected:
  [[nodiscard]] Record result() const {
    return scrubbed(record_, {.hosts = {"node7.example.org", "node7"}, .users = {"alice"}});
  }

  std::string file(const std::string& path, const std::string& value) {
    record_.files[path].value = value;
    return result().files.at(path).value;
  }

  Json call(const std::string& name, Json value) {
    record_.calls[name] = {{"value", std::move(value)}};
    return result().calls.at(name)["value"];
  }

  Record record_;
};

TEST_F(DoctorScrub, HidesHostsAndUsers) {
  const std::string home = "/home";
  EXPECT_EQ(file("/sys/class/infiniband/mlx5_0/node_desc", "node7 mlx5_0\n"), "host mlx5_0\n");
  EXPECT_EQ(file("/proc/cmdline", "h=node7.example.org x=node77 y=node7_a\n"),
            "h=host x=node77 y=node7_a\n");
  EXPECT_EQ(call("environment", {{"HBMWIRE_CONFIG", home + "/bob/alice.conf"}}),
            (Json{{"HBMWIRE_CONFIG", home + "/user/user.conf"}}));
}

// Otherwise replaying the archive would not find the memory type.
TEST_F(DoctorScrub, LeavesWordsOfItsOwn) {
  record_.calls["info"] = {{"value", {{"type", "gaudi"}}}};
  EXPECT_EQ(scrubbed(record_, {.hosts = {"gaudi"}, .users = {"root", "x"}}), record_);
}

TEST_F(DoctorScrub, LeavesOutSerialNumbersAndProductData) {
  EXPECT_EQ(file("/sys/class/dmi/id/product_serial", "CZ1234\n"), "(left out)\n");
  EXPECT_EQ(file("/sys/class/dmi/id/product_uuid", "9E107D9D-372B-4B68-8C1D-3542A419D6AA\n"),
            "00000000-0000-0000-0000-000000000001\n");
  EXPECT_EQ(file("/sys/class/drm/card0/device/unique_id", "9f3a77\n"), "(left out)\n");
  EXPECT_EQ(file("/sys/class/infiniband/mlx5_0/node_guid", "b83f:d203:00aa:bbcc\n"),
            "0000:0000:0000:0001\n");
  EXPECT_EQ(file("/x", "Model: H100\nSerial Number: 123\n"),
            "Model: H100\nSerial Number:(left out)\n");
  EXPECT_EQ(call("info", {{"serial", "CZ1234"}, {"firmware", "1.2.3.4"}, {"gid", "192.0.2.9"}}),
            (Json{{"serial", "(left out)"}, {"firmware", "1.2.3.4"}, {"gid", "10.0.1.9"}}));
  EXPECT_EQ(
      call("hwloc", R"(<info name="DMIProductSerial" value="12"/><info name="A" value="3"/>)"),
      R"(<info name="DMIProductSerial" value=""/><info name="A" value="3"/>)");
  record_.files["/sys/bus/pci/devices/0000:3a:00.0/vpd"].value = "CZ1234";
  EXPECT_EQ(result().files.at("/sys/bus/pci/devices/0000:3a:00.0/vpd").error, EPERM);
}

TEST_F(DoctorScrub, LeavesOutTheSerialNumberOfAConfigurationSpace) {
  std::string config(4096, '\0');
  config.replace(0, 2, "\xb3\x15");
  config.replace(0x100, 3, std::string("\x03\x00\x01", 3));
  std::string wanted = config;
  config.replace(0x104, 8, "SERIALNR");
  const std::string path = "/sys/bus/pci/devices/0000:3a:00.0/config";
  EXPECT_EQ(file(path, config), wanted);
  EXPECT_EQ(file(path, config.substr(0, 0x106)), wanted.substr(0, 0x106));
}

TEST_F(DoctorScrub, HidesAddressesInPathsAndNames) {
  record_.folders["/sys/class/net"].values = {"enxaabbccddee0f", "eth0"};
  record_.files["/sys/class/net/enxaabbccddee0f/address"].value = "aa:bb:cc:dd:ee:0f\n";
  record_.real_paths["/sys/class/net/enxaabbccddee0f"].value = "/sys/x/enxaabbccddee0f";
  record_.links["/sys/class/net/enxaabbccddee0f"].error = EACCES;
  const Record scrub = result();
  EXPECT_THAT(scrub.folders.at("/sys/class/net").values, ElementsAre("enx020000000001", "eth0"));
  EXPECT_EQ(scrub.files.at("/sys/class/net/enx020000000001/address").value, "02:00:00:00:00:01\n");
  EXPECT_EQ(scrub.real_paths.at("/sys/class/net/enx020000000001").value, "/sys/x/enx020000000001");
  EXPECT_EQ(scrub.links.at("/sys/class/net/enx020000000001").error, EACCES);
}

TEST_F(DoctorScrub, KeepsVersionsAndErrors) {
  EXPECT_EQ(file("/sys/module/irdma/version", "1.14.33.1\n"), "1.14.33.1\n");
  EXPECT_EQ(file("/sys/class/infiniband/irdma0/fw_ver", "1.2.3.4\n"), "1.2.3.4\n");
  record_.files["/forbidden/serial"].error = EACCES;
  record_.partial = record_.emulated = true;
  record_.version = "0.1.1";
  const Record scrub = result();
  EXPECT_EQ(scrub.files.at("/forbidden/serial").error, EACCES);
  EXPECT_TRUE(scrub.partial && scrub.emulated);
  EXPECT_EQ(scrub.version, "0.1.1");
}

TEST_F(DoctorScrub, ReachesEveryLevelOfACall) {
  const Json wanted = {{"nics", {{{"ports", {"10.0.1.1", 7, nullptr, "10.0.1.2"}}}}}};
  EXPECT_EQ(call("info", {{"nics", {{{"ports", {"192.0.2.1", 7, nullptr, "192.0.2.2"}}}}}}),
            wanted);
}

TEST(DoctorPrivateNames, AreThoseOfThisMachine) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_THAT(names_of_this_machine().hosts, testing::Contains(std::string(host.data())));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
