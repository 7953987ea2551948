// SPDX-License-Identifier: MIT
// Remedies in terms of the tools' options.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "tools/common/failure.hpp"
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

// The two sides of an exchange, and perf, have them all.
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

TEST(ToolRemedies, StandInTheManual) {
  std::ifstream file(HBMWIRE_DOCS "/troubleshooting.md");
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  for (const OptionWords& words : option_words()) {
    std::ostringstream row;
    row << "| " << words.library << " | " << words.tool << " |";
    EXPECT_NE(manual.find(row.str()), std::string::npos) << row.str();
  }
}

TEST(ToolRemedies, AServerThatIsNotThereIsNamedByItsClient) {
  const Error refused =
      system_error(Stage::connect, "connect", ECONNREFUSED, "node2:7000", Hint::connection_refused);
  EXPECT_NE(not_reached(refused, "start `x`").text.find("; no server listens there: start `x`"),
            std::string::npos);
  const Error other =
      system_error(Stage::connect, "connect", EHOSTUNREACH, "node2:7000", Hint::host_unreachable);
  EXPECT_EQ(not_reached(other, "start `x`").text, describe(other));
}

}  // namespace
}  // namespace hbmwire::tools
