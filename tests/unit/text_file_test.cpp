// SPDX-License-Identifier: MIT
#include "tools/common/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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
  EXPECT_LE(status.st_blocks * 512, 4096 * 8);  // the room that was not needed is given back
}

TEST_F(TextFileTest, LeavesNothingWhereNothingWasWritten) {
  { ASSERT_TRUE(TextFile::open(path())); }
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::ofstream(path()) << "kept";
  { ASSERT_TRUE(TextFile::open(path())); }
  EXPECT_EQ(contents(), "kept");
}

TEST_F(TextFileTest, SaysAtOnceWhatCannotBeWrittenTo) {
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
