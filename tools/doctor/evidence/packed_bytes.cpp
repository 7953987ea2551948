// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/packed_bytes.hpp"

#include <sodium.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <span>

namespace hbmwire::tools::doctor {
namespace {

constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;

// zlib only reads through `next_in`, but without ZLIB_CONST it takes no pointer to const.
Bytef* as_input(std::string_view bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
}

/// Calls inflateEnd() when it is destroyed.
class InflateStream {
 public:
  InflateStream() {
    constexpr int kZlibOrGzip = MAX_WBITS + 32;  // the header decides which of the two, zlib.h
    good_ = ::inflateInit2(&stream_, kZlibOrGzip) == Z_OK;
  }

  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  ~InflateStream() {
    if (good_) ::inflateEnd(&stream_);
  }

  [[nodiscard]] bool is_good() const noexcept { return good_; }

  void feed(std::string_view packed) {
    stream_.next_in = as_input(packed);
    stream_.avail_in = static_cast<uInt>(packed.size());
  }

  /// Unpacks into `room`, and sets `filled` to the number of bytes there.
  int unpack(std::span<char> room, std::size_t& filled) {
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = static_cast<uInt>(room.size());
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    filled = room.size() - stream_.avail_out;
    return status;
  }

 private:
  z_stream stream_{};
  bool good_ = false;
};

}  // namespace

std::string to_base64(std::string_view bytes) {
  // The length includes the final zero byte.
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kBase64), '\0');
  ::sodium_bin2base64(text.data(), text.size(),
                      reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), kBase64);
  text.pop_back();
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  std::size_t size = 0;
  if (::sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                          text.size(), nullptr, &size, nullptr, kBase64) != 0)
    return std::nullopt;
  bytes.resize(size);
  return bytes;
}

std::string deflated(std::string_view bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string packed(size, '\0');
  // compress() fails only if memory runs out, because there is enough room.
  const int status =
      ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, as_input(bytes), bytes.size());
  packed.resize(status == Z_OK ? size : 0);
  return packed;
}

Inflated inflated(std::string_view packed, std::size_t most_bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{16} << 10U;
  InflateStream stream;
  Inflated result;
  if (!stream.is_good() || packed.size() > std::numeric_limits<uInt>::max()) return result;
  stream.feed(packed);
  while (true) {
    // One byte more than allowed: only then does it show whether the stream ends with the last
    // allowed byte.
    const std::size_t have = result.bytes.size();
    const std::size_t piece = std::min(kPieceBytes, most_bytes + 1 - have);
    result.bytes.resize(have + piece);
    std::size_t filled = 0;
    const int status = stream.unpack(std::span(result.bytes).subspan(have), filled);
    result.bytes.resize(have + filled);
    if (result.bytes.size() > most_bytes) {
      result.bytes.resize(most_bytes);
      result.state = Inflation::truncated;
      return result;
    }
    if (status == Z_STREAM_END) {
      result.state = Inflation::whole;
      return result;
    }
    // Z_BUF_ERROR means that the input ended early. No progress means that the next round would not
    // get further.
    if (status != Z_OK || filled == 0) return result;
  }
}

}  // namespace hbmwire::tools::doctor
