// SPDX-License-Identifier: MIT
#include "name_service.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

namespace hbmwire::test {

namespace {

std::vector<std::string> g_addresses;
sigset_t g_blocked;  // of the last caller
std::atomic<unsigned> g_under_way{0};
std::atomic<unsigned> g_most_under_way{0};
std::atomic<std::int64_t> g_takes_ms{0};

class LookUp {
 public:
  LookUp() {
    const unsigned now = ++g_under_way;
    unsigned most = g_most_under_way;
    while (most < now && !g_most_under_way.compare_exchange_weak(most, now)) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(g_takes_ms));
  }

  LookUp(const LookUp&) = delete;
  LookUp& operator=(const LookUp&) = delete;

  ~LookUp() { --g_under_way; }
};

}  // namespace

bool look_up_takes(int signal) { return sigismember(&g_blocked, signal) == 0; }

unsigned most_look_ups(std::chrono::milliseconds take) {
  g_takes_ms = take.count();
  return g_most_under_way.exchange(0);
}

void set_addresses(std::vector<std::string> addresses) { g_addresses = std::move(addresses); }

}  // namespace hbmwire::test

/// Replaces the function of the C library, which this one calls for each address. freeaddrinfo(3)
/// frees a list by its links, so it does not matter which function made them.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  auto* const real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool numeric = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (numeric || node == nullptr || std::string_view(node) != hbmwire::test::kSeveralAddresses)
    return real(node, service, hints, list);
  const hbmwire::test::LookUp under_way;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &hbmwire::test::g_blocked);
  *list = nullptr;
  for (addrinfo** end = list; const std::string& address : hbmwire::test::g_addresses) {
    // An IPv6 address is in brackets if a port follows.
    const std::string bare =
        address.front() == '[' ? address.substr(1, address.size() - 2) : address;
    if (const int error = real(bare.c_str(), service, hints, end); error != 0) return error;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}
