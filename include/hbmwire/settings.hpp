// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/link.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/path.hpp"

namespace hbmwire {

/// How much the library logs (hbmwire/log.hpp): a level and all before it.
enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// Whether something is used: never, always, or where it works.
enum class Use : std::uint8_t {
  no,       ///< never
  yes,      ///< its failure is an error
  attempt,  ///< "try": where it fails, the next best way is taken, and named
};

/// How memory is registered, and what is kept of it (RegistrationCache).
struct RegistrationOptions {
  /// Whether the whole allocation is registered when a part of it is asked for: of device memory,
  /// where every part then is one registration. automatic: where it is at most `whole_ratio` of the
  /// device's memory.
  enum class Whole : std::uint8_t { automatic, on, off } whole = Whole::automatic;
  double whole_ratio = 0.1;  ///< 0 to 1

  /// Memory regions (MRs) at most, over all NICs. Registrations that were used longest ago go
  /// first, nearly (hits since the last eviction have no order among themselves); those in use
  /// stay.
  std::uint64_t max_regions = 65536;

  /// Bytes of registered memory at most, likewise.
  std::uint64_t max_bytes = ~std::uint64_t{0};

  /// Descriptors of dma-bufs at most, likewise.
  std::uint64_t max_dmabufs = 1024;

  /// Whether host memory of the application is watched, and so kept. strict: each look-up of it
  /// asks the kernel besides (some 0.2 us) whether an unmapping is under way in another thread,
  /// whose address this thread may have been given already. yes: for programs in which that can't
  /// happen, since a thread that frees host memory is done before another one allocates.
  enum class Watch : std::uint8_t { no, yes, strict } watch = Watch::strict;
};

/// Settings of the user, made without touching the program. Each has a variable of its own;
/// `hbmwire info -c` lists them.
struct Settings {
  LogLevel log_level = LogLevel::warn;  ///< HBMWIRE_LOG_LEVEL

  /// For each RegistrationCache that is given no options.
  RegistrationOptions registration;

  /// How memory is found.
  struct Memory {
    std::string default_device;  ///< ContextOptions::default_device
  } memory;

  /// Values for options that a ContextOptions or EndpointOptions leaves open.
  struct Endpoints {
    std::vector<std::string> nics;          ///< ContextOptions::nics
    std::optional<std::uint8_t> gid_index;  ///< ContextOptions::gid_index
    /// From how many bytes on a put or get goes by several NICs, where there are.
    std::uint64_t rails_from_bytes = std::uint64_t{1} << 20U;
    /// From how many bytes on a put or get goes by IPC, where it can and need not.
    std::uint64_t ipc_from_bytes = std::uint64_t{4} << 20U;
    PathPolicy paths;                 ///< ContextOptions::paths
    std::string pre_shared_key_file;  ///< holds EndpointOptions::pre_shared_key
    LinkOptions link;                 ///< EndpointOptions::link, each by itself
  } endpoint;

  /// How Gaudi cards are used.
  struct Gaudi {
    Use dmabuf = Use::yes;  ///< whether a NIC reaches their memory by dma-bufs
    MemoryOptions::Owner owner = MemoryOptions::Owner::automatic;  ///< MemoryOptions::owner
  } gaudi;

  /// How NVIDIA GPUs are used.
  struct Cuda {
    Use dmabuf = Use::yes;       ///< no: by peer memory (nvidia_peermem) alone; try: else by that
    Use pcie_mapping = Use::no;  ///< CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
    bool sync_memops = true;     ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS on what a NIC may touch
  } cuda;

  /// How AMD GPUs are used.
  struct Rocm {
    Use dmabuf = Use::yes;      ///< whether a NIC reaches their memory by dma-bufs
    std::string kernel_config;  ///< the running kernel's configuration; empty: where it usually is
  } rocm;
};

/// The variable that names a settings file for Settings: lines NAME=VALUE, with the names of the
/// variables, and comments after "#".
inline constexpr const char* kSettingsFileVariable = "HBMWIRE_CONFIG";

/// One setting, as text.
struct SettingInfo {
  std::string_view name;      ///< "HBMWIRE_GAUDI_DMABUF"
  std::string_view choices;   ///< "yes|no|try"
  std::string_view help;      ///< a sentence without its full stop
  std::string default_value;  ///< where nothing sets it
  std::string value;          ///< as it was written, also if it is none of the choices
  std::string source;         ///< "default", "environment", or "PATH:LINE" of the settings file
};

/// The settings of the environment, and of the file that it names; the environment goes before the
/// file, and an empty value counts as not set. Thread-safe, unless another thread changes the
/// environment. Errors: Stage::configure; Errc::invalid_argument (an invalid value, an unknown
/// name, a line that is not NAME=VALUE), or why the file can't be read.
[[nodiscard]] HBMWIRE_API Result<Settings> settings_from_environment();

/// Each setting, where its value comes from and what it is for. Settings that can't be read have
/// their defaults (settings_from_environment() says why). Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::vector<SettingInfo> describe_settings();

}  // namespace hbmwire
