// SPDX-License-Identifier: MIT
#include "base/log.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "hbmwire/log.hpp"

#include "base/guarded.hpp"

namespace hbmwire {

namespace {

// The sink and the level exist once per process, because destructors have no context to ask.
constexpr int kUndecided = -1;
// The two are independent: a line that races with a change of the level may or may not be logged.
std::atomic<int> level_now{kUndecided};
std::atomic<bool> program_decided{false};

class SinkSlot {
 public:
  void set(LogSink sink) {
    auto made = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
    const std::scoped_lock lock(mutex_);
    sink_.swap(made);
  }

  // Returns a copy, so that the sink is called without the lock: the sink may call the library.
  std::shared_ptr<const LogSink> get() {
    const std::scoped_lock lock(mutex_);
    return sink_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const LogSink> sink_;
};

// Never destroyed, because destructors of static objects may still log.
SinkSlot& sink_slot() {
  static auto& slot = *new SinkSlot;
  return slot;
}

int current_level() noexcept {
  const int level = level_now.load(std::memory_order_relaxed);
  if (level != kUndecided) return level;
  // An invalid setting is not reported here, but by Context::create().
  const auto settings = settings_from_environment();
  use_log_level(settings ? settings->log_level : LogLevel::warn);
  return level_now.load(std::memory_order_relaxed);
}

void say(LogLevel level, std::string_view text) {
  if (const auto sink = sink_slot().get()) {
    (*sink)(level, text);
    return;
  }
  // One write, so that lines of several threads stay whole.
  const std::string line = fmt::format("hbmwire: {}: {}\n", to_string(level), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::off:
      return "off";
    case LogLevel::error:
      return "error";
    case LogLevel::warn:
      return "warn";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "?";
}

Result<void> set_log_sink(LogSink sink) {
  return guarded(Stage::configure, [&]() -> Result<void> {
    sink_slot().set(std::move(sink));
    return {};
  });
}

void set_log_level(LogLevel level) noexcept {
  program_decided.store(true, std::memory_order_relaxed);
  level_now.store(static_cast<int>(level), std::memory_order_relaxed);
}

void use_log_level(LogLevel level) noexcept {
  if (program_decided.load(std::memory_order_relaxed)) return;
  level_now.store(static_cast<int>(level), std::memory_order_relaxed);
}

bool log_wanted(LogLevel level) noexcept {
  return level != LogLevel::off && static_cast<int>(level) <= current_level();
}

void log_line(LogLevel level, std::string_view text) noexcept {
  const int kept = errno;
  // Without memory for the line, it is not logged.
  try {
    if (log_wanted(level)) say(level, text);
  } catch (const std::bad_alloc&) {
    errno = kept;
    return;
  }
  errno = kept;
}

void log_warning(const char* call, const char* what, int error_number) noexcept {
  const int kept = errno;
  log_line(LogLevel::warn, [&] {
    if (error_number == 0) return fmt::format("{} {}", call, what);
    const char* text = strerrordesc_np(error_number);
    return fmt::format("{} {}: {} (errno {})", call, what, text != nullptr ? text : "?",
                       error_number);
  });
  errno = kept;
}

}  // namespace hbmwire
