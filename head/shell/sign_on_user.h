// Which user a person is who signs in by the provider. Pure.
#pragma once

#include "head/shell/user_table.h"
#include "head/sign_on/sign_on_options.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"

namespace volador::head {

// The user to store: the one with the subject, with the provider's name and mail; else one of the same name that may be
// linked; else a new one. Role and state of existing users stay.
// kPermissionDenied: the user is disabled, there is no such user and none may be added, the name belongs to someone else, or it breaks the
// rule of user names; the message has the next step.
[[nodiscard]] Result<v1::User> user_for(const UserTable& users, const SignOnIdentity& who,
                                        const SignOnOptions& options);

}  // namespace volador::head
