#include "head/journal/sqlite_journal.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "head/journal/row_check.h"

namespace volador::head {
namespace {

constexpr int kApplicationId = 0x564f4c41;  // "VOLA"
constexpr int kFormat = 1;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

std::string_view column(sqlite3_stmt* statement, int index) {
  const void* data = sqlite3_column_blob(statement, index);
  return {static_cast<const char*>(data), data ? static_cast<size_t>(sqlite3_column_bytes(statement, index)) : 0};
}

class SqliteJournal final : public Journal {
 public:
  explicit SqliteJournal(SqliteJournalOptions options) : options_(std::move(options)), file_(options_.file.string()) {}

  Result<void> open();

  Result<void> load(const Visit& visit) override;
  Result<void> commit(std::span<const Mutation> batch) override;
  uint64_t generation() const override { return generation_; }
  std::string description() const override { return "sqlite " + file_; }

 private:
  Result<void> connect();  // Leaves no connection behind on failure.
  Result<void> set_up();
  Result<void> check_format();
  Result<void> write_batch(std::span<const Mutation> batch);
  Result<void> execute(const char* sql);
  Result<int64_t> read_number(const char* sql);
  Result<void> prepare(const char* sql, Statement& statement);
  // Translates SQLite's last error code for the caller.
  tl::unexpected<Error> failure(std::string_view doing) const;
  void disconnect();

  SqliteJournalOptions options_;
  std::string file_;
  // Null after a failure that leaves the connection in doubt; the next commit opens and verifies it again.
  Database database_;
  Statement begin_, put_, remove_, end_, undo_;
  uint64_t generation_ = 0;
};

tl::unexpected<Error> SqliteJournal::failure(std::string_view doing) const {
  const int code = sqlite3_extended_errcode(database_.get());
  const std::string text = sqlite3_errmsg(database_.get());
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return make_error(ErrorCode::kInternal, fmt::format("{}: the journal is damaged ({}, while {}). Restore it from "
                                                          "a copy, or move the file away and start a new "
                                                          "cluster; `sqlite3 {} .recover` shows what can be read.",
                                                          file_, text, doing, file_));
    case SQLITE_FULL:
      return make_error(
          ErrorCode::kUnavailable,
          fmt::format("{}: no space left on its disk ({}). Make space; the head goes on by itself.", file_, doing));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(
          ErrorCode::kUnavailable,
          fmt::format("{}: another program holds the file open ({}). Close it; the head goes on by itself.", file_,
                      doing));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return make_error(
          ErrorCode::kUnavailable,
          fmt::format("{}: cannot be written ({}, while {}). Check the rights of the file and its folder.", file_, text,
                      doing));
    default:
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: {} (SQLite code {}, while {}). Check the disk.", file_, text, code, doing));
  }
}

Result<void> SqliteJournal::execute(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return failure(sql);
  return {};
}

Result<int64_t> SqliteJournal::read_number(const char* sql) {
  Statement statement;
  VOLADOR_TRY(prepare(sql, statement));
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return 0;
  if (code != SQLITE_ROW) return failure(sql);
  return sqlite3_column_int64(statement.get(), 0);
}

Result<void> SqliteJournal::prepare(const char* sql, Statement& statement) {
  sqlite3_stmt* made = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr) != SQLITE_OK)
    return failure(sql);
  statement.reset(made);
  return {};
}

void SqliteJournal::disconnect() {
  for (Statement* statement : {&begin_, &put_, &remove_, &end_, &undo_}) statement->reset();
  database_.reset();
}

Result<void> SqliteJournal::check_format() {
  auto application = read_number("PRAGMA application_id");
  if (!application) return make_error(application.error());
  auto tables = read_number("SELECT count(*) FROM sqlite_master");
  if (!tables) return make_error(tables.error());
  if (*application == 0 && *tables == 0) {
    return execute(
        fmt::format(
            "BEGIN IMMEDIATE; PRAGMA application_id={}; PRAGMA user_version={};"
            "CREATE TABLE rows(part TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL,"
            "                  PRIMARY KEY(part, key));"
            "CREATE TABLE openings(id INTEGER PRIMARY KEY CHECK(id = 0), count INTEGER NOT NULL);"
            "INSERT INTO openings VALUES(0, 0); COMMIT",
            kApplicationId, kFormat)
            .c_str());
  }
  if (*application != kApplicationId) {
    return make_error(
        ErrorCode::kInternal,
        fmt::format("{}: this is not a journal of Volador. Move the file away, or choose another folder.", file_));
  }
  auto format = read_number("PRAGMA user_version");
  if (!format) return make_error(format.error());
  if (*format != kFormat) {
    return make_error(
        ErrorCode::kInternal,
        fmt::format("{}: written in format {}; this version reads {}. Start the head with the version that wrote it.",
                    file_, *format, kFormat));
  }
  Statement check;
  VOLADOR_TRY(prepare("PRAGMA quick_check(1)", check));
  if (sqlite3_step(check.get()) != SQLITE_ROW) return failure("quick_check");
  if (const auto text = column(check.get(), 0); text != "ok") {
    return make_error(
        ErrorCode::kInternal,
        fmt::format(
            "{}: the journal is damaged ({}). Restore it from a copy, or move the file away and start a new cluster.",
            file_, text));
  }
  return {};
}

Result<void> SqliteJournal::connect() {
  auto ready = set_up();
  if (!ready) disconnect();
  return ready;
}

Result<void> SqliteJournal::set_up() {
  sqlite3* made = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(file_.c_str(), &made, flags, nullptr);
  database_.reset(made);
  if (code != SQLITE_OK) return failure("opening it");
  sqlite3_extended_result_codes(made, 1);
  chmod(file_.c_str(), 0600);
  // Exclusive mode keeps the log's index in memory, not in a shared file. A small cache suffices: rows are read once.
  const char* synchronous =
      options_.durability == Durability::kPower ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL";
  for (const char* sql :
       {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", synchronous, "PRAGMA cache_size=-1024",
        "PRAGMA journal_size_limit=16777216", "PRAGMA temp_store=MEMORY"}) {
    VOLADOR_TRY(execute(sql));
  }
  VOLADOR_TRY(check_format());
  VOLADOR_TRY(prepare("BEGIN IMMEDIATE", begin_));
  VOLADOR_TRY(prepare("INSERT INTO rows VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET value = ?3, sum = ?4", put_));
  VOLADOR_TRY(prepare("DELETE FROM rows WHERE part = ?1 AND key = ?2", remove_));
  VOLADOR_TRY(prepare("COMMIT", end_));
  return prepare("ROLLBACK", undo_);
}

Result<void> SqliteJournal::open() {
  VOLADOR_TRY(connect());
  VOLADOR_TRY(execute("UPDATE openings SET count = count + 1"));
  auto count = read_number("SELECT count FROM openings");
  if (!count) return make_error(count.error());
  generation_ = static_cast<uint64_t>(*count);
  return {};
}

Result<void> SqliteJournal::load(const Visit& visit) {
  if (!database_) VOLADOR_TRY(connect());
  Statement read;
  VOLADOR_TRY(prepare("SELECT part, key, value, sum FROM rows", read));
  while (true) {
    const int code = sqlite3_step(read.get());
    if (code == SQLITE_DONE) return {};
    if (code != SQLITE_ROW) return failure("reading rows");
    const auto table = column(read.get(), 0);
    const auto key = column(read.get(), 1);
    const auto value = column(read.get(), 2);
    if (sqlite3_column_int64(read.get(), 3) != static_cast<int64_t>(row_check(table, key, value))) {
      return make_error(
          ErrorCode::kInternal,
          fmt::format("{}: the journal is damaged: a row of table \"{}\" does not match its check sum. Restore the "
                      "file from a copy, or move it away and start a new cluster.",
                      file_, table));
    }
    visit(table, key, value);
  }
}

Result<void> SqliteJournal::write_batch(std::span<const Mutation> batch) {
  auto run = [this](Statement& statement, std::string_view doing) -> Result<void> {
    const int code = sqlite3_step(statement.get());
    Result<void> result;
    if (code != SQLITE_DONE) result = failure(doing);
    sqlite3_reset(statement.get());
    return result;
  };
  VOLADOR_TRY(run(begin_, "beginning a batch"));
  for (const Mutation& mutation : batch) {
    Statement& statement = mutation.value ? put_ : remove_;
    sqlite3_stmt* raw = statement.get();
    sqlite3_bind_text(raw, 1, mutation.table.data(), static_cast<int>(mutation.table.size()), SQLITE_STATIC);
    sqlite3_bind_blob(raw, 2, mutation.key.data(), static_cast<int>(mutation.key.size()), SQLITE_STATIC);
    if (mutation.value) {
      sqlite3_bind_blob64(raw, 3, mutation.value->data(), mutation.value->size(), SQLITE_STATIC);
      sqlite3_bind_int64(raw, 4, static_cast<int64_t>(row_check(mutation.table, mutation.key, *mutation.value)));
    }
    VOLADOR_TRY(run(statement, "writing a row"));
  }
  return run(end_, "committing a batch");
}

Result<void> SqliteJournal::commit(std::span<const Mutation> batch) {
  VOLADOR_TRY(check_mutations(batch));
  if (!database_) VOLADOR_TRY(connect());
  auto written = write_batch(batch);
  if (written) return written;
  // After an I/O error SQLite's in-memory state is not trusted: the file is opened and verified again.
  const int code = sqlite3_errcode(database_.get()) & 0xff;
  if (sqlite3_get_autocommit(database_.get()) == 0) {
    sqlite3_step(undo_.get());
    sqlite3_reset(undo_.get());
  }
  if (code != SQLITE_FULL && code != SQLITE_BUSY) disconnect();
  return written;
}

}  // namespace

Result<std::unique_ptr<Journal>> open_sqlite_journal(const SqliteJournalOptions& options) {
  auto journal = std::make_unique<SqliteJournal>(options);
  VOLADOR_TRY(journal->open());
  return journal;
}

}  // namespace volador::head
