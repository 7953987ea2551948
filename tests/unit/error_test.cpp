// SPDX-License-Identifier: MIT
#include "hbmwire/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

#include "hbmwire/low_level/connection.hpp"

namespace hbmwire {
namespace {

TEST(Error, DescribesStageSubjectCauseAndRemedy) {
  const Error error = system_error(Stage::register_memory, "ibv_reg_dmabuf_mr", EPERM, "mlx5_0",
                                   Hint::dmabuf_no_p2p);
  const std::string text = describe(error);
  EXPECT_EQ(
      text.find(
          "register mlx5_0: ibv_reg_dmabuf_mr: Operation not permitted (EPERM, 1); NIC and card"),
      0U)
      << text;
}

TEST(Error, NamesTheKernelsOwn524) {
  const Error error = system_error(Stage::register_memory, "ibv_reg_dmabuf_mr", 524);
  EXPECT_EQ(error.code, Errc::not_supported);
  EXPECT_NE(describe(error).find("ENOTSUPP, 524"), std::string::npos);
}

TEST(Error, AShortageOfDescriptorsHasOneRemedyForAllCalls) {
  const Error error =
      system_error(Stage::probe, "ibv_get_device_list", EMFILE, {}, Hint::no_rdma_device);
  EXPECT_EQ(error.hint, Hint::descriptor_limit);
  EXPECT_EQ(error.code, Errc::exhausted);
  EXPECT_EQ(system_error(Stage::open, "open", ENFILE, {}, Hint::no_gaudi_device).hint,
            Hint::system_descriptor_limit);
}

TEST(Error, NoMemoryHasARemedyButWhereAQueueIsFull) {
  EXPECT_NE(system_error(Stage::open, "mmap", ENOMEM).hint, Hint::none);
  EXPECT_EQ(system_error(Stage::allocate, "hlthunk_device_memory_alloc", ENOMEM, {},
                         Hint::device_memory_exhausted)
                .hint,
            Hint::device_memory_exhausted);
  EXPECT_EQ(system_error(Stage::post, "ibv_post_send", ENOMEM).hint, Hint::none);
}

TEST(Error, TellsAShortageThatPassesFromAbsence) {
  for (const int number : {EMFILE, ENFILE, ENOMEM, EAGAIN, ENOSPC, EDQUOT, ENOBUFS})
    EXPECT_TRUE(is_shortage(system_error(Stage::open, "open", number))) << number;
  for (const int number : {ENOENT, ENODEV, EACCES, EOPNOTSUPP, EINVAL})
    EXPECT_FALSE(is_shortage(system_error(Stage::open, "open", number))) << number;
  Error of_device = make_error(Errc::exhausted, Stage::allocate, "cuMemAlloc");
  of_device.number_kind = NumberKind::cuda_result;
  of_device.number = ENOMEM;
  EXPECT_FALSE(is_shortage(of_device)) << "the number is no errno";
}

TEST(Error, SubjectIsCutNotOverrun) {
  const std::string name(200, 'x');
  const Error error = make_error(Errc::not_found, Stage::probe, "check", name);
  EXPECT_EQ(std::string(error.subject), std::string(sizeof error.subject - 1, 'x'));
}

TEST(Error, BothVersionsAreNamedUpToTheLargest) {
  const Error error = version_error(Stage::connect, "another version", "node2", 65535, 9);
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_EQ(describe(error),
            "connect node2: another version: version 65535 there, 9 here; install the same hbmwire "
            "on both sides");
  EXPECT_FALSE(is_shortage(error));
}

TEST(Error, EveryHintIsOneSentenceWithoutFullStop) {
  // The compiler ensures that each hint has a sentence (-Wswitch). A value without one is therefore
  // past the end.
  int i = static_cast<int>(Hint::none) + 1;
  for (; !hint_text(static_cast<Hint>(i)).empty(); ++i) {
    const std::string_view text = hint_text(static_cast<Hint>(i));
    EXPECT_NE(text.back(), '.') << text;
    EXPECT_EQ(text.find('\n'), std::string_view::npos) << text;
  }
  EXPECT_GT(i, static_cast<int>(Hint::settings_file));
}

/// The text without its `...`, which are commands to type.
std::string without_commands(std::string_view text) {
  std::string rest;
  bool command = false;
  for (const char c : text) {
    if (c == '`') command = !command;
    if (!command) rest += c;
  }
  return rest;
}

TEST(HintName, LeadsBackToItsHint) {
  int hints = 0;
  for (; !to_string(static_cast<Hint>(hints)).empty(); ++hints) {
    const auto hint = static_cast<Hint>(hints);
    EXPECT_EQ(hint_from_name(to_string(hint)), hint) << to_string(hint);
  }
  EXPECT_GT(hints, static_cast<int>(Hint::group_rank_late));
  EXPECT_EQ(to_string(Hint::none), "none");
  EXPECT_EQ(to_string(Hint::no_rdma_device), "no_rdma_device");
}

TEST(HintName, OnlyListedNamesAreHints) {
  for (const char* name : {"", "no_rdma_devic", "no_rdma_device ", "NO_RDMA_DEVICE", "[none]"})
    EXPECT_EQ(hint_from_name(name), std::nullopt) << name;
  EXPECT_TRUE(to_string(static_cast<Hint>(255)).empty());
  EXPECT_TRUE(hint_text(static_cast<Hint>(255)).empty());
}

// The reader has a program that uses the library, with its own options. `hbmwire info` and `hbmwire
// emulate` are available to the users of every program.
TEST(Error, NoRemedyNamesAToolOrItsOptions) {
  const std::regex option(R"((^|[ (=])--?[A-Za-z])");
  const std::regex tool(R"(hbmwire (?!info\b|emulate --)[a-z]+)");
  for (int i = 1; !hint_text(static_cast<Hint>(i)).empty(); ++i) {
    const std::string text(hint_text(static_cast<Hint>(i)));
    EXPECT_FALSE(std::regex_search(without_commands(text), option)) << text;
    for (std::sregex_iterator found(text.begin(), text.end(), tool);
         found != std::sregex_iterator(); ++found) {
      // In "if hbmwire allocated" the name means the library itself.
      EXPECT_EQ(text.find("`" + found->str()), std::string::npos) << text;
    }
  }
}

// A remedy may say "report this" only if the library itself made a mistake, not if a driver, a peer
// or the caller may have caused the error.
TEST(Error, ARemedyAsksForAReportOnlyOfAFaultOfHbmwire) {
  for (int i = 1; !hint_text(static_cast<Hint>(i)).empty(); ++i) {
    const std::string text(hint_text(static_cast<Hint>(i)));
    const std::size_t report = text.find("report this");
    if (report == std::string::npos) continue;
    EXPECT_NE(text.find("if hbmwire "), std::string::npos) << text;
  }
}

TEST(Error, TakesARemedyOfTheCallersOwn) {
  const Error error =
      system_error(Stage::connect, "connect", ECONNREFUSED, "node2:7000", Hint::connection_refused);
  EXPECT_EQ(describe(error, "start it"),
            "connect node2:7000: connect: Connection refused (ECONNREFUSED, 111); start it");
  EXPECT_EQ(describe(error, ""),
            "connect node2:7000: connect: Connection refused (ECONNREFUSED, 111)");
}

TEST(Error, EveryStageAndCodeHasAWord) {
  for (int i = 0; i <= static_cast<int>(Stage::file); ++i)
    EXPECT_NE(to_string(static_cast<Stage>(i)), "?") << i;
  for (int i = 0; i <= static_cast<int>(Errc::system); ++i)
    EXPECT_NE(to_string(static_cast<Errc>(i)), "?") << i;
}

TEST(Error, WorkCompletionStatusesAreInTheOrderOfTheHeader) {
  Error error = make_error(Errc::system, Stage::complete, "wc");
  error.number_kind = NumberKind::wc_status;
  error.number = 10;  // IBV_WC_REM_ACCESS_ERR
  EXPECT_EQ(number_text(error), "remote access error (work completion status 10)");
  error.number = 12;  // IBV_WC_RETRY_EXC_ERR
  EXPECT_EQ(number_text(error), "transport retries exceeded (work completion status 12)");
  error.number = 4711;
  EXPECT_EQ(number_text(error), "unknown status (work completion status 4711)");
}

}  // namespace
}  // namespace hbmwire
