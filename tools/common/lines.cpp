// SPDX-License-Identifier: MIT
#include "tools/common/lines.hpp"

#include <string_view>

namespace hbmwire::tools {

void add_wrapped(std::vector<std::string>& lines, const std::string& text, std::size_t indent,
                 unsigned columns) {
  std::string line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    if (!line.empty() && indent + line.size() + 1 + word.size() > columns) {
      lines.push_back(std::string(indent, ' ') + line);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    begin = end + 1;
  }
  if (!line.empty()) lines.push_back(std::string(indent, ' ') + line);
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

}  // namespace hbmwire::tools
