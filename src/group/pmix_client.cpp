// SPDX-License-Identifier: MIT
#include "group/pmix_client.hpp"

#include <pmix.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/dynamic_library.hpp"

namespace hbmwire::detail {

namespace {

constexpr const char* kPmixName = "PMIx";

tl::unexpected<Error> pmix_failed(const char* call, int status) {
  log_line(LogLevel::debug,
           [&] { return std::string(call) + ": PMIx status " + std::to_string(status); });
  // The message gives the number, a negative one: pmix_common.h explains each of them.
  return tl::make_unexpected(make_error(
      status == PMIX_ERR_NOMEM ? Errc::exhausted : Errc::peer_failed, Stage::connect, call,
      std::string(kPmixName) + " status " + std::to_string(status), Hint::group_launcher));
}

Result<void> wait_for_pmix(const LateAnswer& answer, const char* call, const Wait& wait) {
  HBMWIRE_TRY(answer.wait_for(wait, call, kPmixName));
  if (answer.status() != PMIX_SUCCESS) return pmix_failed(call, answer.status());
  return {};
}

std::string key_of(std::uint64_t number) { return "hbmwire.group." + std::to_string(number); }

/// The callback of PMIx_Get_nb(), in a thread of PMIx'. PMIx keeps and frees `value`.
void take_pmix_value(pmix_status_t status, pmix_value_t* value, void* data) noexcept {
  const std::unique_ptr<std::shared_ptr<LateAnswer>> answer(
      static_cast<std::shared_ptr<LateAnswer>*>(data));
  try {
    const bool is_text = status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_STRING &&
                         value->data.string != nullptr;
    (*answer)->give(status, is_text ? std::string(value->data.string) : std::string());
  } catch (const std::bad_alloc&) {
    (*answer)->give(PMIX_ERR_NOMEM, {});
  }
}

pmix_proc_t rank_of(const pmix_proc_t& self, pmix_rank_t rank) noexcept {
  pmix_proc_t other = self;
  other.rank = rank;
  return other;
}

}  // namespace

/// The library's functions, and what it has said of this process.
struct PmixLibrary {
  DynamicLibrary library;
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Get) get = nullptr;
  decltype(&::PMIx_Get_nb) get_later = nullptr;
  pmix_proc_t self{};
  std::uint32_t size = 0;

  Result<void> open() {
    // On Debian the library may lie outside of the system's library folders: hence the second name.
    HBMWIRE_TRY_ASSIGN(library, DynamicLibrary::open({"libpmix.so.2", HBMWIRE_PMIX_LIBRARY},
                                                     Hint::group_launcher));
    init = library.find<decltype(::PMIx_Init)>("PMIx_Init");
    finalize = library.find<decltype(::PMIx_Finalize)>("PMIx_Finalize");
    put = library.find<decltype(::PMIx_Put)>("PMIx_Put");
    commit = library.find<decltype(::PMIx_Commit)>("PMIx_Commit");
    get = library.find<decltype(::PMIx_Get)>("PMIx_Get");
    get_later = library.find<decltype(::PMIx_Get_nb)>("PMIx_Get_nb");
    if (init != nullptr && finalize != nullptr && put != nullptr && commit != nullptr &&
        get != nullptr && get_later != nullptr)
      return {};
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                          "the library lacks functions of PMIx 2 or newer",
                                          "libpmix.so.2", Hint::group_launcher));
  }

  /// Initialises PMIx and asks for the job's size. Returns the status of PMIx.
  int start() {
    const pmix_status_t status = init(&self, nullptr, 0);
    if (status != PMIX_SUCCESS) return status;
    const pmix_proc_t all = rank_of(self, PMIX_RANK_WILDCARD);
    pmix_value_t* value = nullptr;
    const pmix_status_t got = get(&all, PMIX_JOB_SIZE, nullptr, 0, &value);
    if (got != PMIX_SUCCESS) return got;
    if (value == nullptr || value->type != PMIX_UINT32) return PMIX_ERR_BAD_PARAM;
    size = value->data.uint32;
    std::free(value);  // as PMIX_VALUE_RELEASE does with a number
    return PMIX_SUCCESS;
  }

  int leave(const std::string& key, std::string text) const {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();  // PMIx_Put() copies it
    const pmix_status_t status = put(PMIX_GLOBAL, key.c_str(), &value);
    return status == PMIX_SUCCESS ? commit() : status;
  }
};

PmixClient::PmixClient() : library_(std::make_unique<PmixLibrary>()) {}

PmixClient::~PmixClient() = default;

Result<PmixClient*> PmixClient::get(const Wait& wait) {
  // Never destroyed: threads of PMIx' call back until the process ends.
  static auto& client = *new PmixClient;
  HBMWIRE_TRY(client.start(wait));
  return &client;
}

void PmixClient::finalize() noexcept {
  // Waits for nothing: this is called only if PMIx_Init() has succeeded.
  const auto client = get(Deadline::after(std::chrono::seconds(0)));
  if (client) (*client)->library_->finalize(nullptr, 0);
}

Result<void> PmixClient::start(const Wait& wait) {
  if (made_.is_inherited()) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                          "a child by fork has no PMIx of its own", kPmixName));
  }
  std::shared_ptr<LateAnswer> started;
  {
    const std::lock_guard lock(mutex_);
    if (!started_) {
      HBMWIRE_TRY(library_->open());
      HBMWIRE_TRY_ASSIGN(started_, LateAnswer::of([this] {
                           const int status = library_->start();
                           // If that fails, mpirun complains at the end: a warning is enough.
                           if (status == PMIX_SUCCESS && std::atexit(finalize) != 0)
                             log_warning("atexit", "cannot finalize PMIx", 0);
                           return status;
                         }));
    }
    started = started_;
  }
  return wait_for_pmix(*started, "PMIx_Init", wait);
}

PmixJob PmixClient::job() const { return {.rank = library_->self.rank, .size = library_->size}; }

Result<void> PmixClient::leave(const std::string& text, const Wait& wait) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++left_;
    newest_ = text;
  }
  HBMWIRE_TRY_ASSIGN(const auto answer, LateAnswer::of([this, key = key_of(number), text] {
                       return library_->leave(key, text);
                     }));
  return wait_for_pmix(*answer, "PMIx_Commit", wait);
}

Result<std::shared_ptr<LateAnswer>> PmixClient::ask(std::uint64_t number) {
  HBMWIRE_TRY_ASSIGN(const auto answer, LateAnswer::make());
  auto data = std::make_unique<std::shared_ptr<LateAnswer>>(answer);
  const pmix_proc_t first = rank_of(library_->self, 0);
  const pmix_status_t status =
      library_->get_later(&first, key_of(number).c_str(), nullptr, 0, take_pmix_value, data.get());
  if (status != PMIX_SUCCESS) return pmix_failed("PMIx_Get_nb", status);
  (void)data.release();  // NOLINT(bugprone-unused-return-value): the callback's now
  return answer;
}

Result<std::string> PmixClient::look(const Wait& wait) {
  constexpr std::chrono::milliseconds kPatience(100);
  const std::lock_guard lock(mutex_);
  if (library_->self.rank == 0) return newest_;
  if (!asked_) {
    HBMWIRE_TRY_ASSIGN(asked_, ask(next_));
  }
  const Deadline patience = Deadline::after(kPatience);
  const auto came =
      asked_->wait_for({Deadline(std::min(patience.when(), wait.deadline.when())), wait.cancel_fd},
                       "PMIx_Get_nb", kPmixName);
  if (!came && came.error().code != Errc::timed_out) return tl::make_unexpected(came.error());
  if (!asked_->is_given()) return newest_;  // the answer is still waited for by the next look
  const auto answer = std::exchange(asked_, nullptr);
  // A server may answer so at once, rather than when rank 0 has left something.
  if (answer->status() == PMIX_ERR_NOT_FOUND) return newest_;
  if (answer->status() != PMIX_SUCCESS) return pmix_failed("PMIx_Get_nb", answer->status());
  newest_ = answer->text();
  ++next_;
  return newest_;
}

}  // namespace hbmwire::detail
