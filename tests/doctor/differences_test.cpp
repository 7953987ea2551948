// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "tests/doctor/altered_machine.hpp"
#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/recorder.hpp"
#include "tools/doctor/evidence/scrub.hpp"
#include "tools/doctor/remote/side_by_side.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Matter = Difference::Matter;

const std::string kPair = "gaudi2-pair";
const std::string kPortFolder = "/sys/class/infiniband/mlx5_0/ports/1";

Answer text(std::string value) { return {.error = 0, .value = std::move(value)}; }

/// Reads each fixture only once.
Evidence& machine_of(const std::string& fixture) {
  static std::map<std::string, std::unique_ptr<Evidence>> known;
  std::unique_ptr<Evidence>& machine = known[fixture];
  if (!machine) machine = fixture_machine(fixture);
  return *machine;
}

std::vector<Difference> between(const std::string& here, const std::string& there) {
  return differences(machine_of(here), machine_of(there));
}

/// The differences between an altered machine like kPair, here, and kPair itself, there.
std::vector<Difference> against_pair(AlteredMachine& here) {
  return differences(here, machine_of(kPair));
}

std::optional<Difference> find_difference(const std::vector<Difference>& all,
                                          const std::string& what) {
  const auto found = std::ranges::find(all, what, &Difference::what);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> words_of(const std::vector<Difference>& all) {
  std::vector<std::string> words;
  for (const Difference& difference : all)
    words.push_back(difference.what + ": " + difference.here + " here, " + difference.there +
                    " there");
  return words;
}

TEST(DoctorDifferences, AMachineDoesNotDifferFromItself) {
  for (const std::string& fixture : fixture_names())
    EXPECT_THAT(words_of(between(fixture, fixture)), IsEmpty()) << fixture;
}

TEST(DoctorDifferences, NameTheOneNicWhoseMtuDiffers) {
  const auto all = between(kPair, "jumbo-frames-on-one-side");
  ASSERT_EQ(all.size(), 2U) << testing::PrintToString(words_of(all));
  const auto path = find_difference(all, "path MTU");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->here, "4096");
  EXPECT_EQ(path->there, "1024 on mlx5_1; 4096 on mlx5_0");
  EXPECT_EQ(path->matter, Matter::fault);
  const auto interface = find_difference(all, "MTU of interfaces");
  ASSERT_TRUE(interface);
  EXPECT_EQ(interface->there, "1500 on mlx5_1; 9000 on mlx5_0");
  EXPECT_EQ(interface->source, "/sys/class/net/ens2np0/mtu");
  EXPECT_EQ(interface->matter, Matter::note);
}

TEST(DoctorDifferences, NameBothNicsWhereEachMachineHasOne) {
  AlteredMachine here(kPair);
  here.set_info("/nics/0/ports/0/mtu_bytes", 1024);
  EXPECT_THAT(words_of(against_pair(here)),
              testing::ElementsAre("path MTU of mlx5_0: 1024 here, 4096 there"));
}

TEST(DoctorDifferences, NameTheKindOfTheGidThatIsUsed) {
  const auto all = between("gids-of-roce-v1", kPair);
  const auto kind = find_difference(all, "kind of GID of mlx5_0");
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->here, "RoCE v1");
  EXPECT_EQ(kind->there, "RoCE v2 (IPv4)");
  EXPECT_EQ(kind->matter, Matter::fault);
  EXPECT_TRUE(find_difference(all, "RoCE mode of rdma_cm of mlx5_0"));
}

TEST(DoctorDifferences, TellIpv4FromALinkLocalAddress) {
  const auto kind =
      find_difference(between(kPair, "interface-without-address"), "kind of GID of mlx5_0");
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->there, "RoCE v2 (link-local)");
}

// The tables have GIDs of the same kinds, but each at another index.
TEST(DoctorDifferences, TwoOrdersOfOneGidTableDifferInTheIndex) {
  const auto all = between("gid-table-with-v1-first", kPair);
  ASSERT_EQ(all.size(), 1U) << testing::PrintToString(words_of(all));
  EXPECT_EQ(words_of(all).front(), "GID index of mlx5_0: 1 here, 3 there");
  EXPECT_EQ(all.front().matter, Matter::note);
}

TEST(DoctorDifferences, TakeTheGidsOfInfoWhereSysfsHasNone) {
  AlteredMachine here(kPair);
  here.folders[kPortFolder + "/gids"] = {.error = EACCES, .values = {}};
  EXPECT_THAT(words_of(against_pair(here)), IsEmpty());
  here.set_info("/nics/0/ports/0/gids/3/gid", "2001:db8::1");
  EXPECT_THAT(
      words_of(against_pair(here)),
      testing::ElementsAre("kind of GID of mlx5_0: RoCE v2 (IPv6) here, RoCE v2 (IPv4) there"));
}

TEST(DoctorDifferences, ListKernelAndRdmaCore) {
  const auto all = between("kernel-too-old", kPair);
  const auto kernel = find_difference(all, "kernel");
  ASSERT_TRUE(kernel);
  EXPECT_THAT(kernel->here, StartsWith("5.10."));
  EXPECT_EQ(kernel->source, "uname(2)");
  EXPECT_EQ(kernel->matter, Matter::note);
  const auto library = find_difference(all, "rdma-core");
  ASSERT_TRUE(library);
  EXPECT_EQ(library->here, "33.1");
  EXPECT_EQ(library->there, "50.0");
}

TEST(DoctorDifferences, ListVersionAndProtocolsOfHbmwire) {
  AlteredMachine here(kPair);
  AlteredMachine there(kPair);
  here.set_info("/version", "0.2.0");
  here.set_info("/protocols", {{"endpoint", 9}, {"memory_key", 3}});
  there.set_info("/protocols", {{"endpoint", 8}, {"memory_key", 3}});
  const auto all = differences(here, there);
  EXPECT_THAT(words_of(all), testing::ElementsAre("protocol of endpoints: 9 here, 8 there",
                                                  "hbmwire: 0.2.0 here, 0.1.1 there"));
  EXPECT_EQ(all[0].matter, Matter::fault);
  EXPECT_EQ(all[1].matter, Matter::note);
}

TEST(DoctorDifferences, TakeTheArchivesVersionWhereTheMachineTellsNone) {
  AlteredMachine here(kPair);
  here.calls["info"] = {{"error", EIO}};
  EXPECT_THAT(words_of(against_pair(here)), IsEmpty());
  EXPECT_THAT(words_of(differences(here, machine_of(kPair), {.here = "0.2.0", .there = {}})),
              testing::ElementsAre("hbmwire: 0.2.0 here, 0.1.1 there"));
}

TEST(DoctorDifferences, ListSettingsOfTheEnvironmentOrOfInfo) {
  AlteredMachine here(kPair);
  here.calls["environment"] = {
      {"value", {{"HBMWIRE_LINK_TRAFFIC_CLASS", "106"}, {"HBMWIRE_GID_INDEX", "3"}}}};
  const auto all = against_pair(here);
  EXPECT_THAT(words_of(all),
              testing::ElementsAre("HBMWIRE_LINK_TRAFFIC_CLASS: 106 here, not set there",
                                   "HBMWIRE_GID_INDEX: 3 here, not set there"));
  EXPECT_EQ(all[0].matter, Matter::fault);
  // A settings file may also contain them: "info" has priority over the environment.
  AlteredMachine there(kPair);
  there.set_info("/settings", {{{"name", "HBMWIRE_LINK_TRAFFIC_CLASS"}, {"value", "106"}},
                               {{"name", "HBMWIRE_LINK_SERVICE_LEVEL"}, {"value", "3"}}});
  EXPECT_THAT(words_of(differences(here, there)),
              testing::ElementsAre("HBMWIRE_LINK_SERVICE_LEVEL: not set here, 3 there"));
}

TEST(DoctorDifferences, ListTheKernelsTrafficClasses) {
  AlteredMachine here(kPair);
  here.files["/sys/class/infiniband/mlx5_0/tc/1/traffic_class"] = text("Global tclass=106\n");
  here.files["/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"] = text("106\n");
  EXPECT_THAT(
      words_of(against_pair(here)),
      testing::ElementsAre("forced traffic class of mlx5_0: Global tclass=106 here, not set there",
                           "type of service of rdma_cm of mlx5_0: 106 here, 0 there"));
}

TEST(DoctorDifferences, JoinModulesThatDifferAlike) {
  AlteredMachine here(kPair);
  here.files["/sys/module/mlx5_core/version"] = text("24.10-0.7.0\n");
  here.files["/sys/module/mlx5_ib/version"] = text("24.10-0.7.0\n");
  here.files["/sys/module/habanalabs/version"] = text("1.19.0\n");
  EXPECT_THAT(
      words_of(against_pair(here)),
      testing::ElementsAre("driver mlx5_core, mlx5_ib: 24.10-0.7.0 here, the kernel's own there",
                           "driver habanalabs: 1.19.0 here, 1.18.0-ee698fb there"));
}

TEST(DoctorDifferences, ListBuildsOfModulesOnlyWithinOneKernelRelease) {
  AlteredMachine here(kPair);
  here.files["/sys/module/mlx5_ib/srcversion"] = text("ABC\n");
  EXPECT_THAT(words_of(against_pair(here)),
              testing::ElementsAre("build of mlx5_ib (6.8.0-45-generic): ABC here, "
                                   "7E8F9A0B1C2D3E4F5A6B7C8 there"));
  here.calls["uname"] = {{"value", {{"release", "6.9.0"}, {"machine", "x86_64"}}}};
  EXPECT_THAT(words_of(against_pair(here)),
              testing::ElementsAre("kernel: 6.9.0 here, 6.8.0-45-generic there"));
}

TEST(DoctorDifferences, ListFirmwareOfNicsOfOneKind) {
  AlteredMachine here(kPair);
  here.files["/sys/class/infiniband/mlx5_0/fw_ver"] = text("20.41.1000\n");
  EXPECT_THAT(
      words_of(against_pair(here)),
      testing::ElementsAre("firmware of NICs 0x15b3:0x101b: 20.41.1000 here, 20.39.3560 there"));
  // Another model of NIC: the firmware of two models is not compared.
  here.files["/sys/bus/pci/devices/0000:35:00.0/device"] = text("0x1021\n");
  EXPECT_THAT(words_of(against_pair(here)), IsEmpty());
}

TEST(DoctorDifferences, PartitionsAreComparedByNumber) {
  AlteredMachine here("dgx-with-acs-on");
  AlteredMachine there("dgx-with-acs-on");
  // The highest bit only tells full members of a partition from limited ones.
  const std::string key = kPortFolder + "/pkeys/0";
  here.files[key] = text("0x7fff\n");
  there.files[key] = text("0xffff\n");
  EXPECT_THAT(words_of(differences(here, there)), IsEmpty());
  there.files[key] = text("0x8001\n");
  const auto all = differences(here, there);
  ASSERT_EQ(all.size(), 1U) << testing::PrintToString(words_of(all));
  EXPECT_EQ(all.front().here, "0x7fff");
  EXPECT_EQ(all.front().there, "0x0001");
}

TEST(DoctorDifferences, AValueThatOneMachineLacksIsNoDifference) {
  Record nothing;
  nothing.partial = true;
  Archive unknown(nothing);
  for (const std::string& fixture : fixture_names()) {
    EXPECT_THAT(words_of(differences(machine_of(fixture), unknown)), IsEmpty()) << fixture;
    EXPECT_THAT(words_of(differences(unknown, machine_of(fixture))), IsEmpty()) << fixture;
  }
}

TEST(DoctorDifferences, ARecordedMachineDiffersAsTheLiveMachineDoes) {
  for (const char* fixture : {"jumbo-frames-on-one-side", "gids-of-roce-v1", "kernel-too-old"}) {
    Recorder recorder(machine_of(fixture));
    ask_for_differences(recorder);
    Archive archive(scrubbed(recorder.record(), PrivateNames()));
    EXPECT_EQ(words_of(differences(archive, machine_of(kPair))), words_of(between(fixture, kPair)));
  }
}

/// Whether a terminal can show the text unchanged, in a few lines.
bool is_fit(const std::string& text, std::size_t most) {
  return text.size() <= most &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

void expect_fit(const std::vector<Difference>& all, const std::string& prefix) {
  EXPECT_LE(all.size(), 100U) << prefix;
  for (const Difference& difference : all) {
    EXPECT_TRUE(is_fit(difference.what, 200)) << prefix << difference.what;
    EXPECT_TRUE(is_fit(difference.here, 800)) << prefix << difference.here;
    EXPECT_TRUE(is_fit(difference.there, 800)) << prefix << difference.there;
    EXPECT_TRUE(is_fit(difference.source, 200)) << prefix << difference.source;
  }
  EXPECT_FALSE(to_json(all).dump().empty());
  for (const std::string& line : difference_lines(all, {})) EXPECT_TRUE(is_fit(line, 400)) << line;
}

TEST(DoctorDifferences, DifferencesOfAnyTwoMachinesArePrintable) {
  for (const std::string& here : fixture_names()) {
    for (const std::string& there : fixture_names())
      expect_fit(between(here, there), here + " and " + there + ": ");
  }
}

/// Answers all questions about files with the same text, and all calls with the same value.
class HostileMachine final : public Evidence {
 public:
  HostileMachine(std::string fixture, std::string bytes, Json value)
      : fixture_(fixture_machine(fixture)), bytes_(std::move(bytes)), value_(std::move(value)) {}

  Answer file(const std::string& path) override {
    // The ports stay active, so that they are checked.
    return path.ends_with("/state") ? fixture_->file(path) : text(bytes_);
  }

  Names folder(const std::string& path) override {
    Names names = fixture_->folder(path);
    names.error = 0;
    names.values.push_back(bytes_.substr(0, 4000));
    return names;
  }

  Answer link(const std::string& path) override {
    return path.find("libibverbs") != std::string::npos ? text("libibverbs.so.1.9" + bytes_)
                                                        : text(bytes_);
  }

  Answer real_path(const std::string& /*path*/) override { return text(bytes_); }

  Answer access(const std::string& /*path*/) override { return {}; }

  Json call(const std::string& /*name*/) override { return value_; }

 private:
  std::unique_ptr<Evidence> fixture_;
  std::string bytes_;
  Json value_;
};

/// Replaces all texts in a value.
Json with_texts(Json value, const std::string& text) {
  if (value.is_string()) return text;
  if (value.is_structured()) {
    for (Json& inner : value) inner = with_texts(inner, text);
  }
  return value;
}

TEST(DoctorDifferences, HostileMachinesCannotControlATerminal) {
  const std::string escapes = "\x1b[2J\x1b]0;title\a\xff\xc3\x28\r\nspoof";
  const Json info = machine_of("jumbo-frames-on-one-side").call("info");
  for (const std::string& bytes : {escapes, std::string(100'000, 'x'), std::string(500, '\n'),
                                   std::string(1, '\0'), std::string()}) {
    for (const Json& call :
         {info, with_texts(info, bytes), Json{{"value", bytes}}, Json(nullptr)}) {
      HostileMachine hostile("jumbo-frames-on-one-side", bytes, call);
      HostileMachine other("jumbo-frames-on-one-side", "other" + bytes, info);
      expect_fit(differences(hostile, machine_of(kPair)), "hostile: ");
      expect_fit(differences(machine_of(kPair), hostile), "hostile: ");
      expect_fit(differences(hostile, other), "two hostile ones: ");
    }
  }
}

/// Puts a value of each kind at each place of "info", one at a time.
void try_at_each_place(AlteredMachine& machine, const Json& info, const std::string& at) {
  for (const Json& wrong :
       {Json(nullptr), Json(true), Json(-1), Json(1e300), Json("text"), Json(~std::uint64_t{0}),
        Json::array({1, "a", nullptr}), Json{{"value", 1}}}) {
    Json call = machine.call("info");
    Json altered = call;
    altered[Json::json_pointer(at)] = wrong;
    machine.calls["info"] = altered;
    expect_fit(differences(machine, machine_of(kPair)), at + ": ");
    machine.calls["info"] = call;
  }
  if (info.is_object()) {
    for (const auto& [key, inner] : info.items()) try_at_each_place(machine, inner, at + "/" + key);
  } else if (info.is_array()) {
    for (std::size_t i = 0; i < info.size(); ++i)
      try_at_each_place(machine, info[i], at + "/" + std::to_string(i));
  }
}

TEST(DoctorDifferences, AnyJsonTypeAnywhereInACallIsAccepted) {
  AlteredMachine machine("jumbo-frames-on-one-side");
  machine.set_info("/protocols", {{"endpoint", 9}, {"memory_key", 3}});
  machine.set_info("/settings", {{{"name", "HBMWIRE_LINK_TRAFFIC_CLASS"}, {"value", "106"}}});
  try_at_each_place(machine, machine.call("info"), "");
  for (const char* call : {"uname", "environment"}) {
    for (const Json& wrong : {Json(3), Json::array(), Json{{"value", 3}}, Json{{"value", "x"}},
                              Json{{"value", {{"release", 3}, {"HBMWIRE_GID_INDEX", 3}}}}}) {
      AlteredMachine altered(kPair);
      altered.calls[call] = wrong;
      expect_fit(against_pair(altered), call);
    }
  }
}

TEST(DoctorDifferences, ThousandsOfNicsAreBounded) {
  AlteredMachine here(kPair);
  Json& nics = (here.calls["info"] = here.call("info"))["value"]["nics"];
  const Json nic = nics[0];
  for (int i = 1; i < 2000; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    nics.push_back(nic);
    nics.back()["name"] = name;
    nics.back()["ports"][0]["mtu_bytes"] = i;
    here.folders["/sys/class/infiniband/" + name + "/ports"] = {.error = 0, .values = {"1"}};
    here.files["/sys/class/infiniband/" + name + "/ports/1/state"] = text("4: ACTIVE\n");
    here.files["/sys/class/infiniband/" + name + "/ports/1/link_layer"] = text("Ethernet\n");
  }
  const auto all = against_pair(here);
  expect_fit(all, "many: ");
  const auto mtu = find_difference(all, "path MTU");
  ASSERT_TRUE(mtu);
  // 256 ports are compared, and three of their values shown.
  EXPECT_THAT(mtu->here, HasSubstr("; and 253 other values"));
}

TEST(DoctorDifferences, CutTextsThatAreTooLong) {
  EXPECT_EQ(shown("12345678", 8), "12345678");
  EXPECT_EQ(shown("123456789", 8), "12345...");
  EXPECT_EQ(shown("a\x1b[2Jb", 8), "a?[2Jb");
}

TEST(DoctorDifferences, AreShownFaultsFirst) {
  const auto all = between("kernel-too-old", "gids-of-roce-v1");
  const auto lines = difference_lines(all, {});
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines[0], "");
  EXPECT_EQ(lines[1], "Differences that can make transfers fail, or slow:");
  EXPECT_EQ(lines[2], " 1. kind of GID of mlx5_0: RoCE v2 (IPv4) here, RoCE v1 there");
  const auto other = std::ranges::find(lines, "Other differences:");
  ASSERT_NE(other, lines.end());
  EXPECT_THAT(other[1], StartsWith(" 1. kernel: 5.10."));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(difference_lines({}, {}), IsEmpty());
}

TEST(DoctorDifferences, EachDifferenceHasItsMembersInJson) {
  const Json json = to_json(between("gid-table-with-v1-first", kPair));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["what"], "GID index of mlx5_0");
  EXPECT_EQ(json[0]["here"], "1");
  EXPECT_EQ(json[0]["there"], "3");
  EXPECT_EQ(json[0]["matter"], "note");
  EXPECT_TRUE(json[0].contains("source") && json[0].contains("remedy"));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
