#include "tune/execution/start_order.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResume = "VOLADOR_TUNE_RESUME";
constexpr const char* kFailed = "VOLADOR_TUNE_FAILED";  // "resume", "restart"
constexpr const char* kReplay = "VOLADOR_TUNE_REPLAY";
constexpr const char* kReport = "VOLADOR_TUNE_REPLAY_REPORT";

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Everything that exec needs, prepared before a fork.
struct Prepared {
  std::vector<std::string> arguments, variables;
  std::vector<char*> argv, envp;

  Prepared(const JournalProgram& program, const std::map<std::string, std::string>& environment)
      : arguments(program.arguments) {
    if (arguments.empty()) arguments.push_back(program.executable);
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view pair = *entry;
      if (!environment.contains(std::string(pair.substr(0, pair.find('='))))) variables.emplace_back(pair);
    }
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    for (std::string& one : arguments) argv.push_back(one.data());
    for (std::string& one : variables) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
};

}  // namespace

std::map<std::string, std::string> environment_of(const StartOrder& order) {
  const std::string directory = fs::absolute(order.directory).string();
  if (order.kind == StartOrder::Kind::kResume) {
    std::map<std::string, std::string> variables{{kResume, directory}};
    if (order.failed != StartOrder::Failed::kAsTheProgramSays)
      variables[kFailed] = order.failed == StartOrder::Failed::kResume ? "resume" : "restart";
    return variables;
  }
  if (order.kind == StartOrder::Kind::kReplay)
    return {{kReplay, directory}, {kReport, order.report.string()}, {"VOLADOR_ADDRESS", "local"}};
  return {};
}

Result<StartOrder> take_start_order(const std::string& experiment) {
  const fs::path resume = variable(kResume), replay = variable(kReplay);
  const fs::path& directory = resume.empty() ? replay : resume;
  if (directory.empty()) return StartOrder{};
  auto journal = read_journal(directory);
  if (!journal) return make_error(journal.error());
  const bool meant = journal->header.name == experiment;
  if (!resume.empty()) {
    if (!meant) return StartOrder{};
    const std::string failed = variable(kFailed).string();
    ::unsetenv(kResume);
    ::unsetenv(kFailed);
    StartOrder order{StartOrder::Kind::kResume, directory, {}};
    if (failed == "resume") order.failed = StartOrder::Failed::kResume;
    if (failed == "restart") order.failed = StartOrder::Failed::kRestart;
    return order;
  }
  if (!meant)
    return make_error(
        ErrorCode::kCancelled,
        fmt::format("volador tune replay asks about experiment \"{}\", and the program runs \"{}\" before it",
                    journal->header.name, experiment));
  return StartOrder{StartOrder::Kind::kReplay, directory, variable(kReport)};
}

Result<JournalProgram> program_of(const JournalContents& journal, const fs::path& directory) {
  for (auto record = journal.records.rbegin(); record != journal.records.rend(); ++record) {
    if (const auto* program = std::get_if<JournalProgram>(&*record); program != nullptr && !program->executable.empty())
      return *program;
  }
  if (journal.header.searcher == kTrainingSearcher)
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} is a training run of train::TorchTrainer, which is not resumed by its folder: "
                                  "start its program again, with trainer.load(FILE) to go on from a saved state",
                                  directory.string()));
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("{}: its journal does not tell its program, an earlier Volador wrote it: start the program yourself "
                  "with .resume = \"{}\"",
                  journal_path(directory).string(), directory.string()));
}

Result<void> check_startable(const JournalProgram& program) {
  for (const auto& [what, path] :
       {std::pair("program", program.executable), std::pair("working directory", program.working_directory)}) {
    std::error_code code;
    if (!fs::exists(path, code))
      return make_error(
          ErrorCode::kNotFound,
          fmt::format(
              "the {} of the run, {} on {}, is not there any more: bring it back, or start the program yourself "
              "with .resume",
              what, path, program.hostname));
  }
  return {};
}

Error become(const JournalProgram& program, const std::map<std::string, std::string>& environment) {
  Prepared prepared(program, environment);
  if (::chdir(program.working_directory.c_str()) != 0) return file_error("enter", program.working_directory, errno);
  ::execve(program.executable.c_str(), prepared.argv.data(), prepared.envp.data());
  return file_error("start", program.executable, errno);
}

Result<int> start_and_wait(const JournalProgram& program, const std::map<std::string, std::string>& environment,
                           const fs::path& output) {
  Prepared prepared(program, environment);
  auto file = FileHandle::open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file) return make_error(file.error());
  auto null = FileHandle::open("/dev/null", O_RDONLY);
  if (!null) return make_error(null.error());
  const pid_t pid = ::fork();
  if (pid < 0) return make_error(file_error("start", program.executable, errno));
  if (pid == 0) {
    ::dup2(null->get(), 0);
    ::dup2(file->get(), 1);
    ::dup2(file->get(), 2);
    if (::chdir(program.working_directory.c_str()) == 0)
      ::execve(program.executable.c_str(), prepared.argv.data(), prepared.envp.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace volador::tune
