// SPDX-License-Identifier: MIT
#include "emulation/tool/behaviours.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace hbmwire::emulation::tool {
namespace {

using emulation::nic::Behaviour;
using emulation::nic::NicLimits;
using ::testing::HasSubstr;

Hardware two_nics() {
  Hardware hardware;
  hardware.nics = 2;
  return hardware;
}

TEST(Behaviours, TimesAndRatesAreForAllNicsOrForOne) {
  Hardware hardware = two_nics();
  ASSERT_TRUE(
      apply({.async = "2ms", .rate = {"100G", "emu1=400M"}, .latency = {"emu0=1.5us"}}, hardware));
  EXPECT_EQ(hardware.behaviour[0].async_ns, 2'000'000U);
  EXPECT_EQ(hardware.behaviour[1].async_ns, 2'000'000U);
  EXPECT_EQ(hardware.behaviour[0].rate_bits_per_s, 100'000'000'000U);
  EXPECT_EQ(hardware.behaviour[1].rate_bits_per_s, 400'000'000U);
  EXPECT_EQ(hardware.behaviour[0].latency_ns, 1500U);
  EXPECT_EQ(hardware.behaviour[1].latency_ns, 0U);
}

TEST(Behaviours, TraitsOfHardwareAreChosenByName) {
  Hardware hardware;
  ASSERT_TRUE(apply({.like = {"flush", "relaxed"}}, hardware));
  EXPECT_TRUE(hardware.behaviour[0].flush);
  EXPECT_TRUE(hardware.behaviour[0].relaxed);
  EXPECT_FALSE(hardware.behaviour[0].scatter);
  ASSERT_TRUE(apply({.like = {"all"}}, hardware));
  EXPECT_TRUE(hardware.behaviour[0].scatter);
}

TEST(Behaviours, AFeatureIsRemovedFromAllNicsOrFromOne) {
  Hardware hardware = two_nics();
  ASSERT_TRUE(apply({.without = {"emu1=dmabuf", "atomics"}}, hardware));
  EXPECT_TRUE(hardware.behaviour[0].dmabuf);
  EXPECT_FALSE(hardware.behaviour[0].atomics);
  EXPECT_FALSE(hardware.behaviour[1].dmabuf);
  EXPECT_FALSE(hardware.behaviour[1].atomics);
}

TEST(Behaviours, LimitsAreForAllNicsOrForOne) {
  Hardware hardware = two_nics();
  ASSERT_TRUE(apply({.limits = {"qp=100,srq=0", "emu1=qp=50", "emu1=mr=7,cq=3,cqe=64"}}, hardware));
  EXPECT_EQ(hardware.behaviour[0].limits.qp, 100U);
  EXPECT_EQ(hardware.behaviour[0].limits.srq, 0U);
  EXPECT_EQ(hardware.behaviour[0].limits.mr, NicLimits{}.mr);
  EXPECT_EQ(hardware.behaviour[1].limits,
            (NicLimits{.qp = 50, .cq = 3, .cqe = 64, .mr = 7, .srq = 0}));
  Hardware one;
  ASSERT_TRUE(apply({.limits = {"qp=100,srq=0"}}, one));
  EXPECT_EQ(in_words(one), ", at most 100 queue pairs, no shared receive queues");
}

/// A process that joins a node compares its options with the node's for all NICs that could exist,
/// so those that do not exist must keep the default.
TEST(Behaviours, OptionsApplyToExistingNicsAlone) {
  Hardware hardware = two_nics();
  ASSERT_TRUE(apply({.async = "1us", .seed = 7, .like = {"all"}}, hardware));
  EXPECT_TRUE(hardware.behaviour[1].flush);
  EXPECT_EQ(hardware.behaviour[2], Behaviour{});
}

TEST(Behaviours, MalformedTextIsRefused) {
  const auto sentence = [](const BehaviourArguments& arguments) {
    Hardware hardware = two_nics();
    const auto applied = apply(arguments, hardware);
    return applied ? std::string() : applied.error();
  };
  EXPECT_THAT(sentence({.async = "5"}), HasSubstr("--async 5 is not a time"));
  EXPECT_THAT(sentence({.async = "-1us"}), HasSubstr("is not a time"));
  EXPECT_THAT(sentence({.async = "61s"}), HasSubstr("is not a time"));
  EXPECT_THAT(sentence({.rate = {"0G"}}), HasSubstr("--rate 0G is not a rate"));
  EXPECT_THAT(sentence({.rate = {"nanG"}}), HasSubstr("is not a rate"));
  EXPECT_THAT(sentence({.rate = {"emu2=1G"}}), HasSubstr("no such NIC"));
  EXPECT_THAT(sentence({.latency = {"emu1=1G"}}), HasSubstr("--latency emu1=1G is not a time"));
  EXPECT_THAT(sentence({.link_layer = {"token-ring"}}), HasSubstr("is not infiniband, ethernet"));
  EXPECT_THAT(sentence({.link_layer = {"emu2=infiniband"}}), HasSubstr("no such NIC"));
  EXPECT_THAT(sentence({.without = {"emu1=verbs"}}), HasSubstr("is not dmabuf, atomics"));
  EXPECT_THAT(sentence({.without = {"emu2=dmabuf"}}), HasSubstr("no such NIC"));
  // A NIC has at most 65,533 queue pairs, and a completion queue has at least one entry.
  for (const char* text : {"qp", "qp=", "qp=-1", "qp=100x", "qp=65534", "ah=1", "cqe=0", "qp=1,",
                           "emu1=100", "emu1"}) {
    EXPECT_THAT(sentence({.limits = {text}}), HasSubstr("is not OBJECT=N")) << text;
  }
  EXPECT_THAT(sentence({.limits = {"emu2=qp=1"}}), HasSubstr("no such NIC"));
  EXPECT_THAT(sentence({.like = {"rubber"}}), HasSubstr("flush, scatter, relaxed or all"));
}

TEST(Behaviours, LinkLayersAreForAllNicsOrForOne) {
  Hardware hardware = two_nics();
  ASSERT_TRUE(apply({.link_layer = {"infiniband"}}, hardware));
  EXPECT_EQ(hardware.infiniband, 3U);  // a bit for each NIC
  EXPECT_EQ(in_words(hardware), ", InfiniBand");
  ASSERT_TRUE(apply({.link_layer = {"emu0=ethernet"}}, hardware));
  EXPECT_EQ(hardware.infiniband, 2U);
  EXPECT_EQ(in_words(hardware), ", emu1 of InfiniBand");
}

TEST(Behaviours, OmittedOptionsChangeNothing) {
  Hardware hardware;
  ASSERT_TRUE(apply({.async = "1us", .seed = 7}, hardware));
  ASSERT_TRUE(apply({.latency = {"1us"}}, hardware));
  EXPECT_EQ(hardware.behaviour[0].seed, 7U);
  EXPECT_EQ(hardware.behaviour[0].async_ns, 1000U);
}

TEST(Behaviours, AWrittenBehaviourIsReadUnchanged) {
  const auto file =
      std::filesystem::temp_directory_path() / ("behaviour-test-" + std::to_string(::getpid()));
  const Behaviour written{.seed = 3,
                          .async_ns = 5,
                          .rate_bits_per_s = 7,
                          .latency_ns = 9,
                          .flush = true,
                          .scatter = false,
                          .relaxed = true,
                          .dmabuf = false,
                          .atomics = true,
                          .limits = {.qp = 100, .cq = 3, .cqe = 64, .mr = 7, .srq = 0}};
  // A line that is not known, as of a later version, is ignored.
  std::ofstream(file) << "unknown 12\n" << to_text(written);
  EXPECT_EQ(emulation::nic::read_behaviour(file), written);
  std::filesystem::remove(file);
  EXPECT_EQ(emulation::nic::read_behaviour(file), Behaviour{}) << "without the file";
}

TEST(Behaviours, ABehaviourIsDescribedInWords) {
  Hardware hardware = two_nics();
  EXPECT_EQ(in_words(hardware), "");
  ASSERT_TRUE(apply({.async = "50us", .rate = {"25G"}, .like = {"scatter"}}, hardware));
  EXPECT_EQ(in_words(hardware),
            ", asynchronous (up to 50us), 25 Gbit/s, small receives in the CQE");
  ASSERT_TRUE(apply({.without = {"dmabuf"}}, hardware));
  EXPECT_THAT(in_words(hardware), HasSubstr(", no import of dma-bufs"));
  ASSERT_TRUE(apply({.latency = {"emu1=1us"}}, hardware));
  EXPECT_EQ(in_words(hardware), ", each NIC as its own options say");
}

}  // namespace
}  // namespace hbmwire::emulation::tool
