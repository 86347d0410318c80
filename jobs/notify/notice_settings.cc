#include "jobs/notify/notice_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/nearest_word.h"
#include "runtime/outgoing/retry.h"
#include "runtime/utf8.h"

namespace volador::jobs {
namespace {

constexpr int kNotificationsMax = 100;
constexpr int kAddressesMax = 50;
constexpr int kNotifyMax = 20;
constexpr size_t kNoticeNameBytesMax = 63;
constexpr size_t kSecretBytesMax = 4096;
constexpr std::array<std::string_view, 6> kKinds{"mail", "slack", "feishu", "dingtalk", "wecom", "json"};
constexpr std::array<std::string_view, 3> kKindsThatSign{"feishu", "dingtalk", "json"};
constexpr std::array<std::string_view, 7> kEvents{"started", "succeeded", "failed", "stopped",
                                                  "expired", "preempted", "alert"};

tl::unexpected<Error> bad_notice(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
}

// local@domain of visible characters; the server knows whether it exists.
Result<void> check_address(const std::string& where, const std::string& address) {
  const size_t at = address.rfind('@');
  const bool sound = address.size() <= 254 && is_visible(address) && at != std::string::npos && at > 0 &&
                     at + 1 < address.size() && address.find_first_of("<>,;:\"()[]\\") == std::string::npos &&
                     std::ranges::count(address, '@') == 1;
  if (sound) return {};
  return bad_notice(
      fmt::format("{}: expected a mail address such as mei@example.org, got \"{}\"", where, plain_text(address, 300)));
}

// "https://hooks.example/***".
std::string hidden_url(const std::string& url) {
  const size_t place = url.find("://");
  if (place == std::string::npos) return url;
  const size_t path = url.find_first_of("/?", place + 3);
  return path == std::string::npos ? url : url.substr(0, path) + "/" + std::string(kHiddenSecret);
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<void> check_notification(const v1::Notification& each, bool has_mail_server) {
  const std::string where = fmt::format("notifications: {}", each.name());
  if (std::ranges::find(kKinds, each.kind()) == kKinds.end())
    return bad_notice(fmt::format("{}: kind: expected {}, got \"{}\"", where, fmt::join(kKinds, ", "), each.kind()));
  for (const std::string& event : each.events()) {
    if (std::ranges::find(kEvents, event) == kEvents.end())
      return bad_notice(fmt::format("{}: events: expected {}, got \"{}\"", where, fmt::join(kEvents, ", "), event));
  }
  if (each.kind() == "mail") {
    if (!has_mail_server)
      return bad_notice(fmt::format("{}: there is no server for mail; add `mail: {{host: …, from: …}}`", where));
    if (!each.url().empty() || !each.secret().empty())
      return bad_notice(fmt::format("{}: url and secret are for webhooks, and this is of kind mail", where));
    if (each.addresses().empty() || each.addresses_size() > kAddressesMax) {
      return bad_notice(fmt::format("{}: addresses: expected 1 to {} mail addresses, got {}", where, kAddressesMax,
                                    each.addresses_size()));
    }
    for (const std::string& address : each.addresses()) VOLADOR_TRY(check_address(where + ": addresses", address));
    return {};
  }
  if (!each.addresses().empty())
    return bad_notice(fmt::format("{}: addresses are for mail, and this is of kind {}", where, each.kind()));
  if (const auto to = outgoing::parse_webhook(each.url()); !to)
    return bad_notice(fmt::format("{}: url: {}", where, to.error().message));
  if (!each.secret().empty() && std::ranges::find(kKindsThatSign, each.kind()) == kKindsThatSign.end()) {
    return bad_notice(fmt::format("{}: secret: only {} are signed; the key of {} is in its url", where,
                                  fmt::join(kKindsThatSign, ", "), each.kind()));
  }
  if (each.secret().size() > kSecretBytesMax)
    return bad_notice(
        fmt::format("{}: secret: expected at most {} bytes, got {}", where, kSecretBytesMax, each.secret().size()));
  return {};
}

Result<void> check_mail(v1::MailServer& mail) {
  const auto has_space = [](const std::string& text) { return !is_visible(text); };
  if (mail.host().empty() || has_space(mail.host()) || mail.host().find_first_of("/@?#[]") != std::string::npos)
    return bad_notice(
        fmt::format("mail: host: expected the name or address of a machine, got \"{}\"", plain_text(mail.host(), 300)));
  if (mail.security().empty()) mail.set_security("starttls");
  const std::string& security = mail.security();
  if (security != "starttls" && security != "tls" && security != "none")
    return bad_notice(fmt::format("mail: security: expected starttls, tls or none, got \"{}\"", security));
  if (mail.port() < 0 || mail.port() > 65535)
    return bad_notice(fmt::format("mail: port: expected 1 to 65535, or 0 for the usual one, got {}", mail.port()));
  if (mail.port() == 0) mail.set_port(security == "tls" ? 465 : security == "starttls" ? 587 : 25);
  if (mail.from().empty())
    return bad_notice("mail: from: expected the address that mail is sent from, such as volador@example.org");
  VOLADOR_TRY(check_address("mail: from", mail.from()));
  if (mail.user().empty() != mail.password().empty())
    return bad_notice(fmt::format("mail: user and password go together; only {} was given",
                                  mail.user().empty() ? "password" : "user"));
  if (mail.user().size() > kSecretBytesMax || mail.password().size() > kSecretBytesMax)
    return bad_notice(fmt::format("mail: user and password: expected at most {} bytes each", kSecretBytesMax));
  if (!mail.user().empty() && security == "none" && !is_loopback_host(mail.host())) {
    return bad_notice(
        "mail: security: the password would travel in clear text; expected starttls or tls (none is for servers "
        "without a password, and for this machine)");
  }
  return {};
}

}  // namespace

Result<void> keep_secrets(const v1::QueueSettings& stored, v1::QueueSettings& given) {
  for (v1::Notification& each : *given.mutable_notifications()) {
    const auto before = std::ranges::find(stored.notifications(), each.name(), &v1::Notification::name);
    const bool known = before != stored.notifications().end();
    if (each.url().ends_with("/" + std::string(kHiddenSecret))) {
      if (!known || each.url() != hidden_url(before->url())) {
        return bad_notice(
            fmt::format("notifications: {}: url: {} stands for the stored address, and none is stored "
                        "for this machine; give the whole address",
                        each.name(), kHiddenSecret));
      }
      each.set_url(before->url());
    }
    if (each.secret() == kHiddenSecret) {
      if (!known || before->secret().empty()) {
        return bad_notice(
            fmt::format("notifications: {}: secret: {} stands for the stored one, and none is stored; "
                        "give the secret",
                        each.name(), kHiddenSecret));
      }
      each.set_secret(before->secret());
    }
  }
  if (given.mail().password() == kHiddenSecret) {
    if (stored.mail().password().empty() || stored.mail().host() != given.mail().host()) {
      return bad_notice(
          fmt::format("mail: password: {} stands for the stored one, and none is stored for this server; "
                      "give the password",
                      kHiddenSecret));
    }
    given.mutable_mail()->set_password(stored.mail().password());
  }
  return {};
}

v1::QueueSettings without_secrets(v1::QueueSettings settings) {
  for (v1::Notification& each : *settings.mutable_notifications()) {
    each.set_url(hidden_url(each.url()));
    if (!each.secret().empty()) each.set_secret(std::string(kHiddenSecret));
  }
  if (!settings.mail().password().empty()) settings.mutable_mail()->set_password(std::string(kHiddenSecret));
  return settings;
}

Result<void> check_notifications(v1::QueueSettings& settings) {
  if (settings.mail().ByteSizeLong() == 0) settings.clear_mail();
  if (settings.has_mail()) VOLADOR_TRY(check_mail(*settings.mutable_mail()));
  if (settings.notifications_size() > kNotificationsMax)
    return bad_notice(
        fmt::format("notifications: expected at most {}, got {}", kNotificationsMax, settings.notifications_size()));
  std::set<std::string> names;
  for (const v1::Notification& each : settings.notifications()) {
    const std::string& name = each.name();
    if (name.empty() || name.size() > kNoticeNameBytesMax || !is_visible(name) || name.find('@') != std::string::npos) {
      return bad_notice(
          fmt::format("notifications: expected a name of 1 to {} letters, digits and signs without @, got \"{}\"",
                      kNoticeNameBytesMax, plain_text(name, 300)));
    }
    if (!names.insert(name).second)
      return bad_notice(fmt::format("notifications: {} is given twice; remove one", name));
    VOLADOR_TRY(check_notification(each, settings.has_mail()));
  }
  return {};
}

Result<void> check_notify(const v1::QueueSettings& settings, const v1::JobSpec& spec) {
  if (spec.notify_size() > kNotifyMax)
    return bad_notice(fmt::format("notify: expected at most {}, got {}", kNotifyMax, spec.notify_size()));
  std::vector<std::string> names;
  for (const v1::Notification& each : settings.notifications()) names.push_back(each.name());
  for (const std::string& each : spec.notify()) {
    if (each.find('@') != std::string::npos) {
      VOLADOR_TRY(check_address("notify", each));
      if (settings.has_mail()) continue;
      return bad_notice(
          fmt::format("notify: {} is a mail address, and the cluster has no server for mail; an operator "
                      "adds `mail` to its settings with `volador job queue --apply`{}",
                      each, names.empty() ? "" : fmt::format(", or name one of {}", fmt::join(names, ", "))));
    }
    if (std::ranges::find(names, each) != names.end()) continue;
    return make_error(
        ErrorCode::kNotFound,
        names.empty() ? fmt::format("notify: there is no notification \"{}\"; the settings have none, and an operator "
                                    "adds them with `volador job queue --apply`",
                                    plain_text(each, 300))
                      : fmt::format("notify: there is no notification \"{}\"{}; the names are {}",
                                    plain_text(each, 300), did_you_mean(each, names), fmt::join(names, ", ")));
  }
  return {};
}

}  // namespace volador::jobs
