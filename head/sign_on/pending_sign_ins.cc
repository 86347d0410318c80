#include "head/sign_on/pending_sign_ins.h"

#include <algorithm>

#include "runtime/base64.h"
#include "runtime/security/digest.h"
#include "runtime/security/secret.h"

namespace volador::head {
namespace {

constexpr size_t kSignOnSecretBytes = 32;
constexpr std::string_view kCodeLetters = "BCDFGHJKLMNPQRSTVWXZ";  // No vowels, no words.

std::string hash_of_secret(const std::string& text) { return security::hex(security::sha256(text)); }

tl::unexpected<Error> wrong_state() {
  return make_error(
      ErrorCode::kPermissionDenied,
      "this sign-in is unknown, was used already, has expired or began in another browser; begin it again");
}

}  // namespace

std::string sign_on_secret() { return base64url(security::Secret::random(kSignOnSecretBytes).reveal()); }

void BrowserSignIns::forget_old(BootTime now) {
  std::erase_if(entries_, [now](const auto& entry) { return entry.second.began + kLife <= now; });
}

Result<BrowserSignIns::Begun> BrowserSignIns::begin(SignIn sign_in, BootTime now) {
  forget_old(now);
  size_t of_peer = 0;
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.sign_in.peer != sign_in.peer) continue;
    ++of_peer;
    if (oldest == entries_.end() || entry->second.began < oldest->second.began) oldest = entry;
  }
  if (of_peer >= kPerPeerMax) entries_.erase(oldest);
  if (entries_.size() >= kMax) return make_error(ErrorCode::kUnavailable, "too many sign-ins at once; try again later");
  sign_in.nonce = sign_on_secret();
  sign_in.verifier = sign_on_secret();
  Begun begun{.state = sign_on_secret(), .binding = sign_on_secret(), .sign_in = std::move(sign_in)};
  entries_[hash_of_secret(begun.state)] = {
      .sign_in = begun.sign_in, .binding_hash = hash_of_secret(begun.binding), .began = now};
  return begun;
}

Result<BrowserSignIns::SignIn> BrowserSignIns::take(const std::string& state, const std::string& binding,
                                                    BootTime now) {
  forget_old(now);
  const auto found = entries_.find(hash_of_secret(state));
  if (found == entries_.end() || found->second.binding_hash != hash_of_secret(binding)) return wrong_state();
  SignIn taken = std::move(found->second.sign_in);
  entries_.erase(found);
  return taken;
}

void DeviceSignIns::forget_old(BootTime now) {
  std::erase_if(entries_, [now](const auto& entry) { return entry.second.sign_in.expires <= now; });
}

Result<std::string> DeviceSignIns::begin(SignIn sign_in, BootTime now) {
  forget_old(now);
  const auto of_peer = std::count_if(entries_.begin(), entries_.end(),
                                     [&](const auto& entry) { return entry.second.sign_in.peer == sign_in.peer; });
  if (entries_.size() >= kMax || static_cast<size_t>(of_peer) >= kPerPeerMax)
    return make_error(ErrorCode::kUnavailable, "too many sign-ins wait for their user; try again in some minutes");
  std::string handle = sign_on_secret();
  entries_[hash_of_secret(handle)] = {.sign_in = std::move(sign_in), .approval_hash = {}};
  return handle;
}

std::string DeviceSignIns::new_user_code() const {
  // 240 is a multiple of 20; larger bytes would prefer some letters.
  constexpr unsigned kFair = 240;
  constexpr size_t kLetters = 8;
  std::string code;
  while (code.size() < kLetters + 1) {
    const security::Secret bytes = security::Secret::random(kLetters);
    for (const char byte : bytes.reveal()) {
      const auto value = static_cast<unsigned char>(byte);
      if (value >= kFair || code.size() > kLetters) continue;
      if (code.size() == kLetters / 2) code += '-';
      code += kCodeLetters[value % kCodeLetters.size()];
    }
  }
  const bool is_taken = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.second.sign_in.user_code == code; });
  return is_taken ? new_user_code() : code;
}

DeviceSignIns::SignIn* DeviceSignIns::find(const std::string& handle, BootTime now) {
  forget_old(now);
  const auto found = entries_.find(hash_of_secret(handle));
  return found == entries_.end() ? nullptr : &found->second.sign_in;
}

DeviceSignIns::SignIn* DeviceSignIns::find_code(const std::string& user_code, BootTime now) {
  forget_old(now);
  for (auto& [hash, entry] : entries_) {
    if (entry.sign_in.device_code.empty() && entry.sign_in.user_code == user_code) return &entry.sign_in;
  }
  return nullptr;
}

void DeviceSignIns::end(const std::string& handle) { entries_.erase(hash_of_secret(handle)); }

std::string DeviceSignIns::await_approval(SignIn& sign_in, SignOnIdentity who) {
  std::string approval = sign_on_secret();
  sign_in.to_approve = std::move(who);
  for (auto& [hash, entry] : entries_) {
    if (&entry.sign_in == &sign_in) entry.approval_hash = hash_of_secret(approval);
  }
  return approval;
}

Result<DeviceSignIns::SignIn*> DeviceSignIns::approve(const std::string& approval, BootTime now) {
  forget_old(now);
  const std::string hash = hash_of_secret(approval);
  for (auto& [handle, entry] : entries_) {
    if (entry.approval_hash.empty() || entry.approval_hash != hash) continue;
    entry.approval_hash.clear();
    entry.sign_in.approved = std::exchange(entry.sign_in.to_approve, std::nullopt);
    return &entry.sign_in;
  }
  return make_error(ErrorCode::kNotFound,
                    "no command line waits for this approval any more; begin again with `volador login --provider`");
}

}  // namespace volador::head
