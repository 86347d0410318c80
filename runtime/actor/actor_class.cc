#include "runtime/actor/actor_class.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>

#include "runtime/actor/call_context.h"
#include "runtime/actor/exception_kinds.h"

namespace volador {
ActorClassRegistry& ActorClassRegistry::instance() {
  static ActorClassRegistry registry;
  return registry;
}

ActorClass& ActorClassRegistry::declare(std::string_view name) {
  auto found = classes_.find(name);
  if (found == classes_.end()) {
    found = classes_.emplace(std::string(name), ActorClass{}).first;
    found->second.name = name;
  }
  return found->second;
}

const ActorClass* ActorClassRegistry::find(std::string_view name) const {
  const auto found = classes_.find(name);
  return found == classes_.end() ? nullptr : &found->second;
}

std::vector<std::string> ActorClassRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, actor_class] : classes_) all.push_back(name);
  return all;
}

Result<const ActorClass*> ActorClassRegistry::load(const std::string& name, std::string_view arguments) const {
  if (const ActorClass* found = find(name)) return found;
  if (source_) return source_(name, arguments);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("the program has no actor class \"{}\"; it has: {}", name, fmt::join(names(), ", ")));
}

Result<std::string> guarded(const std::function<Result<std::string>()>& code) {
  try {
    return code();
  } catch (const internal::ActorExit&) {
    throw;
  } catch (const Exception& e) {
    // A runtime error that user code let through. Retry codes refer to another call and must not reach this call's
    // caller.
    switch (e.code()) {
      case ErrorCode::kUnavailable:
      case ErrorCode::kUnknownOutcome:
      case ErrorCode::kTimeout:
      case ErrorCode::kCancelled:
        return make_error(ErrorCode::kApplication, fmt::format("volador::Exception: {}", e.what()));
      default:
        return make_error(e.error());
    }
  } catch (const std::exception& e) {
    return make_error(ErrorCode::kApplication, fmt::format("{}: {}", internal::kind_of_current_exception(), e.what()));
  } catch (...) {
    return make_error(ErrorCode::kApplication, fmt::format("{} was thrown", internal::kind_of_current_exception()));
  }
}

}  // namespace volador
