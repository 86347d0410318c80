#include "head/shell/log_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "head/kernel/core.h"
#include "head/shell/core_runner.h"
#include "head/shell/log_lines.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr int kLinesDefault = 200;
constexpr int kLinesMax = 1000;
constexpr size_t kFindBytesMax = 200;

Result<void> check(const v1::ReadLogRequest& asked) {
  const auto wrong = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (asked.id().empty() == asked.node().empty())
    return wrong("logs: name an actor or trial, or the node of a worker; one of them");
  if (asked.lines() < 0 || asked.lines() > kLinesMax)
    return wrong(fmt::format("lines: expected at most {}, got {}", kLinesMax, asked.lines()));
  if (asked.from() < 0) return wrong(fmt::format("from: expected a line's number, got {}", asked.from()));
  if (asked.run() < 0) return wrong(fmt::format("run: expected 1 or more, got {}", asked.run()));
  if (asked.find().size() > kFindBytesMax)
    return wrong(fmt::format("find: expected at most {} bytes, got {}", kFindBytesMax, asked.find().size()));
  if (asked.find().find('\n') != std::string::npos) return wrong("find: a line holds no line break; look for one line");
  return {};
}

protocol::ReadLog to_node(const v1::ReadLogRequest& asked) {
  protocol::ReadLog read;
  read.set_run(asked.run());
  read.set_is_stderr(asked.is_stderr());
  read.set_from(asked.from());
  read.set_lines(asked.lines() == 0 ? kLinesDefault : asked.lines());
  read.set_find(asked.find());
  read.set_trouble(asked.trouble());
  read.set_backward(asked.backward());
  return read;
}

Result<v1::ReadLogReply> to_api(const protocol::LogPart& part, const std::string& node) {
  if (part.error().code() != 0) {
    return make_error(error_code_from(int64_t{part.error().code()}),
                      fmt::format("node {}: {}", node, part.error().message()));
  }
  v1::ReadLogReply reply;
  reply.set_node(node);
  reply.set_first(part.first());
  reply.set_last(part.last());
  reply.set_next(part.next());
  reply.set_run(part.run());
  for (const protocol::NumberedLine& line : part.lines()) {
    v1::NumberedLine& out = *reply.add_lines();
    out.set_line(line.line());
    out.set_text(line.text());
    state_facts(out);
  }
  for (const protocol::LogRun& run : part.runs()) {
    v1::LogRun& out = *reply.add_runs();
    out.set_run(run.run());
    out.set_out_bytes(run.out_bytes());
    out.set_err_bytes(run.err_bytes());
  }
  return reply;
}

void ask_for_part(CoreRunner& runner, const Result<NodeSession>& session, protocol::ReadLog read,
                  const std::string& node, const std::function<void(Result<v1::ReadLogReply>)>& done) {
  if (!session) return done(make_error(session.error()));
  const auto question = [read = std::move(read)](uint64_t number) {
    protocol::HeadToWorker message;
    *message.mutable_read_log() = read;
    message.mutable_read_log()->set_request(number);
    return message;
  };
  runner.ask_node(*session, question, [node, done](const Result<protocol::WorkerMessage>& answer) {
    done(answer ? to_api(answer->log_part(), node) : make_error(answer.error()));
  });
}

}  // namespace

Result<LogSource> actor_log_source(const HeadCore& core, std::string_view id, const security::Principal& by) {
  auto source = core.lookups().find_log_source(id, by);
  if (source && source->actor.is_nil()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("\"{}\" is a node; ask for its log with node={}", id, source->node_name));
  }
  return source;
}

void read_log_of(CoreRunner& runner, const LogSource& source, v1::ReadLogRequest request,
                 std::function<void(Result<v1::ReadLogReply>)> done) {
  runner.ask([&runner, source, asked = std::move(request), done = std::move(done)](const HeadCore& core, BootTime) {
    protocol::ReadLog read = to_node(asked);
    read.set_actor_id(raw(source.actor));
    ask_for_part(runner, core.lookups().node_session(source.node_name), std::move(read), source.node_name, done);
  });
}

void read_log(CoreRunner& runner, v1::ReadLogRequest request, const security::Principal& by,
              std::function<void(Result<v1::ReadLogReply>)> done) {
  if (const auto sound = check(request); !sound) return done(make_error(sound.error()));
  runner.ask([&runner, asked = std::move(request), by, done = std::move(done)](const HeadCore& core, BootTime) {
    protocol::ReadLog read = to_node(asked);
    std::string node = asked.node();
    if (node.empty()) {
      const auto source = actor_log_source(core, asked.id(), by);
      if (!source) return done(make_error(source.error()));
      node = source->node_name;
      read.set_actor_id(raw(source->actor));
    }
    ask_for_part(runner, core.lookups().node_session(node), std::move(read), node, done);
  });
}

void read_shown_logs(CoreRunner& runner, NodeSession session, protocol::ReadLogs request, const security::Principal& by,
                     std::function<void(Result<protocol::LogTails>)> done) {
  runner.read_logs(
      session, std::move(request), [&runner, by, done = std::move(done)](Result<protocol::LogTails> answer) {
        if (!answer) return done(std::move(answer));
        const auto tails = std::make_shared<protocol::LogTails>(std::move(*answer));
        runner.ask([by, done, tails](const HeadCore& core, BootTime) {
          constexpr size_t kShortId = 8;
          auto& files = *tails->mutable_tails();
          const auto hidden = std::ranges::remove_if(files, [&](const protocol::LogTail& tail) {
            return tail.source() != "worker" && !core.lookups().shows_files_of(tail.source().substr(0, kShortId), by);
          });
          files.erase(hidden.begin(), hidden.end());
          done(std::move(*tails));
        });
      });
}

}  // namespace volador::head
