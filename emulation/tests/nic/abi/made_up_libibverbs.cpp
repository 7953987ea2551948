// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

/// The part of a libibverbs that a provider uses when it is loaded and opens a device, with the
/// private interface of one release. Compiled for each release; CMakeLists.txt has the numbers.
namespace {

constexpr std::size_t kContextBytes = 328;  // the size of ibv_context
constexpr std::size_t kCommandFd = 264;     // the offset of its cmd_fd
constexpr std::uint32_t kIsExtended = 2;

const void* registered = nullptr;
void* allocated = nullptr;
std::array<void (*)(), MADE_UP_OPERATIONS> table{};

}  // namespace

#define JOINED(name, number) name##number
#define NUMBERED(name, number) JOINED(name, number)

extern "C" {

void NUMBERED(verbs_register_driver_, MADE_UP_ABI)(const void* driver) { registered = driver; }

void* _verbs_init_and_alloc_context(void* device, int cmd_fd, std::size_t size,
                                    std::uintptr_t offset, std::uint32_t /*driver_id*/) {
  auto* const memory = static_cast<std::byte*>(std::calloc(1, size));
  if (memory == nullptr) return nullptr;
  allocated = memory;
  std::byte* const context = memory + offset + MADE_UP_CONTEXT_WORDS * sizeof(void*);
  const std::size_t whole = MADE_UP_CONTEXT_WORDS * sizeof(void*) + kContextBytes;
  std::memcpy(context - sizeof whole, &whole, sizeof whole);
  std::memcpy(context, &device, sizeof device);
  std::memcpy(context + kCommandFd, &cmd_fd, sizeof cmd_fd);
  return memory;
}

void verbs_uninit_context(void* /*context*/) {}

void verbs_set_ops(void* /*context*/, void (*const* operations)()) {
  std::memcpy(table.data(), operations, sizeof table);
}

void* ibv_qp_to_qp_ex(void* qp) {
  std::uint32_t mask = 0;
  std::memcpy(&mask, static_cast<std::byte*>(qp) + MADE_UP_EXTENDED_QP_BYTES, sizeof mask);
  return (mask & kIsExtended) != 0 ? qp : nullptr;
}

#if MADE_UP_HAS_PORT_SPEED
int ibv_query_port_speed(void* /*context*/, std::uint32_t /*port*/, std::uint64_t* /*speed*/) {
  return -1;
}
#endif

const void* made_up_driver() { return registered; }

std::size_t made_up_operations(void (*const** operations)()) {
  *operations = table.data();
  return table.size();
}

/// The plugin does not free a context with an unknown layout, so it must be freed here.
void made_up_free_context() { std::free(allocated); }

/// Calls the imports that the plugin redirects in libibverbs.
long made_up_system_calls(int fd, const char* path) {
  DIR* const directory = ::opendir(path);
  if (directory != nullptr) ::closedir(directory);
  return ::write(fd, path, 1);
}
}
