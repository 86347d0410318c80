// Sign-ins by the provider that have begun: those of browsers, and those of command lines. Bounded.
// Pure: time is an argument; only random secrets are drawn. Secrets are looked up by their hash.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "head/sign_on/sign_on_options.h"
#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::head {

// Random text of letters and digits, 256 bits.
std::string sign_on_secret();

// Browsers that are at the provider.
class BrowserSignIns {
 public:
  static constexpr std::chrono::minutes kLife{10};
  static constexpr size_t kMax = 5000;
  static constexpr size_t kPerPeerMax = 200;  // Beyond it the peer's oldest is dropped.

  struct SignIn {
    std::string nonce, verifier;  // See AuthorizationRequest.
    std::string callback;
    std::string next;
    std::string user_code;  // That of a command line; empty: for the browser itself.
    std::string peer;
  };
  struct Begun {
    std::string state;    // Goes to the provider and comes back.
    std::string binding;  // Stays with the browser.
    SignIn sign_in;       // With its secrets.
  };
  // Draws the secrets. kUnavailable: kMax have begun.
  [[nodiscard]] Result<Begun> begin(SignIn sign_in, BootTime now);
  // Ends it: a second call with the same state fails. kPermissionDenied: the state is unknown, used or expired, or it
  // belongs to another browser.
  [[nodiscard]] Result<SignIn> take(const std::string& state, const std::string& binding, BootTime now);

 private:
  struct Entry {
    SignIn sign_in;
    std::string binding_hash;
    BootTime began{};
  };
  void forget_old(BootTime now);

  std::map<std::string, Entry> entries_;  // By hash of the state.
};

// Command lines that wait for their user.
class DeviceSignIns {
 public:
  static constexpr std::chrono::minutes kLife{10};
  static constexpr size_t kMax = 1000;
  static constexpr size_t kPerPeerMax = 20;

  struct SignIn {
    std::string peer;
    std::chrono::seconds valid{};  // Validity of the token.
    std::string user_code;
    std::string device_code = {};  // The provider's; empty: the user signs in through the dashboard.
    BootTime expires{};
    std::chrono::seconds interval{2};
    BootTime next_ask{};  // When the provider may be asked again.
    bool asking = false;
    std::optional<SignOnIdentity> to_approve = {};  // Signed in, and not approved yet.
    std::optional<SignOnIdentity> approved = {};
  };

  // kUnavailable: too many wait. Returns the handle.
  [[nodiscard]] Result<std::string> begin(SignIn sign_in, BootTime now);
  // A code that no other sign-in has, for people to compare: "BCDF-GHJK".
  std::string new_user_code() const;
  // Null: unknown or expired. Valid until the next call.
  SignIn* find(const std::string& handle, BootTime now);
  SignIn* find_code(const std::string& user_code, BootTime now);
  void end(const std::string& handle);

  // Keeps the person for approval, and returns the secret for it.
  std::string await_approval(SignIn& sign_in, SignOnIdentity who);
  // Approves once. kNotFound: the secret is unknown or used, or the command line waits no longer.
  [[nodiscard]] Result<SignIn*> approve(const std::string& approval, BootTime now);

 private:
  void forget_old(BootTime now);

  struct Entry {
    SignIn sign_in;
    std::string approval_hash;  // Empty: nothing to approve.
  };
  std::map<std::string, Entry> entries_;  // By hash of the handle.
};

}  // namespace volador::head
