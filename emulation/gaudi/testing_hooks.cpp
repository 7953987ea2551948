// SPDX-License-Identifier: MIT
#include "emulation/gaudi/testing_hooks.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/gaudi/card_registry.hpp"

using hbmwire::emulation::count_live;
using hbmwire::emulation::FaultPlan;
using namespace hbmwire::emulation::gaudi;

long hbmwire_gaudi_fail_nth_call(long n, int error_number) {
  return static_cast<long>(FaultPlan::of_this_process().fail_nth_call(n, error_number));
}

int hbmwire_gaudi_fault(const char* call) { return FaultPlan::of_this_process().fails(call); }

unsigned long hbmwire_gaudi_live_objects(unsigned card_index, const char* kind) {
  Card* card = CardRegistry::instance().by_index(card_index);
  if (card == nullptr || card->state() == nullptr || kind == nullptr) return 0;
  const StateLock content(*card->state());
  const std::string_view wanted(kind);
  const auto mappings = [&](bool of_host) {
    return static_cast<unsigned long>(std::ranges::count_if(
        content->mappings,
        [&](const auto& slot) { return slot.live != 0 && (slot.handle == 0) == of_host; }));
  };
  if (wanted == "allocation") return count_live(content->allocations);
  if (wanted == "mapping") return mappings(false);
  if (wanted == "host_mapping") return mappings(true);
  if (wanted == "export") return card->collect_exports(*content);
  return 0;
}

int hbmwire_gaudi_backing(int fd, std::uint64_t device_address,
                          hbmwire_gaudi_backing_range* range) {
  Card* card = CardRegistry::instance().by_fd(fd);
  if (card == nullptr) return -errno;
  Backing backing;
  if (const int error = card->find_backing(device_address, backing); error != 0) return error;
  const std::string path = card->hbm_path();
  const std::string posted = card->posted_path();
  if (path.size() >= sizeof(range->path) || posted.size() >= sizeof(range->posted_path))
    return -ENAMETOOLONG;
  *range = {};
  range->offset_bytes = backing.offset;
  range->length_bytes = backing.bytes;
  std::memcpy(range->path, path.c_str(), path.size());
  std::memcpy(range->posted_path, posted.c_str(), posted.size());
  return 0;
}
