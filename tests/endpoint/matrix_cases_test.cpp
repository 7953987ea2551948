// SPDX-License-Identifier: MIT
#include "matrix_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace hbmwire::matrix {
namespace {

// Counted by hand: transfers of six sizes, and two atomics of one size and one source; three
// places.
TEST(Matrix, HasEveryRow) {
  constexpr std::size_t kTypes = 5;
  constexpr std::size_t kAtomics = 2;
  const auto rows = all_rows();
  EXPECT_EQ(rows.size(),
            (kOperations.size() - kAtomics) * kTypes * kTypes * 6 * 3 + kAtomics * kTypes * 3);
  EXPECT_EQ(std::set<Row>(rows.begin(), rows.end()).size(), rows.size()) << "none is there twice";
}

// Checks in the opposite order to that of pairwise_rows(): column by column, value by value.
TEST(Matrix, EachTwoValuesMeetInTheReduction) {
  const auto all = all_rows();
  const auto some = pairwise_rows();
  const auto meet = [](const std::vector<Row>& rows, std::size_t a, std::size_t i, std::size_t b,
                       std::size_t j) {
    return std::ranges::any_of(rows, [&](const Row& row) { return row[a] == i && row[b] == j; });
  };
  constexpr std::size_t kMostValues = 16;
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < kColumns; ++a) {
    for (std::size_t b = 0; b < kColumns; ++b) {
      if (a == b) continue;
      for (std::size_t i = 0; i < kMostValues; ++i) {
        for (std::size_t j = 0; j < kMostValues; ++j) {
          if (!meet(all, a, i, b, j)) continue;
          ++pairs;
          EXPECT_TRUE(meet(some, a, i, b, j))
              << "columns " << a << ", " << b << ": " << i << ", " << j;
        }
      }
    }
  }
  EXPECT_GT(pairs, 200U);
}

TEST(Matrix, TheReductionIsSmallAndOfTheMatrix) {
  const auto all = all_rows();
  const auto some = pairwise_rows();
  EXPECT_LT(some.size(), 100U);
  for (const Row& row : some) EXPECT_NE(std::ranges::find(all, row), all.end()) << to_string(row);
  EXPECT_EQ(std::set<Row>(some.begin(), some.end()).size(), some.size());
}

}  // namespace
}  // namespace hbmwire::matrix
