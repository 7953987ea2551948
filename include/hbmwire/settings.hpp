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

/// How much the library logs (hbmwire/log.hpp): a level includes all levels before it.
enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// Whether something is used: never, always, or where it works.
enum class Use : std::uint8_t {
  no,       ///< never
  yes,      ///< always; its failure is an error
  attempt,  ///< "try": if it fails, the next best way is taken, and named
};

/// How memory is registered, and what is kept (RegistrationCache).
struct RegistrationOptions {
  /// Whether a request for a part registers the whole allocation, so that all its parts share one
  /// registration. automatic: for device memory, if the allocation is at most `whole_ratio` of the
  /// device's memory. on: for every allocation that can be told from a later one at its address.
  /// The application's own host memory is never registered whole.
  enum class Whole : std::uint8_t { automatic, on, off } whole = Whole::automatic;
  double whole_ratio = 0.1;  ///< 0 to 1

  /// Memory regions (MRs) at most, over all NICs. Registrations that were used longest ago are
  /// evicted first. The order is approximate: hits since the last eviction have no order among
  /// themselves. Registrations in use stay.
  std::uint64_t max_regions = 65536;

  /// Bytes of registered memory at most, with the same eviction.
  std::uint64_t max_bytes = ~std::uint64_t{0};

  /// Descriptors of dma-bufs at most, with the same eviction.
  std::uint64_t max_dmabufs = 1024;

  /// Whether host memory of the application is watched; only watched memory is kept. strict: each
  /// look-up also asks the kernel (some 0.2 us) whether another thread is unmapping memory: the
  /// kernel may already have given the unmapped address to this thread. yes: for programs in which
  /// no thread gets such an address, because a thread that frees host memory is done before another
  /// one allocates.
  enum class Watch : std::uint8_t { no, yes, strict } watch = Watch::strict;
};

/// Settings that a user makes without touching the program. Each has a variable of its own;
/// `hbmwire info -c` lists them.
struct Settings {
  LogLevel log_level = LogLevel::warn;  ///< HBMWIRE_LOG_LEVEL

  /// For each RegistrationCache that is made without options.
  RegistrationOptions registration;

  /// How memory is found.
  struct Memory {
    std::string default_device;  ///< ContextOptions::default_device
  } memory;

  /// Values for options that a ContextOptions or EndpointOptions leaves open.
  struct Endpoints {
    std::vector<std::string> nics;          ///< ContextOptions::nics
    std::optional<std::uint8_t> gid_index;  ///< ContextOptions::gid_index
    /// Size from which a put or get goes by several NICs, if there are several.
    std::uint64_t rails_from_bytes = std::uint64_t{1} << 20U;
    /// Size from which a put or get goes by IPC, if it may go by IPC or by another path.
    std::uint64_t ipc_from_bytes = std::uint64_t{4} << 20U;
    PathPolicy paths;                 ///< ContextOptions::paths
    std::string pre_shared_key_file;  ///< holds EndpointOptions::pre_shared_key
    LinkOptions link;                 ///< EndpointOptions::link, each option by itself
  } endpoint;

  /// How Gaudi cards are used.
  struct Gaudi {
    Use dmabuf = Use::yes;  ///< whether a NIC reaches their memory by dma-bufs
    MemoryOptions::Owner owner = MemoryOptions::Owner::automatic;  ///< MemoryOptions::owner
  } gaudi;

  /// How NVIDIA GPUs are used.
  struct Cuda {
    Use dmabuf = Use::yes;       ///< no: only by peer memory (nvidia_peermem); try: by peer memory
                                 ///< if dma-bufs fail
    Use pcie_mapping = Use::no;  ///< CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
    bool sync_memops = true;     ///< sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS on memory that a NIC may
                                 ///< touch
  } cuda;

  /// How AMD GPUs are used.
  struct Rocm {
    Use dmabuf = Use::yes;      ///< whether a NIC reaches their memory by dma-bufs
    std::string kernel_config;  ///< file with the running kernel's configuration; empty: where it
                                ///< usually is
  } rocm;
};

/// The variable that names a settings file for Settings. The file has lines NAME=VALUE, with the
/// names of the variables, and comments after "#".
inline constexpr const char* kSettingsFileVariable = "HBMWIRE_CONFIG";

/// One setting, as text.
struct SettingInfo {
  std::string_view name;      ///< "HBMWIRE_GAUDI_DMABUF"
  std::string_view choices;   ///< "yes|no|try"
  std::string_view help;      ///< a sentence without its full stop
  std::string default_value;  ///< the value if nothing sets it
  std::string value;          ///< as it was written, even if it is not among the choices
  std::string source;         ///< "default", "environment", or "PATH:LINE" of the settings file
};

/// Reads the settings from the environment, and from the file that it names. The environment takes
/// precedence over the file; an empty value counts as not set. Thread-safe, unless another thread
/// changes the environment. Errors: Stage::configure; Errc::invalid_argument (an invalid value, an
/// unknown name, a line that is not NAME=VALUE), or why the file can't be read.
[[nodiscard]] HBMWIRE_API Result<Settings> settings_from_environment();

/// Each setting, the source of its value, and its purpose. Settings that can't be read have their
/// defaults (settings_from_environment() says why). Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::vector<SettingInfo> describe_settings();

}  // namespace hbmwire
