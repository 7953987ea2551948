// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "hbmwire/fd.hpp"

#include "base/settings_file.hpp"
#include "connect/connection_attempt.hpp"
#include "connect/link_timing.hpp"

namespace hbmwire::detail {

namespace {

Result<std::vector<std::byte>> read_key(const std::string& path) {
  const auto refuse = [&](const char* why) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::configure, why,
                                          fit_subject(path), Hint::pre_shared_key_file));
  };
  const auto failed = [&](const char* call) {
    return tl::make_unexpected(
        system_error(Stage::configure, call, errno, fit_subject(path), Hint::pre_shared_key_file));
  };
  // O_NONBLOCK: a FIFO must not block the caller.
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return failed("open");

  struct stat status {};

  if (::fstat(file.get(), &status) != 0) return failed("fstat");
  if (!S_ISREG(status.st_mode)) return refuse("the key's file is not a regular one");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return refuse("the key's file is open to others than its owner");
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return refuse("the key's file is another user's");
  // There is room for one byte more than a key has: if that is read, too, the file is too long.
  std::vector<std::byte> key(wire::kMaxSharedKeyBytes + 1);
  std::size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < key.size()) {
    got = ::read(file.get(), key.data() + size, key.size() - size);
    if (got < 0) return failed("read");
    size += static_cast<std::size_t>(got);
  }
  key.resize(size);
  if (size < wire::kMinSharedKeyBytes || size > wire::kMaxSharedKeyBytes)
    return refuse("the key's file does not have 16 to 4096 bytes");
  return key;
}

}  // namespace

Result<EndpointOptions> complete(const Context& context, const EndpointOptions& options) {
  if (options.hello.size() > wire::kMaxHelloBytes) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a hello has at most 1024 bytes", "hello"));
  }
  EndpointOptions all = options;
  all.link = merged(options.link, context.settings().endpoint.link);
  HBMWIRE_TRY(check_link_options(all));
  const std::string& path = context.settings().endpoint.pre_shared_key_file;
  if (all.pre_shared_key.empty() && !path.empty()) {
    HBMWIRE_TRY_ASSIGN(all.pre_shared_key, read_key(path));
  }
  return all;
}

}  // namespace hbmwire::detail
