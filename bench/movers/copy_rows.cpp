// SPDX-License-Identifier: MIT
#include <dlfcn.h>

#include <stdexcept>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "bench/movers/memory_end.hpp"
#include "bench/movers/rows.hpp"

/// Rows within a process: a put that a device's engine carries, against the vendor's own call.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kBytes = 64 << 10;
constexpr unsigned kPuts = 64;

/// libcuda's own copy, in a stream of its own, as its manual describes it; without its header.
class CudaCopy {
 public:
  CudaCopy() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    find(copy_, "cuMemcpyDtoHAsync_v2");
    find(query_, "cuStreamQuery");
    int (*retain)(void**, int) = nullptr;
    find(retain, "cuDevicePrimaryCtxRetain");
    int (*use)(void*) = nullptr;
    find(use, "cuCtxSetCurrent");
    int (*create)(void**, unsigned) = nullptr;
    find(create, "cuStreamCreate");
    void* context = nullptr;  // the context that hbmwire uses, too
    check(retain(&context, 0 /* the first device */), "cuDevicePrimaryCtxRetain");
    check(use(context), "cuCtxSetCurrent");
    check(create(&stream_, 1 /* CU_STREAM_NON_BLOCKING */), "cuStreamCreate");
  }

  CudaCopy(const CudaCopy&) = delete;
  CudaCopy& operator=(const CudaCopy&) = delete;

  ~CudaCopy() {
    int (*destroy)(void*) = nullptr;
    find(destroy, "cuStreamDestroy_v2");
    destroy(stream_);
    int (*release)(int) = nullptr;
    find(release, "cuDevicePrimaryCtxRelease_v2");
    release(0);  // the first device
    ::dlclose(library_);
  }

  void run(void* to, std::uint64_t from, std::size_t bytes) const {
    constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
    check(copy_(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
    int state = kNotReady;
    while (state == kNotReady) state = query_(stream_);
    check(state, "cuStreamQuery");
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) const {
    void* const symbol = ::dlsym(library_, name);
    if (symbol == nullptr) throw std::runtime_error(::dlerror());
    function = reinterpret_cast<Function>(symbol);
  }

  static void check(int error, const char* call) {
    if (error != 0) throw std::runtime_error(call + (": error " + std::to_string(error)));
  }

  void* library_;
  void* stream_ = nullptr;
  int (*copy_)(void*, std::uint64_t, std::size_t, void*) = nullptr;
  int (*query_)(void*) = nullptr;
};

/// Both ends of a row, in one thread, except while they connect.
class WithinAProcess final : public Contest {
 public:
  explicit WithinAProcess(const Effort& effort)
      : chunks_(effort.quick ? 1 : 50),
        context_(need(Context::create())),
        worker_(need(Worker::create(context_))),
        other_worker_(need(Worker::create(context_))),
        device_(allocate(MemoryType::cuda)),
        host_(allocate(MemoryType::host)),
        from_(need(context_.register_memory(device_, Access::local_write))),
        to_(need(context_.register_memory(host_, Access::local_write | Access::remote_write))),
        key_(need(MemoryKey::pack(to_))) {
    meet();
    remote_ = need(endpoint_->remote(need(RemoteKey::unpack(key_.bytes()))));
  }

  double ours() override {
    return median_ns(
               chunks_,
               [&] {
                 for (unsigned i = 0; i < kPuts; ++i) {
                   Transfer put =
                       need(endpoint_->put(from_.slice(0, kBytes), remote_.slice(0, kBytes)));
                   while (!need(put.poll())) continue;
                   if (put.path() != Path::copy)
                     throw std::runtime_error("it went another way: " + describe(put.explain()));
                 }
               }) /
           kPuts;
  }

  double theirs() override {
    return median_ns(chunks_,
                     [&] {
                       for (unsigned i = 0; i < kPuts; ++i)
                         cuda_.run(reinterpret_cast<void*>(host_.address()), device_.address(),
                                   kBytes);
                     }) /
           kPuts;
  }

 private:
  [[nodiscard]] Allocation allocate(MemoryType type) const {
    const OnSecondCpu engine;
    return need(context_.allocate(type, kBytes));
  }

  void meet() {
    const Wait patience{std::chrono::seconds(20)};
    Listener listener = need(
        Listener::create(other_worker_, {.address = "127.0.0.1", .endpoint = keyed_options()}));
    std::optional<hbmwire::Result<Endpoint>> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(patience)); });
    auto connected = Endpoint::connect(worker_, "127.0.0.1:" + std::to_string(listener.port()),
                                       patience, keyed_options());
    accepting.join();
    endpoint_.emplace(need(std::move(connected)));
    other_.emplace(need(std::move(*accepted)));
  }

  unsigned chunks_;
  Context context_;
  Worker worker_;
  Worker other_worker_;
  Allocation device_;
  Allocation host_;
  Region from_;
  Region to_;
  MemoryKey key_;
  CudaCopy cuda_;
  std::optional<Endpoint> endpoint_;
  std::optional<Endpoint> other_;
  RemoteRegion remote_;
};

}  // namespace

std::vector<Row> copy_rows() {
  Row row{.name = "copy", .ours = "64 KiB put within a process", .theirs = "cuMemcpyDtoHAsync"};
  row.better = Better::lower;
  row.difference = true;
  row.make = [](const Effort& effort) { return std::make_unique<WithinAProcess>(effort); };
  return {row};
}

}  // namespace hbmwire::bench
