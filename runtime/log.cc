#include "runtime/log.h"

#include <spdlog/details/log_msg_buffer.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime/job_thread.h"

namespace volador::log {
namespace {

std::atomic<Level> threshold{Level::kInfo};
std::atomic<size_t> errors{0};

// Process-wide singleton, because the log must be reachable from everywhere. Leaked: threads may write during process
// exit.
std::shared_ptr<spdlog::logger>& logger() {
  static auto* instance = [] {
    auto made = std::make_shared<spdlog::logger>("volador", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::trace);
    return new std::shared_ptr<spdlog::logger>(std::move(made));
  }();
  return *instance;
}

std::string_view name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info ";
    case Level::kWarn:
      return "warn ";
    case Level::kError:
      return "error";
    case Level::kOff:
      break;
  }
  return "?";
}

// Log files contain addresses, users and programs: only the owner may read them. Rotated files keep the mode.
spdlog::file_event_handlers only_the_owner_reads() {
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) { (void)::fchmod(::fileno(file), 0600); };
  return handlers;
}

constexpr size_t kLinesMax = 10'000;  // Lines queued for a file's disk; further ones are dropped and counted.
constexpr std::chrono::milliseconds kDrainPatience{1000};

// Passes lines to a sink on another thread. Thread safe.
class LaterSink final : public spdlog::sinks::sink {
 public:
  explicit LaterSink(spdlog::sink_ptr to) : to_(std::move(to)) {}

  void log(const spdlog::details::log_msg& line) override {
    if (thread_.size() >= kLinesMax) {
      ++left_out_;
      return;
    }
    if (const size_t missing = left_out_.exchange(0); missing > 0) {
      const std::string text = fmt::format(
          "warn  log \"lines are missing here: the disk of this file did not take them\" lines={}", missing);
      hand_on(spdlog::details::log_msg(line.logger_name, line.level, text));
    }
    hand_on(line);
  }
  void flush() override {}  // Every line is flushed.
  void set_pattern(const std::string& pattern) override { to_->set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    to_->set_formatter(std::move(formatter));
  }
  void drain() const { thread_.wait_until_idle(kDrainPatience); }

 private:
  void hand_on(const spdlog::details::log_msg& line) {
    thread_.post([to = to_, line = std::make_unique<spdlog::details::log_msg_buffer>(line)]() -> JobThread::Then {
      try {
        to->log(*line);
        to->flush();
      } catch (const spdlog::spdlog_ex&) {  // A full disk loses lines.
      }
      return {};
    });
  }

  const spdlog::sink_ptr to_;
  std::atomic<size_t> left_out_{0};
  JobThread thread_{"log"};
};

}  // namespace

void configure(const Options& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<LaterSink>(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        options.file, options.file_bytes_max, options.files_max, false, only_the_owner_reads()));
    [[maybe_unused]] static const int at_exit = std::atexit(drain);
  }
  auto made = std::make_shared<spdlog::logger>("volador", std::move(sink));
  made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %v", spdlog::pattern_time_type::utc);
  made->set_level(spdlog::level::trace);
  made->flush_on(spdlog::level::info);
  std::atomic_store(&logger(), std::move(made));
  threshold = options.level;
}

std::string quoted_if_needed(std::string_view value) {
  bool plain = !value.empty();
  for (const char c : value) {
    const auto u = static_cast<unsigned char>(c);
    if (u <= ' ' || c == '"' || c == '=' || c == '\\' || u == 0x7f) plain = false;
  }
  if (plain) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < ' ' || u == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

void write(Level level, std::string_view component, std::string_view text, std::span<const Field> fields) {
  if (level == Level::kError) ++errors;
  if (level < threshold.load(std::memory_order_relaxed)) return;
  std::string line = fmt::format("{} {} \"{}\"", name(level), component, text);
  for (const Field& field : fields)
    fmt::format_to(std::back_inserter(line), " {}={}", field.key, quoted_if_needed(field.value));
  std::atomic_load(&logger())->info("{}", line);
}

void drain() {
  for (const spdlog::sink_ptr& sink : std::atomic_load(&logger())->sinks()) {
    if (const auto* later = dynamic_cast<const LaterSink*>(sink.get())) later->drain();
  }
}

size_t errors_written() { return errors; }

}  // namespace volador::log
