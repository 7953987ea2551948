// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/scrub.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string_view>

#include "tools/doctor/evidence/pci_config.hpp"
#include "tools/doctor/evidence/placeholders.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kLeftOut = "(left out)";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <std::size_t kCount>
bool has_any(std::string_view text, const std::string_view (&parts)[kCount]) {
  const std::string small = lower(text);
  return std::ranges::any_of(parts,
                             [&](auto part) { return small.find(part) != std::string::npos; });
}

// Whether a file, a key of JSON, or an attribute of hwloc's XML has an identity by its name.
bool names_identity(std::string_view name) {
  constexpr std::string_view kParts[] = {"asset_tag", "assettag",   "boot_id", "guid",
                                         "hostname",  "machine-id", "serial",  "uuid",
                                         "unique_id", "vpd"};
  return has_any(name, kParts);
}

bool names_version(std::string_view name) {
  constexpr std::string_view kParts[] = {"driven", "driver",  "firmware",
                                         "fw_ver", "library", "version"};
  return has_any(name, kParts);
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_name_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// Replaces only whole words, because the name may be part of another word.
std::string with_words_replaced(std::string_view text, std::string_view name,
                                std::string_view with) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at < done || (at != 0 && is_name_part(text[at - 1])) ||
        (end != text.size() && is_name_part(text[end])))
      continue;
    result += text.substr(done, at - done);
    result += with;
    done = end;
  }
  result += text.substr(done);
  return result;
}

/// Replaces the name of a folder in /home by "user".
void replace_homes(std::string& text) {
  constexpr std::string_view kHome = "/home/";
  constexpr std::string_view kUser = "user";
  std::size_t at = text.find(kHome);
  while (at != std::string::npos) {
    const std::size_t from = at + kHome.size();
    const std::size_t end = std::min(text.find_first_of("/:;,\"' \t\n", from), text.size());
    if (end != from) text.replace(from, end - from, kUser);
    at = text.find(kHome, from);
  }
}

/// Turns "Serial Number: 123" into "Serial Number: (left out)", line by line.
std::string without_serials(std::string_view text) {
  // Options of the kernel: their values are no serial numbers.
  constexpr std::string_view kOption = "CONFIG_";
  std::string result;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, size);
    const std::size_t sign = line.find_first_of(":=");
    const std::string_view key = line.substr(0, sign == std::string_view::npos ? 0 : sign);
    if (names_identity(key) && !key.starts_with(kOption)) {
      result += line.substr(0, sign + 1);
      result += kLeftOut;
      if (line.ends_with('\n')) result += '\n';
    } else {
      result += line;
    }
    text.remove_prefix(size);
  }
  return result;
}

/// Empties the value of `<info name="DMIProductSerial" value="123"/>` in hwloc's XML.
void blank_attributes(std::string& xml) {
  constexpr std::string_view kName = "name=\"";
  constexpr std::string_view kValue = "\" value=\"";
  std::size_t at = xml.find(kName);
  while (at != std::string::npos) {
    const std::size_t from = at + kName.size();
    const std::size_t end = std::min(xml.find('"', from), xml.size());
    if (xml.compare(end, kValue.size(), kValue) == 0 &&
        names_identity(std::string_view(xml).substr(from, end - from))) {
      const std::size_t value = end + kValue.size();
      xml.erase(value, std::min(xml.find('"', value), xml.size()) - value);
    }
    at = xml.find(kName, from);
  }
}

/// Blanks the device serial number, because it contains a MAC.
std::string without_device_serial(std::string bytes) {
  constexpr std::size_t kHeadBytes = 4;
  constexpr std::size_t kNumberBytes = 8;
  const auto capability = PciConfig(bytes).find_extended(kSerialNumberExtended);
  if (!capability.is_found()) return bytes;
  const std::size_t from = std::min(capability.offset + kHeadBytes, bytes.size());
  const std::size_t size = std::min(kNumberBytes, bytes.size() - from);
  bytes.replace(from, size, size, '\0');
  return bytes;
}

/// Words that the program itself uses are not replaced, although a machine may have such a name:
/// the archive would become unreadable, and the places of the name would show.
bool is_common_word(std::string_view name) {
  constexpr std::size_t kShortest = 3;
  constexpr std::string_view kCommon[] = {
      "cuda", "debian", "default", "dmabuf",    "emulated", "gaudi", "gaudi2", "gaudi3", "hbmwire",
      "host", "linux",  "local",   "localhost", "node",     "rocm",  "root",   "ubuntu", "user"};
  return name.size() < kShortest || std::ranges::find(kCommon, name) != std::end(kCommon);
}

class Scrub {
 public:
  explicit Scrub(const PrivateNames& names) : names_(names) {}

  Record record(const Record& original) {
    Record result;
    result.version = original.version;
    result.emulated = original.emulated;
    result.partial = original.partial;
    for (const auto& [path, answer] : original.files)
      result.files.emplace(place(path), file(last_part(path), answer));
    result.links = targets(original.links);
    result.real_paths = targets(original.real_paths);
    result.access = targets(original.access);
    for (const auto& [path, names] : original.folders)
      result.folders.emplace(place(path), folder(names));
    for (const auto& [name, answer] : original.calls)
      result.calls.emplace(place(name), json(answer, ""));
    return result;
  }

 private:
  // Paths and device names refer to each other, and a word of a path may happen to be a host or
  // user name. Such names therefore stay in them.
  std::string place(const std::string& path) {
    return placeholders_.text(path, /*has_versions=*/true);
  }

  std::map<std::string, Answer> targets(const std::map<std::string, Answer>& original) {
    std::map<std::string, Answer> result;
    for (const auto& [path, answer] : original)
      result.emplace(place(path), Answer{.error = answer.error, .value = place(answer.value)});
    return result;
  }

  Names folder(const Names& original) {
    Names result{.error = original.error, .values = {}};
    for (const std::string& name : original.values) result.values.push_back(place(name));
    std::ranges::sort(result.values);
    return result;
  }

  Answer file(std::string_view name, const Answer& original) {
    if (original.error != 0) return original;
    if (name == "config") return {.error = 0, .value = without_device_serial(original.value)};
    if (name == "vpd") return {.error = EPERM, .value = {}};
    std::string value =
        names_identity(name) ? identity(original.value) : text(original.value, names_version(name));
    // Placeholders may be longer than the originals.
    value.resize(std::min(value.size(), kMaxFileBytes));
    return {.error = 0, .value = std::move(value)};
  }

  /// Replaces an identity by a placeholder, if its kind has one.
  std::string identity(const std::string& original) {
    std::string replaced = placeholders_.text(original, /*has_versions=*/false);
    // Zeros identify nothing.
    if (replaced != original || original.find_first_not_of("0:-x\n") == std::string::npos)
      return replaced;
    return std::string(kLeftOut) + (original.ends_with('\n') ? "\n" : "");
  }

  std::string text(const std::string& original, bool has_versions) {
    std::string result = without_serials(placeholders_.text(original, has_versions));
    blank_attributes(result);
    replace_homes(result);
    for (const std::string& host : names_.hosts) {
      if (!is_common_word(host)) result = with_words_replaced(result, host, "host");
    }
    for (const std::string& user : names_.users) {
      if (!is_common_word(user)) result = with_words_replaced(result, user, "user");
    }
    return result;
  }

  /// Scrubs the value at `key` of its object.
  Json json(const Json& original, std::string_view key) {
    if (original.is_string()) {
      const auto& value = original.get_ref<const std::string&>();
      return names_identity(key) ? identity(value) : text(value, names_version(key));
    }
    if (!original.is_structured()) return original;
    Json result = original;
    for (auto at = result.begin(); at != result.end(); ++at)
      at.value() = json(at.value(), original.is_object() ? at.key() : key);
    return result;
  }

  const PrivateNames& names_;
  Placeholders placeholders_;
};

}  // namespace

PrivateNames names_of_this_machine() {
  PrivateNames names;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) {
    const std::string full = host.data();
    names.hosts = {full, full.substr(0, full.find('.'))};
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> texts{};
  if (::getpwuid_r(::getuid(), &entry, texts.data(), texts.size(), &found) == 0 && found != nullptr)
    names.users.emplace_back(found->pw_name);
  return names;
}

Record scrubbed(const Record& record, const PrivateNames& names) {
  return Scrub(names).record(record);
}

}  // namespace hbmwire::tools::doctor
