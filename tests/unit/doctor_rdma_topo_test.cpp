// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/evidence/pci_config.hpp"
#include "tools/doctor/evidence/rdma_topo.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void put(std::string& bytes, std::size_t offset, std::initializer_list<unsigned> values) {
  for (const unsigned value : values) bytes.at(offset++) = static_cast<char>(value);
}

/// A ConnectX-7 with ACS, and a link of 16 lanes that runs with 8.
std::string nic_config() {
  std::string bytes(4096, '\0');
  put(bytes, 0x00, {0xb3, 0x15, 0x21, 0x10});  // vendor and device
  put(bytes, 0x06, {0x10, 0x00});              // status: has capabilities
  put(bytes, 0x08, {0x00, 0x00, 0x00, 0x02});  // revision and class
  put(bytes, 0x2c, {0xb3, 0x15, 0x27, 0x00});  // subsystem
  put(bytes, 0x34, {0x60});                    // place of the first capability
  put(bytes, 0x60, {0x10, 0x00});              // PCI Express, and no further one
  put(bytes, 0x6c, {0x05, 0x01, 0x00, 0x00});  // 32 GT/s, 16 lanes
  put(bytes, 0x72, {0x84, 0x00});              // 16 GT/s, 8 lanes
  put(bytes, 0x100, {0x0d, 0x00, 0x01, 0x00, 0x00, 0x00, 0x1d, 0x00});  // ACS
  return bytes;
}

SortedJson function(const std::string& real_path) {
  return {{"realpath", real_path},
          {"config", to_base64(deflated(nic_config()))},
          {"modalias", "pci:v000015B3d00001021"}};
}

constexpr const char* kPort = "/sys/devices/pci0000:30/0000:30:01.0";
constexpr const char* kNic = "/sys/devices/pci0000:30/0000:30:01.0/0000:3a:00.0";

SortedJson sample() {
  SortedJson nic = function(kNic);
  nic["iommu_group"] = 7;
  nic["numa_node"] = 1;
  nic["vpd"] = to_base64(deflated("vital"));
  nic["subsystems"] = {{"infiniband", {"mlx5_0"}}, {"net", {"eth2"}}};
  SortedJson port = function(kPort);
  port["iommu_group"] = nullptr;
  return SortedJson::array({port, nic});
}

std::string topo_refusal(const SortedJson& dump) {
  const auto record = record_of(dump.dump(), "dump.json");
  EXPECT_FALSE(record);
  return record ? "" : record.error().text;
}

/// A dump of one function with the member `key` replaced by `value`.
SortedJson with(const char* key, SortedJson value) {
  SortedJson one = function(kNic);
  one[key] = std::move(value);
  return SortedJson::array({one});
}

class DoctorRdmaTopo : public testing::Test {
 protected:
  void SetUp() override {
    auto record = record_of(sample().dump(), "dump.json");
    ASSERT_TRUE(record) << record.error().text;
    machine_ = std::make_unique<Archive>(std::move(*record));
  }

  std::string file(const char* name) {
    return machine_->file("/sys/bus/pci/devices/0000:3a:00.0/" + std::string(name)).value;
  }

  std::unique_ptr<Archive> machine_;
};

TEST_F(DoctorRdmaTopo, HasEachFunctionBelowItsBridge) {
  EXPECT_THAT(machine_->folder("/sys/bus/pci/devices").values,
              ElementsAre("0000:30:01.0", "0000:3a:00.0"));
  EXPECT_EQ(machine_->real_path("/sys/bus/pci/devices/0000:3a:00.0").value, kNic);
  EXPECT_EQ(file("numa_node"), "1\n");
  EXPECT_EQ(machine_->file("/sys/bus/pci/devices/0000:30:01.0/numa_node").error, ENOENT);
}

TEST_F(DoctorRdmaTopo, HasTheConfigurationSpaceAndItsFiles) {
  const PciConfig config = PciConfig::read(*machine_, "0000:3a:00.0");
  const PciCapability acs = config.find_extended(kAcsExtended);
  ASSERT_TRUE(acs.is_found());
  EXPECT_EQ(config.u16(acs.offset + 6), 0x001d);
  EXPECT_EQ(file("vendor"), "0x15b3\n");
  EXPECT_EQ(file("device"), "0x1021\n");
  EXPECT_EQ(file("class"), "0x020000\n");
  EXPECT_EQ(file("subsystem_device"), "0x0027\n");
  EXPECT_EQ(file("modalias"), "pci:v000015B3d00001021\n");
  EXPECT_EQ(file("vpd"), "vital");
}

TEST_F(DoctorRdmaTopo, HasTheLinkAsTheKernelWordsIt) {
  EXPECT_EQ(file("max_link_speed"), "32.0 GT/s PCIe\n");
  EXPECT_EQ(file("max_link_width"), "16\n");
  EXPECT_EQ(file("current_link_speed"), "16.0 GT/s PCIe\n");
  EXPECT_EQ(file("current_link_width"), "8\n");
}

TEST_F(DoctorRdmaTopo, HasGroupsAndDevices) {
  EXPECT_EQ(machine_->link("/sys/bus/pci/devices/0000:3a:00.0/iommu_group").value,
            "../../../../kernel/iommu_groups/7");
  EXPECT_EQ(machine_->link("/sys/bus/pci/devices/0000:30:01.0/iommu_group").error, ENOENT);
  EXPECT_THAT(machine_->folder("/sys/class/infiniband").values, ElementsAre("mlx5_0"));
  EXPECT_THAT(machine_->folder("/sys/bus/pci/devices/0000:3a:00.0/net").values,
              ElementsAre("eth2"));
  EXPECT_EQ(machine_->folder("/sys/bus/pci/devices/0000:30:01.0/net").error, ENOENT);
  EXPECT_EQ(machine_->real_path("/sys/class/infiniband/mlx5_0/device").value, kNic);
  EXPECT_EQ(machine_->link("/sys/class/infiniband/mlx5_0").value,
            "../../devices/pci0000:30/0000:30:01.0/0000:3a:00.0/infiniband/mlx5_0");
}

TEST_F(DoctorRdmaTopo, ReportsAllElseAsUnknown) {
  EXPECT_EQ(machine_->file("/proc/cmdline").error, EPERM);
  EXPECT_EQ(machine_->file("/sys/class/infiniband/mlx5_0/ports/1/state").error, EPERM);
  EXPECT_EQ(machine_->folder("/dev/infiniband").error, EPERM);
  EXPECT_EQ(machine_->call("uname"), (Json{{"error", ENOSYS}}));
  EXPECT_TRUE(machine_->record().partial);
  EXPECT_EQ(machine_->record().version, "");
}

TEST_F(DoctorRdmaTopo, BecomesAnArchive) {
  const auto again = record_of(archive_text(machine_->record()), "machine.json");
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(*again, machine_->record());
}

TEST(DoctorRdmaTopoImport, RefusesOtherFiles) {
  EXPECT_THAT(topo_refusal({1}),
              HasSubstr("dump.json can't be read as a machine: a function is no"));
  EXPECT_THAT(topo_refusal(SortedJson::array({SortedJson::object()})),
              HasSubstr("a function has no \"realpath\""));
  for (const char* path : {"", "/", "0000:3a:00.0", "/sys/devices/x", "/etc/0000:3a:00.0",
                           "/sys/devices/../0000:3a:00.0", "/sys/devices/0000:3A:00.0"})
    EXPECT_THAT(topo_refusal(with("realpath", path)), HasSubstr("is none of a PCI function"))
        << path;
  EXPECT_THAT(topo_refusal(SortedJson::array({function(kNic), function(kNic)})),
              HasSubstr("it has the function 0000:3a:00.0 twice"));
  for (const SortedJson& config :
       {SortedJson(), SortedJson(1), SortedJson("?"), SortedJson("eA==")})
    EXPECT_THAT(topo_refusal(with("config", config)),
                HasSubstr("the \"config\" of 0000:3a:00.0 is no base64 of zlib's format"));
  EXPECT_THAT(topo_refusal(with("modalias", nullptr)), HasSubstr("the \"modalias\" of"));
  EXPECT_THAT(topo_refusal(with("iommu_group", -1)), HasSubstr("the \"iommu_group\" of"));
  EXPECT_THAT(topo_refusal(with("numa_node", "1")), HasSubstr("the \"numa_node\" of"));
  EXPECT_THAT(topo_refusal(with("subsystems", 1)), HasSubstr("the \"subsystems\" of"));
  for (const char* names :
       {R"("a")", R"([1])", R"([""])", R"(["a/b"])", R"([".."])", R"(["a","a"])"})
    EXPECT_THAT(topo_refusal(with("subsystems", {{"net", SortedJson::parse(names)}})),
                HasSubstr("are no lists of names"));
}

TEST(DoctorRdmaTopoImport, LimitsTheSizeOfAFunction) {
  const auto packed = [](std::size_t bytes) {
    return to_base64(deflated(std::string(bytes, 'a')));
  };
  EXPECT_THAT(topo_refusal(with("config", packed(4097))), HasSubstr("has more than 4096 bytes"));
  EXPECT_THAT(topo_refusal(with("vpd", packed(32769))), HasSubstr("has more than 32768 bytes"));
  EXPECT_THAT(topo_refusal(with("modalias", std::string(70000, 'a'))),
              HasSubstr("the \"modalias\""));
  EXPECT_THAT(topo_refusal(SortedJson::array_t(8193)),
              HasSubstr("it has more than 8192 functions"));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
