#include "head/shell/user_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "head/shell/audit_log.h"
#include "head/shell/authorizer.h"
#include "head/shell/bounded_worker.h"
#include "head/shell/core_runner.h"
#include "head/shell/password.h"
#include "head/shell/sign_on.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/security/authority.h"
#include "runtime/security/user.h"

namespace volador::head {
namespace {

using security::Principal;
using security::UserRole;

constexpr std::chrono::seconds kSignInDefault = std::chrono::hours(7 * 24);
constexpr std::chrono::seconds kSignInMax = std::chrono::hours(90 * 24);

Error wrong_sign_in() {
  return {ErrorCode::kUnauthenticated,
          "the user or the password is wrong, or the user is disabled; an operator sets a new password with `volador "
          "user password`"};
}

Error no_provider() {
  return {ErrorCode::kNotFound,
          "this cluster has no provider of sign-ins; sign in with a password, or set oidc.issuer and oidc.client_id "
          "where the head starts"};
}

Result<std::chrono::seconds> sign_in_time(int64_t valid_s) {
  if (valid_s >= 0 && valid_s <= kSignInMax.count())
    return valid_s == 0 ? kSignInDefault : std::chrono::seconds(valid_s);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("valid_s: expected 0 (7 days) to {} (90 days), got {}", kSignInMax.count(), valid_s));
}

// The project that names the group; empty: none.
std::string project_with(const v1::QueueSettings& settings, const std::string& group) {
  for (const v1::Project& project : settings.projects()) {
    for (const std::string& member : project.members()) {
      if (security::group_in(member) == group) return project.name();
    }
  }
  return {};
}

Error no_user(const Principal& by) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} has no user; sign in with `volador login --user=NAME`", by.name)};
}

int64_t milliseconds_of(int64_t wall_ns) { return wall_ns / 1'000'000; }

// What a caller of this role may hand on.
UserRole user_role_of(security::Role role) {
  return role == security::Role::kOperator ? UserRole::kOperator
         : role == security::Role::kDriver ? UserRole::kUser
                                           : UserRole::kViewer;
}

// Shared by the handlers.
class Users : public std::enable_shared_from_this<Users> {
 public:
  template <class T>
  using Done = operations::Registry::Done<T>;

  Users(operations::Registry& registry, UserOperations parts) : registry_(registry), parts_(std::move(parts)) {}

  SignOnAdmission serve();

 private:
  template <class Request, class Reply>
  void handle(std::string_view name, void (Users::*handler)(const Principal&, const Request&, Done<Reply>)) {
    registry_.serve<Request, Reply>(
        name, [self = shared_from_this(), handler](const Principal& by, const Request& request, Done<Reply> done) {
          (self.get()->*handler)(by, request, std::move(done));
        });
  }
  void list(const Principal& by, const v1::ListUsersRequest& request, Done<v1::ListUsersReply> done);
  void put(const Principal& by, const v1::PutUserRequest& request, Done<v1::PutUserReply> done);
  void remove(const Principal& by, const v1::DeleteUserRequest& request, Done<v1::DeleteUserReply> done);
  void change_password(const Principal& by, const v1::ChangePasswordRequest& request,
                       Done<v1::ChangePasswordReply> done);
  void login(const Principal& by, const v1::LoginRequest& request, Done<v1::LoginReply> done);
  void logout(const Principal& by, const v1::LogoutRequest& request, Done<v1::LogoutReply> done);
  void create_token(const Principal& by, const v1::CreateUserTokenRequest& request,
                    Done<v1::CreateUserTokenReply> done);
  void who_am_i(const Principal& by, const v1::WhoAmIRequest& request, Done<v1::WhoAmIReply> done);

  void list_groups(const Principal& by, const v1::ListUserGroupsRequest& request, Done<v1::ListUserGroupsReply> done);
  void create_group(const Principal& by, const v1::CreateUserGroupRequest& request,
                    Done<v1::CreateUserGroupReply> done);
  void change_group(const Principal& by, const v1::ChangeUserGroupRequest& request,
                    Done<v1::ChangeUserGroupReply> done);
  void delete_group(const Principal& by, const v1::DeleteUserGroupRequest& request,
                    Done<v1::DeleteUserGroupReply> done);
  void start_provider_login(const Principal& by, const v1::StartProviderLoginRequest& request,
                            Done<v1::StartProviderLoginReply> done);
  void poll_provider_login(const Principal& by, const v1::PollProviderLoginRequest& request,
                           Done<v1::PollProviderLoginReply> done);

  void admit(const SignOnIdentity& who, const SignOnOptions& options, std::chrono::seconds valid,
             const std::string& peer, Done<v1::LoginReply> done);
  v1::User shown(const protocol::UserRecord& user) const;
  template <class Reply>
  void store_group(Result<UserGroupTable::Changed> changed, AuditRequest asked, Done<Reply> done);
  void with_queue(const Principal& by, std::function<void(const Result<v1::GetQueueReply>& queue)> use);
  void apply(const Principal& by, const v1::User& user, const std::string& password_hash, Done<v1::PutUserReply> done);
  void open_sign_in(const protocol::UserRecord& user, std::vector<Mutation> rows, std::chrono::seconds valid,
                    const std::string& note, Done<v1::LoginReply> done);
  template <class Reply>
  void with_password(Done<Reply> done, std::function<void()> piece);
  template <class Reply>
  bool refuses(const std::string& peer, const Done<Reply>& done);
  void refused(const std::string& peer, const std::string& action, const std::string& user, const Error& error);

  // Makes the rows durable, ends what used the revoked tokens, records the outcome, and then answers.
  template <class Reply>
  void store(std::vector<Mutation> rows, std::vector<std::string> revoked, AuditRequest asked, Reply reply,
             Done<Reply> done) {
    parts_.runner.store(std::move(rows),
                        [self = shared_from_this(), revoked = std::move(revoked), asked = std::move(asked),
                         reply = std::move(reply), done = std::move(done)](const Result<void>& stored) {
                          self->record(asked, stored);
                          if (stored) {
                            log::info("head", asked.action, {{"user", asked.object}, {"by", asked.by}});
                            done(reply);
                          } else {
                            done(make_error(stored.error()));
                          }
                          // This head refuses the tokens even if its journal does not have that.
                          for (const std::string& id : revoked) self->parts_.on_revoked(id);
                        });
  }
  void record(AuditRequest asked, const Result<void>& outcome) {
    record_later(parts_.runner, parts_.audit, parts_.clock, std::move(asked), outcome);
  }

  operations::Registry& registry_;
  const UserOperations parts_;
  std::mutex mutex_;
  FailureThrottle throttle_;
};

template <class Reply>
void Users::with_password(Done<Reply> done, std::function<void()> piece) {
  if (parts_.passwords.add(std::move(piece))) return;
  done(make_error(ErrorCode::kUnavailable, "too many sign-ins at once; ask again in a second"));
}

// Whether the peer has given too many wrong passwords.
template <class Reply>
bool Users::refuses(const std::string& peer, const Done<Reply>& done) {
  std::chrono::nanoseconds wait{};
  {
    const std::lock_guard lock(mutex_);
    wait = throttle_.wait(parts_.clock.now(), peer);
  }
  if (wait.count() <= 0) return false;
  done(make_error(ErrorCode::kUnavailable,
                  fmt::format("too many wrong passwords from {}; its sign-ins are refused for another {} s", peer,
                              std::chrono::ceil<std::chrono::seconds>(wait).count())));
  return true;
}

void Users::refused(const std::string& peer, const std::string& action, const std::string& user, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    throttle_.failed(parts_.clock.now(), peer);
  }
  log::warn("head", "wrong password", {{"user", user}, {"peer", peer}});
  record({.by = {}, .action = action, .object = user}, make_error(error));
}

void Users::list(const Principal&, const v1::ListUsersRequest&, Done<v1::ListUsersReply> done) {
  v1::ListUsersReply reply;
  for (const protocol::UserRecord& user : parts_.authorizer.list_users()) *reply.add_users() = shown(user);
  done(std::move(reply));
}

void Users::put(const Principal& by, const v1::PutUserRequest& request, Done<v1::PutUserReply> done) {
  const auto checked = [&]() -> Result<void> {
    VOLADOR_TRY(parts_.authorizer.check_user(request.user()));
    return request.password().empty() ? Result<void>() : security::check_new_password(request.password());
  }();
  if (!checked) {
    record({.by = by.token_id, .action = "put_user", .object = request.user().name()}, checked);
    return done(make_error(checked.error()));
  }
  if (request.password().empty()) return apply(by, request.user(), "", std::move(done));
  with_password(done, [self = shared_from_this(), by, request, done] {
    const auto hash = password_hash(request.password());
    if (!hash) return done(make_error(hash.error()));
    self->apply(by, request.user(), *hash, done);
  });
}

void Users::apply(const Principal& by, const v1::User& user, const std::string& hash, Done<v1::PutUserReply> done) {
  const AuditRequest asked{.by = by.token_id, .action = "put_user", .object = user.name()};
  const auto before = parts_.authorizer.find_user(user.name());
  auto changed = parts_.authorizer.put_user(user, hash);
  if (!changed) {
    record(asked, make_error(changed.error()));
    return done(make_error(changed.error()));
  }
  Authorizer::UserRemoved ended;
  if (before && !hash.empty()) ended = parts_.authorizer.end_sign_ins(user.name());
  std::vector<Mutation> rows = std::move(changed->journal);
  rows.insert(rows.end(), ended.journal.begin(), ended.journal.end());
  if (before && (changed->record.disabled() || role_of(changed->record) < role_of(*before))) {
    parts_.runner.tell([self = shared_from_this(), ids = parts_.authorizer.tokens_of(user.name())](HeadCore&) {
      for (const std::string& id : ids) self->parts_.on_limited(id);
    });
  }
  v1::PutUserReply reply;
  *reply.mutable_user() = shown(changed->record);
  store(std::move(rows), std::move(ended.tokens), asked, std::move(reply), std::move(done));
}

void Users::remove(const Principal& by, const v1::DeleteUserRequest& request, Done<v1::DeleteUserReply> done) {
  const AuditRequest asked{.by = by.token_id, .action = "delete_user", .object = request.user()};
  auto removed = parts_.authorizer.remove_user(request.user());
  if (!removed) {
    record(asked, make_error(removed.error()));
    return done(make_error(removed.error()));
  }
  store(std::move(removed->journal), std::move(removed->tokens), asked, v1::DeleteUserReply(), std::move(done));
}

void Users::change_password(const Principal& by, const v1::ChangePasswordRequest& request,
                            Done<v1::ChangePasswordReply> done) {
  if (by.user.empty()) return done(make_error(no_user(by)));
  if (auto fits = security::check_new_password(request.new_password()); !fits) return done(make_error(fits.error()));
  if (refuses(by.peer, done)) return;
  with_password(done, [self = shared_from_this(), by, request, done] {
    const auto user = self->parts_.authorizer.find_user(by.user);
    if (!user || user->password().empty()) {
      return done(
          make_error(ErrorCode::kInvalidArgument,
                     fmt::format("user {} has no password; an operator sets one with `volador user password {}`",
                                 by.user, by.user)));
    }
    if (!password_matches(request.old_password(), user->password())) {
      const Error wrong{ErrorCode::kPermissionDenied, "old_password: it is not the present password"};
      self->refused(by.peer, "change_password", by.user, wrong);
      return done(make_error(wrong));
    }
    const auto hash = password_hash(request.new_password());
    if (!hash) return done(make_error(hash.error()));
    auto changed = self->parts_.authorizer.set_password(by.user, *hash);
    if (!changed) return done(make_error(changed.error()));
    auto ended = self->parts_.authorizer.end_sign_ins(by.user, by.token_id);
    ended.journal.insert(ended.journal.end(), changed->journal.begin(), changed->journal.end());
    self->store(std::move(ended.journal), std::move(ended.tokens),
                {.by = by.token_id, .action = "change_password", .object = by.user}, v1::ChangePasswordReply(), done);
  });
}

void Users::login(const Principal& by, const v1::LoginRequest& request, Done<v1::LoginReply> done) {
  const auto checked = [&]() -> Result<std::chrono::seconds> {
    VOLADOR_TRY(security::check_user_name("user", request.user()));
    if (request.password().empty() || request.password().size() > security::kPasswordBytesMax)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("password: expected 1 to {} bytes", security::kPasswordBytesMax));
    return sign_in_time(request.valid_s());
  }();
  if (!checked) return done(make_error(checked.error()));
  if (refuses(by.peer, done)) return;
  with_password(done, [self = shared_from_this(), request, valid = *checked, peer = by.peer, done] {
    // As much work for a user that there is not.
    const auto user = self->parts_.authorizer.find_user(request.user());
    const bool may = user && !user->disabled() && !user->password().empty();
    const bool right = password_matches(request.password(), may ? user->password() : hash_of_no_password());
    if (!may || !right) {
      self->refused(peer, "sign_in", request.user(), wrong_sign_in());
      return done(make_error(wrong_sign_in()));
    }
    self->open_sign_in(*user, {}, valid, fmt::format("sign-in from {}", peer), done);
  });
}

// `rows`: to store together with the token.
void Users::open_sign_in(const protocol::UserRecord& user, std::vector<Mutation> rows, std::chrono::seconds valid,
                         const std::string& note, Done<v1::LoginReply> done) {
  auto created = parts_.authorizer.create_token(parts_.authority.fingerprint(), security::token_role_of(role_of(user)),
                                                valid, note, {.user = user.name(), .sign_in = true});
  if (!created) return done(make_error(created.error()));
  v1::LoginReply reply;
  reply.set_token(security::token_text(created->token).reveal());
  *reply.mutable_user() = shown(user);
  reply.set_expires_ms(milliseconds_of(created->record.expires_wall_ns()));
  std::vector<std::string> revoked;
  if (!created->revoked.empty()) revoked.push_back(created->revoked);
  rows.insert(rows.end(), created->journal.begin(), created->journal.end());
  store(std::move(rows), std::move(revoked),
        {.by = created->record.token_id(), .action = "sign_in", .object = user.name()}, std::move(reply),
        std::move(done));
}

void Users::logout(const Principal& by, const v1::LogoutRequest&, Done<v1::LogoutReply> done) {
  const auto token = parts_.authorizer.find_token(by.token_id);
  if (!token || !token->session()) {
    return done(make_error(ErrorCode::kInvalidArgument,
                           fmt::format("{} was not made by signing in; an operator revokes it with `volador token "
                                       "revoke`",
                                       by.name)));
  }
  auto revoked = parts_.authorizer.revoke_token(by.token_id);
  if (!revoked) return done(make_error(revoked.error()));
  store(std::move(revoked->journal), {by.token_id}, {.by = by.token_id, .action = "sign_out", .object = by.user},
        v1::LogoutReply(), std::move(done));
}

void Users::create_token(const Principal& by, const v1::CreateUserTokenRequest& request,
                         Done<v1::CreateUserTokenReply> done) {
  const std::string name = request.user().empty() ? by.user : request.user();
  if (name.empty()) return done(make_error(no_user(by)));
  const bool operates = by.role == security::Role::kOperator;
  if (name != by.user && !operates) {
    return done(make_error(ErrorCode::kPermissionDenied,
                           fmt::format("user: tokens of {} are created by {} and by operators", name, name)));
  }
  const auto user = parts_.authorizer.find_user(name);
  if (!user) {
    return done(make_error(ErrorCode::kNotFound,
                           fmt::format("there is no user \"{}\"; `volador user list` shows the users", name)));
  }
  const UserRole most = operates ? role_of(*user) : std::min(role_of(*user), user_role_of(by.role));
  const auto role = request.role().empty() ? security::token_role_of(most) : security::parse_token_role(request.role());
  if (!role || *role != security::token_role_within(most, *role)) {
    return done(make_error(ErrorCode::kInvalidArgument,
                           fmt::format("role: \"{}\"; user {} may have tokens of role {}", request.role(), name,
                                       most == UserRole::kOperator ? "viewer, driver or operator"
                                       : most == UserRole::kUser   ? "viewer or driver"
                                                                   : "viewer")));
  }
  if (request.valid_s() < 0 || request.valid_s() > std::chrono::seconds(std::chrono::years(100)).count()) {
    return done(make_error(ErrorCode::kInvalidArgument,
                           fmt::format("valid_s: expected 0 (without end) or more, got {}", request.valid_s())));
  }
  auto created =
      parts_.authorizer.create_token(parts_.authority.fingerprint(), *role, std::chrono::seconds(request.valid_s()),
                                     request.note(), {.user = name, .sign_in = false});
  if (!created) return done(make_error(created.error()));
  v1::CreateUserTokenReply reply;
  reply.set_token(security::token_text(created->token).reveal());
  reply.set_token_id(created->record.token_id());
  reply.set_role(created->record.role());
  reply.set_expires_ms(milliseconds_of(created->record.expires_wall_ns()));
  store(std::move(created->journal), {},
        {.by = by.token_id,
         .action = "create_token",
         .object = fmt::format("{} {} {}", created->record.token_id(), created->record.role(), name)},
        std::move(reply), std::move(done));
}

void Users::who_am_i(const Principal& by, const v1::WhoAmIRequest&, Done<v1::WhoAmIReply> done) {
  v1::WhoAmIReply reply;
  reply.set_token_id(by.token_id);
  reply.set_role(std::string(by.role_name));
  reply.set_user(by.user);
  if (by.user.empty()) return done(std::move(reply));
  const std::vector<std::string> groups = parts_.authorizer.groups_of(by.user);
  reply.mutable_groups()->Assign(groups.begin(), groups.end());
  with_queue(by, [by, reply, groups, done](const Result<v1::GetQueueReply>& queue) mutable {
    if (!queue) return done(std::move(reply));  // A head that takes no jobs has no projects.
    for (const v1::Project& project : queue->settings().projects()) {
      if (security::is_member(project.members(), by.user, groups)) reply.add_projects(project.name());
    }
    done(std::move(reply));
  });
}

// Not within the call of a handler, during which withdraw() waits.
void Users::with_queue(const Principal& by, std::function<void(const Result<v1::GetQueueReply>& queue)> use) {
  parts_.runner.tell([self = shared_from_this(), by, use = std::move(use)](HeadCore&) {
    self->registry_.call<v1::GetQueueReply>("Jobs/GetQueue", by, v1::GetQueueRequest(), use);
  });
}

v1::User Users::shown(const protocol::UserRecord& user) const {
  v1::User out = to_api(user);
  for (const std::string& group : parts_.authorizer.groups_of(user.name())) out.add_groups(group);
  return out;
}

// ---- groups ----

void Users::list_groups(const Principal&, const v1::ListUserGroupsRequest&, Done<v1::ListUserGroupsReply> done) {
  v1::ListUserGroupsReply reply;
  for (v1::UserGroup& group : parts_.authorizer.list_groups()) *reply.add_groups() = std::move(group);
  done(std::move(reply));
}

template <class Reply>
void Users::store_group(Result<UserGroupTable::Changed> changed, AuditRequest asked, Done<Reply> done) {
  if (!changed) {
    record(asked, make_error(changed.error()));
    return done(make_error(changed.error()));
  }
  Reply reply;
  if constexpr (requires { reply.mutable_group(); }) *reply.mutable_group() = changed->group;
  store(std::move(changed->journal), {}, std::move(asked), std::move(reply), std::move(done));
}

void Users::create_group(const Principal& by, const v1::CreateUserGroupRequest& request,
                         Done<v1::CreateUserGroupReply> done) {
  store_group(parts_.authorizer.create_group(request.group()),
              {.by = by.token_id, .action = "create_group", .object = request.group().name()}, std::move(done));
}

void Users::change_group(const Principal& by, const v1::ChangeUserGroupRequest& request,
                         Done<v1::ChangeUserGroupReply> done) {
  store_group(parts_.authorizer.change_group(request.group(), {request.add().begin(), request.add().end()},
                                             {request.remove().begin(), request.remove().end()}),
              {.by = by.token_id, .action = "change_group", .object = request.group()}, std::move(done));
}

void Users::delete_group(const Principal& by, const v1::DeleteUserGroupRequest& request,
                         Done<v1::DeleteUserGroupReply> done) {
  with_queue(by, [self = shared_from_this(), by, name = request.group(), done](const Result<v1::GetQueueReply>& queue) {
    const AuditRequest asked{.by = by.token_id, .action = "delete_group", .object = name};
    const std::string project = queue ? project_with(queue->settings(), name) : "";
    if (project.empty()) return self->store_group(self->parts_.authorizer.remove_group(name), asked, done);
    const Error named{ErrorCode::kInvalidArgument,
                      fmt::format("group {0} is a member of project {1}; remove @{0} there with `volador job queue "
                                  "--apply` first",
                                  name, project)};
    self->record(asked, make_error(named));
    done(make_error(named));
  });
}

// ---- sign-in by the provider ----

void Users::start_provider_login(const Principal& by, const v1::StartProviderLoginRequest& request,
                                 Done<v1::StartProviderLoginReply> done) {
  const auto valid = sign_in_time(request.valid_s());
  if (!valid) return done(make_error(valid.error()));
  if (parts_.sign_on == nullptr) return done(make_error(no_provider()));
  parts_.sign_on->start(*valid, by.peer, std::move(done));
}

void Users::poll_provider_login(const Principal&, const v1::PollProviderLoginRequest& request,
                                Done<v1::PollProviderLoginReply> done) {
  if (parts_.sign_on == nullptr) return done(make_error(no_provider()));
  parts_.sign_on->poll(request.handle(), std::move(done));
}

void Users::admit(const SignOnIdentity& who, const SignOnOptions& options, std::chrono::seconds valid,
                  const std::string& peer, Done<v1::LoginReply> done) {
  auto signed_on = parts_.authorizer.sign_on(who, options);
  if (!signed_on) {
    log::warn("head", "a sign-in by the provider was refused",
              {{"subject", who.subject}, {"peer", peer}, {"why", signed_on.error().message}});
    record({.by = {}, .action = "sign_in", .object = who.name}, make_error(signed_on.error()));
    return done(make_error(signed_on.error()));
  }
  if (signed_on->created) record({.by = {}, .action = "put_user", .object = signed_on->user.name()}, {});
  open_sign_in(signed_on->user, std::move(signed_on->journal), valid.count() > 0 ? valid : kSignInDefault,
               fmt::format("sign-in by {} from {}", options.label, peer), std::move(done));
}

SignOnAdmission Users::serve() {
  handle("Users/ListUsers", &Users::list);
  handle("Users/PutUser", &Users::put);
  handle("Users/DeleteUser", &Users::remove);
  handle("Users/ChangePassword", &Users::change_password);
  handle("Users/Login", &Users::login);
  handle("Users/Logout", &Users::logout);
  handle("Users/CreateUserToken", &Users::create_token);
  handle("Users/WhoAmI", &Users::who_am_i);
  handle("Users/ListUserGroups", &Users::list_groups);
  handle("Users/CreateUserGroup", &Users::create_group);
  handle("Users/ChangeUserGroup", &Users::change_group);
  handle("Users/DeleteUserGroup", &Users::delete_group);
  handle("Users/StartProviderLogin", &Users::start_provider_login);
  handle("Users/PollProviderLogin", &Users::poll_provider_login);
  const auto self = shared_from_this();
  return {.admit = [self](const SignOnIdentity& who, const SignOnOptions& options, std::chrono::seconds valid,
                          const std::string& peer,
                          Done<v1::LoginReply> done) { self->admit(who, options, valid, peer, std::move(done)); },
          .on_refused =
              [self](const std::string& user, const std::string& peer, const Error& error) {
                log::warn("head", "a sign-in by the provider failed", {{"peer", peer}, {"why", error.message}});
                self->record({.by = {}, .action = "sign_in", .object = user}, make_error(error));
              }};
}

}  // namespace

SignOnAdmission serve_users(operations::Registry& registry, UserOperations parts) {
  return std::make_shared<Users>(registry, std::move(parts))->serve();
}

}  // namespace volador::head
