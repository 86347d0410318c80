#include "runtime/result.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace volador {
namespace {

constexpr std::array<std::pair<ErrorCode, std::string_view>, 14> kNames{{
    {ErrorCode::kInvalidArgument, "kInvalidArgument"},
    {ErrorCode::kNotFound, "kNotFound"},
    {ErrorCode::kInfeasible, "kInfeasible"},
    {ErrorCode::kUnavailable, "kUnavailable"},
    {ErrorCode::kUnknownOutcome, "kUnknownOutcome"},
    {ErrorCode::kCancelled, "kCancelled"},
    {ErrorCode::kUnauthenticated, "kUnauthenticated"},
    {ErrorCode::kPermissionDenied, "kPermissionDenied"},
    {ErrorCode::kInternal, "kInternal"},
    {ErrorCode::kActorDied, "kActorDied"},
    {ErrorCode::kApplication, "kApplication"},
    {ErrorCode::kTimeout, "kTimeout"},
    {ErrorCode::kObjectLost, "kObjectLost"},
    {ErrorCode::kStoreFull, "kStoreFull"},
}};

}  // namespace

std::string_view to_string(ErrorCode code) {
  for (const auto& [value, name] : kNames) {
    if (value == code) return name;
  }
  return "kInternal";
}

ErrorCode error_code_from(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return ErrorCode::kInternal;
}

ErrorCode error_code_from(int64_t number) {
  for (const auto& [value, name] : kNames) {
    if (static_cast<int64_t>(value) == number) return value;
  }
  return ErrorCode::kInternal;
}

std::string to_string(const Error& error) {
  std::string text = error.message;
  text += "   [";
  text += to_string(error.code);
  text += ']';
  return text;
}

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "volador: internal check failed: %s (%s:%d) %s\n", expression, file, line, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace volador
