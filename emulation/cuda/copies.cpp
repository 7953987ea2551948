// SPDX-License-Identifier: MIT
#include "emulation/cuda/copies.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "emulation/cuda/streams.hpp"

namespace hbmwire::emulation::cuda {
namespace {

// Up to this size the driver copies pageable memory to a buffer of its own and returns.
constexpr std::uint64_t kStagedBytes = 64ULL << 10U;
// The unit in which an engine fills.
constexpr std::uint64_t kChunk = 1ULL << 20U;

/// The memory at an end of a copy.
struct Place {
  std::vector<Piece> pieces;
  bool of_gpu = false;
  bool pinned = false;  ///< known to CUDA, so that an engine reaches it
  bool sync = false;    ///< SYNC_MEMOPS
};

std::byte* host(const Piece& piece) { return std::bit_cast<std::byte*>(piece.offset); }

void read(const Piece& piece, std::uint64_t at, std::byte* to, std::uint64_t bytes) {
  if (piece.memory != nullptr) {
    piece.memory->read(piece.offset + at, to, bytes);
  } else {
    std::memcpy(to, host(piece) + at, bytes);
  }
}

void write(const Piece& piece, std::uint64_t at, const std::byte* from, std::uint64_t bytes) {
  if (piece.memory != nullptr) {
    piece.memory->write(piece.offset + at, from, bytes);
  } else {
    std::memcpy(host(piece) + at, from, bytes);
  }
}

void move(const Piece& to, std::uint64_t to_at, const Piece& from, std::uint64_t from_at,
          std::uint64_t bytes) {
  if (from.memory == nullptr) return write(to, to_at, host(from) + from_at, bytes);
  if (to.memory == nullptr) return read(from, from_at, host(to) + to_at, bytes);
  to.memory->write_from(to.offset + to_at, *from.memory, from.offset + from_at, bytes);
}

void move(const std::vector<Piece>& to, const std::vector<Piece>& from) {
  std::size_t source = 0;
  std::uint64_t source_at = 0;
  for (const Piece& target : to) {
    for (std::uint64_t at = 0; at < target.bytes;) {
      const Piece& piece = from.at(source);
      const std::uint64_t length = std::min(target.bytes - at, piece.bytes - source_at);
      move(target, at, piece, source_at, length);
      at += length;
      source_at += length;
      if (source_at != piece.bytes) continue;
      ++source;
      source_at = 0;
    }
  }
}

/// Returns false if an engine cannot reach all of the memory.
bool find_place(Runtime& runtime, const Context& context, std::uint64_t address,
                std::uint64_t bytes, Place& place) {
  if (!runtime.addresses().resolve(address, bytes, place.pieces)) return false;
  Allocation allocation;
  place.pinned = runtime.addresses().find(address, allocation);
  place.of_gpu = place.pinned && allocation.origin != Origin::host;
  place.sync = (context.flags.load() & CU_CTX_SYNC_MEMOPS) != 0 || allocation.sync_memops;
  return true;
}

struct Copy {
  Place to;
  Place from;
};

/// Finds the memory at both ends and checks that it is of the kind that the call requires.
CUresult prepare(Runtime& runtime, const Context& context, const CopyRequest& request,
                 Between between, Copy& copy) {
  if (!find_place(runtime, context, request.to, request.bytes, copy.to) ||
      !find_place(runtime, context, request.from, request.bytes, copy.from))
    return CUDA_ERROR_INVALID_VALUE;
  const bool to_gpu = between == Between::host_to_device || between == Between::devices;
  const bool from_gpu = between == Between::device_to_host || between == Between::devices;
  const bool right = (!to_gpu || copy.to.of_gpu) && (!from_gpu || copy.from.of_gpu);
  return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Copies the bytes to a buffer first, so that the caller may reuse its memory at once.
void post_staged(Context& context, const std::shared_ptr<Stream>& stream, Copy copy,
                 std::uint64_t bytes) {
  auto staged = std::make_shared<std::vector<std::byte>>(bytes);
  const std::vector<Piece> stage{{nullptr, std::bit_cast<std::uint64_t>(staged->data()), bytes}};
  move(stage, copy.from.pieces);
  post(context, stream, [staged, stage, to = std::move(copy.to.pieces)] {
    move(to, stage);
    return 0;
  });
}

void post_direct(Context& context, const std::shared_ptr<Stream>& stream, Copy copy) {
  post(context, stream, [to = std::move(copy.to.pieces), from = std::move(copy.from.pieces)] {
    move(to, from);
    return 0;
  });
}

void fill(const FillRequest& request, const std::vector<Piece>& pieces) {
  const std::uint64_t bytes = request.elements * request.element_bytes;
  std::vector<std::byte> chunk(std::min(bytes, kChunk));
  for (std::size_t i = 0; i < chunk.size(); ++i)
    chunk[i] = static_cast<std::byte>(request.value >> 8U * (i % request.element_bytes));
  for (const Piece& piece : pieces) {
    for (std::uint64_t at = 0; at < piece.bytes; at += chunk.size())
      write(piece, at, chunk.data(), std::min<std::uint64_t>(chunk.size(), piece.bytes - at));
  }
}

CUresult post_fill(Runtime& runtime, Context& context, const FillRequest& request,
                   const std::shared_ptr<Stream>& stream, bool& sync) {
  const std::uint64_t bytes = request.elements * request.element_bytes;
  Place to;
  if (request.to % request.element_bytes != 0 ||
      !find_place(runtime, context, request.to, bytes, to) || !to.pinned)
    return CUDA_ERROR_INVALID_VALUE;
  sync = to.sync;
  post(context, stream, [request, pieces = std::move(to.pieces)] {
    fill(request, pieces);
    return 0;
  });
  return CUDA_SUCCESS;
}

}  // namespace

CUresult copy(Runtime& runtime, Context& context, const CopyRequest& request, Between between) {
  Copy prepared;
  const CUresult result = prepare(runtime, context, request, between, prepared);
  if (result != CUDA_SUCCESS || request.bytes == 0) return result;
  const auto stream = find_stream(context, nullptr);
  const bool sync = prepared.to.sync || prepared.from.sync;
  const bool pageable = !prepared.from.pinned;
  if (pageable && prepared.to.of_gpu && request.bytes <= kStagedBytes && !sync) {
    post_staged(context, stream, std::move(prepared), request.bytes);
    return CUDA_SUCCESS;
  }
  const bool within_gpus = prepared.to.of_gpu && prepared.from.of_gpu;
  post_direct(context, stream, std::move(prepared));
  return within_gpus && !sync ? CUDA_SUCCESS : wait_for(*stream);
}

CUresult copy_async(Runtime& runtime, Context& context, const CopyRequest& request, Between between,
                    CUstream stream) {
  Copy prepared;
  const CUresult result = prepare(runtime, context, request, between, prepared);
  if (result != CUDA_SUCCESS || request.bytes == 0) return result;
  const auto found = find_stream(context, stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (!prepared.from.pinned) {
    post_staged(context, found, std::move(prepared), request.bytes);
    return CUDA_SUCCESS;
  }
  const bool into_pageable = !prepared.to.pinned;
  post_direct(context, found, std::move(prepared));
  return into_pageable ? wait_for(*found) : CUDA_SUCCESS;
}

CUresult fill(Runtime& runtime, Context& context, const FillRequest& request) {
  const auto stream = find_stream(context, nullptr);
  bool sync = false;
  const CUresult result = post_fill(runtime, context, request, stream, sync);
  return result == CUDA_SUCCESS && sync ? wait_for(*stream) : result;
}

CUresult fill_async(Runtime& runtime, Context& context, const FillRequest& request,
                    CUstream stream) {
  const auto found = find_stream(context, stream);
  bool ignored = false;
  return found ? post_fill(runtime, context, request, found, ignored) : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace hbmwire::emulation::cuda
