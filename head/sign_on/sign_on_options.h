// Sign-in by an OpenID Connect provider: how it is configured, and what the provider says about a person.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "runtime/security/secret.h"
#include "runtime/security/user.h"

namespace volador::head {

struct SignOnOptions {
  std::string issuer;  // URL, as the provider's tokens have it.
  std::string client_id;
  security::Secret client_secret = {};  // Empty: a public client.
  std::string label;                    // Name of the provider, for people.
  std::string scopes = "openid profile email";
  std::string name_claim = "preferred_username";
  std::string full_name_claim = "name";
  std::string mail_claim = "email";
  std::string groups_claim = {};                        // Empty: groups are left as they are.
  security::UserRole role = security::UserRole::kUser;  // Role of new users.
  bool create_users = true;                             // Adds users that sign in for the first time.
  bool device_grant = true;  // Command lines sign in by the device grant of a provider that has it.
  bool link_users = false;   // A user without a subject belongs to the first person of this name who signs in.
  std::set<std::string> allowed_domains = {};  // Domains of mail addresses, in lower case; empty: all.
  std::set<std::string> allowed_groups = {};   // As the provider names them; empty: all.
};

// A person whom the provider has authenticated.
struct SignOnIdentity {
  std::string subject;  // "sub"; unique at the provider and permanent.
  std::string name;     // A name for the user; may break the rule of user names.
  std::string full_name = {};
  std::string mail = {};
  std::optional<std::set<std::string>> groups = {};  // Names of groups of the cluster; unset: they are not configured.
};

}  // namespace volador::head
