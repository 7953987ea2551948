// SPDX-License-Identifier: MIT
#include "tools/common/saved_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace hbmwire::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ToolSavedFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hbmwire-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  [[nodiscard]] std::string contents(const char* name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  static constexpr std::string_view kText = "contents";
  const std::span<const std::byte> bytes_ = std::as_bytes(std::span(kText.data(), kText.size()));
};

TEST_F(ToolSavedFile, AppearsWhenItIsKept) {
  auto file = SavedFile::create(folder_, "f", kText.size());
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_TRUE(file->append(bytes_));
  EXPECT_FALSE(fs::exists(folder_ / "f"));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(file->keep());
  EXPECT_EQ(contents("f"), kText);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ToolSavedFile, LeavesNothingWhenItIsNotKept) {
  {
    auto file = SavedFile::create(folder_, "f", kText.size());
    ASSERT_TRUE(file) << file.error().text;
    ASSERT_TRUE(file->append(bytes_));
    EXPECT_EQ(entries(), 1U);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(ToolSavedFile, ReplacesAnOlderOne) {
  std::ofstream(folder_ / "f") << "older, and longer";
  auto file = SavedFile::create(folder_, "f", kText.size());
  ASSERT_TRUE(file && file->append(bytes_) && file->keep());
  EXPECT_EQ(contents("f"), kText);
}

TEST_F(ToolSavedFile, MayBeEmpty) {
  auto file = SavedFile::create(folder_, "f", 0);
  ASSERT_TRUE(file && file->keep());
  EXPECT_EQ(fs::file_size(folder_ / "f"), 0U);
}

TEST_F(ToolSavedFile, NamesAFolderThatIsNotThere) {
  auto file = SavedFile::create((folder_ / "none").string(), "f", 1);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text, HasSubstr((folder_ / "none").string()));
  EXPECT_THAT(file.error().text, HasSubstr("No such file or directory"));
}

TEST_F(ToolSavedFile, RefusesASizeThatNoDiskHas) {
  auto file = SavedFile::create(folder_, "f", ~std::uint64_t{0});
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text, HasSubstr("making room"));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(ToolSavedFile, DoesNotReplaceAFolder) {
  fs::create_directory(folder_ / "f");
  {
    auto file = SavedFile::create(folder_, "f", 1);
    ASSERT_TRUE(file);
    EXPECT_FALSE(file->keep());
  }
  EXPECT_EQ(entries(), 1U);
}

}  // namespace
}  // namespace hbmwire::tools
