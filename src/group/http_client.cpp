// SPDX-License-Identifier: MIT
#include "group/http_client.hpp"

#include <curl/curl.h>
#include <poll.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "base/dynamic_library.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"

namespace hbmwire::detail {

namespace {

/// The library's functions.
struct Curl {
  DynamicLibrary library;
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  // In parentheses, since curl.h has macros of their names that check the types of arguments.
  decltype(&(::curl_easy_setopt)) set = nullptr;
  decltype(&(::curl_easy_getinfo)) get_info = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) text = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_list = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_add_handle) add = nullptr;
  decltype(&::curl_multi_remove_handle) remove = nullptr;
  decltype(&::curl_multi_perform) perform = nullptr;
  decltype(&::curl_multi_poll) poll = nullptr;
  decltype(&::curl_multi_info_read) read_info = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;

  template <class Function>
  bool find(Function& function, const char* name) {
    function = library.find<std::remove_pointer_t<Function>>(name);
    return function != nullptr;
  }

  Result<void> open() {
    HBMWIRE_TRY_ASSIGN(library, DynamicLibrary::open({"libcurl.so.4", "libcurl-gnutls.so.4"},
                                                     Hint::group_launcher));
    const bool has_all =
        find(global_init, "curl_global_init") && find(easy_init, "curl_easy_init") &&
        find(set, "curl_easy_setopt") && find(get_info, "curl_easy_getinfo") &&
        find(easy_cleanup, "curl_easy_cleanup") && find(text, "curl_easy_strerror") &&
        find(append, "curl_slist_append") && find(free_list, "curl_slist_free_all") &&
        find(multi_init, "curl_multi_init") && find(add, "curl_multi_add_handle") &&
        find(remove, "curl_multi_remove_handle") && find(perform, "curl_multi_perform") &&
        find(poll, "curl_multi_poll") && find(read_info, "curl_multi_info_read") &&
        find(multi_cleanup, "curl_multi_cleanup");
    if (has_all && global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return {};
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                          "etcd needs libcurl 7.66 or newer", "libcurl.so.4",
                                          Hint::group_launcher));
  }

  /// The library of this process, opened once and never closed: its TLS library has handlers at
  /// exit.
  static Result<const Curl*> get() {
    static auto& curl = *new Curl;
    static const auto& opened = *new Result<void>(curl.open());
    if (!opened) return tl::make_unexpected(opened.error());
    return &curl;
  }
};

/// An answer's body, as far as it came.
struct Body {
  std::string text;
  bool is_too_long = false;
  bool is_out_of_memory = false;
};

/// CURLOPT_WRITEFUNCTION: the transfer ends if this returns another number than size * count.
std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) noexcept {
  auto& body = *static_cast<Body*>(user);
  const std::size_t bytes = size * count;
  body.is_too_long = bytes > kMaxAnswerBytes - body.text.size();
  if (body.is_too_long) return 0;
  try {
    body.text.append(data, bytes);
  } catch (const std::bad_alloc&) {
    body.is_out_of_memory = true;
    return 0;
  }
  return bytes;
}

Errc kind_of(CURLcode code) noexcept {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return Errc::not_found;
    case CURLE_OPERATION_TIMEDOUT:
      return Errc::timed_out;
    case CURLE_OUT_OF_MEMORY:
      return Errc::exhausted;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return Errc::permission_denied;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR:
    case CURLE_TOO_MANY_REDIRECTS:
      return Errc::protocol;
    default:
      return Errc::peer_failed;
  }
}

Hint hint_of(CURLcode code) noexcept {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return Hint::name_resolution;
    case CURLE_COULDNT_CONNECT:
      return Hint::connection_refused;
    case CURLE_OPERATION_TIMEDOUT:
      return Hint::peer_slow;
    default:
      return Hint::group_launcher;
  }
}

// NOLINTBEGIN(cppcoreguidelines-pro-type-vararg): libcurl sets options so.
class CurlClient final : public HttpClient {
 public:
  CurlClient(const Curl& curl, CURLM* multi, curl_slist* headers) noexcept
      : curl_(curl), multi_(multi), headers_(headers) {}

  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  ~CurlClient() override {
    if (made_.is_inherited()) return;  // cleaning up would end the parent's TLS session
    curl_.multi_cleanup(multi_);
    curl_.free_list(headers_);
  }

  Result<HttpAnswer> post(const std::string& url, const std::string& body, const Wait& wait,
                          std::string_view subject) override {
    CURL* const easy = curl_.easy_init();
    if (easy == nullptr) return tl::make_unexpected(no_memory(subject));
    Body got;
    prepare(easy, url, body, got);
    curl_.add(multi_, easy);
    const auto code = drive(wait, subject);
    HttpAnswer answer;
    curl_.get_info(easy, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_.remove(multi_, easy);
    curl_.easy_cleanup(easy);
    if (!code) return tl::make_unexpected(code.error());
    if (got.is_out_of_memory) return tl::make_unexpected(no_memory(subject));
    if (got.is_too_long) {
      return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                            "the server's answer is longer than 1 MiB", subject,
                                            Hint::group_launcher));
    }
    if (*code != CURLE_OK) {
      return tl::make_unexpected(
          make_error(kind_of(*code), Stage::connect, curl_.text(*code), subject, hint_of(*code)));
    }
    answer.body = std::move(got.text);
    return answer;
  }

 private:
  void prepare(CURL* easy, const std::string& url, const std::string& body, Body& got) const {
    const auto set = curl_.set;
    set(easy, CURLOPT_URL, url.c_str());
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDS, body.c_str());
    set(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    set(easy, CURLOPT_HTTPHEADER, headers_);
    set(easy, CURLOPT_WRITEFUNCTION, take_body);
    set(easy, CURLOPT_WRITEDATA, &got);
    set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    set(easy, CURLOPT_NOSIGNAL, 1L);  // libcurl's signal handlers would replace the program's
    set(easy, CURLOPT_PROXY, "");     // no proxy, even if http_proxy names one
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x075700  // 7.87
    // A name server that does not answer must not hold the caller when it gives up.
    set(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
  }

  /// How the one transfer ended. Errors: timed_out, cancelled.
  Result<CURLcode> drive(const Wait& wait, std::string_view subject) {
    constexpr int kLongestPollMs = 1000;
    for (;;) {
      int running = 0;
      if (curl_.perform(multi_, &running) != CURLM_OK)
        return tl::make_unexpected(no_memory(subject));
      int left = 0;
      const CURLMsg* const message = curl_.read_info(multi_, &left);
      if (message != nullptr) return message->data.result;
      if (wait.deadline.passed()) {
        return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect,
                                              "waiting for the server's answer", subject,
                                              Hint::peer_slow));
      }
      curl_waitfd cancel{.fd = wait.cancel_fd, .events = CURL_WAIT_POLLIN, .revents = 0};
      const unsigned cancels = wait.cancel_fd >= 0 ? 1 : 0;
      const int timeout_ms = std::min(wait.deadline.poll_timeout_ms(), kLongestPollMs);
      if (curl_.poll(multi_, &cancel, cancels, timeout_ms, nullptr) != CURLM_OK)
        return tl::make_unexpected(no_memory(subject));
      pollfd asked{wait.cancel_fd, POLLIN, 0};  // poll(2) ignores a descriptor of -1
      if (::poll(&asked, 1, 0) > 0) {
        return tl::make_unexpected(make_error(Errc::cancelled, Stage::connect,
                                              "waiting for the server's answer", subject));
      }
    }
  }

  static Error no_memory(std::string_view subject) noexcept {
    return make_error(Errc::exhausted, Stage::connect, "libcurl gets no memory", subject,
                      Hint::host_memory_exhausted);
  }

  MadeHere made_;
  const Curl& curl_;
  CURLM* multi_;
  curl_slist* headers_;
};

// NOLINTEND(cppcoreguidelines-pro-type-vararg)

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::create() {
  HBMWIRE_TRY_ASSIGN(const Curl* const curl, Curl::get());
  CURLM* const multi = curl->multi_init();
  curl_slist* const headers = curl->append(nullptr, "Content-Type: application/json");
  if (multi == nullptr || headers == nullptr) {
    if (multi != nullptr) curl->multi_cleanup(multi);
    curl->free_list(headers);
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::connect, "libcurl gets no memory",
                                          "", Hint::host_memory_exhausted));
  }
  return std::make_unique<CurlClient>(*curl, multi, headers);
}

}  // namespace hbmwire::detail
