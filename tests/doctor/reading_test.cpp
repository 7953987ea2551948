// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/reading.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "tests/doctor/fixture_machine.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/ports.hpp"
#include "tools/doctor/evidence/archive.hpp"

namespace hbmwire::tools::doctor {
namespace {

// A machine that answers one call with a given value, and has nothing else.
class OneCall final : public Evidence {
 public:
  OneCall(std::string name, Json answer) : name_(std::move(name)), answer_(std::move(answer)) {}

  Answer file(const std::string&) override { return {.error = ENOENT, .value = {}}; }

  Names folder(const std::string&) override { return {.error = ENOENT, .values = {}}; }

  Answer link(const std::string&) override { return {.error = ENOENT, .value = {}}; }

  Answer real_path(const std::string&) override { return {.error = ENOENT, .value = {}}; }

  Answer access(const std::string&) override { return {.error = ENOENT, .value = {}}; }

  Json call(const std::string& name) override {
    return name == name_ ? answer_ : Json{{"error", ENOSYS}};
  }

 private:
  std::string name_;
  Json answer_;
};

TEST(DoctorReading, TakesTheFirstLineWithoutBlanks) {
  EXPECT_EQ(first_line(" 4: ACTIVE\n5: LinkUp\n"), "4: ACTIVE");
  EXPECT_EQ(first_line("\n"), "");
  EXPECT_EQ(first_line(""), "");
}

TEST(DoctorReading, FindsTheValueOfAKey) {
  EXPECT_EQ(value_of_key("Name:\tx\nSeccomp:\t2\n", "Seccomp:"), "2");
  EXPECT_EQ(value_of_key("Name:\tx\n", "Seccomp:"), std::nullopt);
}

TEST(DoctorReading, ExpandsListsOfCpus) {
  EXPECT_EQ(cpus_in("0-2,8\n"), (std::vector<std::uint64_t>{0, 1, 2, 8}));
  EXPECT_TRUE(cpus_in("\n").empty());
  EXPECT_TRUE(cpus_in("3-").empty());
  // A list is cut after 8192 CPUs.
  EXPECT_EQ(cpus_in("0-18446744073709551615").size(), 8192U);
  EXPECT_TRUE(cpus_in("9-3").empty());
}

TEST(DoctorReading, TakesVersionsOfKernelsAndDrivers) {
  EXPECT_EQ(version_in("6.1.0-13-amd64"), (ShortVersion{6, 1}));
  EXPECT_EQ(version_in("535.129.03"), (ShortVersion{535, 129}));
  EXPECT_EQ(version_in("6"), std::nullopt);
  EXPECT_EQ(version_in("x.y"), std::nullopt);
}

TEST(DoctorReading, TakesAMalformedAnswerForAnError) {
  for (const char* answer : {"null", "[]", "7", "{}", R"({"value": null})", R"({"error": "13"})"}) {
    OneCall machine("uname", Json::parse(answer));
    EXPECT_EQ(ask(machine, "uname").error, EPROTO) << answer;
  }
  OneCall machine("uname", {{"error", EACCES}});
  EXPECT_EQ(ask(machine, "uname").error, EACCES);
  EXPECT_EQ(ask(machine, "limits").error, ENOSYS);
}

TEST(DoctorReading, ReadsMembersOfValuesThatAreNoObjects) {
  EXPECT_TRUE(member(Json("text"), "key").is_null());
  EXPECT_EQ(text_at(Json{{"key", 7}}, "key"), "");
  EXPECT_EQ(number_at(Json{{"key", -7}}, "key"), std::nullopt);
  EXPECT_EQ(number_at(Json{{"key", 7.5}}, "key"), std::nullopt);
  EXPECT_EQ(number_at(Json{{"key", 7}}, "key"), 7U);
}

// An archive is foreign: each of its values may have the wrong type.
TEST(DoctorReading, FindsNoHardwareInStrangeAnswers) {
  for (const char* info :
       {"7", "[1, 2]", R"({"nics": 7, "memory": "x"})", R"({"nics": [7, null, {"name": 3}]})",
        R"({"memory": [{"type": 7, "devices": [[], 3, {"pci_address": {}}]}]})",
        R"({"nics": [{"name": "a", "pci_address": "../..", "ports": {"port": 1}}]})"}) {
    OneCall machine("info", {{"value", Json::parse(info)}});
    for (const Check& check : all_checks()) {
      for (const Finding& finding : check.run(machine))
        EXPECT_EQ(finding.check, check.name) << info;
    }
  }
}

// A machine of which only some facts are known, as from a dump of rdma_topo. All others are
// unknown.
class PartlyKnown : public Evidence {
 public:
  PartlyKnown(const std::string& fixture, std::string prefix)
      : machine_(fixture_machine(fixture)), prefix_(std::move(prefix)) {}

  Answer file(const std::string& path) override {
    return is_known(path) ? machine_->file(path) : forbidden();
  }

  Names folder(const std::string& path) override {
    return is_known(path) ? machine_->folder(path) : Names{.error = EPERM, .values = {}};
  }

  Answer link(const std::string& path) override {
    return is_known(path) ? machine_->link(path) : forbidden();
  }

  Answer real_path(const std::string& path) override {
    return is_known(path) ? machine_->real_path(path) : forbidden();
  }

  Answer access(const std::string&) override { return forbidden(); }

  Json call(const std::string&) override { return {{"error", ENOSYS}}; }

 protected:
  Evidence& machine() { return *machine_; }

 private:
  [[nodiscard]] bool is_known(const std::string& path) const {
    return !prefix_.empty() && path.starts_with(prefix_);
  }

  static Answer forbidden() { return {.error = EPERM, .value = {}}; }

  std::unique_ptr<Evidence> machine_;
  std::string prefix_;
};

void expect_only(Evidence& machine, bool may_be_good) {
  for (const Check& check : all_checks()) {
    for (const Finding& finding : check.run(machine)) {
      const bool allowed =
          finding.verdict == Verdict::unknown || (may_be_good && finding.verdict == Verdict::good);
      EXPECT_TRUE(allowed) << check.name << " [" << finding.subject << "] "
                           << to_string(finding.verdict) << ": " << finding.found;
    }
  }
}

TEST(DoctorReading, HiddenFactsAreUnknown) {
  PartlyKnown machine("gaudi2-pair", "");
  expect_only(machine, false);
}

// These machines have no faults.
TEST(DoctorReading, HiddenFactsAreNoFault) {
  for (const char* fixture : {"gaudi2-pair", "mi300x", "nvidia-closed-driver-with-peermem"}) {
    for (const char* prefix : {"/sys/bus/pci/", "/sys/bus/", "/sys/class/", "/sys/", "/proc/"}) {
      SCOPED_TRACE(std::string(fixture) + " " + prefix);
      PartlyKnown machine(fixture, prefix);
      expect_only(machine, true);
    }
  }
}

TEST(DoctorReading, AnErrnoOfRightsOrShortageIsNoAnswer) {
  for (const int error : {0, ENOENT, ENODEV, EINVAL}) EXPECT_FALSE(is_unread(error)) << error;
  for (const int error : {EACCES, EPERM, EMFILE, EIO}) EXPECT_TRUE(is_unread(error)) << error;
}

TEST(DoctorReading, NothingBelowAHiddenFolderIsTakenForAbsent) {
  const auto machine = fixture_machine("gaudi2-pair");
  EXPECT_EQ(error_below(*machine, "/proc/sys/vm", ENOENT), ENOENT);
  EXPECT_EQ(error_below(*machine, "/proc/sys/vm", 0), 0);
  // The fixture has no file of this folder, so a missing one proves nothing.
  EXPECT_EQ(error_below(*machine, "/proc/sys/net", ENOENT), ENODATA);
  PartlyKnown hidden("gaudi2-pair", "/proc/");
  EXPECT_EQ(error_below(hidden, "/sys", ENOENT), EPERM);
}

TEST(DoctorReading, TellsNamesOfDevicesFromOtherTexts) {
  for (const char* name : {"mlx5_0", "enp1s0f0np0", "eth0.100", "0000:3a:00.0", "user@1000"})
    EXPECT_TRUE(is_device_name(name)) << name;
  for (const char* text : {"", "-rf", ".", "..", "a/b", "a b", "a;b", "$(x)", "a\x1b", "a\n"})
    EXPECT_FALSE(is_device_name(text)) << text;
}

constexpr const char* kForeign = "$(x)";

Json with_foreign_texts(const Json& value) {
  if (value.is_string()) return value.get<std::string>() + kForeign;
  if (!value.is_structured()) return value;
  Json copy = value;
  for (auto& each : copy) each = with_foreign_texts(each);
  return copy;
}

// A machine with shell commands in some of its texts.
class Foreign final : public PartlyKnown {
 public:
  Foreign(const std::string& fixture, std::string where)
      : PartlyKnown(fixture, "/"), where_(std::move(where)) {}

  Answer file(const std::string& path) override {
    Answer answer = PartlyKnown::file(path);
    if (path.find(where_) == std::string::npos || answer.error != 0) return answer;
    std::string text;
    for (const std::string_view line : lines_in(answer.value))
      text += std::string(line) + kForeign + "\n";
    answer.value = text;
    return answer;
  }

  Names folder(const std::string& path) override {
    Names names = PartlyKnown::folder(path);
    if (where_ == "folder") {
      for (std::string& name : names.values) name += kForeign;
    }
    return names;
  }

  Answer link(const std::string& path) override {
    Answer answer = PartlyKnown::link(path);
    if (where_ == "link") answer.value += kForeign;
    return answer;
  }

  Answer real_path(const std::string& path) override {
    Answer answer = PartlyKnown::real_path(path);
    if (where_ == "realpath") answer.value += kForeign;
    return answer;
  }

  Answer access(const std::string&) override { return {.error = ENOENT, .value = {}}; }

  Json call(const std::string& name) override {
    const Json answer = machine().call(name);
    return where_ == name ? with_foreign_texts(answer) : answer;
  }

 private:
  std::string where_;
};

TEST(DoctorReading, PutsNoForeignTextIntoARemedy) {
  // Machines with faults, whose remedies name something of the machine.
  for (const char* fixture : {"acs-on", "interface-without-address", "rdma-quota", "lossy-fabric",
                              "short-read-requests", "nic-behind-the-other-socket",
                              "container-without-nodes", "mi300x-kernel-without-options"}) {
    for (const char* where :
         {"folder", "link", "realpath", "info", "uname", "/ndevs/", "rdma.max", "/proc/self/cgroup",
          "numa_node", "ibdev", "pci_addr", "state", "version", "local_cpulist"}) {
      Foreign machine(fixture, where);
      for (const Check& check : all_checks()) {
        for (const Finding& finding : check.run(machine))
          EXPECT_EQ(finding.remedy.find(kForeign), std::string::npos)
              << fixture << ", " << where << ": " << finding.remedy;
      }
    }
  }
}

TEST(DoctorHardware, TellsPciAddressesFromOtherNames) {
  EXPECT_TRUE(is_pci_address("0000:3a:00.0"));
  EXPECT_TRUE(is_pci_address("10000:3a:00.0"));
  EXPECT_FALSE(is_pci_address("pci0000:30"));
  EXPECT_FALSE(is_pci_address("0000:3a:00.0/../x"));
  EXPECT_FALSE(is_pci_address("0000:3a:00.0;x"));
  EXPECT_FALSE(is_pci_address("a b:c;d:00.0"));
  EXPECT_FALSE(is_pci_address(""));
}

TEST(DoctorHardware, LeavesOutScaleUpNicsAndMeetsBelowASwitch) {
  const auto machine = fixture_machine("oam-of-eight-gaudi2");
  const Hardware hardware = hardware_of(*machine);
  EXPECT_EQ(hardware.nics.size(), 4U);
  EXPECT_EQ(hardware.cards.size(), 8U);
  const auto pairs = neighbours_in(*machine, hardware);
  ASSERT_EQ(pairs.size(), 8U);
  EXPECT_EQ(pairs[0].bridges, (std::vector<std::string>{"0000:12:02.0", "0000:12:00.0"}));
}

// Checks compare each NIC with each other one. Without a limit, an archive of 2 MiB took more than
// 40 s.
TEST(DoctorHardware, HardwareOfAnArchiveIsBounded) {
  Record record;
  Names& names = record.folders["/sys/class/infiniband"];
  Names& numbers = record.folders["/sys/class/infiniband/nic0/ports"];
  for (int i = 0; i < 90'000; ++i) {
    names.values.push_back("nic" + std::to_string(i));
    numbers.values.push_back(std::to_string(i));
  }
  Archive machine(std::move(record));
  const Hardware hardware = hardware_of(machine);
  // At most 1024 NICs and 256 ports are judged.
  EXPECT_EQ(hardware.nics.size(), 1024U);
  std::vector<Finding> unread;
  EXPECT_EQ(ports_of(machine, hardware, "port", unread).size(), 256U);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
