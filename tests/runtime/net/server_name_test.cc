#include "runtime/net/server_name.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "runtime/net/unique_fd.h"

namespace volador::net {
namespace {

const std::string kName = "0123456789abcdef0123456789abcdef";

// The hello of OpenSSL's client; without SNI if the name is empty.
std::string openssl_hello(const std::string& name) {
  SSL_CTX* context = ::SSL_CTX_new(::TLS_client_method());
  SSL* ssl = ::SSL_new(context);
  ::SSL_set_connect_state(ssl);
  BIO* out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(ssl, ::BIO_new(::BIO_s_mem()), out);
  if (!name.empty()) SSL_set_tlsext_host_name(ssl, name.c_str());
  ::SSL_do_handshake(ssl);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string hello(data, static_cast<size_t>(size));
  ::SSL_free(ssl);
  ::SSL_CTX_free(context);
  return hello;
}

// Splits the message into records of at most `bytes`.
std::string split_records(const std::string& hello, size_t bytes) {
  std::string message = hello.substr(5);
  std::string out;
  while (!message.empty()) {
    const std::string part = message.substr(0, bytes);
    message.erase(0, part.size());
    out += hello.substr(0, 3);
    out += static_cast<char>(part.size() >> 8);
    out += static_cast<char>(part.size());
    out += part;
  }
  return out;
}

TEST(ServerName, IsReadFromOpenSslsHello) {
  const auto name = parse_server_name(openssl_hello(kName));
  ASSERT_TRUE(name.has_value()) << name.error().message;
  EXPECT_EQ(*name, kName);
}

TEST(ServerName, EveryPrefixOfAHelloAsksForMore) {
  for (const std::string& hello : {openssl_hello(kName), split_records(openssl_hello(kName), 100)}) {
    for (size_t n = 0; n < hello.size(); ++n) {
      const auto name = parse_server_name(std::string_view(hello).substr(0, n));
      ASSERT_TRUE(name.has_value()) << n << ": " << name.error().message;
      ASSERT_FALSE(name->has_value());
    }
    EXPECT_EQ(*parse_server_name(hello), kName);
  }
}

TEST(ServerName, WithoutANameOrWithAStrangeOneTheHelloIsRefused) {
  EXPECT_EQ(parse_server_name(openssl_hello("")).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_server_name(openssl_hello("../../etc/passwd")).error().code, ErrorCode::kInvalidArgument);
}

TEST(ServerName, OtherProtocolsAreRefusedAtOnce) {
  for (const char* bytes :
       {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x16\x02\x01", "\x17\x03\x03", "\x16\x03\x01\x40\x01"}) {
    const auto name = parse_server_name(bytes);
    ASSERT_FALSE(name.has_value()) << bytes;
    EXPECT_EQ(name.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(parse_server_name(std::string("\x16\x03\x01\x00\x00", 5)).has_value());
  EXPECT_FALSE(parse_server_name(std::string("\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9)).has_value());
}

TEST(ServerName, AHelloAboveTheLimitIsRefusedFromItsLength) {
  EXPECT_FALSE(parse_server_name(std::string("\x16\x03\x01\x40\x00\x01\x00\x40\x01", 9)).has_value());
}

TEST(ServerName, PeekingLeavesTheBytesOnTheSocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd left(ends[0]);
  UniqueFd right(ends[1]);
  EXPECT_FALSE(peek_server_name(left.get())->has_value());
  const std::string hello = openssl_hello(kName);
  ASSERT_EQ(::send(right.get(), hello.data(), 20, 0), 20);
  EXPECT_FALSE(peek_server_name(left.get())->has_value());
  ASSERT_GT(::send(right.get(), hello.data() + 20, hello.size() - 20, 0), 0);
  EXPECT_EQ(*peek_server_name(left.get()), kName);
  std::string read(hello.size(), '\0');
  ASSERT_EQ(::recv(left.get(), read.data(), read.size(), MSG_WAITALL), static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, hello);
  right.reset();
  EXPECT_EQ(peek_server_name(left.get()).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace volador::net
