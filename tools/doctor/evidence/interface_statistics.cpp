// SPDX-License-Identifier: MIT
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "hbmwire/fd.hpp"

#include "tools/doctor/evidence/live_calls.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The most statistics of an interface. An mlx5 port with 128 channels has some 6,000.
constexpr std::uint32_t kMostStatistics = 65536;

/// Requests of SIOCETHTOOL about one interface; see linux/ethtool.h. None of them needs a
/// privilege.
class EthtoolRequests {
 public:
  EthtoolRequests(int socket, const std::string& name) : socket_(socket) {
    name.copy(request_.ifr_name, IFNAMSIZ - 1);
  }

  /// Makes a request; returns errno, or 0. `command` begins with the number of the request, and
  /// receives the answer.
  int ask(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    return ::ioctl(socket_, SIOCETHTOOL, &request_) == 0 ? 0 : errno;
  }

 private:
  int socket_;
  ifreq request_{};
};

/// A request with fixed fields, and room for `bytes` after them, aligned for numbers of 64 bits.
template <class Head>
std::vector<std::uint64_t> request_with_room(const Head& head, std::size_t bytes) {
  std::vector<std::uint64_t> room((sizeof head + bytes + 7) / 8);
  std::memcpy(room.data(), &head, sizeof head);
  return room;
}

template <class Head>
Head head_of(const std::vector<std::uint64_t>& room) {
  Head head{};
  std::memcpy(&head, room.data(), sizeof head);
  return head;
}

int ask_count(EthtoolRequests& interface, std::uint32_t& count) {
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  const int error = interface.ask(&driver);
  count = driver.n_stats;
  if (error != 0) return error;
  if (count == 0) return EOPNOTSUPP;
  return count <= kMostStatistics ? 0 : EOVERFLOW;
}

}  // namespace

Json interface_statistics(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ) return {{"error", ENODEV}};
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return {{"error", errno}};
  EthtoolRequests interface(socket.get(), name);
  std::uint32_t count = 0;
  if (const int error = ask_count(interface, count); error != 0) return {{"error", error}};
  // The driver writes all its statistics, however many were asked for. The buffer has room for
  // twice as many, in case queues are added meanwhile.
  const std::size_t room = std::size_t{count} * 2;
  ethtool_gstrings strings{};
  strings.cmd = ETHTOOL_GSTRINGS;
  strings.string_set = ETH_SS_STATS;
  strings.len = count;
  auto names = request_with_room(strings, room * ETH_GSTRING_LEN);
  if (const int error = interface.ask(names.data()); error != 0) return {{"error", error}};
  ethtool_stats numbers{};
  numbers.cmd = ETHTOOL_GSTATS;
  numbers.n_stats = count;
  auto values = request_with_room(numbers, room * sizeof(std::uint64_t));
  if (const int error = interface.ask(values.data()); error != 0) return {{"error", error}};
  // Names and values match only if no statistic was added or removed between the two requests.
  if (head_of<ethtool_gstrings>(names).len != count ||
      head_of<ethtool_stats>(values).n_stats != count)
    return {{"error", EAGAIN}};
  // Faster than a JSON object, which searches for each name.
  std::map<std::string, std::uint64_t> statistics;
  const char* const first_name =
      reinterpret_cast<const char*>(names.data()) + sizeof(ethtool_gstrings);
  const std::uint64_t* const first_value = values.data() + sizeof(ethtool_stats) / 8;
  for (std::uint32_t i = 0; i < count; ++i) {
    const char* const text = first_name + std::size_t{i} * ETH_GSTRING_LEN;
    statistics[std::string(text, ::strnlen(text, ETH_GSTRING_LEN))] = first_value[i];
  }
  return {{"value", {{"statistics", statistics}}}};
}

}  // namespace hbmwire::tools::doctor
