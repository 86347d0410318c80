// Journal on a Redis server, for clusters in which a head on another machine must be able to take over.
//
//   volador:<cluster id>:fence        number of openings; every batch checks that it is still this opening's
//   volador:<cluster id>:sequence     number of batches; below our count: the server lost some
//   volador:<cluster id>:tables       set of table names
//   volador:<cluster id>:rows:<table> hash key -> 8 bytes of checksum, value
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "head/journal/journal.h"
#include "head/journal/sqlite_journal.h"
#include "runtime/ids.h"

namespace volador::head {

// redis://[:password@]host[:port][/database]; the password may be percent-encoded, an IPv6 host is in brackets.
struct RedisAddress {
  std::string host;
  int port = 6379;
  int database = 0;
  std::string password;

  bool operator==(const RedisAddress&) const = default;
};
// kInvalidArgument: the message shows the expected form and never repeats the password.
[[nodiscard]] Result<RedisAddress> parse_redis_url(std::string_view url);

struct RedisJournalOptions {
  RedisAddress address;
  ClusterId cluster;
  // A part of the cluster with its own journal; its keys are below volador:<cluster id>:<part>. Empty: the head's.
  std::string part = {};
  Durability durability = Durability::kProcess;  // kPower requires a server with appendfsync=always.
  bool force = false;  // Accepts a server that may lose data (no append-only file, or key eviction).
  std::chrono::milliseconds timeout{2000};  // For connecting and for each reply.
};

// Fences off the head that opened the store before. The next commit reconnects after a lost connection.
// kUnavailable: no server responds. kUnauthenticated: wrong password. kInvalidArgument: the server's settings would
// lose data.
[[nodiscard]] Result<std::unique_ptr<Journal>> open_redis_journal(const RedisJournalOptions& options);

}  // namespace volador::head
