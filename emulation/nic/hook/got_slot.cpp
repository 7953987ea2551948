// SPDX-License-Identifier: MIT
#include "emulation/nic/hook/got_slot.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hbmwire::emulation::nic {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_AARCH64_GLOB_DAT;
#else
#error "the relocation types of this architecture are not known here"
#endif

/// A call of replace_import().
struct Search {
  std::uintptr_t inside;
  const char* symbol;
  void* replacement;
  bool done;
};

struct Range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool contains(std::uintptr_t address) const {
    return address >= start && address < end;
  }
};

Range range_of(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  const std::uintptr_t start = object.dlpi_addr + segment.p_vaddr;
  return {start, start + segment.p_memsz};
}

/// The relocation tables of an object. The loader has made the addresses in the dynamic section
/// absolute.
struct Tables {
  std::span<const ElfW(Rela)> plt;
  std::span<const ElfW(Rela)> data;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Tables read_tables(const ElfW(Dyn) * dynamic) {
  const ElfW(Rela)* plt = nullptr;
  const ElfW(Rela)* data = nullptr;
  std::size_t plt_bytes = 0;
  std::size_t data_bytes = 0;
  Tables tables;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const std::uintptr_t value = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_JMPREL) plt = reinterpret_cast<const ElfW(Rela)*>(value);
    if (dynamic->d_tag == DT_PLTRELSZ) plt_bytes = value;
    if (dynamic->d_tag == DT_RELA) data = reinterpret_cast<const ElfW(Rela)*>(value);
    if (dynamic->d_tag == DT_RELASZ) data_bytes = value;
    if (dynamic->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (dynamic->d_tag == DT_STRTAB) tables.names = reinterpret_cast<const char*>(value);
  }
  if (plt != nullptr) tables.plt = {plt, plt_bytes / sizeof *plt};
  if (data != nullptr) tables.data = {data, data_bytes / sizeof *data};
  return tables;
}

/// Writes a slot. With RELRO the slot's page is read-only and is made so again. Without RELRO (a
/// lazily bound object) the page must stay writable, because the loader still writes to it.
bool write_slot(std::uintptr_t slot, void* value, bool read_only) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(slot & ~(page_bytes - 1));
  if (read_only && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref<void*>(*reinterpret_cast<void**>(slot)).store(value, std::memory_order_release);
  if (read_only) ::mprotect(page, page_bytes, PROT_READ);
  return true;
}

/// Redirects every slot of the object that imports the symbol.
void patch(const Tables& tables, std::uintptr_t load_address, const Range& relro, Search& search) {
  if (tables.symbols == nullptr || tables.names == nullptr) return;
  for (const auto& relocations : {tables.plt, tables.data}) {
    for (const ElfW(Rela) & relocation : relocations) {
      const std::uint64_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != kJumpSlot && type != kGlobalData) continue;
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      if (std::strcmp(tables.names + symbol.st_name, search.symbol) != 0) continue;
      const std::uintptr_t slot = load_address + relocation.r_offset;
      search.done = write_slot(slot, search.replacement, relro.contains(slot)) || search.done;
    }
  }
}

/// Looks a symbol up in the GNU hash table, as the loader does: an array of 32-bit words, System V
/// ABI supplement.
const ElfW(Sym) * look_up(const std::uint32_t* hashes, const Tables& tables, const char* symbol) {
  constexpr std::size_t kWordsOfHeader = 4;
  constexpr std::size_t kWordsOfBloomEntry = sizeof(ElfW(Addr)) / sizeof(std::uint32_t);
  std::uint32_t hash = 5381;  // the table's hash function
  for (const char* at = symbol; *at != 0; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
  const std::uint32_t bucket_count = hashes[0];
  const std::uint32_t first_symbol = hashes[1];
  const std::uint32_t* const buckets = hashes + kWordsOfHeader + hashes[2] * kWordsOfBloomEntry;
  const std::uint32_t* const chains = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const std::uint32_t entry = chains[index - first_symbol];
    const ElfW(Sym)& candidate = tables.symbols[index];
    // The lowest bit of an entry marks the end of its bucket and does not belong to the hash.
    const bool equal =
        ((entry ^ hash) >> 1U) == 0 && std::strcmp(tables.names + candidate.st_name, symbol) == 0;
    if (equal && candidate.st_shndx != SHN_UNDEF) return &candidate;
    if ((entry & 1U) != 0) return nullptr;  // the last entry of its bucket
  }
}

struct ExporterSearch {
  const char* symbol;
  std::vector<const void*> found;
};

int visit_exporter(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<ExporterSearch*>(data);
  for (const ElfW(Phdr) & segment : std::span{object->dlpi_phdr, object->dlpi_phnum}) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto* dynamic = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + segment.p_vaddr);
    const Tables tables = read_tables(dynamic);
    const std::uint32_t* hashes = nullptr;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      if (dynamic->d_tag == DT_GNU_HASH) {
        hashes = reinterpret_cast<const std::uint32_t*>(dynamic->d_un.d_ptr);
      }
    }
    // Skips the kernel's vDSO, whose addresses the loader did not make absolute.
    if (hashes == nullptr || reinterpret_cast<std::uintptr_t>(hashes) < object->dlpi_addr) continue;
    if (tables.symbols == nullptr || tables.names == nullptr) continue;
    if (const ElfW(Sym)* symbol = look_up(hashes, tables, search.symbol)) {
      search.found.push_back(reinterpret_cast<const void*>(object->dlpi_addr + symbol->st_value));
    }
  }
  return 0;
}

/// Patches the object if it is the one that the search is for. Returns 1 then, which ends the walk.
int visit(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span segments{object->dlpi_phdr, object->dlpi_phnum};
  bool is_wanted = false;
  Range relro;
  const ElfW(Dyn)* dynamic = nullptr;
  for (const ElfW(Phdr) & segment : segments) {
    const Range range = range_of(*object, segment);
    if (segment.p_type == PT_LOAD && range.contains(search.inside)) is_wanted = true;
    if (segment.p_type == PT_GNU_RELRO) relro = range;
    if (segment.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(range.start);
  }
  if (!is_wanted) return 0;
  if (dynamic != nullptr) patch(read_tables(dynamic), object->dlpi_addr, relro, search);
  return 1;
}

}  // namespace

std::vector<const void*> find_exporters(const char* symbol) {
  ExporterSearch search{symbol, {}};
  ::dl_iterate_phdr(visit_exporter, &search);
  return search.found;
}

bool replace_import(const void* inside, const char* symbol, void* replacement) {
  Search search{reinterpret_cast<std::uintptr_t>(inside), symbol, replacement, false};
  ::dl_iterate_phdr(visit, &search);
  return search.done;
}

}  // namespace hbmwire::emulation::nic
