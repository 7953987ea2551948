// SPDX-License-Identifier: MIT
#include "emulation/gaudi/card_registry.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "emulation/common/first_line.hpp"
#include "emulation/common/world.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

std::optional<std::uint32_t> parse_number(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// Reads a card from sysfs/class/accel/accelN. Returns nullopt for control nodes, other vendors'
// devices and cards without files.
std::optional<CardIdentity> read_card(const World& world, const std::filesystem::path& entry) {
  constexpr std::string_view kPrefix = "accel";
  const std::string name = entry.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto index = parse_number(std::string_view(name).substr(kPrefix.size()), 10);
  if (!index) return std::nullopt;  // accel_controlDN

  CardIdentity card;
  card.index = *index;
  card.sysfs = entry / "device";
  card.kind = find_card_kind(first_line(card.sysfs / "device_type"));
  if (card.kind == nullptr) return std::nullopt;
  card.pci_address = first_line(card.sysfs / "pci_addr");
  card.module_id = parse_number(first_line(card.sysfs / "module_id"), 10).value_or(card.index);
  card.pci_device_id =
      parse_number(first_line(card.sysfs / "device"), 16).value_or(card.kind->pci_device_id);
  card.directory = world.card("gaudi", card.index);

  struct stat device {};

  if (::stat((card.directory / "device").c_str(), &device) != 0) return std::nullopt;
  card.file_system = device.st_dev;
  card.inode = device.st_ino;
  return card;
}

std::vector<CardIdentity> scan() {
  std::vector<CardIdentity> found;
  const auto world = World::from_environment();
  if (!world) return found;
  std::error_code error;
  std::filesystem::directory_iterator entries(world->sysfs() / "class" / "accel", error);
  for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
    if (auto card = read_card(*world, entries->path())) found.push_back(std::move(*card));
  }
  std::ranges::sort(found, {}, &CardIdentity::index);
  return found;
}

void before_fork() { process_mutex().lock(); }

void after_fork_in_parent() { process_mutex().unlock(); }

void after_fork_in_child() {
  process_mutex().unlock();
  CardRegistry::instance().for_each_known([](Card& card) { card.after_fork_in_child(); });
}

}  // namespace

std::mutex& process_mutex() {
  // Never destroyed, because threads may still run while the process ends.
  static auto* mutex = new std::mutex;
  return *mutex;
}

CardRegistry::CardRegistry() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

CardRegistry& CardRegistry::instance() {
  static auto* registry = new CardRegistry;
  return *registry;
}

Card* CardRegistry::find_or_add(const CardIdentity& identity) {
  for (const auto& card : known_) {
    if (card->identity() == identity) return card.get();
  }
  return known_.emplace_back(std::make_unique<Card>(identity)).get();
}

std::vector<Card*> CardRegistry::cards() {
  const auto identities = scan();
  const std::lock_guard lock(process_mutex());
  std::vector<Card*> result;
  result.reserve(identities.size());
  for (const auto& identity : identities) result.push_back(find_or_add(identity));
  return result;
}

Card* CardRegistry::by_index(unsigned index) {
  for (Card* card : cards()) {
    if (card->identity().index == index) return card;
  }
  return nullptr;
}

Card* CardRegistry::by_pci_address(std::string_view address) {
  constexpr std::size_t kWithoutDomain = 7;  // "bb:dd.f"
  constexpr std::size_t kWithDomain = 12;    // "dddd:bb:dd.f"
  const std::string full = address.size() == kWithoutDomain
                               ? "0000:" + std::string(address)
                               : std::string(address.substr(0, kWithDomain));
  for (Card* card : cards()) {
    if (card->identity().pci_address == full) return card;
  }
  return nullptr;
}

Card* CardRegistry::by_module_id(std::uint32_t module_id) {
  for (Card* card : cards()) {
    if (card->identity().module_id == module_id) return card;
  }
  return nullptr;
}

Card* CardRegistry::by_fd(int fd) {
  struct stat file {};

  if (::fstat(fd, &file) != 0) return nullptr;  // EBADF
  const auto match = [&]() -> Card* {
    const std::lock_guard lock(process_mutex());
    for (const auto& card : known_) {
      if (card->identity().inode == file.st_ino && card->identity().file_system == file.st_dev)
        return card.get();
    }
    return nullptr;
  };
  Card* card = match();
  if (card == nullptr) {
    cards();  // another process may have sent the fd before this one looked for cards
    card = match();
  }
  if (card == nullptr) errno = ENOTTY;
  return card;
}

void CardRegistry::for_each_known(const std::function<void(Card&)>& visit) {
  const std::lock_guard lock(process_mutex());
  for (const auto& card : known_) visit(*card);
}

bool is_primary(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

}  // namespace hbmwire::emulation::gaudi
