// SPDX-License-Identifier: MIT
//
// hl-thunk: opening and identifying a card. The vendor's error conventions differ between calls:
// -errno, or -1 with errno, or -EBADF for "no such card". Each call keeps its own.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/hl_thunk_calls.hpp"

using namespace hbmwire::emulation::gaudi;

namespace {

enum class Node : unsigned char { primary, control };

int fail_with_errno(int negative_errno) {
  errno = -negative_errno;
  return -1;
}

int open_node(Card& card, Node node) {
  return node == Node::primary ? card.open_primary() : card.open_control();
}

bool matches(const Card& card, hlthunk_device_name name) {
  return name == HLTHUNK_DEVICE_DONT_CARE || device_name_of(card.identity().pci_device_id) == name;
}

// Opens the first card of that name that can be opened. Returns -1 with the last error, or with
// ENOENT if there is no such card.
int open_by_name(hlthunk_device_name name, Node node) {
  int error = ENOENT;
  for (Card* card : CardRegistry::instance().cards()) {
    if (!matches(*card, name)) continue;
    const int fd = open_node(*card, node);
    if (fd >= 0) return fd;
    if (-fd != ENOENT) error = -fd;
  }
  errno = error;
  return -1;
}

int open_by_bus_id(const char* busid, Node node) {
  Card* card = CardRegistry::instance().by_pci_address(busid);
  return card == nullptr ? -EINVAL : open_node(*card, node);
}

}  // namespace

int hlthunk_open(enum hlthunk_device_name device_name, const char* busid) {
  const int error = injected("hlthunk_open");
  if (busid != nullptr) return error != 0 ? error : open_by_bus_id(busid, Node::primary);
  return error != 0 ? fail_with_errno(error) : open_by_name(device_name, Node::primary);
}

int hlthunk_open_by_module_id(uint32_t module_id) {
  if (const int error = injected("hlthunk_open_by_module_id"); error != 0)
    return fail_with_errno(error);
  Card* card = CardRegistry::instance().by_module_id(module_id);
  if (card == nullptr) return fail_with_errno(-ENOENT);
  return card->open_primary();
}

int hlthunk_open_control(int dev_id, const char* busid) {
  if (const int error = injected("hlthunk_open_control"); error != 0) return error;
  if (busid != nullptr) return open_by_bus_id(busid, Node::control);
  Card* card =
      dev_id < 0 ? nullptr : CardRegistry::instance().by_index(static_cast<unsigned>(dev_id));
  return card == nullptr ? -ENOENT : card->open_control();
}

int hlthunk_open_control_by_name(enum hlthunk_device_name device_name, const char* busid) {
  const int error = injected("hlthunk_open_control_by_name");
  if (busid != nullptr) return error != 0 ? error : open_by_bus_id(busid, Node::control);
  return error != 0 ? fail_with_errno(error) : open_by_name(device_name, Node::control);
}

int hlthunk_open_control_by_module_id(uint32_t module_id) {
  if (const int error = injected("hlthunk_open_control_by_module_id"); error != 0) return error;
  Card* card = CardRegistry::instance().by_module_id(module_id);
  return card == nullptr ? -EBADF : card->open_control();
}

int hlthunk_open_control_by_bus_id(const char* busid) {
  if (const int error = injected("hlthunk_open_control_by_bus_id"); error != 0) return error;
  if (busid == nullptr) return -EINVAL;
  Card* card = CardRegistry::instance().by_pci_address(busid);
  return card == nullptr ? -EBADF : card->open_control();
}

// As with close(2), the fd is closed even if an error is returned.
int hlthunk_close(int fd) {
  const int injected_error = injected("hlthunk_close");
  Card* card = CardRegistry::instance().by_fd(fd);
  int error = 0;
  if (card != nullptr) {
    error = card->close(fd);
  } else if (::close(fd) != 0) {
    error = -errno;
  }
  if (injected_error != 0) error = injected_error;
  return error == 0 ? 0 : fail_with_errno(error);
}

uint32_t hlthunk_get_device_id_from_fd(int fd) {
  Card* card = nullptr;
  if (injected("hlthunk_get_device_id_from_fd") != 0 || card_for_information(fd, card) != 0)
    return 0;
  return card->identity().pci_device_id;
}

enum hlthunk_device_name hlthunk_get_device_name_from_fd(int fd) {
  Card* card = nullptr;
  if (injected("hlthunk_get_device_name_from_fd") != 0 || card_for_information(fd, card) != 0) {
    return HLTHUNK_DEVICE_INVALID;
  }
  return device_name_of(card->identity().pci_device_id);
}

// Writes the terminating NUL only if there is room for it (13 bytes in all), as the vendor's
// library does.
int hlthunk_get_pci_bus_id_from_fd(int fd, char* pci_bus_id, int len) {
  if (const int error = injected("hlthunk_get_pci_bus_id_from_fd"); error != 0)
    return fail_with_errno(error);
  if (pci_bus_id == nullptr) return -EINVAL;
  Card* card = nullptr;
  if (const int error = card_for_information(fd, card); error != 0) return fail_with_errno(error);
  const std::string& address = card->identity().pci_address;
  for (int i = 0; i < len; ++i) {
    const auto at = static_cast<std::size_t>(i);
    pci_bus_id[i] = at < address.size() ? address[at] : '\0';
  }
  return 0;
}

int hlthunk_get_device_index_from_pci_bus_id(const char* busid) {
  if (const int error = injected("hlthunk_get_device_index_from_pci_bus_id"); error != 0)
    return error;
  if (busid == nullptr) return -EINVAL;
  const Card* card = CardRegistry::instance().by_pci_address(busid);
  return card == nullptr ? -1 : static_cast<int>(card->identity().index);
}

int hlthunk_get_device_index_from_module_id(uint32_t module_id) {
  if (const int error = injected("hlthunk_get_device_index_from_module_id"); error != 0)
    return error;
  const Card* card = CardRegistry::instance().by_module_id(module_id);
  return card == nullptr ? -1 : static_cast<int>(card->identity().index);
}

int hlthunk_get_device_count(enum hlthunk_device_name device_name) {
  if (const int error = injected("hlthunk_get_device_count"); error != 0) return error;
  int count = 0;
  for (const Card* card : CardRegistry::instance().cards())
    count += matches(*card, device_name) ? 1 : 0;
  return count;
}

char* hlthunk_get_version(void) {
  constexpr std::size_t kVersionBytes = 128;
  auto* version = static_cast<char*>(hlthunk_malloc(kVersionBytes));
  if (version != nullptr) std::snprintf(version, kVersionBytes, "1.18.0-hbmwire-emulation");
  return version;
}
