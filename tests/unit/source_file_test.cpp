// SPDX-License-Identifier: MIT
#include "tools/client/source_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace hbmwire::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ToolSourceFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hbmwire-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "f").string();
    std::ofstream(path_) << "0123456789";
  }

  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string path_;
  std::array<std::byte, 10> bytes_{};
};

TEST_F(ToolSourceFile, IsReadOnceFromEndToEnd) {
  auto file = SourceFile::open(path_);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->name(), "f");
  EXPECT_EQ(file->size_bytes(), 10U);
  EXPECT_TRUE(file->read(bytes_));
  EXPECT_TRUE(file->check_unchanged());
}

TEST_F(ToolSourceFile, NoticesThatItShrank) {
  auto file = SourceFile::open(path_);
  ASSERT_TRUE(file);
  fs::resize_file(path_, 5);
  const auto read = file->read(bytes_);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text, HasSubstr("shrank"));
}

TEST_F(ToolSourceFile, NoticesThatItGrew) {
  auto file = SourceFile::open(path_);
  ASSERT_TRUE(file && file->read(bytes_));
  fs::resize_file(path_, 11);
  const auto check = file->check_unchanged();
  ASSERT_FALSE(check);
  EXPECT_THAT(check.error().text, HasSubstr("grew"));
}

TEST_F(ToolSourceFile, NoticesThatItWasWrittenTo) {
  auto file = SourceFile::open(path_);
  ASSERT_TRUE(file && file->read(bytes_));
  fs::last_write_time(path_, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  const auto check = file->check_unchanged();
  ASSERT_FALSE(check);
  EXPECT_THAT(check.error().text, HasSubstr("was written to"));
}

TEST_F(ToolSourceFile, IsARegularFile) {
  EXPECT_FALSE(SourceFile::open(folder_.string()));
  EXPECT_FALSE(SourceFile::open((folder_ / "none").string()));
  EXPECT_FALSE(SourceFile::open("/dev/null"));
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto file = SourceFile::open(fifo);  // must return although the FIFO has no writer
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace hbmwire::tools
