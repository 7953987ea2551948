// SPDX-License-Identifier: MIT
// Remedies that name the tools' options.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>

#include "tools/common/failure.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/options.hpp"

namespace hbmwire::tools {
namespace {

TEST(ToolRemedies, EachReplacesWordsThatTheLibrarySays) {
  for (const OptionWords& words : option_words()) {
    EXPECT_NE(hint_text(words.hint).find(words.library), std::string_view::npos)
        << hint_text(words.hint);
    const std::string remedy = remedy_by_options(words.hint);
    EXPECT_NE(remedy.find(words.tool), std::string::npos) << remedy;
  }
}

// Server, client and perf have all common options, so a remedy may name any of these.
TEST(ToolRemedies, NameOptionsThatThereAre) {
  CLI::App app;
  CommonOptions options;
  add_common_options(app, options);
  const std::regex option("(^| )(--?[a-z]+)");
  for (const OptionWords& words : option_words()) {
    const std::string text(words.tool);
    for (std::sregex_iterator found(text.begin(), text.end(), option);
         found != std::sregex_iterator(); ++found) {
      EXPECT_NE(app.get_option_no_throw((*found)[2].str()), nullptr) << text;
    }
  }
}

TEST(ToolRemedies, OtherHintsKeepTheRemedyOfTheLibrary) {
  // "choose another card": the words of port_in_use are not replaced here.
  EXPECT_EQ(remedy_by_options(Hint::gaudi_busy), std::string(hint_text(Hint::gaudi_busy)));
  EXPECT_EQ(remedy_by_options(Hint::none), "");
}

TEST(ToolRemedies, AreFollowedByTheNameOfTheHint) {
  const Failure none(
      make_error(Errc::not_found, Stage::probe, "no RDMA device found", {}, Hint::no_rdma_device));
  EXPECT_EQ(none.text, "probe: no RDMA device found; " +
                           std::string(hint_text(Hint::no_rdma_device)) + " [no_rdma_device]");
  EXPECT_EQ(none.hint, Hint::no_rdma_device);
  const Failure own(make_error(Errc::busy, Stage::open, "the card is busy", {}, Hint::gaudi_busy),
                    "wait");
  EXPECT_EQ(own.text, "open: the card is busy; wait [gaudi_busy]");
}

TEST(ToolRemedies, AnErrorWithoutAHintEndsWithItsCause) {
  const Failure plain(make_error(Errc::system, Stage::copy, "the engine failed"));
  EXPECT_EQ(plain.text, "copy: the engine failed");
  const Failure interrupted(
      make_error(Errc::cancelled, Stage::complete, "cancelled", {}, Hint::peer_broke_off));
  EXPECT_EQ(interrupted.text, "interrupted");
  EXPECT_EQ(interrupted.hint, Hint::none);
  EXPECT_EQ(Failure("file: no").hint, Hint::none);
}

TEST(ToolRemedies, JsonNamesTheHintBesideTheError) {
  Json object = Json::object();
  add_error(object, make_error(Errc::not_found, Stage::probe, "none", {}, Hint::no_cuda));
  EXPECT_EQ(object.at("hint"), "no_cuda");
  EXPECT_TRUE(object.at("error").get<std::string>().ends_with(" [no_cuda]"));
  Json other = Json::object();
  add_error(other, Failure("file: no"));
  EXPECT_FALSE(other.contains("hint"));
}

TEST(ToolRemedies, AServerThatIsNotThereIsNamedByItsClient) {
  const Error refused =
      system_error(Stage::connect, "connect", ECONNREFUSED, "node2:7000", Hint::connection_refused);
  EXPECT_NE(not_reached(refused, "start `x`").text.find("; no server listens there: start `x`"),
            std::string::npos);
  const Error other =
      system_error(Stage::connect, "connect", EHOSTUNREACH, "node2:7000", Hint::host_unreachable);
  EXPECT_EQ(not_reached(other, "start `x`").text, describe(other) + " [host_unreachable]");
}

}  // namespace
}  // namespace hbmwire::tools
