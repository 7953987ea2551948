// SPDX-License-Identifier: MIT
#include "emulation/tests/ipc_peer/program.hpp"

#include <iostream>
#include <sstream>

namespace hbmwire::test {

int PeerProgram::run() {
  if (start() != 0) return 1;
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(line) << std::endl;
  return 0;
}

std::string PeerProgram::obey(const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string text;
  std::uint64_t number = 0;
  words >> verb;
  if (verb == "offer") {
    words >> number >> text;
    std::string handle;
    int result = allocate(number);
    if (result == 0) result = write(0, text);
    if (result == 0) result = offer(handle);
    return result == 0 ? handle : std::to_string(result);
  }
  if (verb == "free") return std::to_string(free());
  if (verb == "open") {
    words >> text >> number;
    return std::to_string(open(text, number));
  }
  if (verb == "close") return std::to_string(close());
  if (verb == "read") {
    std::size_t bytes = 0;
    words >> number >> bytes;
    text.assign(bytes, '?');
    const int result = read(number, text);
    return result == 0 ? text : std::to_string(result);
  }
  if (verb == "write") {
    words >> number >> text;
    return std::to_string(write(number, text));
  }
  if (verb == "end") return std::to_string(end());
  if (verb == "live") {
    words >> text;
    return std::to_string(live(text));
  }
  return "0";
}

}  // namespace hbmwire::test
