// SPDX-License-Identifier: MIT
#include "tools/common/text_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hbmwire::tools {
namespace {

class TextFileTest : public testing::Test {
 protected:
  TextFileTest() : folder_(std::filesystem::temp_directory_path() / "hbmwire-text-file-XXXXXX") {
    std::string name = folder_.string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  ~TextFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "run.json").string(); }

  [[nodiscard]] std::string contents() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

TEST_F(TextFileTest, ReplacesAllThatWasThere) {
  std::ofstream(path()) << "a longer text than the new one";
  auto file = TextFile::open(path());
  ASSERT_TRUE(file);
  EXPECT_EQ(contents(), "a longer text than the new one");
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(contents(), "new");

  struct stat status {};

  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4096 * 8);  // reserved room that was not needed is released
}

TEST_F(TextFileTest, LeavesNothingWhereNothingWasWritten) {
  {
    const auto file = TextFile::open(path());
    ASSERT_TRUE(file);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));  // a killed process leaves nothing behind
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  std::ofstream(path()) << "kept";
  { ASSERT_TRUE(TextFile::open(path())); }
  EXPECT_EQ(contents(), "kept");
}

ino_t inode_of(const std::string& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

TEST_F(TextFileTest, IsNeverThereInPart) {
  std::ofstream(path()) << "old";
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  std::ifstream reader(path());
  const std::string link = (folder_ / "link").string();
  std::filesystem::create_symlink("run.json", link);
  auto file = TextFile::open(link);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(contents(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::string old;
  reader >> old;
  EXPECT_EQ(old, "old");  // the whole file was replaced
  EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms{0640});
}

TEST_F(TextFileTest, IsWrittenInPlaceWhereANewFileWouldBeAnotherFile) {
  std::ofstream(path()) << "a longer text than the new one";
  std::filesystem::create_hard_link(path(), folder_ / "other");
  const ino_t before = inode_of(path());
  auto file = TextFile::open(path());
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(contents(), "new");
  EXPECT_EQ(inode_of(path()), before);

  // A path of a descriptor, like /dev/stdout when it leads to a file.
  const std::string single = (folder_ / "single").string();
  const Fd open(::open(single.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  auto by_descriptor = TextFile::open("/proc/self/fd/" + std::to_string(open.get()));
  ASSERT_TRUE(by_descriptor);
  ASSERT_TRUE(by_descriptor->write("text"));
  char text[8] = {};
  EXPECT_EQ(::pread(open.get(), text, sizeof text, 0), 4);
}

TEST_F(TextFileTest, TellsOfAFileThatMayNotBecomeSoLarge) {
  std::ofstream(path()) << "old";
  auto file = TextFile::open(path());
  ASSERT_TRUE(file);

  struct rlimit before {};

  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto written = file->write(std::string(10000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text.find("File too large"), std::string::npos) << written.error().text;
  EXPECT_EQ(contents(), "old");
}

TEST_F(TextFileTest, ReportsAnUnwritableTargetAtOnce) {
  const auto full = TextFile::open("/dev/full");
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().text.find("No space left"), std::string::npos) << full.error().text;
  EXPECT_EQ(full.error().exit_code, kExitFailed);
  const auto nowhere = TextFile::open((folder_ / "none" / "x").string());
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().text.find("none/x"), std::string::npos) << nowhere.error().text;
}

}  // namespace
}  // namespace hbmwire::tools
