// Routes of the HTTP API: one table for dispatching, access control and openapi.json.
// Confined to the server's thread.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/cluster_port.h"
#include "dashboard/http_server.h"
#include "dashboard/live_model.h"
#include "dashboard/request_body.h"
#include "dashboard/request_guard.h"
#include "dashboard/sign_in.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/security/principal.h"

namespace volador::operations {
struct Entry;
}
namespace volador::v1 {
class HttpRoute;
class ListCheckpointsRequest;
}  // namespace volador::v1

namespace volador::dashboard {

HttpResponse json_response(std::string body, int status = 200);
// application/problem+json. `next`: what the user can do; may be empty.
HttpResponse problem(int status, const Error& error, std::string_view next = {});
// With the status for the error code.
HttpResponse problem(const Error& error);
HttpResponse no_experiment(const std::string& name);

class Api {
 public:
  using Respond = HttpHandler::Respond;
  struct Route;
  struct Call {
    std::map<std::string, std::string> path;  // Parameters of the route's pattern.
    std::map<std::string, std::string> query;
    std::string_view body;
    const nlohmann::ordered_json* json = nullptr;  // The parsed body, according to the route's fields.
    security::Principal by;
    const Route* route = nullptr;
  };
  struct Parameter {
    std::string_view name;
    std::string_view about;
    int64_t least = 0, most = 0;  // Range of an integer; both 0: a text.
  };
  struct Route {
    std::string_view method;
    std::string_view pattern;  // "/api/v1/nodes/{name}:drain"
    Access access;
    std::string_view about;
    std::vector<Parameter> query;
    std::string_view body;  // An example; empty: no body.
    void (Api::*handler)(const Call& call, const Respond& respond);
    std::vector<BodyField> fields = {};
    const operations::Entry* operation = nullptr;  // Set for routes of the catalogue, with `http`.
    const v1::HttpRoute* http = nullptr;
  };
  static std::span<const Route> routes();
  // kInvalidArgument: a query member unknown to the route, which would otherwise be ignored silently; the message lists
  // the known ones.
  [[nodiscard]] static Result<void> check_query(const Route& route, const std::map<std::string, std::string>& query);

  struct Match {
    const Route* route = nullptr;  // Null: unknown path or method.
    std::string allowed;           // Methods of the path; empty: no such path.
    std::map<std::string, std::string> parameters;
  };
  static Match match(std::string_view method, std::string_view path);
  // The route of a list, by its last part or "study_trials", either of one object (an experiment's trials) or of all.
  // Null: none.
  static const Route* list_of(std::string_view topic, bool of_one);

  // `to_here` runs a function on the server's thread; `now_ms` is Unix time.
  Api(const LiveModel& model, ClusterPort& port, std::function<void(std::function<void()>)> to_here,
      std::function<int64_t()> now_ms)
      : model_(model), port_(port), to_here_(std::move(to_here)), now_ms_(std::move(now_ms)) {}
  void answer(const Route& route, Call call, const Respond& respond);

  static std::string openapi();

  static constexpr int64_t kTimeMostMs = int64_t{1} << 45;     // Limit in queries.
  static constexpr int64_t kBatchesMost = int64_t{1} << 52;    // As above.
  static constexpr int64_t kCodeBytesMost = int64_t{1} << 40;  // As above.
  static constexpr int64_t kLineMost = int64_t{1} << 52;
  static constexpr int kAuditMax = 10'000;  // Entries: all that are stored.
  static constexpr int kObjectsMax = 1000;  // Maximum rows of one listing of the nodes' stores.

  size_t clients = 0;  // Open WebSockets, for /metrics.

 private:
  static std::vector<Route> with_operations(std::vector<Route> routes);
  void nodes(const Call& call, const Respond& respond);
  void actors(const Call& call, const Respond& respond);
  void drivers(const Call& call, const Respond& respond);
  void queue(const Call& call, const Respond& respond);
  void groups(const Call& call, const Respond& respond);
  void objects(const Call& call, const Respond& respond);
  void object_groups(const Call& call, const Respond& respond);
  void object_stores(const Call& call, const Respond& respond);
  void experiments(const Call& call, const Respond& respond);
  void trials(const Call& call, const Respond& respond);
  void experiment_trials(const Call& call, const Respond& respond);
  void curves(const Call& call, const Respond& respond);
  void series(const Call& call, const Respond& respond);
  void events(const Call& call, const Respond& respond);
  void cluster(const Call& call, const Respond& respond);
  void explain(const Call& call, const Respond& respond);
  void logs(const Call& call, const Respond& respond);
  void log_lines(const Call& call, const Respond& respond);
  void processes(const Call& call, const Respond& respond);
  void stack(const Call& call, const Respond& respond);
  void timeline(const Call& call, const Respond& respond);
  // Calls the route's operation with a request built from path and body, and responds with its reply as JSON.
  void operate(const Call& call, const Respond& respond);
  // api_downloads.cc
  void trials_table(const Call& call, const Respond& respond);
  void curves_table(const Call& call, const Respond& respond);
  void config(const Call& call, const Respond& respond);
  void files(const Call& call, const Respond& respond) { list_files({}, call, respond); }
  void file(const Call& call, const Respond& respond) { send_file({}, call, respond); }
  void trial_files(const Call& call, const Respond& respond) { list_files(call.path.at("trial"), call, respond); }
  void trial_file(const Call& call, const Respond& respond) { send_file(call.path.at("trial"), call, respond); }
  void list_files(const std::string& trial, const Call& call, const Respond& respond);
  void send_file(const std::string& trial, const Call& call, const Respond& respond);
  void audit(const Call& call, const Respond& respond);
  void tokens(const Call& call, const Respond& respond);
  void create_token(const Call& call, const Respond& respond);
  void list_studies(const Call& call, const Respond& respond);
  void create_study(const Call& call, const Respond& respond);
  void get_study(const Call& call, const Respond& respond);
  void delete_study(const Call& call, const Respond& respond);
  void list_study_trials(const Call& call, const Respond& respond);
  void ask_study(const Call& call, const Respond& respond);
  void tell_study(const Call& call, const Respond& respond);
  void report_study(const Call& call, const Respond& respond);
  // api_jobs.cc
  void list_jobs(const Call& call, const Respond& respond);
  void list_users(const Call& call, const Respond& respond);
  void list_user_groups(const Call& call, const Respond& respond);
  void list_usage(const Call& call, const Respond& respond);
  void get_queue(const Call& call, const Respond& respond);
  void put_job_files(const Call& call, const Respond& respond);
  void get_job(const Call& call, const Respond& respond);
  // api_experiments.cc
  void list_determined_experiments(const Call& call, const Respond& respond);
  void get_determined_experiment(const Call& call, const Respond& respond);
  void get_experiment_code(const Call& call, const Respond& respond);
  void list_determined_trials(const Call& call, const Respond& respond);
  void get_determined_trial(const Call& call, const Respond& respond);
  void get_trial_metrics(const Call& call, const Respond& respond);
  void list_experiment_checkpoints(const Call& call, const Respond& respond);
  void list_trial_checkpoints(const Call& call, const Respond& respond);
  void list_katib_resources(const Call& call, const Respond& respond);
  void list_katib_algorithms(const Call& call, const Respond& respond);
  void list_checkpoints(v1::ListCheckpointsRequest request, const Call& call, const Respond& respond);
  void get_checkpoint(const Call& call, const Respond& respond);
  void list_models(const Call& call, const Respond& respond);
  void get_model(const Call& call, const Respond& respond);
  void list_model_versions(const Call& call, const Respond& respond);
  void get_model_version(const Call& call, const Respond& respond);
  void metrics(const Call& call, const Respond& respond);
  void actor_metrics(const Call& call, const Respond& respond);
  void describe(const Call& call, const Respond& respond);

  std::string series_prefix(const std::map<std::string, std::string>& query) const;
  void list(Topic topic, const std::string& experiment, bool newest_first, const Call& call,
            const Respond& respond) const;
  void list_objects(std::vector<std::string> (*rows_of)(const v1::ListObjectsReply&), const Call& call,
                    const Respond& respond);
  // Sends a response that is computed on another thread of the head.
  template <class T, class Make>
  auto later(Respond respond, Make make);
  // Calls an operation; make(reply) builds the response.
  template <class Reply, class Make>
  void call_for(std::string_view operation, const Call& call, const google::protobuf::Message& request, Respond respond,
                Make make);

  const LiveModel& model_;
  ClusterPort& port_;
  std::function<void(std::function<void()>)> to_here_;
  std::function<int64_t()> now_ms_;
};

}  // namespace volador::dashboard
