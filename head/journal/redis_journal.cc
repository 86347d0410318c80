#include "head/journal/redis_journal.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <charconv>
#include <initializer_list>
#include <set>
#include <vector>

#include "head/journal/row_check.h"

namespace volador::head {
namespace {

constexpr size_t kCheckBytes = 8;
constexpr size_t kRowsARead = 64;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

std::string_view text_of(const redisReply* reply) {
  return reply->str ? std::string_view(reply->str, reply->len) : std::string_view();
}

// A missing counter reads as 0.
uint64_t number_of(const redisReply* reply) {
  if (reply->type == REDIS_REPLY_INTEGER) return static_cast<uint64_t>(reply->integer);
  uint64_t number = 0;
  const auto text = text_of(reply);
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string check_bytes(std::string_view table, std::string_view key, std::string_view value) {
  const uint64_t sum = row_check(table, key, value);
  std::string bytes(kCheckBytes, '\0');
  for (size_t i = 0; i < kCheckBytes; ++i) bytes[i] = static_cast<char>(sum >> (8 * i));
  return bytes;
}

// Parses "key:value" lines of INFO.
std::string_view info_value(std::string_view info, std::string_view key) {
  const std::string start = fmt::format("\n{}:", key);
  size_t at = info.find(start);
  if (at == info.npos) return {};
  at += start.size();
  return info.substr(at, info.find_first_of("\r\n", at) - at);
}

class RedisJournal final : public Journal {
 public:
  explicit RedisJournal(RedisJournalOptions options)
      : options_(std::move(options)),
        server_(fmt::format("{}:{}/{}", options_.address.host, options_.address.port, options_.address.database)),
        prefix_(fmt::format("volador:{}:{}{}", to_string(options_.cluster), options_.part,
                            options_.part.empty() ? "" : ":")) {}

  Result<void> open();

  Result<void> load(const Visit& visit) override;
  Result<void> commit(std::span<const Mutation> batch) override;
  uint64_t generation() const override { return generation_; }
  std::string description() const override { return "redis " + server_; }

 private:
  using Words = std::vector<std::string_view>;

  Result<void> connect();  // Leaves no connection behind on failure.
  Result<void> log_in();
  Result<void> check_settings();
  Result<void> check_turn();
  Result<void> load_table(std::string_view table, const Visit& visit);
  Result<void> send_batch(std::span<const Mutation> batch);
  void append(const Words& words);
  // Reads the next reply; an error reply becomes an Error.
  Result<Reply> take();
  Result<Reply> ask(const Words& words) {
    append(words);
    return take();
  }
  tl::unexpected<Error> refused(std::string_view answer) const;
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  std::string rows(std::string_view table) const { return prefix_ + "rows:" + std::string(table); }

  RedisJournalOptions options_;
  std::string server_;
  std::string prefix_;
  std::unique_ptr<redisContext, FreeContext> context_;  // Null: not connected.
  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool uncertain_ = false;  // The last batch was sent but has no reply.
};

void RedisJournal::append(const Words& words) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (std::string_view word : words) {
    data.push_back(word.data());
    sizes.push_back(word.size());
  }
  if (context_) redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), data.data(), sizes.data());
}

tl::unexpected<Error> RedisJournal::refused(std::string_view answer) const {
  if (answer.starts_with("NOAUTH") || answer.starts_with("WRONGPASS") ||
      answer.find("invalid password") != answer.npos) {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("redis {}: wrong or missing password. Write it into the address: --store=redis://:PASSWORD@{}",
                    server_, server_));
  }
  if (answer.starts_with("OOM")) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("redis {}: out of memory (maxmemory). Raise it; the head goes on by itself.", server_));
  }
  return make_error(ErrorCode::kUnavailable, fmt::format("redis {}: refused: {}", server_, answer));
}

Result<Reply> RedisJournal::take() {
  void* raw = nullptr;
  if (!context_ || redisGetReply(context_.get(), &raw) != REDIS_OK) {
    std::string why = context_ ? context_->errstr : "not connected";
    context_.reset();
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("redis {}: no answer within {} ms: {}. Start the server or check the network; the head goes on "
                    "by itself.",
                    server_, options_.timeout.count(), why));
  }
  Reply reply(static_cast<redisReply*>(raw));
  if (reply->type == REDIS_REPLY_ERROR) return refused(text_of(reply.get()));
  return reply;
}

Result<void> RedisJournal::check_settings() {
  auto persistence = ask({"INFO", "persistence"});
  if (!persistence) return make_error(persistence.error());
  if (info_value(text_of(persistence->get()), "loading") == "1") {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("redis {}: still loads its data; try again in a moment", server_));
  }
  if (options_.force) return {};
  if (info_value(text_of(persistence->get()), "aof_enabled") != "1") {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("redis {}: keeps no append-only file, so a restart of it would lose the cluster. Set "
                                  "`appendonly yes` in its "
                                  "configuration, or now: redis-cli -h {} -p {} CONFIG SET appendonly yes",
                                  server_, options_.address.host, options_.address.port));
  }
  auto memory = ask({"INFO", "memory"});
  if (!memory) return make_error(memory.error());
  const auto policy = info_value(text_of(memory->get()), "maxmemory_policy");
  if (info_value(text_of(memory->get()), "maxmemory") != "0" && policy != "noeviction") {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "redis {}: drops keys when its memory is full (maxmemory-policy {}). Set `maxmemory-policy noeviction`.",
            server_, policy));
  }
  if (options_.durability == Durability::kPower) {
    auto sync = ask({"CONFIG", "GET", "appendfsync"});
    if (!sync) return make_error(sync.error());
    const redisReply* reply = sync->get();
    if (reply->elements != 2 || text_of(reply->element[1]) != "always") {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("redis {}: --durability=power needs `appendfsync always` in its configuration", server_));
    }
  }
  return {};
}

Result<void> RedisJournal::connect() {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(options_.timeout).count();
  const timeval timeout{.tv_sec = micros / 1'000'000, .tv_usec = micros % 1'000'000};
  context_.reset(redisConnectWithTimeout(options_.address.host.c_str(), options_.address.port, timeout));
  if (!context_ || context_->err != 0) {
    std::string why = context_ ? context_->errstr : "out of memory";
    context_.reset();
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("redis {}: cannot connect: {}. Start the server or check --store.", server_, why));
  }
  redisSetTimeout(context_.get(), timeout);
  redisEnableKeepAlive(context_.get());
  auto ready = log_in();
  if (!ready) context_.reset();
  return ready;
}

Result<void> RedisJournal::log_in() {
  if (!options_.address.password.empty()) VOLADOR_TRY(ask({"AUTH", options_.address.password}));
  if (options_.address.database != 0) VOLADOR_TRY(ask({"SELECT", std::to_string(options_.address.database)}));
  return check_settings();
}

Result<void> RedisJournal::open() {
  VOLADOR_TRY(connect());
  auto turn = ask({"INCR", name("fence")});
  if (!turn) return make_error(turn.error());
  generation_ = number_of(turn->get());
  auto sequence = ask({"GET", name("sequence")});
  if (!sequence) return make_error(sequence.error());
  sequence_ = number_of(sequence->get());
  return {};
}

Result<void> RedisJournal::load_table(std::string_view table, const Visit& visit) {
  auto keys = ask({"HKEYS", rows(table)});
  if (!keys) return make_error(keys.error());
  const redisReply* all = keys->get();
  const std::string hash = rows(table);
  for (size_t from = 0; from < all->elements; from += kRowsARead) {
    const size_t to = std::min(all->elements, from + kRowsARead);
    Words words{"HMGET", hash};
    for (size_t i = from; i < to; ++i) words.push_back(text_of(all->element[i]));
    auto values = ask(words);
    if (!values) return make_error(values.error());
    for (size_t i = from; i < to; ++i) {
      const auto key = text_of(all->element[i]);
      const auto stored = text_of(values->get()->element[i - from]);
      const auto value = stored.substr(std::min(stored.size(), kCheckBytes));
      if (stored.substr(0, kCheckBytes) != check_bytes(table, key, value)) {
        return make_error(
            ErrorCode::kInternal,
            fmt::format("redis {}: a row of {} does not match its check sum. Restore the server's data from a copy.",
                        server_, hash));
      }
      visit(table, key, value);
    }
  }
  return {};
}

Result<void> RedisJournal::load(const Visit& visit) {
  if (!context_) VOLADOR_TRY(connect());
  auto tables = ask({"SMEMBERS", name("tables")});
  if (!tables) return make_error(tables.error());
  for (size_t i = 0; i < tables->get()->elements; ++i)
    VOLADOR_TRY(load_table(text_of(tables->get()->element[i]), visit));
  return {};
}

// Checks that the store still belongs to this opening and holds all acknowledged batches. Leaves both counters under
// WATCH.
Result<void> RedisJournal::check_turn() {
  const std::string fence = name("fence"), sequence = name("sequence");
  append({"WATCH", fence, sequence});
  append({"MGET", fence, sequence});
  auto watched = take();
  if (!watched) return make_error(watched.error());
  auto counters = take();
  if (!counters) return make_error(counters.error());
  const redisReply* both = counters->get();
  if (both->elements != 2) return refused("an unexpected answer to MGET");
  const uint64_t generation = number_of(both->element[0]);
  const uint64_t stored = number_of(both->element[1]);
  if (generation > generation_) {
    return make_error(
        ErrorCode::kPermissionDenied,
        fmt::format("redis {}: another head opened this cluster's journal (opening {}; ours is {}). This head ends.",
                    server_, generation, generation_));
  }
  if (uncertain_ && stored == sequence_ + 1) ++sequence_;
  if (generation < generation_ || stored != sequence_) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("redis {}: lost batches that it had acknowledged (holds {} of {}). Restore its "
                                  "append-only file, then start the head again.",
                                  server_, stored, sequence_));
  }
  uncertain_ = false;
  return {};
}

Result<void> RedisJournal::send_batch(std::span<const Mutation> batch) {
  std::set<std::string_view> tables;
  size_t commands = 1;
  append({"MULTI"});
  for (const Mutation& mutation : batch) {
    const std::string hash = rows(mutation.table);
    if (mutation.value) {
      if (tables.insert(mutation.table).second) {
        append({"SADD", name("tables"), mutation.table});
        ++commands;
      }
      const std::string stored = check_bytes(mutation.table, mutation.key, *mutation.value) + *mutation.value;
      append({"HSET", hash, mutation.key, stored});
    } else {
      append({"HDEL", hash, mutation.key});
    }
    ++commands;
  }
  append({"INCR", name("sequence")});
  append({"EXEC"});
  uncertain_ = true;
  // A refused command also makes EXEC fail; report the reason of the command.
  Result<void> queued;
  for (size_t i = 0; i < commands + 1; ++i) {
    auto reply = take();
    if (!reply && !context_) return make_error(reply.error());
    if (!reply && queued) queued = make_error(reply.error());
  }
  auto executed = take();
  if (!executed && !context_) return make_error(executed.error());
  uncertain_ = false;
  if (!queued) return queued;
  if (!executed) return make_error(executed.error());
  if (executed->get()->type == REDIS_REPLY_NIL) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("redis {}: the journal's counters changed during a batch", server_));
  }
  ++sequence_;
  for (size_t i = 0; i < executed->get()->elements; ++i) {
    const redisReply* answer = executed->get()->element[i];
    if (answer->type == REDIS_REPLY_ERROR) return refused(text_of(answer));
  }
  return {};
}

Result<void> RedisJournal::commit(std::span<const Mutation> batch) {
  VOLADOR_TRY(check_mutations(batch));
  if (batch.empty()) return {};
  const bool kept = context_ != nullptr;
  if (!kept) VOLADOR_TRY(connect());
  auto turn = check_turn();
  if (!turn && kept && !context_) {  // The server went away since the last batch and may be back.
    VOLADOR_TRY(connect());
    turn = check_turn();
  }
  if (!turn) return turn;
  return send_batch(batch);
}

}  // namespace

Result<std::unique_ptr<Journal>> open_redis_journal(const RedisJournalOptions& options) {
  auto journal = std::make_unique<RedisJournal>(options);
  VOLADOR_TRY(journal->open());
  return journal;
}

}  // namespace volador::head
