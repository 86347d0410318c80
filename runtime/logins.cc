#include "runtime/logins.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace volador {
namespace {

constexpr size_t kLoginsBytesMax = 1 << 20;
constexpr size_t kLoginsMax = 100;  // The newest are kept.

Result<void> write(const Paths& paths, const std::vector<Login>& logins) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Login& login : logins) {
    rows.push_back({{"address", login.address},
                    {"fingerprint", login.fingerprint},
                    {"user", login.user},
                    {"token", login.token},
                    {"expires_ms", login.expires_ms}});
  }
  VOLADOR_TRY(make_private_directory(paths.home()));
  return write_file_atomic(paths.logins(), rows.dump(2) + "\n", 0600);
}

}  // namespace

Result<std::vector<Login>> load_logins(const Paths& paths) {
  auto text = read_file_limited(paths.logins(), kLoginsBytesMax);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::vector<Login>();
  if (!text) return make_error(text.error());
  const auto rows = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  std::vector<Login> logins;
  try {
    for (const auto& row : rows) {
      logins.push_back({.address = row.at("address"),
                        .fingerprint = row.at("fingerprint"),
                        .user = row.at("user"),
                        .token = row.at("token"),
                        .expires_ms = row.at("expires_ms")});
    }
  } catch (const nlohmann::json::exception&) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is damaged; remove it and sign in again with `volador login`", paths.logins().native()));
  }
  return logins;
}

Result<void> save_login(const Paths& paths, const Login& login) {
  auto logins = load_logins(paths).value_or(std::vector<Login>());
  std::erase_if(logins, [&](const Login& each) { return each.address == login.address; });
  logins.insert(logins.begin(), login);
  if (logins.size() > kLoginsMax) logins.resize(kLoginsMax);
  return write(paths, logins);
}

Result<void> remove_login(const Paths& paths, const std::string& address) {
  auto logins = load_logins(paths);
  if (!logins) return make_error(logins.error());
  const auto removed = std::erase_if(*logins, [&](const Login& each) { return each.address == address; });
  return removed == 0 ? Result<void>() : write(paths, *logins);
}

std::optional<Login> login_at(const std::vector<Login>& logins, const std::string& address) {
  for (const Login& login : logins) {
    if (address.empty() || login.address == address) return login;
  }
  return std::nullopt;
}

}  // namespace volador
