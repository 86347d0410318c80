// The store on a Redis server, where a head on another machine must be able to take over.
//
//   volador:<cluster id>:fence        count of openings; every batch checks that it still is this opening's
//   volador:<cluster id>:sequence     count of batches; a smaller one than ours means that the server lost some
//   volador:<cluster id>:tables       set of table names
//   volador:<cluster id>:rows:<table> hash key -> 8 bytes of check sum, value
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "head/journal/journal.h"
#include "head/journal/sqlite_journal.h"
#include "runtime/ids.h"

namespace volador::head {

// redis://[:password@]host[:port][/database]; the password may be percent-encoded, an IPv6 host stands in brackets.
struct RedisAddress {
  std::string host;
  int port = 6379;
  int database = 0;
  std::string password;

  bool operator==(const RedisAddress&) const = default;
};
// kInvalidArgument: the message says the form; it never repeats the password.
[[nodiscard]] Result<RedisAddress> parse_redis_url(std::string_view url);

struct RedisJournalOptions {
  RedisAddress address;
  ClusterId cluster;
  std::string part = {};  // Of the cluster, with a journal of its own: its keys stand below volador:<cluster id>:<part>. Empty: the head's.
  Durability durability = Durability::kProcess;  // kPower asks a server with appendfsync=always.
  bool force = false;  // Accepts a server that forgets (no append-only file, or one that evicts keys).
  std::chrono::milliseconds timeout{2000};  // Of connecting, and of each answer.
};

// Shuts out the head that opened the store before. A lost connection is made again by the next commit.
// kUnavailable: no server answers. kUnauthenticated: wrong password. kInvalidArgument: the server's settings would lose data.
[[nodiscard]] Result<std::unique_ptr<Journal>> open_redis_journal(const RedisJournalOptions& options);

}  // namespace volador::head
