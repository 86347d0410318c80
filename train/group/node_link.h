// Encrypted byte stream from one node to another over TCP. Without LibTorch.
//
// TLS 1.3 with a key that both nodes have, and no certificates, authenticates the nodes, carries their hellos and
// agrees on keys. What follows is data in one direction, from the TLS client to the server, in pieces of AES-128-GCM
// under keys exported from the TLS session (RFC 8446, 7.5), with the number of the piece as nonce: a piece that is
// changed, left out, repeated or moved ends the link. Pieces have no headers, as both ends pass the same sizes to
// write() and read(). They take a third less time than TLS records, which are copied and at most 16 KiB long.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "runtime/security/secret.h"

struct evp_cipher_ctx_st;
struct ssl_ctx_st;
struct ssl_st;

namespace volador::train {

inline constexpr size_t kLinkKeyBytes = 32;

// The key of a group of nodes. Must outlive their links.
class LinkKey {
 public:
  // `pieces_per_key`: after so many pieces a link exports its next key; above 0. AES-GCM is safe up to 2^22 of them.
  // kInvalidArgument: the key has not kLinkKeyBytes. kUnavailable: OpenSSL has no memory or lacks the cipher.
  [[nodiscard]] static Result<std::unique_ptr<LinkKey>> create(security::Secret key, int64_t pieces_per_key);
  ~LinkKey();
  LinkKey(const LinkKey&) = delete;
  LinkKey& operator=(const LinkKey&) = delete;

  const security::Secret& secret() const { return secret_; }

 private:
  friend class NodeLink;
  LinkKey(security::Secret secret, int64_t pieces_per_key);

  const security::Secret secret_;
  const int64_t pieces_per_key_;
  ssl_ctx_st* client_ = nullptr;
  ssl_ctx_st* server_ = nullptr;
};

// One end of a link. Used by one thread at a time, except for shut_down(). Nothing raises SIGPIPE.
class NodeLink {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class End : uint8_t { kClient, kServer };
  static constexpr size_t kPieceBytes = size_t{64} << 10;

  // `socket`: not blocking, connected or connecting. `peer` is for messages: "node 1 at 10.0.0.2:4000".
  // kUnavailable: no memory.
  [[nodiscard]] static Result<std::unique_ptr<NodeLink>> create(const LinkKey& key, End end, net::UniqueFd socket,
                                                                std::string peer);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  int fd() const { return socket_.get(); }
  const std::string& peer() const { return peer_; }
  void set_peer(std::string peer) { peer_ = std::move(peer); }

  // Before start(); these do not wait. kUnauthenticated: the peer has another key or none. kUnavailable: the
  // connection is lost.
  [[nodiscard]] Result<bool> handshake();                            // Whether it is complete.
  [[nodiscard]] Result<void> say(std::span<const std::byte> bytes);  // For send_some(); at most 16 KiB.
  [[nodiscard]] Result<size_t> hear(std::span<std::byte> to);        // Number of bytes; 0: none have arrived.

  // Begins the data. The client must have heard everything that the server said.
  [[nodiscard]] Result<void> start();
  // For the client: encrypts the bytes, and sends when several pieces have come together. kTimeout: the deadline
  // passed. kUnavailable: the connection is lost.
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes, Time deadline);
  [[nodiscard]] Result<void> flush(Time deadline);  // Sends the rest.
  // For the server: fills `to`. The client must write as many bytes in one call. Errors as write(), and
  // kUnauthenticated: the bytes are not what the peer sent, or it wrote another number.
  [[nodiscard]] Result<void> read(std::span<std::byte> to, Time deadline);

  // Sends without waiting. Whether nothing is left.
  [[nodiscard]] Result<bool> send_some();
  bool has_unsent() const { return sent_ < used_; }

  // Ends a call that waits, and makes every later one fail. Any thread.
  void shut_down();

 private:
  struct Bio;  // Functions that OpenSSL calls.

  NodeLink(int64_t pieces_per_key, End end, net::UniqueFd socket, std::string peer);
  [[nodiscard]] Result<void> seal(std::span<const std::byte> piece);
  [[nodiscard]] Result<void> open(std::span<std::byte> piece, Time deadline);
  [[nodiscard]] Result<void> next_nonce();
  [[nodiscard]] Result<void> send_all(Time deadline, int flags);
  Error tls_failure(int status);
  Error lost(int error) const;
  bool is_unreachable() const;

  const int64_t pieces_per_key_;
  const End end_;
  const net::UniqueFd socket_;
  std::string peer_;
  ssl_st* ssl_ = nullptr;
  evp_cipher_ctx_st* cipher_ = nullptr;
  unsigned char iv_[12] = {};  // Those of the current key; with the number of the piece it makes the nonce.
  int64_t pieces_ = 0;         // Sealed or opened.
  // Encrypted bytes. The client: [sent_, used_) are to be sent. The server: the current piece.
  const size_t buffer_bytes_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t sent_ = 0, used_ = 0;
  size_t send_bytes_ = kPieceBytes;  // Sent at once: the first ones early, many in one call later.
};

}  // namespace volador::train
