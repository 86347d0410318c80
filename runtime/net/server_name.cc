#include "runtime/net/server_name.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "runtime/quantities.h"

namespace volador::net {
namespace {

constexpr uint8_t kHandshakeRecord = 22;
constexpr uint8_t kClientHello = 1;
constexpr uint16_t kServerNameExtension = 0;
constexpr uint8_t kHostName = 0;
constexpr size_t kRecordHeaderBytes = 5;
constexpr size_t kRecordBytesMax = size_t{16} << 10;
constexpr size_t kHandshakeHeaderBytes = 4;
constexpr size_t kRandomBytes = 32;
constexpr size_t kNameBytesMax = 255;

tl::unexpected<Error> refuse_hello(std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("TLS client hello: {}", why));
}

// Reads big-endian fields from the front; after a missing byte all further reads fail.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(size_t count) {
    if (count > bytes_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }
  uint32_t number(size_t width) {
    uint32_t value = 0;
    for (const char c : take(width)) value = value << 8 | static_cast<uint8_t>(c);
    return value;
  }
  // Reads a field preceded by its length of `width` bytes.
  Reader field(size_t width) {
    const uint32_t length = number(width);
    Reader inner(take(length));
    inner.ok_ = ok_;
    return inner;
  }
  size_t left() const { return bytes_.size(); }
  bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

Result<std::string> read_name(Reader extension) {
  Reader list = extension.field(2);
  const uint32_t type = list.number(1);
  Reader name = list.field(2);
  const std::string_view text = name.take(name.left());
  if (!name.ok() || extension.left() != 0 || list.left() != 0 || type != kHostName) {
    return refuse_hello("its server name is malformed");
  }
  if (text.empty() || text.size() > kNameBytesMax || !std::all_of(text.begin(), text.end(), is_name_byte)) {
    return refuse_hello("its server name has other characters than letters, digits, '-', '.', '_', or a bad length");
  }
  return std::string(text);
}

Result<std::string> read_hello(std::string_view body) {
  Reader hello(body);
  hello.take(2 + kRandomBytes);  // Legacy version and random.
  const Reader session = hello.field(1);
  const Reader ciphers = hello.field(2);
  const Reader compressions = hello.field(1);
  Reader extensions = hello.field(2);
  if (!hello.ok() || hello.left() != 0 || session.left() > 32 || ciphers.left() < 2 || ciphers.left() % 2 != 0 ||
      compressions.left() < 1) {
    return refuse_hello("it is malformed");
  }
  std::string name;
  while (extensions.left() > 0) {
    const uint32_t type = extensions.number(2);
    const Reader extension = extensions.field(2);
    if (!extensions.ok()) return refuse_hello("an extension is longer than the whole");
    if (type != kServerNameExtension) continue;
    if (!name.empty()) return refuse_hello("it names two servers");
    auto read = read_name(extension);
    if (!read) return make_error(std::move(read).error());
    name = *std::move(read);
  }
  if (name.empty()) return refuse_hello("it names no server");
  return name;
}

// Extracts the client hello message from one or several records; nullopt: more bytes are needed.
Result<std::optional<std::string>> client_hello(std::string_view bytes) {
  if (bytes.size() > kClientHelloBytesMax) bytes = bytes.substr(0, kClientHelloBytesMax);
  const bool exhausted = bytes.size() == kClientHelloBytesMax;
  std::string message;
  size_t need = kHandshakeHeaderBytes;
  while (message.size() < need) {
    if (!bytes.empty() && static_cast<uint8_t>(bytes[0]) != kHandshakeRecord)
      return refuse_hello("it is no TLS handshake");
    if (bytes.size() >= 2 && bytes[1] != 3) return refuse_hello("it is no TLS handshake");
    if (bytes.size() < kRecordHeaderBytes) break;
    Reader header(bytes.substr(3, 2));
    const size_t length = header.number(2);
    if (length == 0 || length > kRecordBytesMax)
      return refuse_hello(fmt::format("a record of {}", counted(length, "byte")));
    const std::string_view part = bytes.substr(kRecordHeaderBytes, length);
    message += part;
    if (message.size() >= kHandshakeHeaderBytes) {
      Reader start(message);
      if (start.number(1) != kClientHello) return refuse_hello("it is another handshake message");
      const size_t body = start.number(3);
      if (body > kClientHelloBytesMax)
        return refuse_hello(fmt::format("{} bytes; limit {}", body, kClientHelloBytesMax));
      need = kHandshakeHeaderBytes + body;
    }
    bytes.remove_prefix(std::min(bytes.size(), kRecordHeaderBytes + length));
    if (part.size() < length) break;
  }
  if (message.size() < need) {
    if (exhausted) return refuse_hello(fmt::format("it is not complete within {} bytes", kClientHelloBytesMax));
    return std::nullopt;
  }
  if (message.size() > need) return refuse_hello("more follows it in its record");
  return message;
}

// nullopt: nothing has arrived.
Result<std::optional<std::string>> peek(int fd) {
  std::string bytes(kClientHelloBytesMax, '\0');
  ssize_t n = 0;
  do {
    n = ::recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (n < 0) return make_error(ErrorCode::kUnavailable, fmt::format("TLS client hello: {}", std::strerror(errno)));
  if (n == 0) return make_error(ErrorCode::kUnavailable, "TLS client hello: the peer closed before it sent one");
  bytes.resize(static_cast<size_t>(n));
  return bytes;
}

}  // namespace

Result<std::optional<std::string>> parse_server_name(std::string_view bytes) {
  auto message = client_hello(bytes);
  if (!message || !*message) return message;
  auto name = read_hello(std::string_view(**message).substr(kHandshakeHeaderBytes));
  if (!name) return make_error(std::move(name).error());
  return *std::move(name);
}

Result<std::optional<std::string>> peek_server_name(int fd) {
  auto bytes = peek(fd);
  if (!bytes || !*bytes) return bytes;
  return parse_server_name(**bytes);
}

Result<bool> has_client_hello(int fd) {
  const auto bytes = peek(fd);
  if (!bytes) return make_error(bytes.error());
  if (!*bytes) return false;
  const auto message = client_hello(**bytes);
  if (!message) return make_error(message.error());
  return message->has_value();
}

}  // namespace volador::net
