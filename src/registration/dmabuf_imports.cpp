// SPDX-License-Identifier: MIT
#include "registration/dmabuf_imports.hpp"

namespace hbmwire::detail {

Result<std::shared_ptr<const Allocation>> DmabufImports::get(const DmabufMemory& memory) {
  HBMWIRE_TRY_ASSIGN(const auto identity, memory::dmabuf::identify(memory.fd));
  const Key key{identity, memory.offset_bytes, memory.length_bytes, memory.mapping,
                memory.read_only};
  // Held during the import, so that no other thread imports the same part meanwhile.
  const std::scoped_lock lock(mutex_);
  if (auto known = imports_[key].lock()) return known;
  HBMWIRE_TRY_ASSIGN(Allocation imported, catalog_->import_dmabuf(memory));
  auto shared = std::make_shared<const Allocation>(std::move(imported));
  std::erase_if(imports_, [](const auto& one) { return one.second.expired(); });
  imports_[key] = shared;
  return shared;
}

}  // namespace hbmwire::detail
