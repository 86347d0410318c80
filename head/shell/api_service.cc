#include "head/shell/api_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "head/shell/gate.h"
#include "head/shell/head_access.h"
#include "head/shell/log_lines.h"
#include "head/shell/log_parts.h"
#include "head/shell/log_rings.h"
#include "head/shell/log_stream.h"
#include "head/shell/program_exchange.h"
#include "head/shell/unary_answer.h"
#include "runtime/control/status.h"
#include "runtime/files/file_tail.h"
#include "runtime/log.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/request_memory.h"

namespace volador::head {
namespace {

constexpr std::streamoff kTailBytesMax = 4 << 20;
constexpr std::chrono::milliseconds kFollowEvery{300};
constexpr size_t kFileLinesMax = 1000;  // Of an actor's log on its node.

}  // namespace

class ApiService::Impl final : public v1::Cluster::CallbackService {
 public:
  explicit Impl(Parts parts) : parts_(std::move(parts)) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Status(Context* context, const v1::StatusRequest*, v1::StatusReply* reply) override {
    return ask(context, [this, reply](const HeadCore& core, BootTime now) -> Result<void> {
      *reply = core.lists().status(now);
      reply->set_address(parts_.address());
      reply->set_uptime_ms(std::chrono::duration_cast<std::chrono::milliseconds>(now - parts_.started).count());
      return {};
    });
  }
  Reactor* ListNodes(Context* context, const v1::ListRequest* request, v1::ListNodesReply* reply) override {
    return ask(context, [request, reply](const HeadCore& core, BootTime now) -> Result<void> {
      *reply = core.lists().nodes(now, *request);
      return {};
    });
  }
  Reactor* ListActors(Context* context, const v1::ListRequest* request, v1::ListActorsReply* reply) override {
    return ask(context, [request, reply](const HeadCore& core, BootTime now) -> Result<void> {
      *reply = core.lists().actors(now, *request);
      return {};
    });
  }
  Reactor* ListGroups(Context* context, const v1::ListRequest* request, v1::ListGroupsReply* reply) override {
    return ask(context, [request, reply](const HeadCore& core, BootTime) -> Result<void> {
      *reply = core.lists().groups(*request);
      return {};
    });
  }
  Reactor* ListQueue(Context* context, const v1::ListRequest* request, v1::ListQueueReply* reply) override {
    return ask(context, [request, reply](const HeadCore& core, BootTime now) -> Result<void> {
      *reply = core.lists().queue(now, *request);
      return {};
    });
  }
  Reactor* ListTrials(Context* context, const v1::ListRequest* request, v1::ListTrialsReply* reply) override {
    return ask(context, [request, reply](const HeadCore& core, BootTime now) -> Result<void> {
      auto trials = core.lists().trials(now, *request);
      if (!trials) return make_error(trials.error());
      *reply = std::move(*trials);
      return {};
    });
  }
  Reactor* ListObjects(Context* context, const v1::ListRequest* request, v1::ListObjectsReply* reply) override {
    return read(context, reply, [this, limit = request->limit()](Done<v1::ListObjectsReply> done) { parts_.access.objects(limit, std::move(done)); });
  }
  Reactor* Explain(Context* context, const v1::ExplainRequest* request, v1::ExplainReply* reply) override {
    return read(context, reply, [this, request](Done<v1::ExplainReply> done) { parts_.access.explain(request->id(), std::move(done)); });
  }
  Reactor* Stack(Context* context, const v1::StackRequest* request, v1::StackReply* reply) override {
    return read(context, reply, [this, request](Done<v1::StackReply> done) { parts_.access.stack(request->id(), std::move(done)); });
  }
  Reactor* ListProcesses(Context* context, const v1::ListRequest* request, v1::NodeProcesses* reply) override {
    return read(context, reply, [this, request](Done<v1::NodeProcesses> done) { parts_.access.processes(request->filter(), std::move(done)); });
  }
  Reactor* Timeline(Context* context, const v1::TimelineRequest* request, v1::TimelineReply* reply) override {
    return read(context, reply, [this, request](Done<v1::TimelineReply> done) { parts_.access.timeline(*request, std::move(done)); });
  }
  Reactor* ReadLog(Context* context, const v1::ReadLogRequest* request, v1::ReadLogReply* reply) override {
    return read(context, reply, [this, request](Done<v1::ReadLogReply> done) { parts_.access.read_log(*request, std::move(done)); });
  }

  Reactor* ListAudit(Context* context, const v1::ListRequest* request, v1::ListAuditReply* reply) override {
    return read(context, reply, [this, request](Done<v1::ListAuditReply> done) { parts_.access.list_audit(*request, std::move(done)); });
  }

  Reactor* CreateToken(Context* context, const v1::CreateTokenRequest* request, v1::CreateTokenReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::CreateTokenRequest& asked, const Done<v1::CreateTokenReply>& done) {
      parts_.access.create_token(asked.role(), std::chrono::milliseconds(asked.valid_for_ms()), asked.note(), by, done);
    });
  }

  Reactor* ListTokens(Context* context, const v1::ListTokensRequest*, v1::ListTokensReply* reply) override {
    for (v1::Token& token : parts_.access.list_tokens()) *reply->add_tokens() = std::move(token);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  Reactor* RevokeToken(Context* context, const v1::RevokeTokenRequest* request, v1::RevokeTokenReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::RevokeTokenRequest& asked, const Done<v1::RevokeTokenReply>& done) {
      parts_.access.revoke_token(asked.id(), by, [done](const Result<void>& revoked) { done(answer_of<v1::RevokeTokenReply>(revoked)); });
    });
  }

  Reactor* Drain(Context* context, const v1::DrainRequest* request, v1::DrainReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::DrainRequest& asked, const Done<v1::DrainReply>& done) {
      parts_.access.drain(asked.node(), asked.undo(), by, [done](const Result<void>& drained) { done(answer_of<v1::DrainReply>(drained)); });
    });
  }

  Reactor* Kill(Context* context, const v1::KillRequest* request, v1::KillReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::KillRequest& asked, const Done<v1::KillReply>& done) { parts_.access.kill(asked, by, done); });
  }

  Reactor* ControlExperiment(Context* context, const v1::ControlExperimentRequest* request, v1::ControlExperimentReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::ControlExperimentRequest& asked, const Done<v1::ControlExperimentReply>& done) {
      parts_.access.control_experiment(asked, by, done);
    });
  }

  Reactor* AnnotateExperiment(Context* context, const v1::AnnotateExperimentRequest* request, v1::AnnotateExperimentReply* reply) override {
    return change(context, *request, reply, [this, by = who(context)](const v1::AnnotateExperimentRequest& asked, const Done<v1::AnnotateExperimentReply>& done) {
      parts_.access.annotate_experiment(asked, by, done);
    });
  }

  Reactor* LoginLink(Context* context, const v1::LoginLinkRequest* request, v1::LoginLinkReply* reply) override {
    return change(context, *request, reply, [this](const v1::LoginLinkRequest&, const Done<v1::LoginLinkReply>& done) {
      auto link = parts_.login_link();
      if (!link) return done(make_error(link.error()));
      v1::LoginLinkReply made;
      made.set_url(std::move(*link));
      done(std::move(made));
    });
  }

  grpc::ServerWriteReactor<v1::LogLine>* Logs(Context*, const v1::LogsRequest* request) override;

 private:
  // For events: the token of a call that the gate has let in.
  std::string who(Context* context) const {
    const auto& metadata = context->client_metadata();
    const auto bearer = metadata.find("authorization");
    const auto caller = parts_.gate.caller(certificate_of(*context->auth_context()), bearer == metadata.end() ? std::string_view() : std::string_view(bearer->second.data(), bearer->second.size()));
    return caller ? caller->token_id : "";
  }

  template <class Reply>
  using Done = std::function<void(Result<Reply>)>;
  template <class Reply>
  static Result<Reply> answer_of(const Result<void>& result, Reply reply = {}) {
    if (!result) return make_error(result.error());
    return reply;
  }

  // What changes something: once for each request_id. `act` gets the request without it.
  template <class Request, class Reply, class Act>
  Reactor* change(Context* context, const Request& request, Reply* reply, const Act& act) {
    auto* reactor = context->DefaultReactor();  // Once a call: each time makes it anew.
    const auto answer = std::make_shared<UnaryAnswer>(reactor);
    Request asked = request;
    asked.clear_request_id();
    const auto respond = [answer, reply](const Result<std::string>& bytes) {
      if (bytes) reply->ParseFromString(*bytes);
      answer->give(bytes ? Result<void>() : make_error(bytes.error()));
    };
    const auto turn = requests_.once({.by = who(context), .id = request.request_id(), .what = asked.GetTypeName() + '\n' + asked.SerializeAsString()}, respond);
    if (turn) {
      act(asked, [turn](const Result<Reply>& made) { turn(made ? Result<std::string>(made->SerializeAsString()) : make_error(made.error())); });
    }
    return reactor;
  }

  // What changes nothing; `question` gets who takes the reply.
  template <class Reply, class Question>
  Reactor* read(Context* context, Reply* reply, const Question& question) {
    auto* reactor = context->DefaultReactor();
    const auto answer = std::make_shared<UnaryAnswer>(reactor);
    question(Done<Reply>([answer, reply](Result<Reply> found) {
      if (found) *reply = std::move(*found);
      answer->give(found ? Result<void>() : make_error(found.error()));
    }));
    return reactor;
  }

  template <class Question>
  Reactor* ask(Context* context, Question question) {
    auto* reactor = context->DefaultReactor();
    auto answer = std::make_shared<UnaryAnswer>(reactor);
    parts_.runner.ask([answer, question = std::move(question)](const HeadCore& core, BootTime now) { answer->give(question(core, now)); });
    return reactor;
  }

  struct NodeLogs {
    std::string name;
    size_t tail = 0;
    bool follow = false;
    bool hosts = false;  // What its actors wrote as well.
  };
  void send_node_logs(const std::shared_ptr<LogStream>& stream, const Result<NodeSession>& session, const NodeLogs& wanted);
  void send_log_file(const std::shared_ptr<LogStream>& stream, const LogSource& source, size_t tail,
                     bool is_stderr, bool any);
  void send_head_log(const std::shared_ptr<LogStream>& stream, size_t tail, bool follow);
  void follow_head_log(const std::shared_ptr<LogStream>& stream, std::streamoff from);

  const Parts parts_;
  RequestMemory<Result<std::string>> requests_{{.refusal = [](const Error& error) -> Result<std::string> { return make_error(error); },
                                                .is_failure = [](const Result<std::string>& answer) { return !answer.has_value(); }}};
};

ApiService::ApiService(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
ApiService::~ApiService() = default;
grpc::Service* ApiService::service() { return impl_.get(); }

grpc::ServerWriteReactor<v1::LogLine>* ApiService::Impl::Logs(Context*, const v1::LogsRequest* request) {
  auto stream = std::make_shared<LogStream>();
  auto follower = std::make_shared<uint64_t>(0);
  auto* reactor = stream->start([this, follower] {
    parts_.runner.post([this, follower] {
      if (*follower != 0) parts_.logs.unfollow(*follower);
    });
  });
  const size_t tail = tail_of(*request);
  if (request->id() == "head") {
    parts_.files.post([this, stream, tail, follow = request->follow()] { send_head_log(stream, tail, follow); });
    return reactor;
  }
  if (!request->node().empty()) {
    if (!request->id().empty()) {
      stream->finish(make_error(ErrorCode::kInvalidArgument, "logs: an id and a node were given; ask for one of them"));
      return reactor;
    }
    parts_.runner.ask([this, stream, name = request->node(), tail, follow = request->follow()](const HeadCore& core, BootTime) {
      send_node_logs(stream, core.lookups().node_session(name), {.name = name, .tail = tail, .follow = follow, .hosts = true});
    });
    return reactor;
  }
  parts_.runner.ask([this, stream, follower, id = request->id(), tail, follow = request->follow()](const HeadCore& core, BootTime) {
    auto source = core.lookups().find_log_source(id);
    if (!source) return stream->finish(make_error(source.error()));
    if (source->actor.is_nil())
      return send_node_logs(stream, core.lookups().node_session(source->node_name),
                            {.name = source->node_name, .tail = tail, .follow = follow});
    const auto lines = parts_.logs.tail(source->writers, tail);
    for (const KeptLine& line : lines.value_or(std::vector<KeptLine>{})) stream->send(to_api(line));
    if (follow && !stream->ended()) {
      *follower = parts_.logs.follow(source->writers, [stream](const KeptLine& line) { stream->send(to_api(line)); });
      return;
    }
    if (lines) return stream->finish({});
    send_log_file(stream, *source, tail, false, false);  // Older than this head: its files lie on the node.
  });
  return reactor;
}

// stdout and then stderr of an actor, from the files on its node.
void ApiService::Impl::send_log_file(const std::shared_ptr<LogStream>& stream, const LogSource& source,
                                     size_t tail, bool is_stderr, bool any) {
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

void ApiService::Impl::send_node_logs(const std::shared_ptr<LogStream>& stream, const Result<NodeSession>& session, const NodeLogs& wanted) {
  if (!session) return stream->finish(make_error(session.error()));
  if (wanted.follow) {
    return stream->finish(make_error(ErrorCode::kInvalidArgument,
                                     fmt::format("follow: the logs of node {} are read once; follow an actor, a trial or \"head\"", wanted.name)));
  }
  protocol::ReadLogs request;
  request.set_lines(static_cast<int32_t>(wanted.tail));
  request.set_hosts(wanted.hosts);
  parts_.runner.read_logs(*session, std::move(request), [this, stream, name = wanted.name](Result<protocol::LogTails> answer) {
    if (!answer) return stream->finish(make_error(answer.error()));
    for (v1::LogLine& line : node_lines(*answer, name, parts_.logs)) stream->send(std::move(line));
    if (answer->error().code() == 0) return stream->finish({});
    stream->finish(make_error(error_code_from(int64_t{answer->error().code()}), fmt::format("node {}: {}", name, answer->error().message())));
  });
}

void ApiService::Impl::send_head_log(const std::shared_ptr<LogStream>& stream, size_t tail, bool follow) {
  auto read = tail_of_file(parts_.log_file, tail, kTailBytesMax);
  if (!read) {
    return stream->finish(make_error(ErrorCode::kNotFound, fmt::format("the head's log {} cannot be read; it may write to its terminal", parts_.log_file.string())));
  }
  for (std::string& line : read->lines) stream->send(head_line(std::move(line)));
  if (!follow) return stream->finish({});
  follow_head_log(stream, read->end);
}

void ApiService::Impl::follow_head_log(const std::shared_ptr<LogStream>& stream, std::streamoff from) {
  if (stream->ended()) return;
  std::error_code gone;
  const auto size = std::filesystem::file_size(parts_.log_file, gone);
  if (!gone && static_cast<std::streamoff>(size) < from) from = 0;  // Rotated.
  std::ifstream in(parts_.log_file, std::ios::binary);
  in.seekg(from);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    from += static_cast<std::streamoff>(line.size()) + 1;
    stream->send(head_line(std::move(line)));
  }
  parts_.files.post_after(kFollowEvery, [this, stream, from] { follow_head_log(stream, from); });
}

}  // namespace volador::head
