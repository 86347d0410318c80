// Sign-in by an OpenID Connect provider: talks to the provider on a thread of its own, and hands the people whom the
// provider has authenticated on.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "head/shell/bounded_worker.h"
#include "head/sign_on/pending_sign_ins.h"
#include "head/sign_on/provider.h"
#include "head/sign_on/sign_on_options.h"
#include "runtime/clock.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"
#include "runtime/security/sign_on_service.h"
#include "runtime/security/web_token.h"

namespace volador::head {

// Thread safe. The provider's description and keys are kept for kKeepFor; a token with an unknown key has the keys
// fetched again, at most once in kKeysPause.
class SignOn final : public security::SignOnService {
 public:
  static constexpr std::chrono::seconds kTimeout{5};  // Limit of one request to the provider.
  static constexpr std::chrono::minutes kKeepFor{60};
  static constexpr std::chrono::seconds kKeysPause{1};

  using OnDone = std::function<void(Result<v1::LoginReply>)>;
  struct Parts {
    SignOnOptions options;
    const Clock& clock;
    // The user that the person is; refuses as admit() would.
    std::function<Result<std::string>(const SignOnIdentity& who)> user_of;
    // Signs the person in, on this object's thread. `valid`: of the token.
    std::function<void(const SignOnIdentity& who, std::chrono::seconds valid, const std::string& peer, OnDone done)>
        admit;
    // A sign-in that failed after the provider was asked.
    std::function<void(const std::string& user, const std::string& peer, const Error& error)> on_refused;
  };
  explicit SignOn(Parts parts) : parts_(std::move(parts)) {}
  ~SignOn() override { stop(); }

  // The address of the dashboard, to which the provider sends browsers back. Without it only devices sign in.
  void set_page(std::string url);
  // Ends the running request; drops what waits. Idempotent.
  void stop();

  std::string label() const override { return parts_.options.label; }
  void begin(Begin request, Done<Begun> done) override;
  void finish(Callback callback, Done<Finished> done) override;
  void approve(std::string approval, Done<std::string> done) override;

  // Users/StartProviderLogin and Users/PollProviderLogin.
  void start(std::chrono::seconds valid, const std::string& peer, Done<v1::StartProviderLoginReply> done);
  void poll(const std::string& handle, Done<v1::PollProviderLoginReply> done);

 private:
  template <class T>
  void queue(Done<T> done, std::function<void()> piece);
  // All of these run on the thread.
  Result<ProviderMetadata> provider();
  Result<void> fetch_keys(const ProviderMetadata& from);
  Result<outgoing::Answer> document(const std::string& url, std::vector<std::string> headers = {});
  Result<std::string> verified(const ProviderMetadata& from, const std::string& id_token);
  Result<SignOnIdentity> person_of(const ProviderMetadata& from, const Tokens& tokens, const std::string& nonce);
  Result<SignOnIdentity> person_of_code(const BrowserSignIns::SignIn& sign_in, const Callback& callback);
  Result<Finished> ask_approval(const BrowserSignIns::SignIn& sign_in, SignOnIdentity who);
  void finish_here(const Callback& callback, const Done<Finished>& done);
  Result<v1::StartProviderLoginReply> start_here(std::chrono::seconds valid, const std::string& peer);
  void ask_for_device(const std::string& handle, const std::string& device_code,
                      const Done<v1::PollProviderLoginReply>& done);
  void give_login(const SignOnIdentity& who, std::chrono::seconds valid, const std::string& peer,
                  const Done<v1::PollProviderLoginReply>& done);
  std::string page() const;

  const Parts parts_;
  mutable std::mutex mutex_;
  BrowserSignIns browsers_;
  DeviceSignIns devices_;
  std::string page_;

  // Confined to the thread.
  std::optional<ProviderMetadata> provider_;
  BootTime provider_since_{};
  std::optional<security::WebKeys> keys_;
  BootTime keys_since_{};

  outgoing::Transfer transfer_;
  BoundedWorker worker_;  // Last member: nothing runs once it is destroyed.
};

}  // namespace volador::head
