// SPDX-License-Identifier: MIT
#include "registration/path_record.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "base/log.hpp"

namespace hbmwire::detail {

namespace {

// The best path comes first.
constexpr std::array kPaths{Path::zero_copy, Path::peer_memory, Path::host, Path::staged};

/// The reason why `path` was not even tried for memory that goes by `taken`.
const char* why_not(Path path, Path taken) noexcept {
  switch (path) {
    case Path::zero_copy:
      return taken == Path::host ? "host memory has no dma-buf, it is registered by address"
                                 : "the memory's domain names no dma-buf of it";
    case Path::peer_memory:
      return taken == Path::host
                 ? "host memory needs no peer-memory client to translate its addresses"
             : taken >= Path::staged
                 ? "the memory's domain names no peer-memory client that translates its addresses"
                 : "the dma-buf is the better way, and it was taken";
    case Path::host:
      return "the memory is a device's, whose addresses are not host memory";
    case Path::staged:
      return taken == Path::copy || taken == Path::ipc ? "the path policy excludes it"
             : taken == Path::tcp                      ? "there is no NIC to carry staged bytes"
                                  : "the NIC reaches the memory, so nothing has to stop on its way";
    case Path::copy:
    case Path::nic_loopback:
    case Path::tcp:
    case Path::ipc:
    case Path::shared_memory:
      return "a region is registered, not moved";
  }
  return "";
}

PathTried tried(Path path, Path taken, const std::vector<PathTried>& refused,
                const std::string& device) {
  const auto failed = std::ranges::find(refused, path, &PathTried::path);
  if (failed != refused.end()) return *failed;
  if (path == taken) return {.path = path, .taken = true, .nic = {}, .refusal = {}};
  return {.path = path,
          .taken = false,
          .nic = {},
          .refusal = make_error(Errc::not_supported, Stage::register_memory, why_not(path, taken),
                                device)};
}

bool same(const Error& a, const Error& b) noexcept {
  return a.code == b.code && a.stage == b.stage && a.number_kind == b.number_kind &&
         a.hint == b.hint && a.number == b.number && std::strcmp(a.call, b.call) == 0 &&
         std::strcmp(a.subject, b.subject) == 0;
}

bool same(const PathTried& a, const PathTried& b) noexcept {
  return a.path == b.path && a.taken == b.taken && a.nic == b.nic &&
         a.refusal.has_value() == b.refusal.has_value() &&
         (!a.refusal || same(*a.refusal, *b.refusal));
}

bool same(const PathRecord& a, const PathRecord& b) noexcept {
  return a.type == b.type && a.path == b.path && a.device == b.device &&
         std::ranges::equal(a.tried, b.tried, [](const PathTried& one, const PathTried& other) {
           return same(one, other);
         });
}

/// Sets the error of a policy that excludes the record's path.
void explain_exclusion(PathRecord& record) {
  record.excluded_text = "the path policy excludes " + std::string(to_string(record.path));
  const PathTried* better = nullptr;
  for (const PathTried& other : record.tried) {
    if (other.taken) break;
    if (better == nullptr && other.refusal) better = &other;
  }
  if (better == nullptr) {
    record.excluded = make_error(Errc::permission_denied, Stage::register_memory, "", record.device,
                                 Hint::path_policy);
  } else {
    record.excluded = *better->refusal;
    record.excluded_text += ", by which the memory would go, since " +
                            std::string(to_string(better->path)) +
                            " can't be had: " + better->refusal->call;
    if (record.excluded.hint == Hint::none) record.excluded.hint = Hint::path_policy;
  }
  record.excluded.code = Errc::permission_denied;
  record.excluded.stage = Stage::register_memory;
  record.excluded.call = record.excluded_text.c_str();
}

/// All records of the process, in the order of their numbers.
struct Records {
  std::mutex mutex;
  std::vector<std::unique_ptr<PathRecord>> all;
  std::set<std::string> noted;  // names of devices
};

Records& records() {
  // Never destroyed: transfers may be explained while the process ends.
  static auto& of_process = *new Records;  // NOLINT(cppcoreguidelines-owning-memory)
  return of_process;
}

// More records than this exist only if each region makes up a device name or a cause. Further ones
// are told apart by path and type alone.
constexpr std::size_t kMostRecords = 1024;

}  // namespace

const PathRecord& record_of(const DeviceInfo& device, Path path,
                            const std::vector<PathTried>& refused) {
  auto made = std::make_unique<PathRecord>();
  made->type = device.type;
  made->path = path;
  made->device = device.name;
  for (const Path each : kPaths) made->tried.push_back(tried(each, path, refused, device.name));
  // kPaths has none of the paths behind staging.
  if (path > Path::staged)
    made->tried.push_back({.path = path, .taken = true, .nic = {}, .refusal = {}});
  // For these types and paths note() has nothing to log.
  made->noted = device.type == MemoryType::host || path == Path::zero_copy || path == Path::host;
  Records& known = records();
  const std::scoped_lock lock(known.mutex);
  for (const auto& record : known.all) {
    if (same(*record, *made)) return *record;
  }
  if (known.all.size() >= kMostRecords) {
    for (const auto& record : known.all) {
      if (record->type == made->type && record->path == made->path) return *record;
    }
  }
  explain_exclusion(*made);
  known.all.push_back(std::move(made));
  known.all.back()->number = static_cast<std::uint16_t>(known.all.size());
  return *known.all.back();
}

const PathRecord* record_at(std::uint16_t number) {
  if (number == 0) return nullptr;
  Records& known = records();
  const std::scoped_lock lock(known.mutex);
  return known.all[number - 1U].get();
}

void note(const PathRecord& record) {
  if (record.noted.exchange(true, std::memory_order_relaxed)) return;
  {
    Records& known = records();
    const std::scoped_lock lock(known.mutex);
    if (!known.noted.insert(record.device).second) return;
  }
  std::string line = record.device + ": its memory goes by " + std::string(to_string(record.path)) +
                     ", not zero-copy";
  for (const PathTried& other : record.tried) {
    if (other.path == Path::zero_copy && other.refusal) line += ": " + describe(*other.refusal);
  }
  log_line(LogLevel::warn, line);
}

}  // namespace hbmwire::detail
