// SPDX-License-Identifier: MIT
#include "emulation/tool/kernel_config.hpp"

#include <dlfcn.h>

#include <array>
#include <fstream>
#include <iterator>

namespace hbmwire::emulation::tool {
namespace {

constexpr std::array<std::string_view, 2> kPeerToPeer{"CONFIG_PCI_P2PDMA",
                                                      "CONFIG_DMABUF_MOVE_NOTIFY"};

/// zlib's functions for gzip files. Practically every system has zlib.
struct Zlib {
  void* library = ::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  void* (*open)(const char* path,
                const char* mode) = find<void*(const char*, const char*)>("gzopen");
  int (*read)(void* file, void* bytes, unsigned size) = find<int(void*, void*, unsigned)>("gzread");
  int (*write)(void* file, const void* bytes,
               unsigned size) = find<int(void*, const void*, unsigned)>("gzwrite");
  int (*close)(void* file) = find<int(void*)>("gzclose");

  [[nodiscard]] bool complete() const {
    return open != nullptr && read != nullptr && write != nullptr && close != nullptr;
  }

 private:
  template <typename Function>
  Function* find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
  }
};

const Zlib& zlib() {
  static const Zlib kLoaded;
  return kLoaded;
}

std::string read_gzip(const char* path) {
  std::string text;
  if (!zlib().complete()) return text;
  void* const file = zlib().open(path, "r");
  if (file == nullptr) return text;
  std::array<char, 1 << 16> part{};
  for (int got = 0; (got = zlib().read(file, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  zlib().close(file);
  return text;
}

/// Whether a line is about an option: "CONFIG_X=y" and "# CONFIG_X is not set" are about CONFIG_X.
bool is_about(std::string_view line, std::string_view option) {
  constexpr std::string_view kUnset = "# ";
  if (line.starts_with(kUnset)) line.remove_prefix(kUnset.size());
  return line.starts_with(option) && line.size() > option.size() &&
         (line[option.size()] == '=' || line[option.size()] == ' ');
}

bool is_emulated(std::string_view line) {
  for (const auto option : kPeerToPeer) {
    if (is_about(line, option)) return true;
  }
  return false;
}

}  // namespace

std::string with_peer_to_peer(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!is_emulated(line)) result.append(line) += '\n';
  }
  for (const auto option : kPeerToPeer) result.append(option) += "=y\n";
  return result;
}

std::string machine_kernel_config(const std::string& release) {
  std::string text = read_gzip("/proc/config.gz");
  for (const auto& path : {"/boot/config-" + release, "/lib/modules/" + release + "/config"}) {
    if (!text.empty()) break;
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

bool write_gzip(const std::filesystem::path& path, const std::string& text) {
  if (!zlib().complete()) return false;
  void* const file = zlib().open(path.c_str(), "w1");  // 1: the fastest compression
  if (file == nullptr) return false;
  const bool written = zlib().write(file, text.data(), static_cast<unsigned>(text.size())) > 0;
  return zlib().close(file) == 0 && written;
}

}  // namespace hbmwire::emulation::tool
