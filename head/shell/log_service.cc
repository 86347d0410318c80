#include "head/shell/log_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "head/shell/core_runner.h"
#include "head/shell/head_access.h"
#include "head/shell/log_lines.h"
#include "head/shell/log_parts.h"
#include "head/shell/log_rings.h"
#include "head/shell/log_stream.h"
#include "head/shell/program_exchange.h"
#include "runtime/files/file_tail.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr std::streamoff kTailBytesMax = 4 << 20;
constexpr std::chrono::milliseconds kFollowEvery{300};
constexpr size_t kFileLinesMax = 1000;  // Lines of an actor's log on its node.

}  // namespace

grpc::ServerWriteReactor<v1::LogLine>* LogService::open(const Result<security::Principal>& by,
                                                        const v1::LogsRequest& request) {
  auto stream = std::make_shared<LogStream>();
  auto follower = std::make_shared<uint64_t>(0);
  auto* reactor = stream->start([this, follower] {
    parts_.runner.post([this, follower] {
      if (*follower != 0) parts_.logs.unfollow(*follower);
    });
  });
  if (!by) {
    stream->finish(make_error(by.error()));
    return reactor;
  }
  const size_t tail = tail_of(request);
  if (request.id() == "head") {
    parts_.files.post([this, stream, tail, follow = request.follow()] { send_head_log(stream, tail, follow); });
    return reactor;
  }
  if (!request.node().empty()) {
    if (!request.id().empty()) {
      stream->finish(make_error(ErrorCode::kInvalidArgument, "logs: an id and a node were given; ask for one of them"));
      return reactor;
    }
    parts_.runner.ask([this, stream, by = *by, name = request.node(), tail, follow = request.follow()](
                          const HeadCore& core, BootTime) {
      send_node_logs(stream, core.lookups().node_session(name),
                     {.name = name, .tail = tail, .follow = follow, .hosts = true, .by = by});
    });
    return reactor;
  }
  parts_.runner.ask([this, stream, follower, by = *by, id = request.id(), tail, follow = request.follow()](
                        const HeadCore& core, BootTime) {
    auto source = core.lookups().find_log_source(id, by);
    if (!source) return stream->finish(make_error(source.error()));
    if (source->actor.is_nil())
      return send_node_logs(stream, core.lookups().node_session(source->node_name),
                            {.name = source->node_name, .tail = tail, .follow = follow});
    const auto lines = parts_.logs.tail(source->writers, tail);
    for (const KeptLine& line : lines.value_or(std::vector<KeptLine>{})) stream->send(to_api(line));
    if (follow && !stream->ended()) {
      *follower = parts_.logs.follow(source->writers, [this, stream, by, actor = source->actor](const KeptLine& line) {
        if (shows_lines(parts_.guard.get(), actor, by)) stream->send(to_api(line));
      });
      return;
    }
    if (lines) return stream->finish({});
    send_log_file(stream, *source, tail, false, false);  // Written before this head started; the files are on the node.
  });
  return reactor;
}

// Sends stdout and then stderr of an actor, from the files on its node.
void LogService::send_log_file(const std::shared_ptr<LogStream>& stream, const LogSource& source, size_t tail,
                               bool is_stderr, bool any) {
  v1::ReadLogRequest request;
  request.set_lines(static_cast<int32_t>(std::min<size_t>(tail, kFileLinesMax)));
  request.set_is_stderr(is_stderr);
  read_log_of(
      parts_.runner, source, request,
      [this, stream, source, tail, is_stderr, any](const Result<v1::ReadLogReply>& read) {
        if (!read && read.error().code != ErrorCode::kNotFound) return stream->finish(make_error(read.error()));
        const bool some = any || (read && read->lines_size() > 0);
        if (read) {
          for (const v1::NumberedLine& line : read->lines()) {
            stream->send(to_api(
                {.source = source.display, .node = source.node_name, .is_stderr = is_stderr, .text = line.text()}));
          }
        }
        if (!is_stderr) return send_log_file(stream, source, tail, true, some);
        if (some) return stream->finish({});
        stream->finish(make_error(
            ErrorCode::kNotFound,
            fmt::format("{} has printed nothing, or its files on node {} are gone", source.display, source.node_name)));
      });
}

void LogService::send_node_logs(const std::shared_ptr<LogStream>& stream, const Result<NodeSession>& session,
                                const NodeLogs& wanted) {
  if (!session) return stream->finish(make_error(session.error()));
  if (wanted.follow) {
    return stream->finish(make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("follow: the logs of node {} are read once; follow an actor, a trial or \"head\"", wanted.name)));
  }
  protocol::ReadLogs request;
  request.set_lines(static_cast<int32_t>(wanted.tail));
  request.set_hosts(wanted.hosts);
  read_shown_logs(parts_.runner, *session, std::move(request), wanted.by,
                  [this, stream, name = wanted.name](Result<protocol::LogTails> answer) {
                    if (!answer) return stream->finish(make_error(answer.error()));
                    for (v1::LogLine& line : node_lines(*answer, name, parts_.logs)) stream->send(std::move(line));
                    if (answer->error().code() == 0) return stream->finish({});
                    stream->finish(make_error(error_code_from(int64_t{answer->error().code()}),
                                              fmt::format("node {}: {}", name, answer->error().message())));
                  });
}

void LogService::send_head_log(const std::shared_ptr<LogStream>& stream, size_t tail, bool follow) {
  auto read = tail_of_file(parts_.log_file, tail, kTailBytesMax);
  if (!read) {
    return stream->finish(make_error(
        ErrorCode::kNotFound,
        fmt::format("the head's log {} cannot be read; it may write to its terminal", parts_.log_file.string())));
  }
  for (std::string& line : read->lines) stream->send(head_line(std::move(line)));
  if (!follow) return stream->finish({});
  follow_head_log(stream, read->end);
}

void LogService::follow_head_log(const std::shared_ptr<LogStream>& stream, std::streamoff from) {
  if (stream->ended()) return;
  std::error_code gone;
  const auto size = std::filesystem::file_size(parts_.log_file, gone);
  if (!gone && static_cast<std::streamoff>(size) < from) from = 0;  // The file was rotated.
  std::ifstream in(parts_.log_file, std::ios::binary);
  in.seekg(from);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    from += static_cast<std::streamoff>(line.size()) + 1;
    stream->send(head_line(std::move(line)));
  }
  parts_.files.post_after(kFollowEvery, [this, stream, from] { follow_head_log(stream, from); });
}

}  // namespace volador::head
