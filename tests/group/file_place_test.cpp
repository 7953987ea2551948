// SPDX-License-Identifier: MIT
#include "group/file_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "tests/group/ranks_in_threads.hpp"
#include "tests/support/other_process.hpp"

namespace hbmwire::detail {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

constexpr ::uid_t kUnprivileged = 65534;

const Addresses kLeft{"10.0.0.1:7000", "[fd00::1]:7000"};

class FilePlaces : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_.folder() / "group"; }

  [[nodiscard]] std::unique_ptr<MeetingPlace> place() const { return place_at(path()); }

  static std::unique_ptr<MeetingPlace> place_at(const std::filesystem::path& path) {
    auto name = parse_meeting("file://" + path.string());
    EXPECT_TRUE(name);
    auto place = FilePlace::create(*std::move(name));
    EXPECT_TRUE(place) << describe(place.error());
    return place ? *std::move(place) : nullptr;
  }

  [[nodiscard]] Addresses look() const {
    const auto found = place()->look(1s);
    EXPECT_TRUE(found) << describe(found.error());
    return found.value_or(Addresses());
  }

  /// Expects that claim() fails with this code, and that leave() fails, too.
  void expect_refused(Errc code) const {
    const auto claimed = place()->claim(1s);
    ASSERT_FALSE(claimed);
    EXPECT_EQ(claimed.error().code, code) << describe(claimed.error());
    EXPECT_EQ(claimed.error().hint, Hint::group_launcher);
    EXPECT_FALSE(place()->leave(kLeft, 1s));
  }

  [[nodiscard]] std::string text() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  test::Place folder_;
};

TEST_F(FilePlaces, AddressesAreFoundUntilThePlaceGoes) {
  EXPECT_TRUE(look().empty());
  {
    const auto mine = place();
    ASSERT_TRUE(mine->leave(kLeft, 1s));
    EXPECT_EQ(look(), kLeft);

    struct stat status {};

    ASSERT_EQ(::stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    ASSERT_TRUE(mine->leave({"10.0.0.9:1"}, 1s));
    EXPECT_EQ(look(), Addresses{"10.0.0.9:1"});
  }
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(FilePlaces, AClaimedPlaceHasNoAddressesBeforeTheyAreWritten) {
  const auto mine = place();
  ASSERT_TRUE(*mine->claim(1s));
  EXPECT_TRUE(*mine->claim(1s));
  EXPECT_FALSE(*place()->claim(1s));
  EXPECT_TRUE(look().empty());
}

TEST_F(FilePlaces, AnEarlierRunThatWasKilledCountsForNothing) {
  {
    const test::OtherProcess killed([&](const test::Talk& talk) {
      const auto theirs = place();
      talk.tell(theirs->leave(kLeft, 1s) ? 1 : 0);
      ::pause();
    });
    ASSERT_EQ(killed.talk().hear(), 1U);
    EXPECT_EQ(look(), kLeft);
  }
  ASSERT_TRUE(std::filesystem::exists(path()));
  EXPECT_TRUE(look().empty());
  const auto mine = place();
  ASSERT_TRUE(*mine->claim(1s));
  EXPECT_TRUE(look().empty()) << "the old addresses";
  ASSERT_TRUE(mine->leave({"10.0.0.2:1"}, 1s));
  EXPECT_EQ(look(), Addresses{"10.0.0.2:1"});
}

TEST_F(FilePlaces, OneOfManyProcessesThatClaimAtOnceHasIt) {
  for (int round = 0; round < 20; ++round) {
    const auto claim = [&](const test::Talk& talk) {
      const auto theirs = place();
      static_cast<void>(talk.hear());
      const auto claimed = theirs->claim(5s);
      talk.tell(claimed ? (*claimed ? 1 : 0) : 2);  // 2: an error
      static_cast<void>(talk.hear());
    };
    std::vector<std::unique_ptr<test::OtherProcess>> processes;
    for (int i = 0; i < 6; ++i) processes.push_back(std::make_unique<test::OtherProcess>(claim));
    for (const auto& process : processes) process->talk().tell(0);
    std::uint64_t sum = 0;
    for (const auto& process : processes) sum += process->talk().hear();
    EXPECT_EQ(sum, 1U) << "round " << round;
    // Every second time the holder is killed with all others, and its file stays.
    for (const auto& process : processes) {
      if (round % 2 == 0) process->talk().tell(0);
    }
  }
}

TEST_F(FilePlaces, AHolderThatStaysIsBusyAndOneThatEndsIsReplaced) {
  auto theirs = place();
  ASSERT_TRUE(theirs->leave(kLeft, 1s));
  const auto busy = place()->leave({"10.0.0.2:1"}, 10s);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::busy) << describe(busy.error());
  EXPECT_EQ(place()->leave({"10.0.0.2:1"}, 100ms).error().code, Errc::timed_out);
  EXPECT_EQ(look(), kLeft);
  std::jthread ends([&] {
    std::this_thread::sleep_for(300ms);
    theirs.reset();
  });
  const auto mine = place();
  EXPECT_TRUE(mine->leave({"10.0.0.2:1"}, 10s));
  EXPECT_EQ(look(), Addresses{"10.0.0.2:1"});
}

TEST_F(FilePlaces, AChildOfForkRemovesNothing) {
  auto mine = place();
  ASSERT_TRUE(mine->leave(kLeft, 1s));
  {
    const test::OtherProcess child([&](const test::Talk& talk) {
      mine.reset();
      talk.tell(1);
    });
    ASSERT_EQ(child.talk().hear(), 1U);
  }
  EXPECT_EQ(look(), kLeft);
}

TEST_F(FilePlaces, AMissingFolderIsNamed) {
  const auto place = FilePlace::create(*parse_meeting("file://" + (path() / "x").string()));
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, Errc::not_found);
  EXPECT_EQ(place.error().stage, Stage::configure);
  EXPECT_THAT(describe(place.error()), ::testing::HasSubstr("folder"));
}

TEST_F(FilePlaces, OtherProgramsFilesAreLeftAlone) {
  std::ofstream(path()) << "my thesis";
  expect_refused(Errc::invalid_argument);
  EXPECT_EQ(text(), "my thesis");
  EXPECT_TRUE(look().empty());
}

TEST_F(FilePlaces, LinksFifosAndFoldersAreRefused) {
  std::ofstream(path().string() + ".other") << "";
  std::filesystem::create_symlink(path().string() + ".other", path());
  expect_refused(Errc::system);
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_refused(Errc::permission_denied);
  EXPECT_EQ(place()->look(1s).error().code, Errc::permission_denied);
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_refused(Errc::system);
  EXPECT_EQ(place()->look(1s).error().code, Errc::permission_denied);
}

TEST_F(FilePlaces, AnotherUsersFileIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const auto theirs = place();
  ASSERT_TRUE(theirs->leave(kLeft, 1s));
  ASSERT_EQ(::chown(path().c_str(), kUnprivileged, kUnprivileged), 0);
  EXPECT_EQ(place()->look(1s).error().code, Errc::permission_denied);
  EXPECT_EQ(place()->claim(1s).error().code, Errc::permission_denied);
}

TEST_F(FilePlaces, AMissingPermissionIsNamed) {
  const auto without_rights = [&](const test::Talk& talk) {
    if (::geteuid() == 0 && ::setresuid(kUnprivileged, kUnprivileged, kUnprivileged) != 0)
      ADD_FAILURE() << "setresuid";
    auto name = parse_meeting("file://" + path().string());
    const auto theirs = FilePlace::create(*std::move(name));
    EXPECT_TRUE(theirs) << describe(theirs.error());
    const auto claimed = (*theirs)->claim(1s);
    EXPECT_FALSE(claimed);
    EXPECT_EQ(claimed.error().code, Errc::permission_denied) << describe(claimed.error());
    EXPECT_EQ((*theirs)->leave(kLeft, 1s).error().code, Errc::permission_denied);
    talk.tell(1);
  };
  ASSERT_EQ(::chmod(path().parent_path().c_str(), 0555), 0);
  {
    const test::OtherProcess other(without_rights);
    EXPECT_EQ(other.talk().hear(), 1U);
  }
  ASSERT_EQ(::chmod(path().parent_path().c_str(), 0755), 0);
}

}  // namespace
}  // namespace hbmwire::detail
