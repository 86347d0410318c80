// A child process with its output: started, fed, read and ended by the thread that calls. It ends with that thread,
// and so with this process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::storage {

class ChildProcess {
 public:
  struct Command {
    std::vector<std::string> words;      // The first one is the path of the program.
    std::vector<std::string> variables;  // "NAME=value".
  };

  // In a process group of its own. kNotFound: there is no such program; kUnavailable: no process or descriptor is left.
  [[nodiscard]] static Result<ChildProcess> start(const Command& command);
  // Ends the group if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }  // Also that of its process group. 0: it has ended.

  struct Reader {
    std::string_view input = {};                                   // For stdin, which is closed after it.
    std::function<Result<void>(std::string_view)> on_output = {};  // Bytes of stdout; an error ends the child.
    std::function<void(std::string_view)> on_line = {};            // Lines of stderr, without the newline.
  };
  // Feeds and reads until both outputs are closed and the child has ended; returns its exit code, 128 and the number of
  // the signal that ended it. kCancelled: `stop` was requested; the group has been ended. Call once.
  [[nodiscard]] Result<int> run(const Reader& reader, std::stop_token stop);

  // Returns up to `size` bytes of stdout, fewer only at its end. Instead of run(); stdin is empty.
  [[nodiscard]] Result<size_t> read(char* to, size_t size, std::stop_token stop);
  // Reads the rest of stderr into the lines and waits; after read() returned less than was asked for.
  [[nodiscard]] Result<int> finish(const std::function<void(std::string_view)>& on_line, std::stop_token stop);

 private:
  ChildProcess() = default;
  Result<int> wait();
  void end();
  void take_lines(std::string_view bytes, const std::function<void(std::string_view)>& on_line);

  pid_t pid_ = 0;  // 0: it has ended.
  net::UniqueFd in_, out_, err_;
  std::string line_;  // The start of an incomplete line.
};

// The first executable file of this name in the folders of `path`, as PATH lists them; empty: there is none.
std::string find_in_path(const std::string& name, std::string_view path);

}  // namespace volador::storage
