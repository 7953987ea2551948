// SPDX-License-Identifier: MIT
#include "tools/common/failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

#include "tools/common/interrupt.hpp"

namespace hbmwire::tools {
namespace {

// Whether something was missing before any work began (docs/exit-codes.md).
bool is_unavailable(const Error& error) {
  if (is_shortage(error)) return false;
  if (error.stage == Stage::probe || error.stage == Stage::open) return true;
  const bool at_registration =
      error.stage == Stage::export_dmabuf || error.stage == Stage::register_memory;
  return at_registration && error.code == Errc::not_supported;
}

int exit_code_of(const Error& error) {
  if (error.code == Errc::cancelled) return Interrupt::exit_code();
  if (error.stage == Stage::configure && !is_shortage(error)) return kExitUsage;
  return is_unavailable(error) ? kExitUnavailable : kExitFailed;
}

constexpr OptionWords kOptionWords[] = {
    {Hint::no_such_rdma_device, "give one of them", "give one with -d"},
    {Hint::no_hl_thunk, "use host memory", "use --memory host"},
    {Hint::no_synapse, "use host memory", "use --memory host"},
    {Hint::no_gaudi_device, "use host memory", "use --memory host"},
    {Hint::no_cuda, "use host memory", "use --memory host"},
    {Hint::no_cuda_device, "use host memory", "use --memory host"},
    {Hint::no_rocm, "use host memory", "use --memory host"},
    {Hint::no_rocm_device, "use host memory", "use --memory host"},
    {Hint::dmabuf_not_supported, "use host memory", "use --memory host"},
    {Hint::region_too_large, "register the memory in parts", "choose a smaller -s"},
    {Hint::queue_pair_limit, "use another NIC (ContextOptions::nics)", "use another NIC with -d"},
    {Hint::peer_slow, "allow it more time", "allow it more time with --timeout"},
    {Hint::port_in_use, "choose another", "choose another with -p"},
    {Hint::port_privileged, "choose another", "choose another with -p"},
    {Hint::rdma_cm, "the worker's (ContextOptions::nics)", "the one of -d"},
    {Hint::pre_shared_key, "EndpointOptions::pre_shared_key, HBMWIRE_PRE_SHARED_KEY_FILE",
     "HBMWIRE_PRE_SHARED_KEY_FILE"},
    {Hint::no_atomics, "register without Access::remote_atomic", "choose another test"},
    // The tools allocate the memory that they export.
    {Hint::export_refused,
     "check that what is adopted (Context::adopt()) is one, and still mapped; if hbmwire allocated "
     "the memory, please report this",
     "please report this"},
};

// Continues the message about a call on a file, for the errors that a user can mend.
const char* remedy(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or name another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check its permissions";
    case ENOENT:
      return "; check the path";
    default:
      return "";
  }
}

}  // namespace

Failure::Failure(const Error& error) : Failure(error, remedy_by_options(error.hint)) {}

Failure::Failure(const Error& error, std::string_view remedy)
    : text(error.code == Errc::cancelled ? "interrupted"
                                         : describe(error, remedy) + hint_mark(error.hint)),
      exit_code(exit_code_of(error)),
      interrupted(error.code == Errc::cancelled),
      shortage(is_shortage(error)),
      hint(interrupted ? Hint::none : error.hint) {}

std::span<const OptionWords> option_words() noexcept { return kOptionWords; }

std::string remedy_by_options(Hint hint) {
  std::string text(hint_text(hint));
  for (const OptionWords& words : kOptionWords) {
    if (words.hint != hint) continue;
    const std::size_t at = text.find(words.library);
    if (at != std::string::npos) text.replace(at, words.library.size(), words.tool);
  }
  return text;
}

std::string hint_mark(Hint hint) {
  return hint == Hint::none ? std::string{} : fmt::format(" [{}]", to_string(hint));
}

std::string describe_with_hint(const Error& error) {
  return describe(error) + hint_mark(error.hint);
}

Failure not_reached(const Error& error, std::string_view start_it) {
  if (error.hint != Hint::connection_refused) return error;
  return {error, fmt::format("no server listens there: {}", start_it)};
}

std::string about_client(const std::string& peer, const Failure& failure) {
  if (failure.text.find(peer) != std::string::npos) return failure.text;
  return fmt::format("client {}: {}", peer, failure.text);
}

tl::unexpected<Failure> fail_file(const std::string& what, const std::string& path,
                                  int error_number) {
  return fail(fmt::format("file: {} {}: {}{}", what, path,
                          std::generic_category().message(error_number), remedy(error_number)));
}

}  // namespace hbmwire::tools
