// One message at a time to a server outside the cluster: a POST request to a webhook, a mail, or a request for a document.
//
// Certificates are checked against those of the system (SSL_CERT_FILE and SSL_CERT_DIR name others). The proxies of
// the environment (https_proxy, http_proxy, no_proxy) are used. Redirections are not followed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace volador::outgoing {

struct Post {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"; Content-Type is application/json.
  std::string body;
};

// A request for a document, or with a form.
struct Fetch {
  std::string url;
  std::vector<std::string> headers = {};
  std::optional<std::string> form = {};  // Body of a POST request, as application/x-www-form-urlencoded. Unset: GET.
  size_t bytes_max = 256 << 10;          // A longer answer is an error.
};

// How the connection to a mail server is protected.
enum class MailSecurity : uint8_t {
  kStartTls,  // Required: without it nothing is sent.
  kTls,       // From the first byte.
  kNone,
};

struct Mail {
  std::string host;
  int port = 0;
  MailSecurity security = MailSecurity::kStartTls;
  std::string user;  // Empty: no login.
  std::string password;
  std::string from;             // Address of the envelope.
  std::vector<std::string> to;  // Addresses of the envelope.
  std::string message;          // Head and text, with CRLF.
};

struct Answer {
  int status = 0;          // As HTTP and SMTP have it; 0: none.
  bool delivered = false;  // A status of success.
  bool is_final = false;   // The next attempt would fail too: the login was refused, or an address.
  std::string body;        // The answer of a webhook, at most 64 KiB, or to a Fetch, of any status.
  std::string why;         // For people, if it was not delivered.
};

class Transfer {
 public:
  Transfer();
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Each waits for the answer, at most `timeout` from name resolution on.
  Answer post(const Post& post, std::chrono::milliseconds timeout);
  Answer fetch(const Fetch& fetch, std::chrono::milliseconds timeout);
  Answer mail(const Mail& mail, std::chrono::milliseconds timeout);
  // Thread safe: the running call and later ones return at once.
  void end();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::outgoing
