// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emulation/common/fault_rule.hpp"

/// The input is a fault plan. Parsing it gives either rules or a printable sentence that says what
/// is wrong, never both. The rules are within their bounds, and the same text gives the same rules.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::emulation;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<FaultRule> rules;
  std::string error;
  const bool good = parse_fault_plan(text, rules, error);
  if (good != error.empty() || (!good && !rules.empty())) std::abort();
  for (const char c : error) {
    if (c < ' ' || c > '~') std::abort();
  }
  for (const FaultRule& rule : rules) {
    const bool in_bounds = rule.nth >= 1 && rule.period() >= 1 && rule.most_acts() >= 1 &&
                           rule.chance <= FaultRule::kCertain && rule.error_number >= 1 &&
                           rule.error_number <= 4095;
    // Only a rule of operations may have no subject: it matches every operation.
    const bool has_subject = rule.point == FaultRule::Point::operation || !rule.subject.empty();
    if (!in_bounds || !has_subject) std::abort();
  }
  std::vector<FaultRule> again;
  if (parse_fault_plan(text, again, error) != good || again != rules) std::abort();
  return 0;
}
