// SPDX-License-Identifier: MIT
#include "emulated_rocm.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>

namespace hbmwire::test {

namespace {

template <class Function>
Function* hook(const char* name) {
  void* const library = ::dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return std::bit_cast<Function*>(::dlsym(library, name));
}

constexpr int kDeviceToHost = 2;
constexpr int kDmabufFd = 1;

}  // namespace

unsigned long rocm_live_objects(unsigned gpu, const char* kind) {
  return hook<unsigned long(unsigned, const char*)>("hbmwire_rocm_live_objects")(gpu, kind);
}

Rocm::Rocm() : library_(::dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_LOCAL)) {
  EXPECT_NE(library_, nullptr) << ::dlerror();
}

template <class Function>
Function* Rocm::function(const char* name) const {
  auto* const found = std::bit_cast<Function*>(::dlsym(library_, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

void* Rocm::hip_malloc(int device, std::size_t bytes) const {
  void* pointer = nullptr;
  EXPECT_EQ(function<int(int)>("hipSetDevice")(device), 0);
  EXPECT_EQ(function<int(void**, std::size_t)>("hipMalloc")(&pointer, bytes), 0);
  return pointer;
}

void* Rocm::hip_host_malloc(std::size_t bytes) const {
  void* pointer = nullptr;
  EXPECT_EQ(function<int(void**, std::size_t, unsigned)>("hipHostMalloc")(&pointer, bytes, 0), 0);
  return pointer;
}

void* Rocm::hip_malloc_managed(std::size_t bytes) const {
  void* pointer = nullptr;
  EXPECT_EQ(function<int(void**, std::size_t, unsigned)>("hipMallocManaged")(&pointer, bytes, 1),
            0);
  return pointer;
}

void Rocm::hip_free(void* pointer) const { EXPECT_EQ(function<int(void*)>("hipFree")(pointer), 0); }

void Rocm::hip_host_free(void* pointer) const {
  EXPECT_EQ(function<int(void*)>("hipHostFree")(pointer), 0);
}

void Rocm::hip_host_register(void* pointer, std::size_t bytes) const {
  EXPECT_EQ(function<int(void*, std::size_t, unsigned)>("hipHostRegister")(pointer, bytes, 0), 0);
}

void Rocm::hip_host_unregister(void* pointer) const {
  EXPECT_EQ(function<int(void*)>("hipHostUnregister")(pointer), 0);
}

void Rocm::hip_memset(void* pointer, int value, std::size_t bytes) const {
  EXPECT_EQ(function<int(void*, int, std::size_t)>("hipMemset")(pointer, value, bytes), 0);
}

std::vector<std::byte> Rocm::hip_read(const void* pointer, std::size_t bytes) const {
  std::vector<std::byte> all(bytes);
  EXPECT_EQ(function<int(void*, const void*, std::size_t, int)>("hipMemcpy")(all.data(), pointer,
                                                                             bytes, kDeviceToHost),
            0);
  return all;
}

int Rocm::hip_handle(void* pointer, std::size_t bytes) const {
  int fd = -1;
  EXPECT_EQ(function<int(void*, void*, std::size_t, int, unsigned long long)>(
                "hipMemGetHandleForAddressRange")(&fd, pointer, bytes, kDmabufFd, 0),
            0);
  return fd;
}

}  // namespace hbmwire::test
