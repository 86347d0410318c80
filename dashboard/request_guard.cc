#include "dashboard/request_guard.h"
#include "runtime/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::dashboard {
namespace {

constexpr size_t kQueryMax = 32;
constexpr size_t kMethodBytesMax = 24;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// nullopt: an invalid escape or a forbidden byte.
std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      if (at + 2 >= text.size()) return std::nullopt;
      const int high = digit_of(text[at + 1]), low = digit_of(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      at += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) return std::nullopt;
    out += c;
  }
  return out;
}

}  // namespace

Result<bool> is_request_head(std::string_view bytes, size_t most) {
  if (bytes.find("\r\n\r\n") != std::string_view::npos) return true;
  const std::string_view begin = bytes.substr(0, kMethodBytesMax + 1);
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-'; };
  const auto end = std::find_if_not(begin.begin(), begin.end(), is_letter);
  const auto letters = static_cast<size_t>(end - begin.begin());
  const bool goes_on = end == begin.end() ? letters <= kMethodBytesMax : *end == ' ' && letters > 0;
  if (!goes_on) return make_error(ErrorCode::kInvalidArgument, "it does not begin with the method of a request");
  return bytes.size() >= most;
}

Result<Target> parse_target(std::string_view text) {
  const auto wrong = [] { return make_error(ErrorCode::kInvalidArgument, "the address is no plain path"); };
  Target target;
  const size_t question = text.find('?');
  const std::string_view raw_path = text.substr(0, question);
  auto path = decoded(raw_path, false);
  if (!path || !path->starts_with('/') || path->find('\\') != std::string::npos ||
      raw_path.find('#') != std::string_view::npos)
    return wrong();
  // A segment may contain anything else, but must not change the path.
  for (size_t begin = 1; begin <= path->size();) {
    const size_t end = std::min(path->find('/', begin), path->size());
    const std::string_view segment = std::string_view(*path).substr(begin, end - begin);
    if (segment == "." || segment == ".." || (segment.empty() && path->size() > 1)) return wrong();
    begin = end + 1;
  }
  // An escaped slash would turn two segments into one.
  if (lower_case(raw_path).find("%2f") != std::string::npos) return wrong();
  target.path = std::move(*path);
  std::string_view query = question == std::string_view::npos ? std::string_view() : text.substr(question + 1);
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    auto name = decoded(pair.substr(0, equals), true);
    auto value = decoded(equals < pair.size() ? pair.substr(equals + 1) : std::string_view(), true);
    if (!name || !value || target.query.size() >= kQueryMax) return wrong();
    target.query.emplace(std::move(*name), std::move(*value));
  }
  return target;
}

std::optional<std::string> host_of(std::string_view text) {
  const std::string host = lower_case(text);
  std::string_view rest;
  std::string name;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string::npos) return std::nullopt;
    name = host.substr(0, end + 1);
    rest = std::string_view(host).substr(end + 1);
  } else {
    const size_t colon = std::min(host.find(':'), host.size());
    name = host.substr(0, colon);
    rest = std::string_view(host).substr(colon);
  }
  if (name.empty()) return std::nullopt;
  if (rest.empty()) return name;
  const bool is_port = rest.size() >= 2 && rest.size() <= 6 && rest[0] == ':' &&
                       rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return is_port ? std::optional(name) : std::nullopt;
}

HostGuard::HostGuard(std::vector<std::string> names, std::string_view public_url)
    : names_{"localhost", "127.0.0.1", "[::1]"} {
  for (std::string& name : names) {
    if (name.empty()) continue;
    names_.push_back(name.find(':') != std::string::npos && !name.starts_with('[') ? "[" + lower_case(name) + "]"
                                                                                   : lower_case(name));
  }
  public_origin_ = lower_case(public_url);
  const size_t scheme = public_origin_.find("://");
  if (scheme == std::string::npos) {
    public_origin_.clear();
    return;
  }
  public_origin_.resize(std::min(public_origin_.find('/', scheme + 3), public_origin_.size()));
  public_host_ = public_origin_.substr(scheme + 3);
}

bool HostGuard::is_ours(std::string_view host) const {
  if (is_public(host)) return true;
  const auto name = host_of(host);
  return name && std::find(names_.begin(), names_.end(), *name) != names_.end();
}

bool HostGuard::is_public(std::string_view host) const {
  return !public_host_.empty() && lower_case(host) == public_host_;
}

bool HostGuard::same_origin(std::string_view origin, std::string_view host, bool tls) const {
  const std::string from = lower_case(origin);
  if (!public_origin_.empty() && from == public_origin_) return true;
  return is_ours(host) && from == (tls ? "https://" : "http://") + lower_case(host);
}

std::string_view cookie_of(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    std::string_view pair = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.size() > name.size() && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return {};
}

}  // namespace volador::dashboard
