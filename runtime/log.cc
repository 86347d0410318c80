#include "runtime/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>

namespace volador::log {
namespace {

std::atomic<Level> threshold{Level::kInfo};
std::atomic<size_t> errors{0};

// The one process-wide object here: a log has to be reachable from everywhere. Leaked, so that late threads can still write.
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
    case Level::kDebug: return "debug";
    case Level::kInfo: return "info ";
    case Level::kWarn: return "warn ";
    case Level::kError: return "error";
    case Level::kOff: break;
  }
  return "?";
}

// A log names addresses, users and programs. What it rotates into keeps the mode.
spdlog::file_event_handlers only_the_owner_reads() {
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) { (void)::fchmod(::fileno(file), 0600); };
  return handlers;
}

}  // namespace

void configure(const Options& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes_max, options.files_max, false,
                                                                    only_the_owner_reads());
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
  for (const Field& field : fields) fmt::format_to(std::back_inserter(line), " {}={}", field.key, quoted_if_needed(field.value));
  std::atomic_load(&logger())->info("{}", line);
}

size_t errors_written() { return errors; }

}  // namespace volador::log
