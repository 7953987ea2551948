// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "wire/endpoint_offer.hpp"
#include "wire/invitation.hpp"

namespace hbmwire::wire {
namespace {

/// The seeds of tests/fuzz/corpus/endpoint_offer that the fuzzer's decoder accepts.
std::set<std::string> accepted_seeds() {
  std::set<std::string> accepted;
  for (const auto& file : std::filesystem::directory_iterator(HBMWIRE_OFFER_SEEDS)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    const auto said = std::as_bytes(std::span(bytes)).subspan(1);
    // The first byte chooses the decoder, as in the fuzzer.
    const bool taken = bytes.front() % 2 == 0 ? decode_offer(said).has_value()
                                              : decode_invitation(said, {}).has_value();
    if (taken) accepted.insert(file.path().filename());
  }
  return accepted;
}

/// A fuzzer whose seeds are all refused by the first check finds nothing after it.
TEST(Seeds, SeedsOfOffersAreValidWhereIntended) {
  EXPECT_EQ(accepted_seeds(), (std::set<std::string>{"hello", "hello-longest", "infiniband",
                                                     "invitation", "invitation-infiniband",
                                                     "invitation-with-hello", "rails", "roce"}));
}

}  // namespace
}  // namespace hbmwire::wire
