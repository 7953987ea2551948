// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>

#include "tools/common/text.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// The sizes of the six windows of a PCI function. The file has one line "first last flags" for
// each.
std::vector<std::uint64_t> windows_in(std::string_view resource) {
  constexpr std::size_t kWindows = 6;
  std::vector<std::uint64_t> sizes;
  for (const std::string_view line : lines_in(resource)) {
    const auto words = words_in(line);
    if (words.size() < 2 || sizes.size() == kWindows) break;
    const auto first = leading_number(words[0], 16).value_or(0);
    const auto last = leading_number(words[1], 16).value_or(0);
    sizes.push_back(last > first ? last - first + 1 : 0);
  }
  return sizes;
}

Finding judge_bars(const Answer& resource, const Card& card) {
  constexpr std::size_t kGaudiMemory = 4;  // the window of a Gaudi's HBM
  const std::string source = pci_path(card.pci_address, "resource");
  Finding finding{.check = "bars",
                  .subject = card.pci_address,
                  .source = source,
                  .found = {},
                  .wanted = "a window as large as the card's memory",
                  .remedy = {}};
  if (resource.error != 0)
    return unknown_for(finding.check, finding.subject, source, resource.error, finding.wanted);
  const auto windows = windows_in(resource.value);
  const bool is_gaudi = card.type == "gaudi";
  const std::uint64_t window = windows.empty() ? 0
                               : is_gaudi
                                   ? (windows.size() > kGaudiMemory ? windows[kGaudiMemory] : 0)
                                   : *std::ranges::max_element(windows);
  const std::string remedy = "switch on \"above 4G decoding\" and resizable BARs in the BIOS";
  if (windows.empty())
    return unknown_for(finding.check, finding.subject, source, ENODATA, finding.wanted);
  if (window == 0) {
    finding.verdict = Verdict::bad;
    finding.found = "no window";
    finding.remedy = remedy;
    return finding;
  }
  finding.found = size_text(window);
  if (card.size_bytes == 0) {
    finding.found += ", and the size of its memory is not known";
    return finding;
  }
  finding.wanted = size_text(card.size_bytes) + " or more";
  if (window >= card.size_bytes) {
    finding.verdict = Verdict::good;
    return finding;
  }
  // The driver of a Gaudi can export only memory within its window, so a small window is a fault.
  // A GPU only has less memory to export at a time.
  finding.verdict = is_gaudi ? Verdict::bad : Verdict::slow;
  finding.remedy = remedy;
  return finding;
}

}  // namespace

Findings bars(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Card& card : hardware.cards) {
    if (card.pci_address.empty()) continue;
    const Answer resource = machine.file(pci_path(card.pci_address, "resource"));
    findings.push_back(judge_bars(resource, card));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
