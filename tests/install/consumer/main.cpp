// SPDX-License-Identifier: MIT
// A program of a user, built only against the installed library.
#include <cerrno>
#include <cstdio>
#include <string>

#include <hbmwire/hbmwire.hpp>

namespace {

hbmwire::Result<int> refuse() {
  return tl::make_unexpected(hbmwire::system_error(hbmwire::Stage::open, "open", ENOENT, "card 7"));
}

}  // namespace

int main() {
  const auto result = refuse();
  if (result) return 1;
  const std::string sentence = hbmwire::describe(result.error());
  std::printf("consumer: %s\n", sentence.c_str());
  return sentence.find("card 7") == std::string::npos ? 1 : 0;
}
