// SPDX-License-Identifier: MIT
#include "wire/codec.hpp"

namespace hbmwire::wire {

void Writer::text(std::string_view text, std::size_t limit) {
  text = text.substr(0, limit);
  integer(static_cast<std::uint16_t>(text.size()));
  for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
}

void Writer::counted(std::span<const std::byte> data) {
  integer(static_cast<std::uint16_t>(data.size()));
  bytes_.insert(bytes_.end(), data.begin(), data.end());
}

void Writer::block(std::span<const std::byte> data) {
  integer(static_cast<std::uint32_t>(data.size()));
  bytes_.insert(bytes_.end(), data.begin(), data.end());
}

std::span<const std::byte> Reader::take(std::size_t count) noexcept {
  if (failed_ || count > data_.size()) {
    failed_ = true;
    return {};
  }
  const auto taken = data_.first(count);
  data_ = data_.subspan(count);
  return taken;
}

std::string Reader::text(std::size_t limit) {
  const std::size_t length = integer<std::uint16_t>();
  if (length > limit) {
    failed_ = true;
    return {};
  }
  std::string out;
  out.reserve(length);
  for (const std::byte byte : take(length)) out.push_back(static_cast<char>(byte));
  return out;
}

std::vector<std::byte> Reader::counted(std::size_t limit) {
  return bounded(integer<std::uint16_t>(), limit);
}

std::vector<std::byte> Reader::block(std::size_t limit) {
  return bounded(integer<std::uint32_t>(), limit);
}

std::vector<std::byte> Reader::bounded(std::size_t length, std::size_t limit) {
  if (length > limit) {
    failed_ = true;
    return {};
  }
  const auto taken = take(length);
  return {taken.begin(), taken.end()};
}

}  // namespace hbmwire::wire
