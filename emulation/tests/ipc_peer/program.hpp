// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace hbmwire::test {

/// What a Peer's program does on GPU 0 with a vendor's library; results are the library's.
///
/// `offer BYTES TEXT`: allocates, fills with TEXT at the beginning; the handle, or the error.
/// `free`: the last that was offered. `open HANDLE BYTES`, `close`: that of another process.
/// `read AT BYTES`, `write AT TEXT`: what is open, or else what was offered. `live KIND`.
/// `end`: the library, where it has an end before the process's.
class PeerProgram {
 public:
  virtual ~PeerProgram() = default;

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
