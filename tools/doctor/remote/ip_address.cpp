// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/ip_address.hpp"

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "hbmwire/host_port.hpp"

#include "tools/doctor/pairs/child.hpp"

namespace hbmwire::tools::doctor {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Bytes of "[", an IPv6 address, "%", an interface's name, and "]:65535".
constexpr std::size_t kLongestAddress = 64 + IF_NAMESIZE;

/// Sets `status` to the result of getaddrinfo(3).
AddressList ask_for_addresses(const std::string& host, std::uint16_t port, int flags, int& status) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return {status == 0 ? list : nullptr, &::freeaddrinfo};
}

void add_once(std::vector<IpAddress>& addresses, IpAddress&& address) {
  const bool is_new = std::ranges::find(addresses, address) == addresses.end();
  if (is_new && !address.host.empty() && addresses.size() < kMostAddresses)
    addresses.push_back(std::move(address));
}

/// The body of the child: sends {"host": ...} for each address, or {"why_not": ...}.
void tell_addresses(const std::string& host, std::uint16_t port, Voice& voice) {
  int status = 0;
  const AddressList list = ask_for_addresses(host, port, 0, status);
  if (status != 0) {
    const int error = errno;
    voice.say({{"why_not", status == EAI_SYSTEM ? std::strerror(error) : ::gai_strerror(status)}});
  }
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next)
    voice.say({{"host", ip_address_of(each->ai_addr, each->ai_addrlen).host}});
}

Outcome<void> hear_addresses(Child& child, std::uint16_t port, const Wait& wait,
                             NameAnswer& answer) {
  using Kind = Heard::Kind;
  while (true) {
    const Heard heard = child.listen(wait.deadline, wait.cancel_fd);
    if (heard.kind == Kind::interrupted)
      return tl::make_unexpected(Failure(make_error(Errc::cancelled, Stage::connect, "interrupt")));
    if (heard.kind == Kind::silent) answer.why_not = "the name service did not answer";
    if (heard.kind == Kind::ended) answer.why_not = "the look-up ended without an answer";
    if (heard.kind != Kind::value || !heard.value.is_object() || heard.value.contains("done"))
      return {};
    if (heard.value.contains("failure"))
      return fail(heard.value["failure"].value("text", std::string()));
    answer.why_not = heard.value.value("why_not", std::string());
    if (auto address = ip_address(heard.value.value("host", std::string()), port))
      add_once(answer.addresses, std::move(*address));
  }
}

}  // namespace

const sockaddr* IpAddress::get() const noexcept {
  return reinterpret_cast<const sockaddr*>(&storage);
}

void IpAddress::set_port(std::uint16_t number) noexcept {
  port = number;
  // The ports of sockaddr_in and sockaddr_in6 have the same place.
  reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(number);
}

std::string IpAddress::text() const { return join_host_port(host, port); }

IpAddress ip_address_of(const sockaddr* address, socklen_t length) {
  IpAddress made;
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return made;
  if (length > sizeof made.storage) return made;
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return made;
  std::memcpy(&made.storage, address, length);
  made.length = length;
  made.host = text.data();
  made.port = ntohs(reinterpret_cast<const sockaddr_in&>(made.storage).sin_port);
  return made;
}

std::optional<IpAddress> ip_address(const std::string& host, std::uint16_t port) {
  if (host.empty()) return std::nullopt;
  int status = 0;
  const AddressList list = ask_for_addresses(host, port, AI_NUMERICHOST, status);
  if (!list) return std::nullopt;
  IpAddress made = ip_address_of(list->ai_addr, list->ai_addrlen);
  if (made.host.empty()) return std::nullopt;
  return made;
}

std::vector<IpAddress> ip_addresses(std::span<const std::string> texts) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : texts) {
    if (text.size() > kLongestAddress) continue;
    const auto place = split_host_port(text);
    if (!place) continue;
    if (auto address = ip_address(place->host, place->port))
      add_once(addresses, std::move(*address));
  }
  return addresses;
}

Outcome<NameAnswer> look_up_name(const std::string& host, std::uint16_t port, const Wait& wait) {
  NameAnswer answer;
  if (auto address = ip_address(host, port)) {
    answer.addresses.push_back(std::move(*address));
    return answer;
  }
  const auto began = Deadline::Clock::now();
  HBMWIRE_TRY_ASSIGN(Child child, Child::start([&](Voice& voice, int /*cancel_fd*/) {
                       tell_addresses(host, port, voice);
                     }));
  HBMWIRE_TRY(hear_addresses(child, port, wait, answer));
  if (!answer.addresses.empty()) answer.why_not.clear();
  answer.took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began);
  return answer;
}

}  // namespace hbmwire::tools::doctor
