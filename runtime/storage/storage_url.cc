#include "runtime/storage/storage_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "runtime/nearest_word.h"
#include "runtime/utf8.h"

namespace volador::storage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytesMax = 1024;  // The limit of S3, GCS and Azure.
constexpr std::string_view kPublicAzure = "blob.core.windows.net";

tl::unexpected<Error> refused(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; });
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 2 >= text.size() || digit(text[at + 1]) < 0 || digit(text[at + 2]) < 0) return std::nullopt;
    out += static_cast<char>(digit(text[at + 1]) * 16 + digit(text[at + 2]));
    at += 2;
  }
  return out;
}

std::string encoded(std::string_view text, std::string_view plain) {
  std::string out;
  for (const char c : text) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<uint8_t>(c) >= 0x80 ||
                      plain.find(c) != plain.npos;
    out += keep ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return out;
}

// "/a//b/./c/" is "a/b/c". `what` is used in messages.
Result<std::string> clean_prefix(std::string_view what, std::string_view prefix) {
  std::string out;
  for (size_t at = 0; at <= prefix.size();) {
    const size_t end = std::min(prefix.find('/', at), prefix.size());
    const std::string_view part = prefix.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return refused(
          fmt::format("{}: prefix cannot contain /../, got \"{}\"; name the place without it", what, prefix));
    out += fmt::format("{}{}", out.empty() ? "" : "/", part);
  }
  if (!out.empty()) VOLADOR_TRY(check_key(what, out));
  return out;
}

Result<void> check_container(std::string_view what, StorageKind kind, std::string_view name) {
  const bool azure = kind == StorageKind::kAzure;
  const size_t longest = kind == StorageKind::kGcs ? 222 : 63;
  const auto good = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || (!azure && (c == '.' || c == '_')) ||
           (kind == StorageKind::kS3 && c >= 'A' && c <= 'Z');
  };
  if (name.size() >= 3 && name.size() <= longest && std::ranges::all_of(name, good) && name.front() != '-' &&
      name.front() != '.' && name.find("..") == name.npos)
    return {};
  return refused(
      fmt::format("{}: expected the name of a {} of 3 to {} lower-case letters, digits and hyphens, got \"{}\"", what,
                  azure ? "container" : "bucket", longest, name));
}

Result<void> check_endpoint(std::string_view what, std::string_view endpoint) {
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  const std::string_view rest = endpoint.substr(scheme);
  if (scheme != 0 && rest.find('@') != rest.npos)
    return refused(fmt::format("{}: the endpoint has a name or password; give credentials in the environment", what));
  const bool good = scheme != 0 && !rest.empty() && rest.front() != '/' && rest.find_first_of(" ?#") == rest.npos &&
                    !has_control(rest);
  if (good) return {};
  return refused(
      fmt::format("{}: expected an endpoint like https://minio.example.org:9000, got \"{}\"", what, endpoint));
}

Result<StorageUrl> folder_url(std::string_view what, std::string_view path) {
  if (path.empty()) return refused(fmt::format("{}: expected a path", what));
  if (has_control(path)) return refused(fmt::format("{}: a path may not have control characters", what));
  const fs::path given(path);
  if (std::ranges::any_of(given, [](const fs::path& part) { return part == ".."; }))
    return refused(
        fmt::format("{}: a path may not contain \"..\", got \"{}\"; name the folder without it", what, path));
  std::error_code code;
  const fs::path whole = fs::absolute(given, code).lexically_normal();
  std::string text = (code ? given : whole).string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return StorageUrl{.kind = StorageKind::kFolder, .prefix = std::move(text)};
}

// "https://account.blob.core.windows.net" or, for emulators, "http://127.0.0.1:10000/account".
std::string account_of(std::string_view endpoint) {
  std::string_view rest = endpoint.substr(endpoint.find("://") + 3);
  const size_t slash = rest.find('/');
  if (slash != rest.npos && slash + 1 < rest.size()) {
    const std::string_view path = rest.substr(slash + 1);
    return std::string(path.substr(0, path.find('/')));
  }
  rest = rest.substr(0, slash);
  const bool address = rest.starts_with('[') || rest.find_first_not_of("0123456789.:") == rest.npos;
  return address ? "" : std::string(rest.substr(0, rest.find('.')));
}

std::string trimmed(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

Result<void> take_parameter(StorageUrl& url, std::string_view what, const std::string& name, std::string value) {
  const std::vector<std::string> secrets{"access_key", "secret_key", "session_token", "connection_string",
                                         "credential", "password",   "key",           "sig"};
  if (std::ranges::find(secrets, name) != secrets.end())
    return refused(fmt::format(
        "{}: the parameter {} has no place in an address, which is printed and stored; give credentials in the "
        "environment, as docs/guides/storage.md lists them",
        what, name));
  std::vector<std::string> known{"endpoint"};
  if (url.kind == StorageKind::kS3) known.emplace_back("region");
  if (url.kind == StorageKind::kAzure) known.emplace_back("account");
  if (std::ranges::find(known, name) == known.end())
    return refused(fmt::format("{}: unknown parameter \"{}\"{}; known: {}", what, name, did_you_mean(name, known),
                               fmt::join(known, ", ")));
  if (value.empty() || has_control(value)) return refused(fmt::format("{}: {} has no value", what, name));
  if (name == "endpoint") {
    VOLADOR_TRY(check_endpoint(what, value));
    url.endpoint = trimmed(std::move(value));
  } else if (name == "region") {
    url.region = std::move(value);
  } else {
    url.account = std::move(value);
  }
  return {};
}

}  // namespace

std::string_view to_string(StorageKind kind) {
  switch (kind) {
    case StorageKind::kFolder:
      return "folder";
    case StorageKind::kS3:
      return "s3";
    case StorageKind::kGcs:
      return "gcs";
    case StorageKind::kAzure:
      return "azure";
  }
  return "folder";
}

std::string StorageUrl::text() const {
  if (kind == StorageKind::kFolder) return prefix;
  const std::string_view scheme = kind == StorageKind::kS3 ? "s3" : kind == StorageKind::kGcs ? "gs" : "azure";
  std::string out = fmt::format("{}://{}", scheme, container);
  if (!prefix.empty()) out += "/" + encoded(prefix, "-_.~/=+@,:!$'()*& ");
  char separator = '?';
  for (const auto& [name, value] :
       {std::pair<const char*, const std::string&>{"account", account}, {"endpoint", endpoint}, {"region", region}}) {
    if (value.empty()) continue;
    out += fmt::format("{}{}={}", separator, name, encoded(value, "-_.~/:[]"));
    separator = '&';
  }
  return out;
}

StorageUrl StorageUrl::below(std::string_view key) const {
  StorageUrl url = *this;
  if (key.empty()) return url;
  url.prefix += fmt::format("{}{}", url.prefix.empty() || url.prefix.ends_with('/') ? "" : "/", key);
  return url;
}

std::optional<std::pair<StorageUrl, std::string>> StorageUrl::parent() const {
  const size_t slash = prefix.rfind('/');
  std::string last = prefix.substr(slash == prefix.npos ? 0 : slash + 1);
  if (last.empty()) return std::nullopt;
  StorageUrl above = *this;
  above.prefix =
      slash == prefix.npos ? "" : prefix.substr(0, std::max<size_t>(slash, kind == StorageKind::kFolder ? 1 : 0));
  return std::pair(std::move(above), std::move(last));
}

bool is_storage_url(std::string_view text) {
  const size_t at = text.find("://");
  return at != text.npos && at > 0 && std::ranges::all_of(text.substr(0, at), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

Result<StorageUrl> parse_storage_url(std::string_view text) {
  if (!is_storage_url(text)) return folder_url(text.empty() ? "storage" : text, text);
  const std::string_view scheme = text.substr(0, text.find("://"));
  std::string_view rest = text.substr(scheme.size() + 3);
  if (scheme == "file") {
    const auto path = decoded(rest);
    if (!path || !path->starts_with('/'))
      return refused(fmt::format("{}: expected file:// and an absolute path, such as file:///data/checkpoints", text));
    return folder_url(text, *path);
  }
  StorageUrl url;
  if (scheme == "s3") {
    url.kind = StorageKind::kS3;
  } else if (scheme == "gs" || scheme == "gcs") {
    url.kind = StorageKind::kGcs;
  } else if (scheme == "azure" || scheme == "az") {
    url.kind = StorageKind::kAzure;
  } else {
    const std::vector<std::string> known{"s3", "gs", "azure", "file"};
    return refused(
        fmt::format("{}://: unknown kind of storage{}; known: s3://bucket/prefix, gs://bucket/prefix, "
                    "azure://container/prefix, or a path",
                    scheme, did_you_mean(std::string(scheme), known)));
  }
  const size_t question = rest.find('?');
  const std::string_view place = rest.substr(0, question);
  if (place.substr(0, place.find('/')).find('@') != place.npos)
    return refused(
        fmt::format("{}://: the address has a name or password before \"@\"; give credentials in the "
                    "environment, as docs/guides/storage.md lists them",
                    scheme));
  const std::string what = fmt::format("{}://{}", scheme, place);
  url.container = place.substr(0, place.find('/'));
  VOLADOR_TRY(check_container(what, url.kind, url.container));
  const auto path = decoded(place.substr(std::min(place.size(), url.container.size())));
  if (!path) return refused(fmt::format("{}: \"%\" is not followed by two hexadecimal digits", what));
  auto prefix = clean_prefix(what, *path);
  if (!prefix) return make_error(prefix.error());
  url.prefix = std::move(*prefix);
  if (question == rest.npos) return url;
  rest.remove_prefix(question + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    auto value = decoded(pair.substr(std::min(equals + 1, pair.size())));
    if (!value) return refused(fmt::format("{}: \"%\" is not followed by two hexadecimal digits", what));
    VOLADOR_TRY(take_parameter(url, what, std::string(pair.substr(0, equals)), std::move(*value)));
  }
  if (url.kind == StorageKind::kAzure && url.account.empty() && !url.endpoint.empty())
    url.account = account_of(url.endpoint);
  return url;
}

std::vector<std::string> StorageCredentials::secrets() const {
  std::vector<std::string> out;
  for (const std::string& one : {secret_key, session_token, connection_string, credential}) {
    if (!one.empty()) out.push_back(one);
  }
  if (const auto account = parse_connection_string(connection_string)) {
    if (!account->key.empty()) out.push_back(account->key);
    if (!account->sas.empty()) out.push_back(account->sas);
  }
  return out;
}

Result<AzureAccount> parse_account_url(std::string_view url) {
  VOLADOR_TRY(check_endpoint("account_url", url));
  AzureAccount account{.endpoint = trimmed(std::string(url))};
  account.account = account_of(account.endpoint);
  if (account.account.empty())
    return refused(
        "account_url: expected https://ACCOUNT.blob.core.windows.net, or for an emulator "
        "http://127.0.0.1:10000/ACCOUNT");
  return account;
}

Result<AzureAccount> parse_connection_string(std::string_view text) {
  AzureAccount account;
  std::string protocol = "https", suffix;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = pair.find('=');
    if (pair.empty()) continue;
    if (equals == pair.npos) return refused("connection_string: expected NAME=VALUE pairs with \";\" between them");
    const std::string_view name = pair.substr(0, equals), value = pair.substr(equals + 1);
    if (name == "AccountName") account.account = value;
    if (name == "AccountKey") account.key = value;
    if (name == "SharedAccessSignature") account.sas = value.substr(value.starts_with('?') ? 1 : 0);
    if (name == "BlobEndpoint") account.endpoint = trimmed(std::string(value));
    if (name == "DefaultEndpointsProtocol") protocol = value;
    if (name == "EndpointSuffix") suffix = value;
    if (name == "UseDevelopmentStorage" && value == "true")
      return refused("connection_string: UseDevelopmentStorage is not supported; name account, key and BlobEndpoint");
  }
  if (!account.endpoint.empty()) {
    VOLADOR_TRY(check_endpoint("connection_string: BlobEndpoint", account.endpoint));
    if (account.account.empty()) account.account = account_of(account.endpoint);
  } else if (!account.account.empty()) {
    account.endpoint = fmt::format("{}://{}.{}", protocol, account.account,
                                   suffix.empty() ? std::string(kPublicAzure) : "blob." + suffix);
  }
  if (account.account.empty()) return refused("connection_string: it has no AccountName");
  if (account.key.empty() && account.sas.empty())
    return refused("connection_string: it has neither AccountKey nor SharedAccessSignature");
  return account;
}

Result<StorageTarget> storage_target(const StorageSettings& given) {
  const auto need = [](const char* name, const std::optional<std::string>& value) -> Result<std::string> {
    if (value && !value->empty()) return *value;
    return refused(fmt::format("checkpoint_storage: {} is missing", name));
  };
  StorageTarget target;
  const auto place = [&](StorageKind kind, const char* name,
                         const std::optional<std::string>& container) -> Result<void> {
    target.url.kind = kind;
    auto found = need(name, container);
    if (!found) return make_error(found.error());
    target.url.container = std::move(*found);
    VOLADOR_TRY(check_container(fmt::format("checkpoint_storage: {}", name), kind, target.url.container));
    auto prefix = clean_prefix("checkpoint_storage: prefix", given.prefix.value_or(""));
    if (!prefix) return make_error(prefix.error());
    target.url.prefix = std::move(*prefix);
    return {};
  };
  if (given.type == "shared_fs") {
    const auto host = need("host_path", given.host_path);
    if (!host) return make_error(host.error());
    auto base = folder_url("checkpoint_storage: host_path", *host);
    if (!base) return make_error(base.error());
    if (!host->starts_with('/'))
      return refused(fmt::format("checkpoint_storage: host_path: expected an absolute path, got \"{}\"", *host));
    target.url = std::move(*base);
    if (!given.storage_path || given.storage_path->empty()) return target;
    const fs::path inner(*given.storage_path);
    auto whole = folder_url("checkpoint_storage: storage_path", (fs::path(target.url.prefix) / inner).string());
    if (!whole) return make_error(whole.error());
    const std::string inside = target.url.prefix == "/" ? "/" : target.url.prefix + "/";
    if (whole->prefix != target.url.prefix && !whole->prefix.starts_with(inside))
      return refused(
          fmt::format("checkpoint_storage: storage_path: {} is not inside host_path {}; give a relative path "
                      "or one inside it",
                      *given.storage_path, target.url.prefix));
    target.url = std::move(*whole);
    return target;
  }
  if (given.type == "directory") {
    const auto path = need("container_path", given.container_path);
    if (!path) return make_error(path.error());
    auto folder = folder_url("checkpoint_storage: container_path", *path);
    if (!folder) return make_error(folder.error());
    target.url = std::move(*folder);
    return target;
  }
  if (given.type == "s3") {
    VOLADOR_TRY(place(StorageKind::kS3, "bucket", given.bucket));
    if (given.access_key.has_value() != given.secret_key.has_value())
      return refused("checkpoint_storage: access_key and secret_key must both be set, or neither of them");
    target.credentials.access_key = given.access_key.value_or("");
    target.credentials.secret_key = given.secret_key.value_or("");
    target.url.region = given.region.value_or("");
    if (given.endpoint_url) {
      VOLADOR_TRY(check_endpoint("checkpoint_storage: endpoint_url", *given.endpoint_url));
      target.url.endpoint = trimmed(*given.endpoint_url);
    }
    return target;
  }
  if (given.type == "gcs") {
    VOLADOR_TRY(place(StorageKind::kGcs, "bucket", given.bucket));
    return target;
  }
  if (given.type == "azure") {
    VOLADOR_TRY(place(StorageKind::kAzure, "container", given.container));
    if (given.credential && given.connection_string)
      return refused("checkpoint_storage: credential and connection_string must not both be set");
    if (given.account_url.has_value() == given.connection_string.has_value())
      return refused("checkpoint_storage: exactly one of connection_string and account_url must be set");
    auto account = given.connection_string ? parse_connection_string(*given.connection_string)
                                           : parse_account_url(*given.account_url);
    if (!account)
      return make_error(account.error().code, fmt::format("checkpoint_storage: {}", account.error().message));
    target.url.account = account->account;
    target.url.endpoint = account->endpoint;
    target.credentials.connection_string = given.connection_string.value_or("");
    target.credentials.credential = given.credential.value_or("");
    return target;
  }
  const std::vector<std::string> known{"shared_fs", "directory", "s3", "gcs", "azure"};
  return refused(fmt::format("checkpoint_storage: type: expected {}, got \"{}\"{}", fmt::join(known, ", "), given.type,
                             did_you_mean(given.type, known)));
}

Result<void> check_key(std::string_view what, std::string_view key) {
  std::string_view rule;
  if (key.empty()) {
    rule = "expected a name";
  } else if (key.size() > kKeyBytesMax) {
    rule = "expected at most 1024 bytes";
  } else if (has_control(key)) {
    rule = "control characters are not allowed";
  } else if (!is_utf8(key)) {
    rule = "expected UTF-8";
  } else {
    for (size_t at = 0; at <= key.size();) {
      const size_t end = std::min(key.find('/', at), key.size());
      const std::string_view part = key.substr(at, end - at);
      if (part.empty() || part == "." || part == "..")
        rule = "expected a relative path without empty parts, \".\" and \"..\"";
      at = end + 1;
    }
  }
  if (rule.empty()) return {};
  return refused(fmt::format("{}: {}, got \"{}\"", what, rule, has_control(key) || !is_utf8(key) ? "…" : key));
}

}  // namespace volador::storage
