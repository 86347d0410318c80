// Commands that other ranks of the job and its users start on a rank, and connections of users to ports of its machine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jobs/rank_process.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {

struct RemoteCommand {
  std::string id;            // Made by the caller, unique among its commands.
  std::string command_line;  // For bash.
  bool input = false;        // Has a standard input; false: /dev/null.
  // Folder of the job on the node of the caller; in the command line it stands for the one of the node that runs it,
  // since launchers repeat paths of the first node (DeepSpeed: cd FOLDER). Empty: nothing is replaced.
  std::string folder = {};
  std::vector<std::string> words = {};  // A program and its arguments, instead of the command line.
  bool terminal = false;                // Has a terminal for all its streams.
  int32_t rows = 0;                     // Size of the terminal; 0: 24 and 80.
  int32_t columns = 0;
  bool by_user = false;  // Its caller is no rank of the job, and RemoteCommands::Limits hold for it.
  // Instead of a program: a connection to this TCP port of the machine, on its loopback address. 0: none.
  int32_t port = 0;
};
VOLADOR_FIELDS(RemoteCommand, id, command_line, input, folder, words, terminal, rows, columns, by_user, port);

// What a command tells its caller: output, then kEnded. kNothing: there was none while the caller waited.
struct RemoteEvent {
  enum : int32_t { kNothing = 0, kOutput = 1, kError = 2, kEnded = 3 };
  int32_t kind = kOutput;
  Bytes bytes;       // For kOutput and kError.
  int32_t code = 0;  // For kEnded: the exit code, 128 + number for a signal.
};
VOLADOR_FIELDS(RemoteEvent, kind, bytes, code);

// Runs commands in the surroundings of a rank, each with a thread of its own. Thread safe; no method waits.
class RemoteCommands {
 public:
  using Events = std::vector<RemoteEvent>;

  // For commands of users.
  struct Limits {
    size_t commands = 32;                               // That run, or whose end was not taken.
    size_t connections = 128;                           // As for commands.
    std::chrono::milliseconds reader_patience{60'000};  // A command whose caller takes nothing so long is abandoned.
    size_t input_bytes = size_t{1} << 20;               // Given and not yet in the pipe.
  };

  // The surroundings do not change while a command is started.
  explicit RemoteCommands(const RankSurroundings& surroundings) : RemoteCommands(surroundings, Limits{}) {}
  RemoteCommands(const RankSurroundings& surroundings, const Limits& limits)
      : surroundings_(surroundings), limits_(limits) {}
  // Abandons all commands and waits for their ends.
  ~RemoteCommands();
  RemoteCommands(const RemoteCommands&) = delete;
  RemoteCommands& operator=(const RemoteCommands&) = delete;

  // kUnavailable: end() was called, there are no descriptors, or users run too many commands. A program that cannot be executed is a command that
  // ends. A command with more than 1 MiB of output that was not taken waits when its pipes are full. Processes that
  // it leaves behind go on. A connection ends with code 0 when the program at the port closes its direction, and with
  // code 1 when it breaks. kUnavailable also: nothing listens at the port.
  Result<void> start(const RemoteCommand& command);
  // `give` gets the next events once, as soon as there are any or the time is over, and nothing if there is no such
  // command. A second call before that takes its place, and the first is answered with nothing. Events of a reader that
  // `is_gone` meanwhile stay for the next one.
  void take(const std::string& id, std::function<void(Events)> give,
            std::chrono::milliseconds wait = std::chrono::hours(24), std::function<bool()> is_gone = {});
  // Gives bytes to the command after those that were given before. `last`: its standard input ends with them. `taken`
  // runs once: when the bytes are in the pipe, or when the command has ended or does not read them.
  void input(const std::string& id, std::string bytes, bool last, std::function<void()> taken);
  // As input(), for callers that do not wait. kUnavailable: more than Limits::input_bytes were given that the command has
  // not read; nothing is taken. Input that it does not read is dropped.
  Result<void> offer(const std::string& id, std::string bytes, bool last);
  // A new size of its terminal. No effect without one.
  void resize(const std::string& id, int32_t rows, int32_t columns);
  // No effect if the command has ended.
  void send(const std::string& id, int signal);
  // Its caller is gone: sends the stop signal and hangs up its terminal, and after 10 s kills it.
  void abandon(const std::string& id);
  // Abandons all commands; further ones are refused.
  void end();

 private:
  struct Running;
  std::shared_ptr<Running> find(const std::string& id);
  void forget(const std::string& id);
  Result<void> make_room_locked(bool for_connection);

  const RankSurroundings& surroundings_;
  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable no_thread_;
  int threads_ = 0;
  bool ending_ = false;
  std::map<std::string, std::shared_ptr<Running>> running_;  // Until their end was taken.
};

}  // namespace volador::jobs
