#include "volador/roles/job_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>

#include "jobs/command.h"
#include "runtime/debugging.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/quantities.h"
#include "runtime/random.h"

namespace volador {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr size_t kCommandBytes = size_t{128} << 10;
constexpr size_t kInputBytes = size_t{1} << 20;
constexpr size_t kForwardedKept = 1024;
constexpr milliseconds kWaitMax{30'000};
constexpr milliseconds kAnswerPatience{10'000};

template <class Reply>
using CommandDone = std::function<void(Result<Reply>)>;

tl::unexpected<Error> invalid(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

Result<int> signal_number(const std::string& name) {
  static const std::map<std::string_view, int> kSignals{{"", 0},           {"HUP", SIGHUP},   {"INT", SIGINT},
                                                        {"QUIT", SIGQUIT}, {"KILL", SIGKILL}, {"USR1", SIGUSR1},
                                                        {"USR2", SIGUSR2}, {"TERM", SIGTERM}};
  const auto found = kSignals.find(name);
  if (found != kSignals.end()) return found->second;
  return invalid(fmt::format("signal: expected HUP, INT, QUIT, KILL, USR1, USR2 or TERM, got \"{}\"", name));
}

// Ids of commands of users are not those of commands of other ranks.
Result<std::string> checked_id(const std::string& id) {
  const bool known = id.size() == 33 && id.front() == 'c' && std::all_of(id.begin() + 1, id.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                     });
  if (known) return id;
  return make_error(ErrorCode::kNotFound, fmt::format("there is no command \"{}\"", id.substr(0, 64)));
}

Result<jobs::RemoteCommand> checked_command(const v1::StartCommandRequest& request) {
  size_t bytes = 0;
  for (const std::string& word : request.command()) {
    if (word.find('\0') != std::string::npos) return invalid("command: a word has a zero byte");
    bytes += word.size() + 1;
  }
  if (bytes > kCommandBytes)
    return invalid(fmt::format("command: expected at most {}, got {}; put it into a file of the job",
                               format_bytes(kCommandBytes), format_bytes(static_cast<int64_t>(bytes))));
  if (request.port() < 0 || request.port() > 65'535)
    return invalid(fmt::format("port: expected 1 to 65535, got {}", request.port()));
  if (request.port() != 0 && (bytes > 0 || request.terminal()))
    return invalid("port: a connection has no command and no terminal; leave them out");
  if (!request.command().empty() && request.command(0).empty()) return invalid("command: the program has no name");
  SystemRandom random;
  return jobs::RemoteCommand{.id = "c" + to_string(new_id<RequestId>(random)),
                             .command_line = {},
                             .input = request.input() || request.terminal(),
                             .words = {request.command().begin(), request.command().end()},
                             .terminal = request.terminal(),
                             .rows = request.rows(),
                             .columns = request.columns(),
                             .port = request.port()};
}

Result<jobs::CommandInput> checked_input(const v1::WriteCommandRequest& request) {
  auto id = checked_id(request.command());
  if (!id) return make_error(id.error());
  if (request.input().size() > kInputBytes)
    return invalid(fmt::format("input: expected at most {} a request, got {}", format_bytes(kInputBytes),
                               format_bytes(static_cast<int64_t>(request.input().size()))));
  const auto signal = signal_number(request.signal());
  if (!signal) return make_error(signal.error());
  return jobs::CommandInput{.id = std::move(*id),
                            .input = {request.input()},
                            .end = request.end(),
                            .signal = *signal,
                            .rows = request.rows(),
                            .columns = request.columns(),
                            .close = request.close()};
}

// What went wrong between the head and the rank.
template <class Request>
Error error_in_rank(const Request& request, const Error& error) {
  const std::string rank = request.job().starts_with(kDebuggedActor)
                               ? "actor " + request.job().substr(kDebuggedActor.size())
                               : fmt::format("rank {} of {}", request.rank(), request.job());
  if (error.code == ErrorCode::kInvalidArgument && request.job().starts_with(kDebuggedActor))
    return {error.code, rank + ": only Python actors and tasks have a debugger; volador stack shows what others do"};
  if (error.code == ErrorCode::kActorDied) return {error.code, fmt::format("{} has ended: {}", rank, error.message)};
  if (error.code == ErrorCode::kTimeout)
    return {error.code, fmt::format("{} did not answer in time; its node may be lost or overloaded", rank)};
  return {error.code, fmt::format("{}: {}", rank, error.message)};
}

// The error of a rank's answer; none: it went well.
std::optional<Error> error_of(const jobs::CommandAnswer& answer) {
  if (answer.code == 0) return std::nullopt;
  return Error{error_code_from(int64_t{answer.code}), answer.message};
}

}  // namespace

void JobCommands::find_actor(const std::string& job, int rank, const Principal& by,
                             std::function<void(Result<ActorId>)> done) {
  if (!job.starts_with(kDebuggedActor)) return done(parts_.rank(job, rank, by));
  parts_.actor(job.substr(kDebuggedActor.size()), by, [this, done = std::move(done)](Result<ActorId> actor) {
    const bool queued = parts_.post([done, actor = std::move(actor)] { done(actor); });
    if (!queued)
      done(make_error(ErrorCode::kUnavailable, "the head stops or has too many requests for jobs; ask again"));
  });
}

template <class Request, class Reply, class Handle>
void JobCommands::serve(operations::Registry& registry, const char* name, Handle handle) {
  registry.serve<Request, Reply>(
      name, [this, handle](const Principal& by, const Request& request, CommandDone<Reply> done) {
        const bool queued = parts_.post([this, handle, by, request, answer = done]() mutable {
          CommandDone<Reply> told = std::move(answer);
          if constexpr (std::is_same_v<Request, v1::StartCommandRequest>) told = recorded(by, request, std::move(told));
          find_actor(request.job(), request.rank(), by,
                     [this, handle, by, request, told = std::move(told)](const Result<ActorId>& actor) {
                       if (!actor) return told(make_error(actor.error()));
                       const auto connected = parts_.calls();
                       if (!connected) return told(make_error(connected.error()));
                       handle(**connected, *actor, by, request, told);
                     });
        });
        if (!queued) {
          done(make_error(ErrorCode::kUnavailable, "the head stops or has too many requests for jobs; ask again"));
        }
      });
}

std::function<void(Result<v1::StartCommandReply>)> JobCommands::recorded(
    const Principal& by, const v1::StartCommandRequest& request,
    std::function<void(Result<v1::StartCommandReply>)> done) {
  if (request.port() != 0) {
    if (forwarded_.size() >= kForwardedKept) forwarded_.clear();
    const std::string name = fmt::format("{} {} {} {}", by.token_id, request.job(), request.rank(), request.port());
    if (!forwarded_.insert(name).second) return done;
  }
  head::AuditRequest asked{
      .by = by.token_id, .action = request.port() != 0 ? "forward_port" : "start_command", .object = request.job()};
  return
      [record = parts_.record, asked = std::move(asked), done = std::move(done)](Result<v1::StartCommandReply> reply) {
        record(asked, reply ? Result<void>() : make_error(reply.error()));
        done(std::move(reply));
      };
}

void JobCommands::serve_on(operations::Registry& registry) {
  serve<v1::StartCommandRequest, v1::StartCommandReply>(
      registry, "Jobs/StartCommand",
      [](RankCalls& calls, const ActorId& rank, const Principal& by, const v1::StartCommandRequest& request,
         const CommandDone<v1::StartCommandReply>& done) {
        auto command = checked_command(request);
        if (!command) return done(make_error(command.error()));
        log::info("jobs", "starts a command in a job",
                  {{"job", request.job()}, {"rank", std::to_string(request.rank())}, {"by", by.name}});
        calls.call<&jobs::Command::start_command, jobs::CommandAnswer>(
            rank, kAnswerPatience,
            [done, request, id = command->id](const Result<jobs::CommandAnswer>& answer) {
              if (!answer) return done(make_error(error_in_rank(request, answer.error())));
              if (const auto error = error_of(*answer)) return done(make_error(error_in_rank(request, *error)));
              v1::StartCommandReply reply;
              reply.set_command(id);
              done(std::move(reply));
            },
            std::move(*command));
      });
  serve<v1::ReadCommandRequest, v1::ReadCommandReply>(
      registry, "Jobs/ReadCommand",
      [](RankCalls& calls, const ActorId& rank, const Principal&, const v1::ReadCommandRequest& request,
         const CommandDone<v1::ReadCommandReply>& done) {
        const auto id = checked_id(request.command());
        if (!id) return done(make_error(id.error()));
        const milliseconds wait = std::clamp(milliseconds(request.wait_ms()), 0ms, kWaitMax);
        calls.call<&jobs::Command::read_command, jobs::CommandOutput>(
            rank, wait + kAnswerPatience,
            [done, request](Result<jobs::CommandOutput> output) {
              if (!output) return done(make_error(error_in_rank(request, output.error())));
              if (!output->known) {
                return done(make_error(
                    ErrorCode::kNotFound,
                    fmt::format("rank {} of {} has no command {}: its end was read, its output had no reader for too "
                                "long, or another reader took its place",
                                request.rank(), request.job(), request.command())));
              }
              v1::ReadCommandReply reply;
              reply.set_output(std::move(output->output.data));
              reply.set_error(std::move(output->error.data));
              reply.set_ended(output->ended);
              reply.set_exit_code(output->exit_code);
              done(std::move(reply));
            },
            *id, int64_t{wait.count()});
      });
  serve<v1::WriteCommandRequest, v1::WriteCommandReply>(
      registry, "Jobs/WriteCommand",
      [](RankCalls& calls, const ActorId& rank, const Principal&, const v1::WriteCommandRequest& request,
         const CommandDone<v1::WriteCommandReply>& done) {
        auto input = checked_input(request);
        if (!input) return done(make_error(input.error()));
        calls.call<&jobs::Command::write_command, jobs::CommandAnswer>(
            rank, kAnswerPatience,
            [done, request](const Result<jobs::CommandAnswer>& answer) {
              if (!answer) return done(make_error(error_in_rank(request, answer.error())));
              if (const auto error = error_of(*answer)) return done(make_error(error_in_rank(request, *error)));
              done(v1::WriteCommandReply());
            },
            std::move(*input));
      });
}

}  // namespace volador
