// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::tools::perf {

/// Whether a text is a well-formed XML 1.0 document without a DTD: elements that close in turn,
/// attributes in quotes and each but once, no bare '<' or '&', one root. problem() is empty when it
/// is.
class XmlCheck {
 public:
  explicit XmlCheck(std::string_view text) : text_(text) {}

  std::string problem() {
    if (text_.starts_with("<?xml")) at_ = text_.find("?>") + 2;
    while (at_ < text_.size() && problem_.empty()) text_[at_] == '<' ? tag() : character();
    if (problem_.empty() && (!open_.empty() || roots_ != 1)) problem_ = "no single, closed root";
    return problem_;
  }

 private:
  void fail(const std::string& what) {
    problem_ = what + " at " + std::string(text_.substr(at_, 40));
  }

  void character() {
    if (text_[at_] == '&') return entity();
    const bool blank = std::isspace(static_cast<unsigned char>(text_[at_])) != 0;
    if (!blank && open_.empty()) return fail("text outside of the root");
    if (static_cast<unsigned char>(text_[at_]) < 0x20 && !blank) return fail("a control character");
    ++at_;
  }

  void entity() {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;"}) {
      if (!text_.substr(at_).starts_with(known)) continue;
      at_ += known.size();
      return;
    }
    fail("a bare &");
  }

  std::string_view name() {
    const std::size_t from = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '-'))
      ++at_;
    return text_.substr(from, at_ - from);
  }

  void tag() {
    ++at_;
    if (text_[at_] == '/') {
      ++at_;
      const auto closed = name();
      if (open_.empty() || open_.back() != closed || text_[at_] != '>') return fail("a wrong end");
      open_.pop_back();
      ++at_;
      return;
    }
    const auto element = name();
    if (element.empty()) return fail("a bare <");
    if (open_.empty()) ++roots_;
    attributes();
    if (!problem_.empty()) return;
    if (text_.substr(at_).starts_with("/>")) {
      at_ += 2;
    } else if (text_[at_] == '>') {
      open_.push_back(element);
      ++at_;
    } else {
      fail("a tag without an end");
    }
  }

  void attributes() {
    std::vector<std::string_view> seen;
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
      const auto key = name();
      if (key.empty() || !text_.substr(at_).starts_with("=\"")) return fail("a bad attribute");
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) return fail("one twice");
      seen.push_back(key);
      at_ += 2;
      while (at_ < text_.size() && text_[at_] != '"' && problem_.empty()) {
        if (text_[at_] == '<') return fail("< in an attribute");
        text_[at_] == '&' ? entity() : static_cast<void>(++at_);
      }
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned roots_ = 0;
  std::vector<std::string_view> open_;
  std::string problem_;
};

}  // namespace hbmwire::tools::perf
