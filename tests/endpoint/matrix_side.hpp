// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/hbmwire.hpp"

#include "matrix_cases.hpp"

namespace hbmwire::matrix {

inline constexpr std::chrono::seconds kPatience{60};

/// The value of a Result; throws its message on an error.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  return std::move(*result);
}

inline void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(describe(result.error()));
}

/// One end's memory in a row: so many bytes, with guards before and after them that must not
/// change.
class Memory {
 public:
  static constexpr std::uint64_t kGuard = 64;

  /// The default `access` allows everything. `shared` is for host memory, as in HostMemoryOptions.
  Memory(const Context& context, MemoryType type, std::uint64_t size_bytes,
         Access access = kAllAccess, bool shared = false);

  [[nodiscard]] Slice slice() const { return region_.slice(kGuard, size_); }

  [[nodiscard]] Slice part(std::uint64_t offset, std::uint64_t length) const {
    return region_.slice(kGuard + offset, length);
  }

  [[nodiscard]] const Region& region() const noexcept { return region_; }

  /// Also fills the guards.
  void fill(unsigned seed);

  /// Throws unless it holds the bytes of fill(`seed`), with those of another memory's
  /// fill(`middle`) in the middle.
  void expect(unsigned seed, unsigned middle);

  void set_number(std::uint64_t number);  // in the first 8 bytes of the middle
  [[nodiscard]] std::uint64_t number();

 private:
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  template <class Piece>
  void for_each_piece(const Piece& piece) const;

  std::uint64_t size_;
  Region region_;
  Buffer buffer_;
};

/// The tag of messages and immediates.
inline constexpr std::uint64_t kTag = 0xfeed'0000'0000'0001ULL;
inline constexpr std::uint32_t kImmediate = 0xabcd0123U;

/// The leading side's command to the other one, sent as raw bytes: a build of another commit must
/// have the same rows to be tested against this one.
struct Command {
  enum class What : std::uint8_t { prepare, check, leave } what = What::leave;
  Row row{};
  unsigned seed = 0;
  std::uint64_t expected_number = 0;  // for atomics
};

/// A connection for commands and answers, separate from the tested library.
class Channel {
 public:
  explicit Channel(Fd socket);

  static Channel connect(std::uint16_t port);

  void write(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> read(std::size_t size);

  /// Whether data arrives within `time`.
  [[nodiscard]] bool readable(std::chrono::milliseconds time);

  template <class T>
  void say(const T& value) {
    write(std::as_bytes(std::span(&value, 1)));
  }

  template <class T>
  T hear() {
    const auto bytes = read(sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  /// Sends the number of bytes, and then the bytes.
  void say_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> hear_bytes();

 private:
  Fd socket_;
};

/// Serves one leading side: passes its port to `ready`, accepts, and executes commands.
void serve(const Context& context, const std::function<void(std::uint16_t)>& ready);

/// Runs `rows` with the side that serves at `port` of this machine. Returns the number of failed
/// rows.
std::size_t lead(const Context& context, std::uint16_t port, const std::vector<Row>& rows);

}  // namespace hbmwire::matrix
