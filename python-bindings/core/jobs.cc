#include "python-bindings/core/jobs.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jobs/job_client.h"
#include "jobs/job_output.h"
#include "jobs/job_set.h"
#include "jobs/job_yaml.h"
#include "python-bindings/core/gil.h"
#include "runtime/clock.h"
#include "runtime/cluster_target.h"
#include "runtime/control/cluster_api.h"
#include "runtime/control/warm_calls.h"
#include "runtime/operations/catalogue.h"
#include "runtime/paths.h"
#include "runtime/security/token.h"
#include "volador/program_settings.h"

namespace volador::python {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout{30'000};

// Address and token as programs find them, and the user of the sign-in that the token is from. `address` and `token`:
// empty, or what comes before the settings.
std::tuple<std::string, std::string, std::string> jobs_access(const std::string& address, const std::string& token) {
  const auto find = [&]() -> Result<ClusterTarget> {
    auto paths = Paths::from(PathEnvironment::of_this_process());
    if (!paths) return make_error(paths.error());
    auto config = load_program_settings(*paths);
    if (!config) return make_error(config.error());
    auto given = with_settings({.address = address, .token = token}, *config);
    if (!given) return make_error(given.error());
    return find_cluster(*given, *paths, unix_ms(SystemClock().wall()));
  };
  const ClusterTarget target = value_or_raise(find());
  return {target.address, target.token, target.user};
}

Result<std::unique_ptr<control::ClusterApi>> connect(const std::string& address, const std::string& token) {
  auto parsed = security::parse_token(token);
  if (!parsed) return make_error(parsed.error());
  static const SystemClock clock;
  return control::ClusterApi::connect(address, *parsed, kCallTimeout, clock);
}

Result<std::string> json_text(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto done = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!done.ok()) return make_error(ErrorCode::kInternal, std::string(done.message()));
  return text;
}

// Messages are JSON texts with the .proto names of the fields; 64-bit integers are texts.
class JobsApi {
 public:
  JobsApi(const std::string& address, const std::string& token, const std::string& user)
      : target_{.address = address, .user = user} {
    auto connected = [&] {
      const WithoutGil released;
      const ShortCall calling;
      return connect(address, token);
    }();
    api_ = value_or_raise(std::move(connected));
  }

  // An operation of the catalogue: call("Jobs/ListJobs", "{}").
  std::string call(const std::string& operation, const std::string& request) {
    return value_or_raise([&]() -> Result<std::string> {
      const WithoutGil released;
      const ShortCall calling;
      const operations::Entry* entry = operations::find(operation);
      if (entry == nullptr)
        return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no operation {}", operation));
      auto* factory = google::protobuf::MessageFactory::generated_factory();
      const std::unique_ptr<google::protobuf::Message> asked(factory->GetPrototype(entry->method->input_type())->New());
      const std::unique_ptr<google::protobuf::Message> reply(
          factory->GetPrototype(entry->method->output_type())->New());
      const auto parsed = google::protobuf::util::JsonStringToMessage(request, asked.get());
      if (!parsed.ok()) return make_error(ErrorCode::kInvalidArgument, std::string(parsed.message()));
      const auto called = api_->call(operation, *asked, *reply);
      // Why another user's job is not theirs needs no word about the sign-in.
      if (!called && called.error().code == ErrorCode::kUnauthenticated)
        return make_error(with_sign_in(called.error(), target_));
      if (!called) return make_error(called.error());
      return json_text(*reply);
    }());
  }

  std::string send_code(const std::string& folder, const std::string& environment) {
    return value_or_raise([&] {
      const WithoutGil released;
      return jobs::JobClient(*api_).send_code(folder, environment);
    }());
  }

  // The job after its end. kTimeout: it has not ended within these seconds.
  std::string wait(const std::string& job, double seconds) {
    return value_or_raise([&]() -> Result<std::string> {
      const WithoutGil released;
      auto ended = jobs::JobClient(*api_).wait(
          job, {}, std::chrono::ceil<milliseconds>(std::chrono::duration<double>(std::max(seconds, 0.001))));
      if (!ended) return make_error(ended.error());
      return json_text(*ended);
    }());
  }

  control::ClusterApi& api() { return *api_; }

 private:
  const ClusterTarget target_;  // Without its token.
  std::unique_ptr<control::ClusterApi> api_;
};

// The jobs of a batch or of a set of alternatives (jobs/job_set.h), as JSON texts of JobSpec.
std::vector<std::string> jobs_of_set(const std::string& base, const std::vector<std::string>& alternatives,
                                     const std::vector<std::string>& tasks, int array) {
  return value_or_raise([&]() -> Result<std::vector<std::string>> {
    jobs::JobSet set{.base = {}, .alternatives = alternatives, .tasks = tasks, .array = array};
    const auto parsed = google::protobuf::util::JsonStringToMessage(base, &set.base);
    if (!parsed.ok()) return make_error(ErrorCode::kInvalidArgument, std::string(parsed.message()));
    const auto specs = jobs::jobs_of(set, jobs::new_unique_name());
    if (!specs) return make_error(specs.error());
    std::vector<std::string> out;
    for (const v1::JobSpec& spec : *specs) {
      auto text = json_text(spec);
      if (!text) return make_error(text.error());
      out.push_back(std::move(*text));
    }
    return out;
  }());
}

// Settings of the queue from YAML, as a JSON text.
std::string queue_settings_of(const std::string& yaml) {
  return value_or_raise([&]() -> Result<std::string> {
    const auto settings = jobs::settings_from_yaml(yaml, "settings");
    if (!settings) return make_error(settings.error());
    return json_text(*settings);
  }());
}

// New lines of a job since the last call: (rank, node, is_stderr, text).
class JobLines {
 public:
  using Line = std::tuple<int, std::string, bool, std::string>;

  JobLines(std::shared_ptr<JobsApi> api, std::string job, int rank, int tail)
      : api_(std::move(api)),
        job_(std::move(job)),
        output_(api_->api(), rank, tail, [this](const jobs::JobOutput::Line& line) {
          lines_.emplace_back(line.rank, line.node, line.is_stderr, line.text);
        }) {}

  // The lines, and whether the job has ended: then there are no more.
  std::tuple<std::vector<Line>, bool> read() {
    return value_or_raise([&]() -> Result<std::tuple<std::vector<Line>, bool>> {
      const WithoutGil released;
      lines_.clear();
      auto job = jobs::JobClient(api_->api()).get(job_);
      if (!job) return make_error(job.error());
      if (auto read = output_.read(*job); !read) return make_error(read.error());
      return std::tuple(std::move(lines_), jobs::has_ended(*job));
    }());
  }

 private:
  const std::shared_ptr<JobsApi> api_;
  const std::string job_;
  std::vector<Line> lines_;
  jobs::JobOutput output_;
};

}  // namespace

void bind_jobs(nb::module_& module) {
  module.def("prepare_calls_of_forks", &control::prepare_calls_of_forks);
  module.def("jobs_access", &jobs_access, nb::arg("address"), nb::arg("token"));
  module.def("jobs_of_set", &jobs_of_set, nb::arg("base"), nb::arg("alternatives"), nb::arg("tasks"), nb::arg("array"));
  module.def("queue_settings_of", &queue_settings_of, nb::arg("yaml"));
  nb::class_<JobsApi>(module, "JobsApi")
      .def(nb::init<std::string, std::string, std::string>(), nb::arg("address"), nb::arg("token"), nb::arg("user"))
      .def("call", &JobsApi::call, nb::arg("operation"), nb::arg("request"))
      .def("send_code", &JobsApi::send_code, nb::arg("folder"), nb::arg("environment") = "")
      .def("wait", &JobsApi::wait, nb::arg("job"), nb::arg("seconds"));
  nb::class_<JobLines>(module, "JobLines")
      .def(nb::init<std::shared_ptr<JobsApi>, std::string, int, int>(), nb::arg("api"), nb::arg("job"), nb::arg("rank"),
           nb::arg("tail"))
      .def("read", &JobLines::read);
}

}  // namespace volador::python
