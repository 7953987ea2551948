// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace hbmwire::test {

/// The instructions that a Peer's program carries out on GPU 0 with a vendor's library. Results are
/// the library's.
///
/// `offer BYTES TEXT`: allocates memory and writes TEXT to its beginning. Returns the handle, or
/// the error. `free`: frees the last offered allocation. `open HANDLE BYTES`, `close`: memory of
/// another process. `read AT BYTES`, `write AT TEXT`: the opened memory, or else the offered one.
/// `live KIND`: counts objects. `end`: ends the library, if it can end before the process.
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
