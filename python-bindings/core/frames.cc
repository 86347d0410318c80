#include "python-bindings/core/frames.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "python-bindings/core/convert.h"
#include "python-bindings/core/gil.h"

namespace volador::python {
namespace {

using std::chrono::milliseconds;
using Threads = std::map<uintptr_t, std::vector<std::string>>;

constexpr size_t kDumpBytesMax = 1 << 20;

// Where faulthandler writes the frames of all threads when this process gets the signal; it needs no interpreter lock.
struct Dump {
  int fd = -1;
  int signal = 0;
};
std::atomic<Dump> dump{};

// With the interpreter lock.
Threads frames_of_interpreter() {
  Threads threads;
  try {
    const auto rows = nb::cast<nb::dict>(nb::module_::import_("volador._stacks").attr("frames")());
    for (const auto& [thread, lines] : rows) {
      auto& frames = threads[nb::cast<uintptr_t>(thread)];
      for (const nb::handle line : nb::cast<nb::list>(lines)) frames.push_back(nb::cast<std::string>(line));
    }
  } catch (nb::python_error& raised) {
    raised.discard_as_unraisable("volador stack");
  }
  return threads;
}

// A thread that takes the interpreter lock for each question, so that the one who asks need not wait for the lock.
class FrameThread {
 public:
  // Nothing: the lock was not free in time.
  std::optional<Threads> ask(milliseconds patience) {
    std::unique_lock hold(mutex_);
    const uint64_t wanted = ++asked_;
    if (!std::exchange(is_started_, true)) {
      std::thread([this] { run(); }).detach();
    }
    changed_.notify_all();
    if (!changed_.wait_for(hold, patience, [&] { return answered_ >= wanted; })) return std::nullopt;
    return threads_;
  }

 private:
  [[noreturn]] void run() {
    ::pthread_setname_np(::pthread_self(), "volador-frames");
    std::unique_lock hold(mutex_);
    while (true) {
      changed_.wait(hold, [this] { return asked_ > answered_; });
      hold.unlock();
      uint64_t asked = 0;
      Threads threads;
      {
        const WithGil gil;
        hold.lock();
        asked = asked_;
        hold.unlock();
        threads = frames_of_interpreter();
      }
      hold.lock();
      answered_ = asked;
      threads_ = std::move(threads);
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_started_ = false;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  Threads threads_;
};

// Thread safe: one request at a time.
std::optional<std::string> text_of_dump() {
  static std::mutex one_at_a_time;
  const std::lock_guard hold(one_at_a_time);
  const Dump to = dump;
  if (to.fd < 0 || ::ftruncate(to.fd, 0) != 0 || ::lseek(to.fd, 0, SEEK_SET) != 0) return std::nullopt;
  if (::pthread_kill(::pthread_self(), to.signal) != 0) return std::nullopt;
  const off_t end = ::lseek(to.fd, 0, SEEK_CUR);
  if (end <= 0) return std::nullopt;
  std::string text(std::min(static_cast<size_t>(end), kDumpBytesMax), '\0');
  const ssize_t got = ::pread(to.fd, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// Leaves out the frames of the package that call the program.
Threads of_program(Threads threads) {
  for (auto& [thread, frames] : threads) {
    std::erase_if(frames, [](const std::string& frame) {
      return frame.find("/volador/_host.py:") != std::string::npos ||
             frame.find("/volador/host.py:") != std::string::npos;
    });
  }
  std::erase_if(threads, [](const auto& row) { return row.second.empty(); });
  return threads;
}

stacks::ProgramFrames read_frames(milliseconds patience) {
  static auto* thread = new FrameThread();
  if (auto threads = thread->ask(patience)) return {.threads = of_program(std::move(*threads)), .note = {}};
  const auto text = text_of_dump();
  if (!text) return {};
  return {.threads = of_program(frames_of_dump(*text)),
          .note = fmt::format("a thread has held Python's interpreter lock for {} ms, probably in native code; py "
                              "frames were read without the lock",
                              patience.count())};
}

}  // namespace

std::map<uintptr_t, std::vector<std::string>> frames_of_dump(std::string_view text) {
  Threads threads;
  std::vector<std::string>* frames = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    constexpr std::string_view kThread = "hread 0x";
    constexpr std::string_view kFile = "  File \"";
    constexpr std::string_view kLine = "\", line ";
    if (line.starts_with("Thread 0x") || line.starts_with("Current thread 0x")) {
      const std::string_view number = line.substr(line.find(kThread) + kThread.size());
      uintptr_t handle = 0;
      const auto read = std::from_chars(number.data(), number.data() + number.size(), handle, 16);
      frames = read.ec == std::errc() ? &threads[handle] : nullptr;
    } else if (const size_t at = line.rfind(kLine);
               frames != nullptr && line.starts_with(kFile) && at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kLine.size());  // `7 in epoch`
      const size_t in = rest.find(" in ");
      if (in == std::string_view::npos) continue;
      frames->push_back(fmt::format("py {} at {}:{}", rest.substr(in + 4), line.substr(kFile.size(), at - kFile.size()),
                                    rest.substr(0, in)));
    }
  }
  return threads;
}

void install_frames() { stacks::set_program_frames(&read_frames); }

void bind_frames(nb::module_& module) {
  module.def("set_frame_dump", [](int fd, int signal) { dump = {.fd = fd, .signal = signal}; });
  module.def("frames_of_dump", [](const std::string& text) {
    nb::typed<nb::dict, nb::int_, nb::typed<nb::list, nb::str>> threads;
    for (const auto& [thread, frames] : frames_of_dump(text)) {
      nb::typed<nb::list, nb::str> lines;
      for (const std::string& frame : frames) lines.append(frame);
      threads[nb::int_(thread)] = lines;
    }
    return threads;
  });
}

}  // namespace volador::python
