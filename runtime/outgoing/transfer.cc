#include "runtime/outgoing/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>

#include "runtime/result.h"

namespace volador::outgoing {
namespace {

constexpr size_t kAnswerBytesMax = 64 << 10;

struct List {
  ~List() { curl_slist_free_all(first); }
  void add(const std::string& text) { first = curl_slist_append(first, text.c_str()); }
  curl_slist* first = nullptr;
};

struct Easy {
  Easy() : handle(curl_easy_init()) { VOLADOR_CHECK(handle != nullptr, "libcurl has no memory"); }
  ~Easy() { curl_easy_cleanup(handle); }
  Easy(const Easy&) = delete;
  Easy& operator=(const Easy&) = delete;
  template <class T>
  void set(CURLoption option, T value) {
    const CURLcode done = curl_easy_setopt(handle, option, value);
    VOLADOR_CHECK(done == CURLE_OK,
                  fmt::format("option {} of libcurl: {}", static_cast<int>(option), curl_easy_strerror(done)));
  }
  CURL* const handle;
};

size_t keep_answer(char* data, size_t size, size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  body.append(data, std::min(size * count, kAnswerBytesMax - body.size()));
  return size * count;
}

struct Document {
  std::string body;
  size_t bytes_max;
  bool is_too_long = false;
};

size_t keep_document(char* data, size_t size, size_t count, void* to) {
  auto& document = *static_cast<Document*>(to);
  if (size * count > document.bytes_max - document.body.size()) {
    document.is_too_long = true;
    return 0;  // Ends the transfer.
  }
  document.body.append(data, size * count);
  return size * count;
}

size_t read_message(char* to, size_t size, size_t count, void* from) {
  auto& rest = *static_cast<std::string_view*>(from);
  const size_t bytes = std::min(size * count, rest.size());
  rest.copy(to, bytes);
  rest.remove_prefix(bytes);
  return bytes;
}

// The certificates of the system as OpenSSL finds them, whatever libcurl was built with.
CURLcode trust_system(CURL*, void* context, void*) {
  SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(context));
  return CURLE_OK;
}

void prepare(Easy& easy, std::chrono::milliseconds timeout, char* why) {
  easy.set(CURLOPT_NOSIGNAL, 1L);
  easy.set(CURLOPT_ERRORBUFFER, why);
  easy.set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  easy.set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  easy.set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
  easy.set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  easy.set(CURLOPT_SSL_CTX_FUNCTION, &trust_system);
  easy.set(CURLOPT_QUICK_EXIT, 1L);
}

void prepare_web(Easy& easy, const std::string& url) {
  easy.set(CURLOPT_PROTOCOLS_STR, "http,https");
  easy.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  easy.set(CURLOPT_URL, url.c_str());
  easy.set(CURLOPT_USERAGENT, "volador");
}

}  // namespace

struct Transfer::Impl {
  Impl() : multi(curl_multi_init()) { VOLADOR_CHECK(multi != nullptr, "libcurl has no memory"); }
  ~Impl() { curl_multi_cleanup(multi); }

  CURLcode run(Easy& easy) {
    curl_multi_add_handle(multi, easy.handle);
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    for (int running = 1; running > 0 && !ended;) {
      curl_multi_perform(multi, &running);
      if (running > 0) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi, easy.handle);
    return result;
  }

  Answer finish(Easy& easy, const char* said, std::chrono::milliseconds timeout) {
    const CURLcode result = run(easy);
    Answer answer;
    long status = 0;
    curl_easy_getinfo(easy.handle, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    answer.delivered = result == CURLE_OK && status >= 200 && status < 300;
    if (answer.delivered) return answer;
    if (result == CURLE_OK) {
      answer.why = fmt::format("status {}", status);
    } else if (result == CURLE_OPERATION_TIMEDOUT) {
      answer.why = fmt::format("no answer within {} s", std::chrono::duration<double>(timeout).count());
    } else {
      answer.why = said[0] != '\0' ? said : curl_easy_strerror(result);
    }
    answer.is_final = result == CURLE_LOGIN_DENIED;
    return answer;
  }

  CURLM* const multi;
  std::atomic<bool> ended = false;
};

Transfer::Transfer() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_ = std::make_unique<Impl>();
}
Transfer::~Transfer() = default;

void Transfer::end() {
  impl_->ended = true;
  curl_multi_wakeup(impl_->multi);
}

Answer Transfer::post(const Post& post, std::chrono::milliseconds timeout) {
  char why[CURL_ERROR_SIZE] = "";
  std::string body;
  List headers;
  for (const std::string& header : post.headers) headers.add(header);
  headers.add("Content-Type: application/json");
  headers.add("Expect:");  // A server need not ask for the body.
  Easy easy;
  prepare(easy, timeout, why);
  prepare_web(easy, post.url);
  easy.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(post.body.size()));
  easy.set(CURLOPT_POSTFIELDS, post.body.data());
  easy.set(CURLOPT_HTTPHEADER, headers.first);
  easy.set(CURLOPT_WRITEFUNCTION, &keep_answer);
  easy.set(CURLOPT_WRITEDATA, &body);
  Answer answer = impl_->finish(easy, why, timeout);
  answer.body = std::move(body);
  return answer;
}

Answer Transfer::fetch(const Fetch& fetch, std::chrono::milliseconds timeout) {
  char why[CURL_ERROR_SIZE] = "";
  Document document{.body = {}, .bytes_max = fetch.bytes_max};
  List headers;
  for (const std::string& header : fetch.headers) headers.add(header);
  headers.add("Expect:");
  Easy easy;
  prepare(easy, timeout, why);
  prepare_web(easy, fetch.url);
  if (fetch.form) {
    easy.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(fetch.form->size()));
    easy.set(CURLOPT_POSTFIELDS, fetch.form->data());
  }
  easy.set(CURLOPT_HTTPHEADER, headers.first);
  easy.set(CURLOPT_WRITEFUNCTION, &keep_document);
  easy.set(CURLOPT_WRITEDATA, &document);
  Answer answer = impl_->finish(easy, why, timeout);
  if (document.is_too_long) {
    answer.delivered = false;
    answer.why = fmt::format("the answer has more than {} bytes", fetch.bytes_max);
  }
  answer.body = std::move(document.body);
  return answer;
}

Answer Transfer::mail(const Mail& mail, std::chrono::milliseconds timeout) {
  char why[CURL_ERROR_SIZE] = "";
  std::string body;
  std::string_view rest = mail.message;
  List to;
  for (const std::string& address : mail.to) to.add("<" + address + ">");
  const std::string host = mail.host.find(':') == std::string::npos ? mail.host : "[" + mail.host + "]";
  const std::string url =
      fmt::format("{}://{}:{}", mail.security == MailSecurity::kTls ? "smtps" : "smtp", host, mail.port);
  const std::string from = "<" + mail.from + ">";
  Easy easy;
  prepare(easy, timeout, why);
  easy.set(CURLOPT_PROTOCOLS_STR, "smtp,smtps");
  easy.set(CURLOPT_URL, url.c_str());
  easy.set(CURLOPT_USE_SSL, static_cast<long>(mail.security == MailSecurity::kNone ? CURLUSESSL_NONE : CURLUSESSL_ALL));
  easy.set(CURLOPT_MAIL_FROM, from.c_str());
  easy.set(CURLOPT_MAIL_RCPT, to.first);
  if (!mail.user.empty()) {
    easy.set(CURLOPT_USERNAME, mail.user.c_str());
    easy.set(CURLOPT_PASSWORD, mail.password.c_str());
    // Others would be tried one after the other when a login is refused.
    easy.set(CURLOPT_LOGIN_OPTIONS, "AUTH=PLAIN;AUTH=LOGIN");
  }
  easy.set(CURLOPT_UPLOAD, 1L);
  easy.set(CURLOPT_READFUNCTION, &read_message);
  easy.set(CURLOPT_READDATA, &rest);
  easy.set(CURLOPT_WRITEFUNCTION, &keep_answer);
  easy.set(CURLOPT_WRITEDATA, &body);
  Answer answer = impl_->finish(easy, why, timeout);
  if (!answer.delivered && answer.status >= 500) answer.is_final = true;
  return answer;
}

}  // namespace volador::outgoing
