// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/resource.h>

namespace hbmwire::test {

/// While it lives, this process can open only `room` more descriptors, wherever the numbers of its
/// inherited descriptors lie.
class FewDescriptors {
 public:
  // RLIMIT_NOFILE bounds the descriptors' numbers, so numbers that are still free are counted.
  explicit FewDescriptors(int room) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit narrow = before_;
    narrow.rlim_cur = 0;
    for (int free = 0; free < room || is_open(narrow.rlim_cur); ++narrow.rlim_cur) {
      if (!is_open(narrow.rlim_cur)) ++free;
    }
    ::setrlimit(RLIMIT_NOFILE, &narrow);
  }

  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  static bool is_open(rlim_t number) { return ::fcntl(static_cast<int>(number), F_GETFD) >= 0; }

  rlimit before_{};
};

}  // namespace hbmwire::test
