// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/doctor/fixture_machine.hpp"
#include "tools/doctor/checks/finding.hpp"

// Hiding a part of a machine must make it look neither better nor worse.
namespace hbmwire::tools::doctor {
namespace {

enum class Kind { file, folder, link, real_path, access, call };

struct Question {
  Kind kind = Kind::file;
  std::string about;

  auto operator<=>(const Question&) const = default;
};

/// A machine that answers some questions with an errno.
class PartlyHidden final : public Evidence {
 public:
  using Hides = std::function<bool(const Question&)>;

  PartlyHidden(Evidence& machine, Hides hides, int error)
      : machine_(machine), hides_(std::move(hides)), error_(error) {}

  Answer file(const std::string& path) override {
    return hides_({Kind::file, path}) ? hidden() : machine_.file(path);
  }

  Names folder(const std::string& path) override {
    return hides_({Kind::folder, path}) ? Names{.error = error_, .values = {}}
                                        : machine_.folder(path);
  }

  Answer link(const std::string& path) override {
    return hides_({Kind::link, path}) ? hidden() : machine_.link(path);
  }

  Answer real_path(const std::string& path) override {
    return hides_({Kind::real_path, path}) ? hidden() : machine_.real_path(path);
  }

  Answer access(const std::string& path) override {
    return hides_({Kind::access, path}) ? hidden() : machine_.access(path);
  }

  Json call(const std::string& name) override {
    return hides_({Kind::call, name}) ? Json{{"error", error_}} : machine_.call(name);
  }

 private:
  [[nodiscard]] Answer hidden() const { return {.error = error_, .value = {}}; }

  Evidence& machine_;
  Hides hides_;
  int error_;
};

/// A machine that remembers its questions and answers.
class Remembering final : public Evidence {
 public:
  explicit Remembering(Evidence& machine) : machine_(machine) {}

  Answer file(const std::string& path) override {
    return kept(Kind::file, path, machine_.file(path));
  }

  Names folder(const std::string& path) override {
    Names names = machine_.folder(path);
    std::string text;
    for (const std::string& name : names.values) text += name + "\n";
    keep(Kind::folder, path, std::to_string(names.error) + text);
    return names;
  }

  Answer link(const std::string& path) override {
    return kept(Kind::link, path, machine_.link(path));
  }

  Answer real_path(const std::string& path) override {
    return kept(Kind::real_path, path, machine_.real_path(path));
  }

  Answer access(const std::string& path) override {
    return kept(Kind::access, path, machine_.access(path));
  }

  Json call(const std::string& name) override {
    Json answer = machine_.call(name);
    keep(Kind::call, name, answer.dump());
    return answer;
  }

  [[nodiscard]] const std::set<Question>& questions() const noexcept { return questions_; }

  /// Equal for two machines that gave the same answers.
  [[nodiscard]] std::size_t digest() const { return digest_; }

 private:
  Answer kept(Kind kind, const std::string& about, Answer answer) {
    keep(kind, about, std::to_string(answer.error) + answer.value);
    return answer;
  }

  void keep(Kind kind, const std::string& about, const std::string& answer) {
    if (!questions_.insert({kind, about}).second) return;
    constexpr std::size_t kFnvPrime = 1099511628211U;
    digest_ = digest_ * kFnvPrime + std::hash<std::string>{}(about + "\n" + answer);
  }

  Evidence& machine_;
  std::set<Question> questions_;
  std::size_t digest_ = 0;
};

std::string words(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += "\n  [" + finding.subject + "] " + std::string(to_string(finding.verdict)) + ": " +
            finding.found;
  return text;
}

bool is_in(const Finding& finding, const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [&](const Finding& other) {
    return other.subject == finding.subject &&
           (other.verdict == finding.verdict ||
            // The severity may depend on other facts that are hidden now.
            (other.verdict == Verdict::bad && finding.verdict == Verdict::slow));
  });
}

/// A machine that reveals less gets no new verdicts, only unknown ones.
void expect_no_more(const std::vector<Finding>& before, const std::vector<Finding>& after) {
  bool has_unknown = false;
  for (const Finding& finding : after) {
    has_unknown = has_unknown || finding.verdict == Verdict::unknown;
    EXPECT_TRUE(finding.verdict == Verdict::unknown || is_in(finding, before))
        << "says more of [" << finding.subject << "]" << words(before) << "\nand now"
        << words(after);
  }
  for (const Finding& finding : before) {
    const bool is_there = std::ranges::any_of(
        after, [&](const Finding& other) { return other.subject == finding.subject; });
    EXPECT_TRUE(is_there || has_unknown) << "is silent of [" << finding.subject << "]"
                                         << words(before) << "\nand now" << words(after);
  }
}

// EACCES from access(2) of a node is an answer: this user may not open it.
bool is_answered_by(const Check& check, const Question& question) {
  return question.kind == Kind::access && check.name == "nodes";
}

class DoctorHidden : public testing::TestWithParam<std::string> {};

// A check sees only its own questions, so that hiding others changes nothing. If a check gets the
// same answers from two machines, only the first one is tried.
TEST_P(DoctorHidden, AHiddenFactMakesNoCheckSayMore) {
  static std::set<std::pair<std::string_view, std::size_t>> tried;
  const auto machine = fixture_machine(GetParam());
  for (const Check& check : all_checks()) {
    Remembering remembering(*machine);
    const auto before = check.run(remembering);
    if (!tried.emplace(check.name, remembering.digest()).second) continue;
    for (const Question& question : remembering.questions()) {
      if (is_answered_by(check, question)) continue;
      PartlyHidden partly(
          *machine, [&](const Question& asked) { return asked == question; }, EACCES);
      SCOPED_TRACE(std::string(check.name) + " without " + question.about);
      expect_no_more(before, check.run(partly));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DoctorHidden, testing::ValuesIn(fixture_names()),
                         [](const testing::TestParamInfo<std::string>& fixture) {
                           std::string name = fixture.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

PartlyHidden::Hides is_below(const std::string& folder) {
  return [folder](const Question& asked) {
    return asked.kind != Kind::call &&
           (asked.about == folder || asked.about.starts_with(folder + "/"));
  };
}

// Another file system covers a folder, so that everything below it seems to be missing.
TEST(DoctorHiddenFolder, MakesNoCheckSayMore) {
  std::set<std::pair<std::string_view, std::size_t>> tried;
  for (const std::string& fixture : fixture_names()) {
    const auto machine = fixture_machine(fixture);
    for (const Check& check : all_checks()) {
      Remembering remembering(*machine);
      const auto before = check.run(remembering);
      if (!tried.emplace(check.name, remembering.digest()).second) continue;
      for (const std::string folder :
           {"/sys", "/proc", "/proc/sys", "/sys/devices/system", "/sys/module"}) {
        for (const int error : {EACCES, ENOENT}) {
          // A container without /sys is this check's own subject: it rightly reports the engine's
          // fault.
          if (check.name == "container" && error == ENOENT) continue;
          PartlyHidden partly(*machine, is_below(folder), error);
          SCOPED_TRACE(fixture + ": " + std::string(check.name) + " without " + folder +
                       ", errno " + std::to_string(error));
          expect_no_more(before, check.run(partly));
        }
      }
    }
  }
}

}  // namespace
}  // namespace hbmwire::tools::doctor
