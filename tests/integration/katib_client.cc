// Calls KatibSuggestions as the head does, for tests and figures. Arguments: the settings katib.suggestions and
// katib.early_stopping, and the milliseconds between attempts. Each line of the input is a call, with a request as
// JSON; each line of the output is its reply, or {"error": …, "code": …}:
//   suggest ALGORITHM REQUEST | validate ALGORITHM EXPERIMENT | rules REQUEST | check SPEC | end EXPERIMENT
//   time COUNT ALGORITHM REQUEST   prints the milliseconds of each call
// ALGORITHM may be followed by @ and the namespace of the experiment. The variable OWNER is KatibServicesOptions::owner.
// With the one argument "drop" it serves a DBManager that reads reports and drops them: the floor of figures. It prints
// its port on 127.0.0.1 and ends with the input.
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>

#include "runtime/protocol/katib/v1beta1/api.grpc.pb.h"
#include "volador/roles/katib_services.h"

namespace {

namespace katib_api = ::api::v1::beta1;
using volador::Result;

template <class Message>
Message read_message(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (!status.ok()) {
    std::cerr << "not a message: " << status.ToString() << "\n";
    std::exit(2);
  }
  return message;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter == '\n' ? ' ' : letter;
  }
  return out + "\"";
}

template <class T>
void print(const Result<T>& reply) {
  if (!reply) {
    std::cout << fmt::format("{{\"error\": {}, \"code\": {}}}", quoted(reply.error().message),
                             quoted(std::string(to_string(reply.error().code))))
              << std::endl;
    return;
  }
  std::string json = "{}";
  if constexpr (!std::is_void_v<T>) {
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    json.clear();
    (void)google::protobuf::util::MessageToJsonString(*reply, &json, options);
  }
  std::cout << json << std::endl;
}

template <class T, class Call>
Result<T> answer(Call call) {
  std::promise<Result<T>> promise;
  call([&promise](Result<T> reply) { promise.set_value(std::move(reply)); });
  return promise.get_future().get();
}

class DroppingStore final : public katib_api::DBManager::CallbackService {
  grpc::ServerUnaryReactor* ReportObservationLog(grpc::CallbackServerContext* context,
                                                 const katib_api::ReportObservationLogRequest*,
                                                 katib_api::ReportObservationLogReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int serve_dropping_store() {
  DroppingStore store;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&store);
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  std::cout << port << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  server->Shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "drop") return serve_dropping_store();
  if (argc != 4) return 2;
  auto suggestions = volador::katib_service_entries(argv[1]), stopping = volador::katib_service_entries(argv[2]);
  if (!suggestions || !stopping) {
    std::cerr << (suggestions ? stopping : suggestions).error().message << "\n";
    return 1;
  }
  volador::KatibServicesOptions options;
  options.suggestions = *suggestions;
  options.early_stopping = *stopping;
  options.pause = std::chrono::milliseconds(std::stoi(argv[3]));
  if (const char* owner = std::getenv("OWNER")) options.owner = owner;
  volador::KatibSuggestions services(options);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, algorithm, json;
    int count = 0;
    words >> what;
    if (what == "time") words >> count;
    if (what == "suggest" || what == "validate" || what == "time") words >> algorithm;
    std::getline(words >> std::ws, json);
    const size_t at = algorithm.find('@');
    const std::string name_space = at == algorithm.npos ? "" : algorithm.substr(at + 1) + "/";
    algorithm.resize(std::min(at, algorithm.size()));
    const auto of = [&](const katib_api::Experiment& experiment) { return name_space + experiment.name(); };
    if (what == "suggest") {
      const auto request = read_message<katib_api::GetSuggestionsRequest>(json);
      print(answer<katib_api::GetSuggestionsReply>(
          [&](auto done) { services.suggest(of(request.experiment()), algorithm, request, done); }));
    } else if (what == "validate") {
      const auto experiment = read_message<katib_api::Experiment>(json);
      print(answer<void>([&](auto done) { services.validate(of(experiment), algorithm, experiment, done); }));
    } else if (what == "rules") {
      const auto request = read_message<katib_api::GetEarlyStoppingRulesRequest>(json);
      print(answer<katib_api::GetEarlyStoppingRulesReply>(
          [&](auto done) { services.rules(of(request.experiment()), request, {}, done); }));
    } else if (what == "check") {
      print(answer<void>([&](auto done) {
        services.validate_early_stopping(read_message<katib_api::EarlyStoppingSpec>(json), done);
      }));
    } else if (what == "end") {
      services.end(json);
      print(Result<void>());
    } else if (what == "time") {
      const auto request = read_message<katib_api::GetSuggestionsRequest>(json);
      std::string times;
      for (int i = 0; i < count; ++i) {
        const auto began = std::chrono::steady_clock::now();
        const auto reply = answer<katib_api::GetSuggestionsReply>(
            [&](auto done) { services.suggest(of(request.experiment()), algorithm, request, done); });
        if (!reply) {
          print(reply);
          return 1;
        }
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
        times += fmt::format("{}{:.3f}", times.empty() ? "" : ", ", took.count());
      }
      std::cout << "[" << times << "]" << std::endl;
    } else {
      return 2;
    }
  }
}
