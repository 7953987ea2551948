// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace hbmwire::test {

/// The instructions that a Peer's program carries out on GPU 0 with a vendor's library. Unless said
/// otherwise the answer is the result of the library's call, 0 for success.
///
/// * `offer BYTES TEXT`: allocates memory and writes TEXT to its beginning. Answers the handle in
///   hexadecimal, or the error.
/// * `free`: frees the last offered allocation.
/// * `open HANDLE BYTES`, `close`: memory of another process.
/// * `read AT BYTES`, `write AT TEXT`: at an offset in the opened memory, or in the offered memory
///   if none is open. `read` answers the text, or the error.
/// * `live KIND`: answers the number of this process's objects of that kind.
/// * `end`: ends the library, if it can end before the process.
/// * Any other word is answered by 0.
class PeerProgram {
 public:
  virtual ~PeerProgram() = default;

  /// Obeys the lines of standard input until its end. Returns main()'s result.
  int run();

 protected:
  virtual int start() = 0;
  virtual int allocate(std::uint64_t bytes) = 0;
  virtual int offer(std::string& handle) = 0;
  virtual int free() = 0;
  virtual int open(const std::string& handle, std::uint64_t bytes) = 0;
  virtual int close() = 0;
  virtual int read(std::uint64_t at, std::string& text) = 0;
  virtual int write(std::uint64_t at, const std::string& text) = 0;
  virtual unsigned long live(const std::string& kind) = 0;

  virtual int end() { return 1; }

 private:
  std::string obey(const std::string& line);
};

}  // namespace hbmwire::test
