// SPDX-License-Identifier: MIT
#include "emulated_hooks.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hbmwire::test {

namespace {

using FailNth = long(long, int);

template <class Function>
Function* symbol(const std::string& library, const char* name) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << ::dlerror();
  if (handle == nullptr) return nullptr;
  auto* found = std::bit_cast<Function*>(::dlsym(handle, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

std::string plugin() {
  const char* driver = std::getenv("IBV_DRIVERS");
  return driver == nullptr ? "" : std::string(driver) + "-rdmav34.so";
}

}  // namespace

long fail_nth_gaudi_call(long n, int error_number) {
  return symbol<FailNth>("libhl-thunk.so", "hbmwire_gaudi_fail_nth_call")(n, error_number);
}

long fail_nth_nic_call(long n, int error_number) {
  return symbol<FailNth>(plugin(), "hbmwire_nic_fail_nth_call")(n, error_number);
}

std::string live_objects() {
  std::string text;
  auto* nic = symbol<unsigned(const char*)>(plugin(), "hbmwire_nic_live_objects");
  for (const char* kind : {"context", "pd", "mr", "cq", "qp", "channel"}) {
    if (const unsigned count = nic(kind); count != 0)
      text += std::to_string(count) + " " + kind + " ";
  }
  auto* gaudi =
      symbol<unsigned long(unsigned, const char*)>("libhl-thunk.so", "hbmwire_gaudi_live_objects");
  for (unsigned card = 0; card < 2; ++card) {
    for (const char* kind : {"allocation", "mapping", "export", "host_mapping"}) {
      if (const unsigned long count = gaudi(card, kind); count != 0) {
        text += std::to_string(count) + " " + kind + " of card " + std::to_string(card) + " ";
      }
    }
  }
  return text;
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

int file_mappings() {
  std::ifstream file("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find('/') != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace hbmwire::test
