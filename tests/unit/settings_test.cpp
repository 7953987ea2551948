// SPDX-License-Identifier: MIT
#include "hbmwire/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/settings_file.hpp"

namespace hbmwire {
namespace {

using testing::HasSubstr;

/// An example for a choice that stands for a kind of number instead of a word; else null.
const char* example_of(std::string_view choice) {
  if (choice == "NUMBER") return "12";
  if (choice == "NUMBER[KMG]") return "12M";
  if (choice == "NAME[,NAME]...") return "mlx5_0,mlx5_1";
  if (choice == "PATH[,PATH]...") return "zero_copy,host";
  if (choice == "0...1") return "0.25";
  if (choice == "1...4096") return "64";
  return choice.starts_with("0...") ? "7" : nullptr;
}

/// Removes all settings of this machine's environment, and provides a folder for files.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    for (const auto& setting : describe_settings()) ::unsetenv(std::string(setting.name).c_str());
    ::unsetenv(kSettingsFileVariable);
    std::filesystem::create_directories(folder_);
  }

  ~SettingsTest() override {
    for (const auto& name : set_) ::unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  std::string write_file(const std::string& text) {
    const auto path = folder_ / "conf";
    std::ofstream(path) << text;
    set(kSettingsFileVariable, path);
    return path;
  }

  static SettingInfo info_of(std::string_view name) {
    const auto all = describe_settings();
    const auto found = std::ranges::find(all, name, &SettingInfo::name);
    EXPECT_NE(found, all.end());
    return *found;
  }

  static std::string refusal() {
    const auto settings = settings_from_environment();
    EXPECT_FALSE(settings);
    if (settings) return {};
    EXPECT_EQ(settings.error().stage, Stage::configure);
    return describe(settings.error());
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("settings-" + std::to_string(::getpid()));
  std::vector<std::string> set_;
};

TEST_F(SettingsTest, DefaultsComeFromNowhere) {
  const auto settings = settings_from_environment();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->log_level, LogLevel::warn);
  for (const auto& setting : describe_settings()) {
    EXPECT_EQ(setting.source, "default");
    EXPECT_EQ(setting.value, setting.default_value);
    EXPECT_FALSE(setting.choices.empty());
    EXPECT_FALSE(setting.help.empty());
    EXPECT_NE(setting.help.back(), '.');
    const std::string choices = "|" + std::string(setting.choices) + "|";
    if (example_of(choices.substr(1, choices.find('|', 1) - 1)) != nullptr) continue;
    const std::string value = setting.value.empty() ? "" : "|" + setting.value + "|";
    EXPECT_THAT(choices, HasSubstr(value));
  }
}

TEST_F(SettingsTest, EveryChoiceOfEachSettingIsTaken) {
  for (const auto& setting : describe_settings()) {
    std::string choices(setting.choices);
    std::ranges::replace(choices, '|', '\n');
    std::istringstream lines(choices);
    for (std::string choice; std::getline(lines, choice);) {
      if (const char* const example = example_of(choice)) choice = example;
      set(std::string(setting.name), choice);
      EXPECT_TRUE(settings_from_environment()) << setting.name << "=" << choice;
      EXPECT_EQ(info_of(setting.name).value, choice);
      EXPECT_EQ(info_of(setting.name).source, "environment");
    }
    ::unsetenv(std::string(setting.name).c_str());
  }
}

TEST_F(SettingsTest, RegistrationHasSettings) {
  set("HBMWIRE_REGISTRATION_WHOLE", "off");
  set("HBMWIRE_REGISTRATION_WHOLE_RATIO", "0.5");
  set("HBMWIRE_REGISTRATION_MAX_REGIONS", "7");
  set("HBMWIRE_REGISTRATION_MAX_BYTES", "3G");
  set("HBMWIRE_REGISTRATION_MAX_DMABUFS", "0");
  set("HBMWIRE_REGISTRATION_WATCH", "yes");
  const auto settings = settings_from_environment();
  ASSERT_TRUE(settings) << describe(settings.error());
  const RegistrationOptions& registration = settings->registration;
  EXPECT_EQ(registration.whole, RegistrationOptions::Whole::off);
  EXPECT_EQ(registration.whole_ratio, 0.5);
  EXPECT_EQ(registration.max_regions, 7U);
  EXPECT_EQ(registration.max_bytes, 3ULL << 30U);
  EXPECT_EQ(registration.max_dmabufs, 0U);
  EXPECT_EQ(registration.watch, RegistrationOptions::Watch::yes);
  EXPECT_EQ(info_of("HBMWIRE_REGISTRATION_WHOLE_RATIO").default_value, "0.1");
  EXPECT_EQ(info_of("HBMWIRE_REGISTRATION_MAX_REGIONS").default_value, "65536");
  EXPECT_EQ(info_of("HBMWIRE_REGISTRATION_MAX_BYTES").default_value, "unlimited");
  set("HBMWIRE_REGISTRATION_CACHE", "1");
  EXPECT_THAT(refusal(), HasSubstr("HBMWIRE_REGISTRATION_"));
}

TEST_F(SettingsTest, EndpointsHaveSettings) {
  const std::array<std::array<const char*, 3>, 8> cases{
      {{"HBMWIRE_GID_INDEX", "255", "256"},
       {"HBMWIRE_LINK_SERVICE_LEVEL", "15", "16"},
       {"HBMWIRE_LINK_TRAFFIC_CLASS", "255", "256"},
       {"HBMWIRE_LINK_PKEY_INDEX", "65535", "65536"},
       {"HBMWIRE_LINK_MTU", "4096", "1500"},
       {"HBMWIRE_LINK_ACK_TIMEOUT", "31", "32"},
       {"HBMWIRE_LINK_RETRY_COUNT", "7", "8"},
       {"HBMWIRE_LINK_RNR_RETRY", "7", "8"}}};
  EXPECT_EQ(settings_from_environment()->endpoint.link, LinkOptions());
  for (const auto& [name, most, beyond] : cases) {
    EXPECT_EQ(info_of(name).default_value, "");
    for (const char* const text : {beyond, "-1", "1x", " 1", "0x1", "18446744073709551616"}) {
      set(name, text);
      EXPECT_THAT(refusal(), HasSubstr(std::string(name) + " takes ")) << text;
    }
    set(name, most);
  }
  const auto settings = settings_from_environment();
  ASSERT_TRUE(settings) << describe(settings.error());
  EXPECT_EQ(settings->endpoint.gid_index, 255);
  EXPECT_EQ(settings->endpoint.link, (LinkOptions{.service_level = 15,
                                                  .traffic_class = 255,
                                                  .pkey_index = 65535,
                                                  .mtu_bytes = 4096,
                                                  .ack_timeout = 31,
                                                  .retry_count = 7,
                                                  .rnr_retry = 7}));
  set("HBMWIRE_LINK_TCLASS", "1");
  EXPECT_THAT(refusal(), HasSubstr("no setting has this name; the nearest is HBMWIRE_LINK_"));
}

TEST_F(SettingsTest, NumbersAreReadWholeOrNotAtAll) {
  const auto refused = [&](const std::string& name, std::initializer_list<const char*> texts) {
    for (const char* text : texts) {
      set(name, text);
      EXPECT_THAT(refusal(), HasSubstr(name + " takes ")) << text;
    }
    ::unsetenv(name.c_str());
  };
  refused("HBMWIRE_REGISTRATION_MAX_REGIONS",
          {"-1", "+1", " 1", "1 ", "1K", "0x10", "1.0", "1e3", "ten", "18446744073709551616"});
  refused("HBMWIRE_REGISTRATION_MAX_BYTES",
          {"K", "1k", "1KB", "1 K", "-1G", "1.5G", "17179869184G", "Unlimited", "unlimitedG"});
  refused("HBMWIRE_REGISTRATION_WHOLE_RATIO",
          {"-0.1", "1.1", "nan", "inf", "0,5", "1e-1", "0.5x", " 0.5", "50%"});
  set("HBMWIRE_REGISTRATION_MAX_BYTES", "17179869183G");
  EXPECT_EQ(settings_from_environment()->registration.max_bytes, 17179869183ULL << 30U);
  set("HBMWIRE_REGISTRATION_MAX_BYTES", "1K");
  EXPECT_EQ(settings_from_environment()->registration.max_bytes, 1024U);
  set("HBMWIRE_REGISTRATION_MAX_BYTES", "unlimited");
  EXPECT_EQ(settings_from_environment()->registration.max_bytes, ~std::uint64_t{0});
  for (const auto& [text, ratio] : {std::pair{"0", 0.0}, {"1", 1.0}, {"0.125", 0.125}}) {
    set("HBMWIRE_REGISTRATION_WHOLE_RATIO", text);
    EXPECT_EQ(settings_from_environment()->registration.whole_ratio, ratio);
  }
}

TEST_F(SettingsTest, AnEmptyVariableIsNotSet) {
  set("HBMWIRE_GAUDI_DMABUF", "");
  set("HBMWIRE_GAUDI_NOBODY_READS_THIS", "");
  EXPECT_TRUE(settings_from_environment());
  EXPECT_EQ(info_of("HBMWIRE_GAUDI_DMABUF").source, "default");
}

TEST_F(SettingsTest, AValueThatIsNoneOfTheChoicesIsRefusedWithThem) {
  set("HBMWIRE_GAUDI_DMABUF", "YES");
  EXPECT_THAT(refusal(), HasSubstr("HBMWIRE_GAUDI_DMABUF takes yes|no|try"));
  EXPECT_EQ(info_of("HBMWIRE_GAUDI_DMABUF").value, "YES");
}

TEST_F(SettingsTest, AnUnknownVariableIsRefusedWithTheNearestName) {
  set("HBMWIRE_GUADI_DMABUF", "no");  // has no prefix of ours: a variable of another product
  EXPECT_TRUE(settings_from_environment());
  set("HBMWIRE_GAUDI_DMABUFF", "no");
  EXPECT_THAT(refusal(), HasSubstr("HBMWIRE_GAUDI_DMABUFF: no setting has this name; the nearest "
                                   "is HBMWIRE_GAUDI_DMABUF;"));
  ::unsetenv("HBMWIRE_GAUDI_DMABUFF");
  set("HBMWIRE_LOG_LEVLE", "debug");
  EXPECT_THAT(refusal(), HasSubstr("the nearest is HBMWIRE_LOG_LEVEL;"));
}

TEST_F(SettingsTest, AFileSetsAndTheEnvironmentGoesBefore) {
  const auto path = write_file(
      "# all of it\n\n  HBMWIRE_GAUDI_DMABUF = no   # why not\n"
      "HBMWIRE_LOG_LEVEL=info\r\nHBMWIRE_CUDA_DMABUF=\n");
  auto settings = settings_from_environment();
  ASSERT_TRUE(settings) << describe(settings.error());
  EXPECT_EQ(settings->gaudi.dmabuf, Use::no);
  EXPECT_EQ(settings->log_level, LogLevel::info);
  EXPECT_EQ(info_of("HBMWIRE_GAUDI_DMABUF").source, path + ":3");
  EXPECT_EQ(info_of("HBMWIRE_CUDA_DMABUF").source, "default");
  set("HBMWIRE_GAUDI_DMABUF", "try");
  settings = settings_from_environment();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->gaudi.dmabuf, Use::attempt);
  EXPECT_EQ(info_of("HBMWIRE_GAUDI_DMABUF").source, "environment");
}

TEST_F(SettingsTest, AMistakeInTheFileIsNamedWithItsLine) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"\nHBMWIRE_GAUDI_DMABUF=perhaps\n", "conf:2: HBMWIRE_GAUDI_DMABUF takes yes|no|try"},
      {"HBMWIRE_GAUDI_DMABUFS=no", "conf:1: no setting has this name; the nearest is"},
      {"PATH=/bin", "conf:1: no setting has this name"},
      {"\n\nHBMWIRE_LOG_LEVEL debug\n", "conf:3: the line is not NAME=VALUE"},
      {"export HBMWIRE_LOG_LEVEL=debug\n", "conf:1: the line is not NAME=VALUE"},
      {"=debug\n", "conf:1: the line is not NAME=VALUE"},
      {"HBMWIRE_LOG_LEVEL=info\nHBMWIRE_LOG_LEVEL=debug\n", "conf:2: the setting stands"},
      {"HBMWIRE_LOG_LEVEL=\"debug\"\n", "conf:1: HBMWIRE_LOG_LEVEL takes off|error|warn|"},
  };

  for (const auto& test : cases) {
    write_file(test.text);
    EXPECT_THAT(refusal(), HasSubstr(test.says));
  }
}

TEST_F(SettingsTest, AFileThatCannotBeReadIsNamed) {
  set(kSettingsFileVariable, folder_ / "none");
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("none: open:"), HasSubstr("ENOENT"),
                                        HasSubstr("HBMWIRE_CONFIG")));
  set(kSettingsFileVariable, folder_);
  EXPECT_THAT(refusal(), HasSubstr("regular file"));
  // The FIFO has no writer, so reading it would block forever.
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  set(kSettingsFileVariable, folder_ / "fifo");
  EXPECT_THAT(refusal(), HasSubstr("regular file"));
  write_file(std::string((1 << 20) + 1, '\n'));
  EXPECT_THAT(refusal(), HasSubstr("at most 1 MiB"));
  write_file(std::string(1 << 20, '\n'));
  EXPECT_TRUE(settings_from_environment());
}

TEST_F(SettingsTest, TheLineNumberIsKeptAfterALongPath) {
  const std::string place = "/" + std::string(200, 'x') + "/hbmwire.conf:17";
  const std::string cut = fit_subject(place);
  EXPECT_EQ(cut.size(), sizeof(Error::subject) - 1);
  EXPECT_TRUE(cut.starts_with("...xxx"));
  EXPECT_TRUE(cut.ends_with("/hbmwire.conf:17"));
}

TEST(SettingsFile, KeepsHashesInsideValues) {
  const auto lines = parse_settings("A=x#y\nB=x #y\n\tC\t=\tz w\t#\n#D=1", "f");
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 3U);
  EXPECT_EQ(lines->at(0).value, "x#y");
  EXPECT_EQ(lines->at(1).value, "x");
  EXPECT_EQ(lines->at(2).name, "C");
  EXPECT_EQ(lines->at(2).value, "z w");
  EXPECT_EQ(lines->at(2).place, "f:3");
}

TEST(SettingsFile, AnyBytesAreLinesOrAnError) {
  std::mt19937 random(5);
  constexpr std::string_view kAlphabet("A=#\n\r \t\0\xff_9", 12);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = kAlphabet[random() % kAlphabet.size()];
    const auto lines = parse_settings(text, "f");
    if (!lines) continue;
    for (const auto& line : *lines) {
      EXPECT_FALSE(line.name.empty());
      EXPECT_EQ(line.name.find_first_not_of("A_9"), std::string::npos);
      EXPECT_EQ(line.value.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace hbmwire
