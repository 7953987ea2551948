// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/doctor/checks/finding.hpp"

/// Helpers that the checks share. None of them throws, because an archive may hold anything.
namespace hbmwire::tools::doctor {

/// The text up to its first newline, without blanks at either end.
[[nodiscard]] std::string first_line(std::string_view text);

/// The first line of a file. The attributes of sysfs have one line.
[[nodiscard]] Answer read_line(Evidence& machine, const std::string& path);

[[nodiscard]] std::vector<std::string_view> lines_in(std::string_view text);
[[nodiscard]] std::vector<std::string_view> words_in(std::string_view text);

/// The rest of the line that begins with `key`: "2" for "Seccomp:\t2" and "Seccomp:".
[[nodiscard]] std::optional<std::string> value_of_key(std::string_view text, std::string_view key);

/// The number that `text` begins with; `base` 16 also takes "0x".
[[nodiscard]] std::optional<std::uint64_t> leading_number(std::string_view text, int base = 10);

/// "0-3,8" as the kernel writes lists of CPUs: {0, 1, 2, 3, 8}. At most 8192 of them.
[[nodiscard]] std::vector<std::uint64_t> cpus_in(std::string_view list);

/// The last component of a path.
[[nodiscard]] std::string base_name(std::string_view path);

/// Whether an errno means that this user has no right to know, rather than that nothing is there.
[[nodiscard]] bool is_forbidden(int error) noexcept;

/// Whether an errno leaves the question open. 0 answers it, and so do the errnos for missing things
/// (ENOENT, ENOTDIR, ENODEV, ENXIO) and for attributes that a device does not have (EINVAL,
/// EOPNOTSUPP). Any other errno, of rights or of a shortage, must not count as an answer.
[[nodiscard]] bool is_unread(int error) noexcept;

/// The errno of a question about something below `folder`, which exists on every such kernel. If
/// the folder is missing or empty (a container without /sys, another file system above /proc),
/// ENOENT means nothing; it becomes ENODATA, for which is_unread() is true.
[[nodiscard]] int error_below(Evidence& machine, const std::string& folder, int error);

/// Whether a text can be the name of a device, a network interface or a node: letters, digits, and
/// "_.:@-" after the first character. Only such names go into commands that a user is told to run.
[[nodiscard]] bool is_device_name(std::string_view text) noexcept;

/// "Permission denied (errno 13)".
[[nodiscard]] std::string error_words(int error);

/// A member of a JSON object; null if there is none or `object` is no object.
[[nodiscard]] const Json& member(const Json& object, std::string_view key);
/// A member that is a text; empty otherwise.
[[nodiscard]] std::string text_at(const Json& object, std::string_view key);
/// A member that is a whole number and not negative.
[[nodiscard]] std::optional<std::uint64_t> number_at(const Json& object, std::string_view key);
/// A member that is true or false.
[[nodiscard]] std::optional<bool> flag_at(const Json& object, std::string_view key);

/// The answer of Evidence::call(): a value or an errno. An answer that has neither gets EPROTO.
struct Told {
  int error = 0;
  Json value;
  Json failure = nullptr;  ///< the whole answer if it is an error
};

[[nodiscard]] Told ask(Evidence& machine, const std::string& name);

/// A version as the kernel and drivers write it: "6.1.0-13-amd64" is {6, 1}.
using ShortVersion = std::pair<std::uint64_t, std::uint64_t>;
[[nodiscard]] std::optional<ShortVersion> version_in(std::string_view text);
[[nodiscard]] std::string version_words(ShortVersion version);

/// The kernel's release by uname(2); empty if it is not known.
[[nodiscard]] std::string kernel_release(Evidence& machine);
[[nodiscard]] std::optional<ShortVersion> kernel_version(Evidence& machine);

/// An unknown finding for a question that failed with an errno. If rights are missing, its remedy
/// is to run as root.
[[nodiscard]] Finding unknown_for(std::string check, std::string subject, std::string source,
                                  int error, std::string wanted);

/// Whether the process has a capability (a bit of CapEff); empty if that is not known.
[[nodiscard]] std::optional<bool> has_capability(Evidence& machine, unsigned bit);

}  // namespace hbmwire::tools::doctor
