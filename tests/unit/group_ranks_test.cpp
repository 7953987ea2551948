// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "hbmwire/error.hpp"

#include "group/ranks.hpp"

namespace hbmwire::detail {
namespace {

using Ranks = std::vector<std::uint32_t>;

TEST(RankText, OneRankIsNamedAlone) {
  EXPECT_EQ(rank_text(Ranks{0}), "rank 0");
  EXPECT_EQ(rank_text(Ranks{4095}), "rank 4095");
}

TEST(RankText, NeighboursBecomeARange) {
  EXPECT_EQ(rank_text(Ranks{0, 2, 3, 4, 5, 9}), "ranks 0, 2-5, 9");
  EXPECT_EQ(rank_text(Ranks{3, 4}), "ranks 3, 4");
  EXPECT_EQ(rank_text(Ranks{3, 4, 5}), "ranks 3-5");
  Ranks all(4096);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(rank_text(all), "ranks 0-4095");
}

TEST(RankText, RanksThatDoNotFitAreCounted) {
  Ranks even;
  for (std::uint32_t rank = 1000; rank < 4096; rank += 2) even.push_back(rank);
  const std::string text = rank_text(even);
  EXPECT_EQ(text, "ranks 1000, 1002, 1004, 1006 and 1544 more");
}

// The subject of an error cuts longer text, and would then name another rank.
TEST(RankText, EveryTextFitsTheSubjectOfAnError) {
  for (std::uint32_t step = 1; step < 5; ++step) {
    for (std::uint32_t first : {0U, 8U, 95U, 990U, 3000U}) {
      Ranks ranks;
      for (std::uint32_t rank = first; rank < 4096; rank += step + rank % 3) {
        ranks.push_back(rank);
        const std::string text = rank_text(ranks);
        EXPECT_LT(text.size(), sizeof(Error::subject));
        const Error error = make_error(Errc::timed_out, Stage::connect, "a test", text);
        EXPECT_EQ(error.subject, text);
      }
    }
  }
}

}  // namespace
}  // namespace hbmwire::detail
