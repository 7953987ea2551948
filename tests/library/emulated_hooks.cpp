// SPDX-License-Identifier: MIT
#include "emulated_hooks.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace hbmwire::test {

namespace {

constexpr unsigned kDevices = 2;  // the most devices of each vendor in these tests

/// One of a vendor's emulated libraries, and the objects that its devices hold for a process. It
/// has `hbmwire_<name>_fail_nth_call(long n, int error_number)` and
/// `hbmwire_<name>_live_objects(unsigned device, const char* kind)`.
struct Vendor {
  const char* name;
  const char* library;
  std::vector<const char*> kinds;
};

const std::vector<Vendor>& vendors() {
  static const std::vector<Vendor> all{
      {"gaudi", "libhl-thunk.so", {"allocation", "mapping", "export", "host_mapping"}},
      {"cuda",
       "libcuda.so.1",
       {"allocation", "host", "managed", "mapping", "physical", "export", "context", "stream",
        "reservation", "host_mapping", "event", "current", "ipc"}},
      {"rocm",
       "libhsa-runtime64.so.1",
       {"allocation", "range", "export", "host_allocation", "lock", "signal", "ipc"}},
  };
  return all;
}

/// Null if there is no such library, or it is not emulated.
template <class Function>
Function* symbol(const std::string& library, const std::string& name) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : std::bit_cast<Function*>(::dlsym(handle, name.c_str()));
}

std::string plugin() {
  const char* driver = std::getenv("IBV_DRIVERS");
  return driver == nullptr ? "" : std::string(driver) + ".so";
}

std::string library_of(std::string_view name) {
  for (const Vendor& vendor : vendors()) {
    if (name == vendor.name) return vendor.library;
  }
  return name == "nic" ? plugin() : "";
}

void note(std::string& text, unsigned long count, const std::string& what) {
  if (count != 0) text += std::to_string(count) + " " + what + " ";
}

}  // namespace

long fail_nth_call(std::string_view library, long n, int error_number) {
  const std::string name = "hbmwire_" + std::string(library) + "_fail_nth_call";
  auto* const call = symbol<long(long, int)>(library_of(library), name);
  if (call == nullptr) {
    ADD_FAILURE() << library << " is not emulated here";
    return 0;
  }
  return call(n, error_number);
}

void fail_nic_calls(const char* call, int error_number) {
  auto* const fail = symbol<void(const char*, int)>(plugin(), "hbmwire_nic_fail_calls");
  if (fail == nullptr) {
    ADD_FAILURE() << "the NIC is not emulated here";
    return;
  }
  fail(call, error_number);
}

void refuse_requests(unsigned long long n, unsigned long long count, int error_number) {
  auto* const refuse = symbol<void(unsigned long long, unsigned long long, int)>(
      plugin(), "hbmwire_nic_refuse_requests");
  if (refuse == nullptr) {
    ADD_FAILURE() << "the NIC is not emulated here";
    return;
  }
  refuse(n, count, error_number);
}

std::string live_nic_objects() {
  std::string text;
  if (auto* nic = symbol<unsigned(const char*)>(plugin(), "hbmwire_nic_live_objects")) {
    for (const char* kind : {"context", "pd", "mr", "cq", "qp", "channel"})
      note(text, nic(kind), kind);
  }
  return text;
}

unsigned long long nic_locks_not_had() {
  auto* const count = symbol<unsigned long long()>(plugin(), "hbmwire_nic_locks_not_had");
  return count == nullptr ? 0 : count();
}

std::string live_objects() {
  std::string text = live_nic_objects();
  for (const Vendor& vendor : vendors()) {
    auto* const live = symbol<unsigned long(unsigned, const char*)>(
        vendor.library, "hbmwire_" + std::string(vendor.name) + "_live_objects");
    for (unsigned device = 0; live != nullptr && device < kDevices; ++device) {
      for (const char* kind : vendor.kinds) {
        note(text, live(device, kind),
             std::string(kind) + " of " + vendor.name + std::to_string(device));
      }
    }
  }
  return text;
}

int file_mappings() {
  std::ifstream file("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find('/') != std::string::npos ? 1 : 0;
  return count;
}

std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t allocator_slack_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::uint64_t{1} << 40U;
#else
  return std::uint64_t{2} << 20U;
#endif
}

}  // namespace hbmwire::test
