#include "jobs/notify/notice_message.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base64.h"
#include "runtime/text.h"
#include "runtime/utf8.h"

namespace volador::jobs {
namespace {

using NoticeJson = nlohmann::ordered_json;

constexpr size_t kChatBytesMax = 15'000;  // Feishu and DingTalk take 20 000 bytes with the rest of the body.
constexpr size_t kWecomBytesMax = 2048;
constexpr size_t kMailBytesMax = 100'000;

std::string hmac_sha256(std::string_view key, std::string_view message) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()),
       message.size(), out, &size);
  return {reinterpret_cast<const char*>(out), size};
}

std::string url_encoded_base64(std::string_view bytes) {
  std::string out;
  for (const char c : base64(bytes)) {
    if (c == '+' || c == '/' || c == '=') {
      out += fmt::format("%{:02X}", c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string dumped(const NoticeJson& json) { return json.dump(-1, ' ', false, NoticeJson::error_handler_t::replace); }

// Slack reads these as markup.
std::string slack_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

NoticeJson event_json(const protocol::JobNotice& notice, const NoticeContext& context) {
  const v1::Job& job = notice.job();
  NoticeJson nodes = NoticeJson::array();
  for (const v1::JobRank& rank : job.ranks()) nodes.push_back(rank.node());
  return {{"id", notice_id(notice, context)},
          {"event", "job." + notice.event()},
          {"text", context.cluster + ": " + notice_title({notice})},
          {"cluster", context.cluster},
          {"time_ms", notice.at_ms()},
          {"fields",
           {{"job", job.id()},
            {"name", job.spec().name()},
            {"project", job.spec().project()},
            {"user", job.user()},
            {"state", job.state()},
            {"reason", job.reason()},
            {"nodes", std::move(nodes)},
            {"exit_code", job.exit_code()},
            {"ran_ms", job.ran_ms()}}},
          {"url", notice_page(notice, context)}};
}

// Encoded words (RFC 2047), each of at most 75 characters with whole characters in it.
std::string encoded_subject(std::string_view text) {
  constexpr size_t kWordBytes = 45;       // 60 characters of base64 and 12 around them.
  constexpr size_t kFirstWordBytes = 36;  // After "Subject: ".
  const bool plain = text.size() < 60 && std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 127; }) &&
                     text.find("=?") == std::string_view::npos;
  if (plain) return std::string(text);
  std::string out;
  while (!text.empty()) {
    size_t bytes = 0;
    while (bytes < text.size()) {
      const size_t next = std::max<size_t>(1, utf8_sequence(text, bytes));
      if (bytes + next > (out.empty() ? kFirstWordBytes : kWordBytes)) break;
      bytes += next;
    }
    out += fmt::format("{}=?UTF-8?B?{}?=", out.empty() ? "" : "\r\n ", base64(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  return out;
}

std::string base64_lines(std::string_view text) {
  constexpr size_t kLineBytes = 57;  // 76 characters.
  std::string out;
  for (; !text.empty(); text.remove_prefix(std::min(kLineBytes, text.size())))
    out += base64(text.substr(0, kLineBytes)) + "\r\n";
  return out;
}

std::string mail_date(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} +0000", kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                     utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace

NoticePace pace_of_kind(std::string_view kind) {
  using namespace std::chrono_literals;
  if (kind == "json") return {.pause = 0ms, .together = 1};
  if (kind == "dingtalk" || kind == "wecom") return {.pause = 4s};  // 20 a minute.
  if (kind == "mail") return {.pause = 10s};
  return {.pause = 1s};  // Slack 1 a second, Feishu 100 a minute.
}

outgoing::Post notice_post(const v1::Notification& to, const std::vector<protocol::JobNotice>& notices,
                           const NoticeContext& context, int64_t now_ms) {
  outgoing::Post post{.url = to.url(), .headers = {}, .body = {}};
  if (to.kind() == "json") {
    post.body = dumped(event_json(notices.front(), context));
    if (!to.secret().empty())
      post.headers.push_back("X-Volador-Signature: sha256=" + hex_text(hmac_sha256(to.secret(), post.body)));
    return post;
  }
  const std::string text = notice_text(notices, context, to.kind() == "wecom" ? kWecomBytesMax : kChatBytesMax);
  if (to.kind() == "slack") {
    post.body = dumped({{"text", slack_escaped(text)}});
  } else if (to.kind() == "feishu") {
    NoticeJson body;
    if (!to.secret().empty()) {
      const std::string seconds = std::to_string(now_ms / 1000);
      body["timestamp"] = seconds;
      body["sign"] = base64(hmac_sha256(seconds + "\n" + to.secret(), ""));
    }
    body["msg_type"] = "text";
    body["content"] = {{"text", text}};
    post.body = dumped(body);
  } else {
    NoticeJson body{{"msgtype", "text"}, {"text", {{"content", text}}}};
    if (to.kind() == "dingtalk") {
      body["at"] = {{"isAtAll", false}};
      if (!to.secret().empty()) {
        const std::string signature = hmac_sha256(to.secret(), fmt::format("{}\n{}", now_ms, to.secret()));
        post.url += fmt::format("{}timestamp={}&sign={}", post.url.find('?') == std::string::npos ? "?" : "&", now_ms,
                                url_encoded_base64(signature));
      }
    }
    post.body = dumped(body);
  }
  return post;
}

outgoing::Answer checked_answer(std::string_view kind, outgoing::Answer answer) {
  if (!answer.delivered || (kind != "feishu" && kind != "dingtalk" && kind != "wecom")) return answer;
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  if (!body.is_object()) {
    answer.delivered = false;
    answer.why = fmt::format("{} answers with something else than JSON", kind);
    answer.status = 0;
    return answer;
  }
  for (const auto& [code, message] :
       {std::pair("code", "msg"), std::pair("errcode", "errmsg"), std::pair("StatusCode", "StatusMessage")}) {
    const auto found = body.find(code);
    if (found == body.end() || !found->is_number_integer() || *found == 0) continue;
    const auto said = body.find(message);
    answer.delivered = false;
    answer.status = 0;  // Some codes are limits: a later attempt may help.
    answer.why = fmt::format("{} {}: {}", code, found->dump(),
                             plain_text(said != body.end() && said->is_string() ? said->get<std::string>() : "", 300));
    return answer;
  }
  return answer;
}

outgoing::Mail notice_mail(const v1::MailServer& server, const std::vector<std::string>& to,
                           const std::vector<protocol::JobNotice>& notices, const NoticeContext& context,
                           int64_t now_ms) {
  const std::string subject = plain_text(fmt::format("[volador {}] {}", context.cluster, notice_title(notices)), 500);
  const std::string& from = server.from();
  outgoing::Mail mail{.host = server.host(),
                      .port = server.port(),
                      .security = server.security() == "tls"    ? outgoing::MailSecurity::kTls
                                  : server.security() == "none" ? outgoing::MailSecurity::kNone
                                                                : outgoing::MailSecurity::kStartTls,
                      .user = server.user(),
                      .password = server.password(),
                      .from = from,
                      .to = to,
                      .message = {}};
  mail.message = fmt::format(
      "From: {}\r\nTo: {}\r\nSubject: {}\r\nDate: {}\r\nMessage-ID: <{}@{}>\r\nAuto-Submitted: "
      "auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: "
      "base64\r\n\r\n{}",
      from, fmt::join(to, ",\r\n "), encoded_subject(subject), mail_date(now_ms), notice_id(notices.front(), context),
      from.substr(from.find('@') + 1), base64_lines(notice_text(notices, context, kMailBytesMax)));
  return mail;
}

}  // namespace volador::jobs
