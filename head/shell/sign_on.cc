#include "head/shell/sign_on.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "head/sign_on/id_token.h"
#include "runtime/log.h"

namespace volador::head {
namespace {

int64_t milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

Error no_such_device() {
  return {ErrorCode::kNotFound, "this sign-in has ended or expired; begin again with `volador login --provider`"};
}

}  // namespace

template <class T>
void SignOn::queue(Done<T> done, std::function<void()> piece) {
  if (worker_.add(std::move(piece))) return;
  done(
      make_error(ErrorCode::kUnavailable, "too many sign-ins at once, or the provider is slow; try again in a minute"));
}

void SignOn::set_page(std::string url) {
  const std::lock_guard lock(mutex_);
  page_ = std::move(url);
}

std::string SignOn::page() const {
  const std::lock_guard lock(mutex_);
  return page_;
}

void SignOn::stop() {
  transfer_.end();
  worker_.stop();
}

Result<outgoing::Answer> SignOn::document(const std::string& url, std::vector<std::string> headers) {
  headers.emplace_back("Accept: application/json");
  auto answer = transfer_.fetch({.url = url, .headers = std::move(headers)}, kTimeout);
  if (answer.delivered) return answer;
  return make_error(ErrorCode::kUnavailable, fmt::format("{} cannot be reached at {}: {}; try again, or sign in with a "
                                                         "password",
                                                         label(), url, answer.why));
}

Result<ProviderMetadata> SignOn::provider() {
  const BootTime now = parts_.clock.now();
  if (provider_ && now < provider_since_ + kKeepFor) return *provider_;
  auto answer = document(discovery_url(parts_.options.issuer));
  if (!answer) return make_error(answer.error());
  auto found = parse_metadata(answer->body, parts_.options.issuer);
  if (!found) {
    log::error("sign_on", "the provider's description cannot be used", {{"why", found.error().message}});
    return make_error(found.error());
  }
  provider_ = *found;
  provider_since_ = now;
  keys_.reset();
  return found;
}

Result<void> SignOn::fetch_keys(const ProviderMetadata& from) {
  auto answer = document(from.keys_url);
  if (!answer) return make_error(answer.error());
  auto keys = security::WebKeys::parse(answer->body);
  if (!keys)
    return make_error(ErrorCode::kUnavailable, fmt::format("the keys at {}: {}", from.keys_url, keys.error().message));
  keys_ = std::move(*keys);
  keys_since_ = parts_.clock.now();
  return {};
}

// The payload of the token. A provider changes its keys from time to time.
Result<std::string> SignOn::verified(const ProviderMetadata& from, const std::string& id_token) {
  if (!keys_ || parts_.clock.now() >= keys_since_ + kKeepFor) VOLADOR_TRY(fetch_keys(from));
  auto payload = keys_->payload_of(id_token);
  const bool may_be_new = !payload && payload.error().code == ErrorCode::kNotFound;
  if (may_be_new && parts_.clock.now() >= keys_since_ + kKeysPause) {
    VOLADOR_TRY(fetch_keys(from));
    payload = keys_->payload_of(id_token);
  }
  if (!payload) return make_error(ErrorCode::kUnauthenticated, payload.error().message);
  return payload;
}

Result<SignOnIdentity> SignOn::person_of(const ProviderMetadata& from, const Tokens& tokens, const std::string& nonce) {
  const SignOnOptions& options = parts_.options;
  const auto payload = verified(from, tokens.id_token);
  if (!payload) return make_error(payload.error());
  auto claims = check_id_token(*payload, {.issuer = options.issuer, .client_id = options.client_id, .nonce = nonce},
                               parts_.clock.wall());
  if (!claims) return make_error(claims.error());
  if (lacks_claims(*claims, options) && !from.user_info_url.empty() && !tokens.access_token.empty()) {
    auto info = document(from.user_info_url, {"Authorization: Bearer " + tokens.access_token});
    if (!info) return make_error(info.error());
    VOLADOR_TRY(add_user_info(*claims, info->body));
  }
  return identity_of(*claims, options);
}

// ---- browsers ----

void SignOn::begin(Begin request, Done<Begun> done) {
  if (const auto next = security::check_next(request.next); !next) return done(make_error(next.error()));
  queue(done, [this, request = std::move(request), done] {
    const std::string here = page();
    if (here.empty()) return done(make_error(ErrorCode::kUnavailable, "the dashboard is not ready; try again"));
    const auto from = provider();
    if (!from) return done(make_error(from.error()));
    Result<BrowserSignIns::Begun> begun = make_error(ErrorCode::kUnavailable, "");
    {
      const std::lock_guard lock(mutex_);
      const BootTime now = parts_.clock.now();
      const bool is_known = request.user_code.empty() || devices_.find_code(request.user_code, now) != nullptr;
      begun = !is_known ? Result<BrowserSignIns::Begun>(make_error(no_such_device()))
                        : browsers_.begin({.callback = here + "/login/provider/callback",
                                           .next = request.next,
                                           .user_code = request.user_code,
                                           .peer = request.peer},
                                          now);
    }
    if (!begun) return done(make_error(begun.error()));
    done(Begun{.url = authorization_url(*from, parts_.options,
                                        {.callback = begun->sign_in.callback,
                                         .state = begun->state,
                                         .nonce = begun->sign_in.nonce,
                                         .verifier = begun->sign_in.verifier}),
               .binding = begun->binding});
  });
}

Result<SignOnIdentity> SignOn::person_of_code(const BrowserSignIns::SignIn& sign_in, const Callback& callback) {
  const auto from = provider();
  if (!from) return make_error(from.error());
  // An answer of another provider that the browser was led to (RFC 9207).
  const bool is_other = callback.issuer.empty() ? from->names_itself : callback.issuer != from->issuer;
  if (is_other) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("the answer is of the issuer \"{}\", expected \"{}\"; begin the sign-in again",
                                  shown_text(callback.issuer), from->issuer));
  }
  if (!callback.error.empty()) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{} did not sign you in: {}", label(), shown_text(callback.error)));
  }
  if (callback.code.empty())
    return make_error(ErrorCode::kInvalidArgument, "the answer of the provider has no code; begin the sign-in again");
  const auto answer =
      transfer_.fetch(code_request(*from, parts_.options, callback.code, sign_in.verifier, sign_in.callback), kTimeout);
  bool slower = false;
  const auto tokens = parse_tokens(answer, slower);
  if (!tokens) return make_error(tokens.error());
  if (!*tokens) return make_error(ErrorCode::kUnavailable, "the provider gives no tokens yet; begin the sign-in again");
  return person_of(*from, **tokens, sign_in.nonce);
}

void SignOn::finish(Callback callback, Done<Finished> done) {
  queue(done, [this, callback = std::move(callback), done] { finish_here(callback, done); });
}

// A command line does not get its token from a browser that was only led here: its user compares the code first.
Result<SignOn::Finished> SignOn::ask_approval(const BrowserSignIns::SignIn& sign_in, SignOnIdentity who) {
  auto user = parts_.user_of(who);
  if (!user) return make_error(user.error());
  Finished finished;
  finished.next = sign_in.next;
  finished.user_code = sign_in.user_code;
  finished.user = std::move(*user);
  const std::lock_guard lock(mutex_);
  auto* device = devices_.find_code(sign_in.user_code, parts_.clock.now());
  if (device == nullptr) return make_error(no_such_device());
  finished.device = device->peer;
  finished.approval = devices_.await_approval(*device, std::move(who));
  return finished;
}

void SignOn::finish_here(const Callback& callback, const Done<Finished>& done) {
  Result<BrowserSignIns::SignIn> sign_in = make_error(ErrorCode::kPermissionDenied, "");
  {
    const std::lock_guard lock(mutex_);
    sign_in = browsers_.take(callback.state, callback.binding, parts_.clock.now());
  }
  if (!sign_in) return done(make_error(sign_in.error()));
  auto who = person_of_code(*sign_in, callback);
  if (!who) {
    parts_.on_refused("", callback.peer, who.error());
    return done(make_error(who.error()));
  }
  if (!sign_in->user_code.empty()) return done(ask_approval(*sign_in, std::move(*who)));
  parts_.admit(*who, std::chrono::seconds(0), callback.peer,
               [done, next = sign_in->next](const Result<v1::LoginReply>& reply) {
                 if (!reply) return done(make_error(reply.error()));
                 Finished finished;
                 finished.token = reply->token();
                 finished.next = next;
                 done(std::move(finished));
               });
}

void SignOn::approve(std::string approval, Done<std::string> done) {
  Result<SignOnIdentity> who = make_error(ErrorCode::kNotFound, "");
  {
    const std::lock_guard lock(mutex_);
    auto device = devices_.approve(approval, parts_.clock.now());
    who = device ? Result<SignOnIdentity>(*(*device)->approved) : make_error(device.error());
  }
  done(who ? parts_.user_of(*who) : Result<std::string>(make_error(who.error())));
}

// ---- command lines ----

void SignOn::start(std::chrono::seconds valid, const std::string& peer, Done<v1::StartProviderLoginReply> done) {
  queue(done, [this, valid, peer, done] { done(start_here(valid, peer)); });
}

Result<v1::StartProviderLoginReply> SignOn::start_here(std::chrono::seconds valid, const std::string& peer) {
  const auto from = provider();
  if (!from) return make_error(from.error());
  const BootTime now = parts_.clock.now();
  DeviceSignIns::SignIn sign_in{.peer = peer, .valid = valid, .user_code = {}, .expires = now + DeviceSignIns::kLife};
  std::string url;
  if (parts_.options.device_grant && !from->device_url.empty()) {
    auto grant = parse_device_grant(transfer_.fetch(device_request(*from, parts_.options), kTimeout));
    if (!grant) return make_error(grant.error());
    sign_in.user_code = grant->user_code;
    sign_in.device_code = grant->device_code;
    sign_in.interval = grant->interval;
    sign_in.expires = now + grant->valid;
    sign_in.next_ask = now + grant->interval;
    url = grant->url;
  } else if (page().empty()) {
    return make_error(
        ErrorCode::kInfeasible,
        fmt::format("{} has no sign-in of devices, and this head has no dashboard for a browser; start it "
                    "without --no-dashboard, or sign in with a password",
                    label()));
  }
  const std::lock_guard lock(mutex_);
  if (sign_in.device_code.empty()) {
    sign_in.user_code = devices_.new_user_code();
    url = fmt::format("{}/login/provider?code={}", page_, sign_in.user_code);
  }
  v1::StartProviderLoginReply reply;
  reply.set_url(url);
  reply.set_user_code(sign_in.user_code);
  reply.set_provider(label());
  reply.set_expires_ms(milliseconds(parts_.clock.wall().time_since_epoch() + (sign_in.expires - now)));
  reply.set_interval_ms(milliseconds(sign_in.interval));
  auto handle = devices_.begin(std::move(sign_in), now);
  if (!handle) return make_error(handle.error());
  reply.set_handle(*handle);
  return reply;
}

void SignOn::poll(const std::string& handle, Done<v1::PollProviderLoginReply> done) {
  v1::PollProviderLoginReply pending;
  pending.set_pending(true);
  std::string device_code, peer;
  std::chrono::seconds valid{};
  std::optional<SignOnIdentity> who;
  {
    const std::lock_guard lock(mutex_);
    const BootTime now = parts_.clock.now();
    auto* sign_in = devices_.find(handle, now);
    if (sign_in == nullptr) return done(make_error(no_such_device()));
    pending.set_interval_ms(milliseconds(sign_in->interval));
    valid = sign_in->valid;
    peer = sign_in->peer;
    who = sign_in->approved;
    const bool asks = !who && !sign_in->device_code.empty() && !sign_in->asking && now >= sign_in->next_ask;
    if (asks) {
      sign_in->asking = true;
      device_code = sign_in->device_code;
    }
    if (who) devices_.end(handle);
  }
  if (!who && device_code.empty()) return done(std::move(pending));
  const auto piece = [this, handle, device_code, who, valid, peer, done] {
    if (who) return give_login(*who, valid, peer, done);
    ask_for_device(handle, device_code, done);
  };
  if (worker_.add(piece)) return;
  {
    const std::lock_guard lock(mutex_);
    if (auto* sign_in = devices_.find(handle, parts_.clock.now())) sign_in->asking = false;
  }
  done(who ? Result<v1::PollProviderLoginReply>(
                 make_error(ErrorCode::kUnavailable, "too many sign-ins at once; begin again"))
           : Result<v1::PollProviderLoginReply>(std::move(pending)));
}

void SignOn::ask_for_device(const std::string& handle, const std::string& device_code,
                            const Done<v1::PollProviderLoginReply>& done) {
  const auto from = provider();
  const auto answer =
      from ? transfer_.fetch(device_code_request(*from, parts_.options, device_code), kTimeout) : outgoing::Answer();
  bool slower = false;
  auto tokens = parse_tokens(answer, slower);
  // Without any answer the provider is asked again (RFC 8628, section 3.5).
  if (!tokens && answer.status == 0) {
    slower = true;
    tokens = std::optional<Tokens>();
  }
  v1::PollProviderLoginReply pending;
  std::chrono::seconds valid{};
  std::string peer;
  {
    const std::lock_guard lock(mutex_);
    auto* sign_in = devices_.find(handle, parts_.clock.now());
    if (sign_in == nullptr) return done(make_error(no_such_device()));
    constexpr std::chrono::seconds kSlower{5};
    if (slower) sign_in->interval += kSlower;
    sign_in->asking = false;
    sign_in->next_ask = parts_.clock.now() + sign_in->interval;
    pending.set_pending(true);
    pending.set_interval_ms(milliseconds(sign_in->interval));
    valid = sign_in->valid;
    peer = sign_in->peer;
    if (!tokens || *tokens) devices_.end(handle);
  }
  if (tokens && !*tokens) return done(std::move(pending));
  auto who = tokens ? person_of(*from, **tokens, "") : Result<SignOnIdentity>(make_error(tokens.error()));
  if (!who) {
    parts_.on_refused("", peer, who.error());
    return done(make_error(who.error()));
  }
  give_login(*who, valid, peer, done);
}

void SignOn::give_login(const SignOnIdentity& who, std::chrono::seconds valid, const std::string& peer,
                        const Done<v1::PollProviderLoginReply>& done) {
  parts_.admit(who, valid, peer, [done](const Result<v1::LoginReply>& reply) {
    if (!reply) return done(make_error(reply.error()));
    v1::PollProviderLoginReply out;
    *out.mutable_login() = *reply;
    done(std::move(out));
  });
}

}  // namespace volador::head
