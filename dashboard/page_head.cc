#include "dashboard/page_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "dashboard/request_guard.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

constexpr std::string_view kOurCookies = "volador_";
constexpr std::string_view kKeyField = "volador_key=";

struct HeadLines {
  std::string_view first;
  std::vector<std::pair<std::string, std::string_view>> fields;  // Names in lower case, in their order.
};

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '\t' || static_cast<unsigned char>(c) >= ' '; });
}

// nullopt: not the lines of a head, among them folded ones.
std::optional<HeadLines> lines_of(std::string_view head) {
  HeadLines out;
  bool is_first = true;
  while (true) {
    const size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (!is_plain(line)) return std::nullopt;
    if (std::exchange(is_first, false)) {
      out.first = line;
      continue;
    }
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return std::nullopt;
    out.fields.emplace_back(lower_case(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  if (!head.empty() || out.first.empty()) return std::nullopt;
  return out;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (lower_case(trimmed(list.substr(0, comma))) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::string without_our_cookies(std::string_view cookies) {
  std::string out;
  while (!cookies.empty()) {
    const size_t end = std::min(cookies.find(';'), cookies.size());
    const std::string_view one = trimmed(cookies.substr(0, end));
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    if (one.empty() || one.starts_with(kOurCookies)) continue;
    if (!out.empty()) out += "; ";
    out += one;
  }
  return out;
}

void append_field(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ").append(value).append("\r\n");
}

// Fields of one connection, which both sides have for themselves.
bool is_of_connection(std::string_view name) {
  return name == "connection" || name == "keep-alive" || name == "proxy-connection" || name == "te" ||
         name == "trailer" || name == "upgrade";
}

Error bad_request(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

}  // namespace

Result<PageRequest> read_page_request(std::string_view head, uint16_t port, std::string_view peer, bool tls) {
  const auto lines = lines_of(head);
  if (!lines) return make_error(bad_request("this is no valid HTTP request"));
  PageRequest out;
  const size_t first = lines->first.find(' ');
  const size_t last = lines->first.rfind(' ');
  if (first == std::string_view::npos || first == last || !lines->first.substr(last + 1).starts_with("HTTP/1."))
    return make_error(bad_request("this is no valid HTTP/1 request"));
  out.method = lines->first.substr(0, first);
  out.target = lines->first.substr(first + 1, last - first - 1);
  if (!is_token(out.method) || !out.target.starts_with('/') || out.target.find(' ') != std::string::npos)
    return make_error(bad_request("this is no valid HTTP request: expected METHOD /path HTTP/1.1"));
  std::string_view upgrade;
  bool asks_upgrade = false;
  bool has_length = false;
  for (const auto& [name, value] : lines->fields) {
    if (name == "host") {
      if (!out.host.empty()) return make_error(bad_request("a request names its host once"));
      out.host = value;
    } else if (name == "origin") {
      out.origin = value;
    } else if (name == "cookie") {
      out.cookie += out.cookie.empty() ? std::string(value) : "; " + std::string(value);
    } else if (name == "upgrade") {
      upgrade = value;
    } else if (name == "connection") {
      asks_upgrade = asks_upgrade || has_word(value, "upgrade");
    } else if (name == "content-length") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out.body_bytes);
      if (has_length || error != std::errc() || end != value.data() + value.size())
        return make_error(bad_request("Content-Length: expected one number"));
      has_length = true;
    } else if (name == "transfer-encoding") {
      return make_error(bad_request("a request with a body gives its length by Content-Length"));
    }
  }
  if (out.host.empty()) return make_error(bad_request("a request names its host"));
  out.upgrade = asks_upgrade && !upgrade.empty();

  const std::string server = fmt::format("127.0.0.1:{}", port);
  out.head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", out.method, out.target, server);
  for (const auto& [name, value] : lines->fields) {
    if (name == "host" || name == "cookie" || is_of_connection(name) || name.starts_with("x-forwarded-") ||
        name == "forwarded")
      continue;
    if (name == "origin") {
      append_field(out.head, name, "http://" + server);
    } else if (name == "referer") {
      const size_t path = value.find('/', value.find("//") == std::string_view::npos ? 0 : value.find("//") + 2);
      append_field(out.head, name,
                   "http://" + server + std::string(path == std::string_view::npos ? "/" : value.substr(path)));
    } else {
      append_field(out.head, name, value);
    }
  }
  if (const std::string cookies = without_our_cookies(out.cookie); !cookies.empty())
    append_field(out.head, "cookie", cookies);
  append_field(out.head, "x-forwarded-for", peer);
  append_field(out.head, "x-forwarded-host", out.host);
  append_field(out.head, "x-forwarded-proto", tls ? "https" : "http");
  append_field(out.head, "connection", out.upgrade ? "upgrade" : "close");
  if (out.upgrade) append_field(out.head, "upgrade", upgrade);
  out.head += "\r\n";
  return out;
}

Result<PageReply> read_page_reply(std::string_view head, uint16_t port, std::string_view origin) {
  const auto lines = lines_of(head);
  if (!lines || !lines->first.starts_with("HTTP/1.") || lines->first.size() < 12)
    return make_error(bad_request("the server in the job does not speak HTTP/1"));
  const std::string_view status = lines->first.substr(9, 3);
  const bool upgraded = status == "101";
  PageReply out{.informational = status.front() == '1' && !upgraded, .head = {}};
  out.head.append("HTTP/1.1").append(lines->first.substr(8)).append("\r\n");
  for (const auto& [name, value] : lines->fields) {
    if (name == "set-cookie" && value.starts_with(kOurCookies)) continue;
    if (is_of_connection(name) && !(upgraded && name == "upgrade")) continue;
    if (name == "location" || name == "content-location") {
      std::string to(value);
      for (const std::string_view host : {"127.0.0.1", "localhost"}) {
        const std::string own = fmt::format("http://{}:{}", host, port);
        if (value.starts_with(own) && (value.size() == own.size() || value[own.size()] == '/')) {
          to = std::string(origin) + std::string(value.substr(own.size()));
          break;
        }
      }
      append_field(out.head, name, to);
      continue;
    }
    append_field(out.head, name, value);
  }
  append_field(out.head, "connection", upgraded ? "upgrade" : "close");
  out.head += "\r\n";
  return out;
}

PageKey take_page_key(std::string_view target) {
  const size_t question = target.find('?');
  PageKey out{.key = {}, .target = std::string(target.substr(0, question))};
  if (question == std::string_view::npos) return out;
  std::string_view query = target.substr(question + 1);
  char before = '?';
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.starts_with(kKeyField)) {
      out.key = one.substr(kKeyField.size());
      continue;
    }
    out.target += std::exchange(before, '&');
    out.target += one;
  }
  return out;
}

}  // namespace volador::dashboard
