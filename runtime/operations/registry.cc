#include "runtime/operations/registry.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <mutex>

#include "runtime/operations/catalogue.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::operations {
namespace {

// The value of the field request_id, which is cleared; empty: there is none.
std::string take_request_id(google::protobuf::Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByName("request_id");
  if (field == nullptr) return "";
  std::string id = request.GetReflection()->GetString(request, field);
  request.GetReflection()->ClearField(&request, field);
  return id;
}

}  // namespace

Registry::Registry()
    : requests_({.refusal = [](const Error& error) -> Result<Reply> { return make_error(error); },
                 .is_failure = [](const Result<Reply>& reply) { return !reply.has_value(); }}) {}

void Registry::add(std::string_view name, const google::protobuf::Descriptor* request,
                   const google::protobuf::Descriptor* reply, Handler handler) {
  const Entry* entry = find(name);
  VOLADOR_CHECK(entry != nullptr, name);
  VOLADOR_CHECK(entry->method->input_type() == request && entry->method->output_type() == reply, name);
  const std::unique_lock lock(mutex_);
  VOLADOR_CHECK(handlers_.emplace(name, std::move(handler)).second, name);
}

void Registry::withdraw(std::string_view service) {
  const std::unique_lock lock(mutex_);
  std::erase_if(handlers_, [&](const auto& one) { return one.first.substr(0, one.first.find('/')) == service; });
}

void Registry::set_absent(std::string_view service, std::string message, ErrorCode code) {
  const std::unique_lock lock(mutex_);
  absent_[std::string(service)] = {code, std::move(message)};
}

Error Registry::absent(const Entry& entry) const {
  const auto found = absent_.find(entry.name.substr(0, entry.name.find('/')));
  if (found != absent_.end()) return found->second;
  return {ErrorCode::kNotFound, fmt::format("{} is not served here", entry.name)};
}

void Registry::call(std::string_view name, const Principal& by, const Message& request, Done<Reply> done) {
  const Entry* entry = find(name);
  VOLADOR_CHECK(entry != nullptr && entry->method->input_type() == request.GetDescriptor(), name);
  if (!allows(entry->rule->access(), by.role)) {
    return done(
        make_error(ErrorCode::kPermissionDenied, fmt::format("{} is for role {}; {} has role {}", name,
                                                             roles_of(entry->rule->access()), by.name, by.role_name)));
  }
  std::shared_ptr<Message> once;  // The request without its id.
  if (entry->rule->once()) {
    once.reset(request.New());
    once->CopyFrom(request);
    std::string id = take_request_id(*once);
    // A hash, since a request may hold a password.
    done = requests_.once(
        {.by = by.token_id,
         .id = std::move(id),
         .what = security::raw(security::sha256(fmt::format("{}\n{}", name, once->SerializeAsString())))},
        done);
    if (!done) return;
  }
  std::shared_lock lock(mutex_);
  const auto found = handlers_.find(name);
  if (found == handlers_.end()) {
    const Error error = absent(*entry);
    lock.unlock();
    return done(make_error(error));
  }
  found->second(by, once ? *once : request, std::move(done));
}

std::vector<std::string> Registry::unserved(std::string_view service) const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> out;
  for (const Entry& entry : catalogue()) {
    const bool unary = !entry.method->client_streaming() && !entry.method->server_streaming();
    if (unary && entry.name.starts_with(std::string(service) + "/") && !handlers_.contains(entry.name))
      out.push_back(entry.name);
  }
  return out;
}

}  // namespace volador::operations
