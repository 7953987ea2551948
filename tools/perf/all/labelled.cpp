// SPDX-License-Identifier: MIT
#include "tools/perf/all/labelled.hpp"

#include <fmt/format.h>

#include "tools/common/lines.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf::all {

void add_labelled(std::vector<std::string>& lines, const std::string& label,
                  const std::string& text, unsigned columns) {
  constexpr std::size_t kIndent = 19;  // " ", 15 of the label, " : "
  std::vector<std::string> wrapped;
  add_wrapped(wrapped, wire::printable(text), /*indent=*/0,
              columns - static_cast<unsigned>(kIndent));
  const std::string head = fmt::format(" {:<15} : ", wire::printable(label));
  for (std::size_t i = 0; i < wrapped.size(); ++i)
    lines.push_back((i == 0 ? head : std::string(kIndent, ' ')) + wrapped[i]);
}

}  // namespace hbmwire::tools::perf::all
