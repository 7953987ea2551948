// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/live_machine.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/evidence/recorder.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// The text of an archive with one section.
std::string with_section(const std::string& name, const std::string& entries) {
  return R"({"format": "hbmwire doctor", "version": 1, ")" + name + "\": {" + entries + "}}";
}

Record read(const std::string& text) {
  auto record = record_of(text, "machine.json");
  EXPECT_TRUE(record) << (record ? "" : record.error().text);
  return record ? std::move(*record) : Record();
}

/// The message that says why a text is no archive.
std::string refusal(const std::string& text) {
  const auto record = record_of(text, "machine.json");
  EXPECT_FALSE(record) << text.substr(0, 200);
  return record ? "" : record.error().text;
}

/// Matches a message with the file's name, the cause, and the remedy.
auto says(const std::string& cause) {
  return AllOf(StartsWith("replay: machine.json can't be read as a machine: " + cause),
               EndsWith("; write it anew with `hbmwire doctor --save FILE` or `rdma_topo dump` on "
                        "that machine"));
}

TEST(DoctorArchive, AnswersAsTheMachineThatWasRecorded) {
  LiveMachine live;
  live.add_call("pairs", [] { return Json{{"value", {{"z", 1}, {"a", {1, 2, 3}}}}}; });
  Recorder recorder(live);
  const auto ask = [](Evidence& machine) {
    return std::make_tuple(
        machine.file("/proc/self/status"), machine.file("/proc/version"), machine.file("/none"),
        machine.file("/sys"), machine.folder("/sys/class/net"), machine.folder("/none"),
        machine.link("/proc/self/exe"), machine.link("/proc"), machine.real_path("/proc/self/cwd"),
        machine.real_path("/none"), machine.access("/dev/null"), machine.access("/none"),
        machine.call("uname"), machine.call("identity"), machine.call("pairs"),
        machine.call("none"));
  };
  const auto answers = ask(recorder);
  EXPECT_EQ(ask(recorder), answers);
  Archive archive(read(archive_text(recorder.record())));
  EXPECT_EQ(archive.record(), recorder.record());
  EXPECT_EQ(ask(archive), answers);
}

TEST(DoctorArchive, KeepsBytesOfAnyKind) {
  Record record;
  record.files["/text"].value = "a\tb\n";
  record.files["/empty"].value = "";
  record.files["/bytes"].value = std::string("\0\xff\x80", 3);
  record.files["/zeros"].value = std::string(4096, '\0');
  record.files["/forbidden"].error = EACCES;
  record.access["/dev/a"] = {};
  record.access["/dev/b"].error = EACCES;
  record.folders["/f"].values = {"a", "b"};
  record.folders["/g"].error = EPERM;
  const std::string text = archive_text(record);
  EXPECT_LT(text.size(), 1000U);  // the zeros are compressed
  EXPECT_EQ(read(text), record);
}

TEST(DoctorArchive, ReadsHandwrittenFiles) {
  Archive machine(read(R"({"format": "hbmwire doctor", "version": 1, "emulated": true,
      "files": {"/a": {"text": "x"}, "/b": {"base64": "eA=="}, "/c": {"errno": 13}},
      "links": {"/l": {"target": "../a"}}, "calls": {"uname": {"value": {"release": "6.1"}}},
      "unknown": [1, 2]})"));
  EXPECT_TRUE(machine.record().emulated);
  EXPECT_EQ(machine.file("/a").value, "x");
  EXPECT_EQ(machine.file("/b").value, "x");
  EXPECT_EQ(machine.file("/c").error, EACCES);
  EXPECT_EQ(machine.link("/l").value, "../a");
  EXPECT_EQ(machine.call("uname")["value"]["release"], "6.1");
}

TEST(DoctorArchive, FilesMissingInACompleteArchiveAreAbsent) {
  Archive machine{Record()};
  EXPECT_EQ(machine.file("/a").error, ENOENT);
  EXPECT_EQ(machine.folder("/a").error, ENOENT);
  EXPECT_EQ(machine.link("/a").error, ENOENT);
  EXPECT_EQ(machine.real_path("/a").error, ENOENT);
  EXPECT_EQ(machine.access("/a").error, ENOENT);
  EXPECT_EQ(machine.call("uname"), (Json{{"error", ENOSYS}}));
}

// The machine may have the missing files: a newer doctor asks more than the version that wrote the
// archive.
TEST(DoctorArchive, FilesMissingInAPartialArchiveAreUnknown) {
  Record record;
  record.partial = true;
  record.files["/f/a"].value = "x";
  Archive machine(std::move(record));
  EXPECT_EQ(machine.file("/f/b").error, EPERM);
  EXPECT_EQ(machine.folder("/f").error, EPERM);
  EXPECT_EQ(machine.access("/dev/a").error, EPERM);
}

TEST(DoctorArchive, FoldersAreMadeOfTheNamesBelowThem) {
  Record record;
  record.files["/sys/class/a/x/state"].value = "1";
  record.files["/sys/class/b"].value = "1";
  record.files["/sys/class/none"].error = ENOENT;
  record.files["/sys/classes/c"].value = "1";
  record.links["/sys/class/c"].value = "..";
  record.real_paths["/sys/class/d/device"].value = "/sys";
  record.access["/sys/class/e"].error = EACCES;
  record.folders["/sys/class/f/g"].values = {"h"};
  Archive machine(std::move(record));
  EXPECT_THAT(machine.folder("/sys/class").values, ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_THAT(machine.folder("/sys/class/f").values, ElementsAre("g"));
  EXPECT_THAT(machine.folder("/sys/class/f/g").values, ElementsAre("h"));
  EXPECT_THAT(machine.folder("/").values, ElementsAre("sys"));
  EXPECT_EQ(machine.folder("/sys/class/none").error, ENOENT);
}

TEST(DoctorArchive, RefusesOtherFiles) {
  EXPECT_THAT(refusal(""), says("it is no JSON"));
  EXPECT_THAT(refusal("{\"a\": "), says("it is no JSON"));
  EXPECT_THAT(refusal(with_section("files", "") + std::string(3, '\0')), says("it has a byte 0"));
  const std::string sentence =
      refusal(with_section("files", "\"" + std::string(4000, 'x') + "\": {\"text\": \"\"}"));
  EXPECT_THAT(sentence, HasSubstr("is no absolute path; write it anew"));
  EXPECT_LT(sentence.size(), 500U);
  EXPECT_THAT(refusal("1"), says("it is neither an object nor a list"));
  EXPECT_THAT(refusal("{}"), says("its format is not \"hbmwire doctor\""));
  EXPECT_THAT(refusal(R"({"format": "hbmwire perf"})"), says("its format is not"));
  EXPECT_THAT(refusal(R"({"format": "hbmwire doctor", "version": 2})"),
              says("its version is not 1"));
  EXPECT_THAT(refusal(R"({"format": "hbmwire doctor", "version": 1, "emulated": 1})"),
              says("its \"emulated\" is neither true nor false"));
  EXPECT_THAT(refusal(R"({"format": "hbmwire doctor", "version": 1, "files": []})"),
              says("its \"files\" is no object"));
}

TEST(DoctorArchive, RefusesMalformedAnswers) {
  EXPECT_THAT(refusal(with_section("files", R"("a": {"text": ""})")),
              says("files a is no absolute path"));
  EXPECT_THAT(refusal(with_section("files", R"("/a/": {"text": ""})")),
              says("files /a/ is no absolute path"));
  for (const char* entry : {R"({})", R"({"text": 1})", R"({"base64": "a"})", R"({"zlib": "eA=="})"})
    EXPECT_THAT(refusal(with_section("files", std::string("\"/a\": ") + entry)),
                says("files /a has no answer that can be read"));
  for (const char* error : {"0", "-1", "4096", "1.5", "\"13\""})
    EXPECT_THAT(refusal(with_section("files", std::string("\"/a\": {\"errno\": ") + error + "}")),
                says("an \"errno\" is no error number"));
  EXPECT_THAT(refusal(with_section("links", R"("/a": {"text": ""})")),
              says("links /a has no answer"));
  EXPECT_THAT(refusal(with_section("access", R"("/a": {"text": ""})")),
              says("access /a has no answer"));
  EXPECT_THAT(refusal(with_section("folders", R"("/a": {"names": ["b/c"]})")),
              says("folders /a has a name that no file can have"));
  EXPECT_THAT(refusal(with_section("folders", R"("/a": {"names": "b"})")),
              says("folders /a has no answer"));
  EXPECT_THAT(refusal(with_section("calls", R"("a": {})")), says("calls a has neither"));
  EXPECT_THAT(refusal(with_section("calls", R"("a": {"value": 1, "error": 1})")),
              says("calls a has neither"));
  EXPECT_THAT(refusal(with_section("calls", R"("a": 1)")), says("calls a is no object"));
}

TEST(DoctorArchive, LimitsTheSizeOfForeignArchives) {
  EXPECT_THAT(refusal(std::string(kMaxArchiveBytes + 1, ' ')),
              says("it has more than 33554432 bytes"));
  EXPECT_THAT(refusal(std::string(kMaxDepth + 1, '[')), says("it is nested more than 32 deep"));
  EXPECT_THAT(refusal("[\"" + std::string(kMaxTextBytes + 1, 'a') + "\"]"),
              says("it has a text of more than 4194304 bytes"));
  EXPECT_THAT(refusal("{\"" + std::string(kMaxPathBytes + 1, 'a') + "\": 1}"),
              says("it has a key of more than 4096 bytes"));
  std::string values = "[0";
  for (std::size_t i = 0; i < kMaxValues; ++i) values += ",0";
  EXPECT_THAT(refusal(values + "]"), says("it has more than 500000 values"));
  std::string entries = "\"/a\": {}";
  for (std::size_t i = 0; i < kMaxEntries; ++i) entries += ",\"/" + std::to_string(i) + "\": {}";
  EXPECT_THAT(refusal(with_section("access", entries)), says("it has more than 100000 entries"));
  std::string names = R"("/a": {"names": ["a")";
  for (std::size_t i = 0; i < kMaxEntries; ++i) names += ",\"a\"";
  EXPECT_THAT(refusal(with_section("folders", names + "]}")),
              says("it has more than 100000 entries"));
}

TEST(DoctorArchive, LimitsFilesHoweverTheyArePacked) {
  const std::string most(kMaxFileBytes, '\0');
  const std::string more(kMaxFileBytes + 1, '\0');
  const auto file = [](const char* form, const std::string& coded) {
    return with_section("files", std::string("\"/a\": {\"") + form + "\": \"" + coded + "\"}");
  };
  EXPECT_EQ(read(file("base64", to_base64(most))).files["/a"].value, most);
  EXPECT_EQ(read(file("zlib", to_base64(deflated(most)))).files["/a"].value, most);
  const auto too_large = says("it has a file of more than 65536 bytes");
  EXPECT_THAT(refusal(file("text", std::string(kMaxFileBytes + 1, 'a'))), too_large);
  EXPECT_THAT(refusal(file("base64", to_base64(more))), too_large);
  EXPECT_THAT(refusal(file("zlib", to_base64(deflated(more)))), too_large);
}

TEST(DoctorArchive, UnpacksNoMoreThanAllowed) {
  const std::string packed = deflated(std::string(std::size_t{16} << 20U, 'a'));
  EXPECT_EQ(inflated(packed, 1000).state, Inflation::truncated);
  EXPECT_EQ(inflated(packed, 1000).bytes.size(), 1000U);
  EXPECT_EQ(inflated(packed.substr(0, 100), std::size_t{32} << 20U).state, Inflation::broken);
  EXPECT_EQ(inflated("no zlib", 1000).state, Inflation::broken);
  EXPECT_EQ(inflated("", 1000).state, Inflation::broken);
  EXPECT_EQ(inflated(deflated("abc"), 3).bytes, "abc");
  EXPECT_EQ(inflated(deflated(""), 0).state, Inflation::whole);
}

TEST(DoctorArchive, NamesAFileThatCannotBeRead) {
  const auto missing = read_record("/nowhere/machine.json");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text, HasSubstr("/nowhere/machine.json: No such file"));
  const auto folder = read_record("/proc");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().text, HasSubstr("/proc is not a regular file"));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
