#include "volador/roles/katib_services.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <thread>
#include <tuple>

#include "experiments/katib/algorithm_list.h"
#include "experiments/katib/algorithm_settings.h"
#include "experiments/katib/own_suggestions.h"
#include "runtime/control/channel.h"
#include "runtime/log.h"
#include "runtime/protocol/katib/v1beta1/api.grpc.pb.h"
#include "runtime/yaml/reader.h"
#include "volador/roles/service_process.h"

namespace volador {

namespace katib = experiments::katib;
namespace katib_api = ::api::v1::beta1;

namespace {

using std::chrono::milliseconds;

constexpr size_t kServiceFileMax = 1 << 20;
constexpr milliseconds kHealthPause{20}, kHealthPauseMax{500}, kHealthDeadline{2'000};

tl::unexpected<Error> service_calls_ended() {
  return make_error(ErrorCode::kCancelled, "the head stops, or the experiment has ended");
}

// Waits unless `stop` is requested first; false: it was.
bool wait_out(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// A thread that makes calls in their order.
class CallThread {
 public:
  struct Call {
    std::function<void(const std::stop_token& stop)> run;
    std::function<void(Error why)> refuse;
  };
  explicit CallThread(size_t limit) : limit_(limit) {
    thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
  }
  ~CallThread() { stop(); }

  void post(Call call) {
    const char* why = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) {
        why = "stopped";
      } else if (queue_.size() >= limit_) {
        why = "full";
      } else {
        queue_.push_back(std::move(call));
      }
    }
    if (why == nullptr) return changed_.notify_all();
    if (std::string_view(why) == "stopped") return call.refuse(service_calls_ended().value());
    call.refuse({ErrorCode::kUnavailable, fmt::format("{} requests wait already; repeat the request later", limit_)});
  }

  // Cancels the call in progress, waits for its end and refuses the others. Not by a call.
  void stop() {
    std::deque<Call> left;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(stopped_, true)) return;
      left.swap(queue_);
    }
    thread_.request_stop();
    thread_.join();
    for (const Call& call : left) call.refuse(service_calls_ended().value());
  }

 private:
  void live(const std::stop_token& stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !queue_.empty(); });
      if (stop.stop_requested()) return;
      const Call call = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      call.run(stop);
    }
  }

  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Call> queue_;
  bool stopped_ = false;
  std::jthread thread_;
};

std::shared_ptr<grpc::Channel> channel_to(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(control::kMessageBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(control::kMessageBytesMax));
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void set_deadline(grpc::ClientContext& context, milliseconds time) {
  context.set_deadline(std::chrono::system_clock::now() + time);
}

// grpc.health.v1.Health/Check, whose two messages have one field each: true if the service is ready, or its server has
// no health service.
Result<bool> check_health(const std::shared_ptr<grpc::Channel>& channel, std::string_view service,
                          const std::stop_token& stop) {
  const std::string asked = "\x0a" + std::string(1, static_cast<char>(service.size())) + std::string(service);
  const grpc::Slice slice(asked);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::ClientContext context;
  set_deadline(context, kHealthDeadline);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  std::promise<grpc::Status> answered;
  grpc::GenericStub(channel).UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                                       [&](grpc::Status status) { answered.set_value(std::move(status)); });
  const grpc::Status status = answered.get_future().get();
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return true;
  if (!status.ok()) return make_error(ErrorCode::kUnavailable, status.error_message());
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok()) return make_error(ErrorCode::kUnavailable, "not a reply of a health service");
  std::string bytes;
  for (const grpc::Slice& one : slices) bytes.append(reinterpret_cast<const char*>(one.begin()), one.size());
  return bytes == "\x08\x01";
}

Error error_of_service(const std::string& who, const grpc::Status& status) {
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {ErrorCode::kInvalidArgument, text.empty() ? fmt::format("{} refuses the request", who) : text};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorCode::kTimeout, fmt::format("{} did not answer in time", who)};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {ErrorCode::kUnavailable, fmt::format("{}: {}", who, text)};
    default:
      return {ErrorCode::kApplication,
              fmt::format("{} failed: {} (gRPC status {})", who, text, static_cast<int>(status.error_code()))};
  }
}

// An external service: its process, if it is a command, and calls to it.
class ExternalService {
 public:
  ExternalService(std::string kind, const std::string& algorithm, const std::string& experiment,
                  const KatibServiceEntry& entry, const KatibServicesOptions& options)
      : name_(fmt::format("{} service \"{}\"", kind == "Suggestion" ? "suggestion" : "early stopping", algorithm)),
        health_("manager.v1beta1." + kind),
        options_(options),
        address_(entry.address) {
    if (!entry.command.empty()) {
      auto log = options.logs;
      std::string file = fmt::format("{}-{}.log", algorithm, experiment);
      std::replace(file.begin(), file.end(), '/', '.');  // Names of namespaces have no point.
      if (!log.empty()) log /= file;
      process_.emplace(ServiceProcessOptions{.name = name_,
                                             .command = entry.command,
                                             .owner = options.owner,
                                             .log = std::move(log),
                                             .pause = std::min(options.pause, milliseconds(1'000))});
    }
    calls_.emplace(options.calls);
  }

  // Posts a call that may be repeated.
  template <class Stub, class Request, class Reply>
  void call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), Request request,
            bool may_lack_it, std::function<void(Result<Reply>)> done) {
    calls_->post({.run = [this, method, request = std::move(request), may_lack_it, done](
                             const std::stop_token& stop) { done(repeat<Stub>(method, request, may_lack_it, stop)); },
                  .refuse = [done](Error why) { done(make_error(std::move(why))); }});
  }

 private:
  template <class Stub, class Request, class Reply>
  Result<Reply> repeat(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, bool may_lack_it, const std::stop_token& stop) {
    Error last;
    for (int attempt = 0; attempt < options_.attempts; ++attempt) {
      if (attempt > 0 && !wait_out(options_.pause, stop)) return service_calls_ended();
      if (auto ready = connect(stop); !ready) {
        last = ready.error();
        if (stop.stop_requested()) return service_calls_ended();
        continue;
      }
      Reply reply;
      grpc::ClientContext context;
      set_deadline(context, options_.deadline);
      const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
      Stub stub(channel_);
      const grpc::Status status = (stub.*method)(&context, request, &reply);
      if (status.ok()) return reply;
      if (stop.stop_requested()) return service_calls_ended();
      if (may_lack_it && status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return Reply();
      last = error_of_service(fmt::format("{} at {}", name_, address_), status);
      if (last.code != ErrorCode::kUnavailable) return make_error(last);
      is_healthy_ = false;
    }
    last.message = fmt::format("{} ({} attempts)", last.message, options_.attempts);
    return make_error(last);
  }

  // Makes channel_ one to a service that answered a health check.
  Result<void> connect(const std::stop_token& stop) {
    const auto until = std::chrono::steady_clock::now() + options_.start_patience;
    auto pause = kHealthPause;
    for (;;) {
      VOLADOR_TRY(find_address(until));
      if (is_healthy_) return {};
      const auto healthy = check_health(channel_, health_, stop);
      if (healthy && *healthy) {
        is_healthy_ = true;
        return {};
      }
      const std::string why = healthy ? "its health service says that it is not ready" : healthy.error().message;
      // A server at a fixed address is asked again with the next attempt.
      if (!process_ || std::chrono::steady_clock::now() + pause > until)
        return make_error(ErrorCode::kUnavailable, fmt::format("{} at {}: {}", name_, address_, why));
      if (!wait_out(pause, stop)) return service_calls_ended();
      pause = std::min(2 * pause, kHealthPauseMax);
    }
  }

  Result<void> find_address(std::chrono::steady_clock::time_point until) {
    if (!process_) {
      if (!channel_) channel_ = channel_to(address_);
      return {};
    }
    auto state = process_->state();
    if (state.address.empty()) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
      state = process_->wait(std::max(left, milliseconds(0)));
    }
    if (state.address.empty())
      return make_error(
          ErrorCode::kUnavailable,
          fmt::format("{}: {}", name_, state.ended.empty() ? "the process did not start in time" : state.ended));
    if (state.starts != starts_ || !channel_) {
      starts_ = state.starts;
      address_ = state.address;
      channel_ = channel_to(address_);
      is_healthy_ = false;
    }
    return {};
  }

  const std::string name_, health_;
  const KatibServicesOptions& options_;
  std::string address_;  // This and the rest: of the thread of the calls.
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t starts_ = 0;
  bool is_healthy_ = false;
  std::optional<ServiceProcess> process_;
  std::optional<CallThread> calls_;  // Ends before the process.
};

Result<KatibServiceEntry> service_entry(const std::string& name, const yaml::Value& value) {
  const auto refuse = [&](const std::string& what) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, what));
  };
  if (value.kind != yaml::Kind::kMap) return refuse("expected {command: [...]} or {address: \"host:port\"}");
  KatibServiceEntry entry;
  for (const yaml::Entry& field : value.entries) {
    if (field.key == "command") {
      if (!field.value.is_list() || field.value.items.empty())
        return refuse("command: expected a list with the program and its arguments");
      for (const yaml::Value& word : field.value.items) {
        if (word.kind == yaml::Kind::kInteger) {
          entry.command.push_back(std::to_string(word.integer));
        } else if (word.is_text()) {
          entry.command.push_back(word.text);
        } else {
          return refuse("command: expected texts");
        }
      }
    } else if (field.key == "address") {
      const std::string& text = field.value.text;
      const size_t colon = text.rfind(':');
      const std::string_view port = colon == text.npos ? "" : std::string_view(text).substr(colon + 1);
      const bool is_number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
      if (!field.value.is_text() || colon == 0 || !is_number)
        return refuse(fmt::format("address: expected host:port, got \"{}\"", text));
      entry.address = text;
    } else {
      return refuse(fmt::format("{}: expected command or address", field.key));
    }
  }
  if (entry.command.empty() == entry.address.empty()) return refuse("expected either command or address");
  return entry;
}

}  // namespace

Result<KatibServiceEntries> katib_service_entries(std::string_view setting) {
  std::string text(setting), name = "the setting";
  if (text.find('{') == text.npos && text.find('\n') == text.npos && text.find(": ") == text.npos) {
    name = text;
    std::ifstream file(name, std::ios::binary);
    std::stringstream read;
    if (file) read << file.rdbuf();
    if (!file || !read) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("cannot read {}; expected a map of names to services in YAML, or a file with one", name));
    }
    text = read.str();
  }
  if (text.size() > kServiceFileMax)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is longer than 1 MiB", name));
  const auto document = yaml::read(text, name);
  if (!document) return make_error(ErrorCode::kInvalidArgument, document.error().text());
  if (!document->problems.empty()) return make_error(ErrorCode::kInvalidArgument, document->problems.front().text());
  KatibServiceEntries entries;
  if (document->root.is_null()) return entries;
  if (document->root.kind != yaml::Kind::kMap) {
    return make_error(ErrorCode::kInvalidArgument,
                      "expected a map of names to services: {toy: {command: [python3, toy.py]}}");
  }
  for (const yaml::Entry& one : document->root.entries) {
    if (one.key.empty() || one.key.find_first_of("/ \n") != one.key.npos) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("\"{}\": the name of an algorithm has neither spaces nor slashes", one.key));
    }
    auto entry = service_entry(one.key, one.value);
    if (!entry) return make_error(entry.error());
    entries.emplace(one.key, std::move(*entry));
  }
  return entries;
}

struct KatibSuggestions::Impl {
  using Key = std::tuple<std::string, std::string, std::string>;  // Kind, algorithm, experiment.

  explicit Impl(KatibServicesOptions given) : options(std::move(given)), own(options.calls) {}

  // Null: refused, with the reason.
  std::shared_ptr<ExternalService> service(const std::string& kind, const std::string& algorithm,
                                           const KatibServiceEntry& entry, const std::string& experiment, Error& why) {
    // A service at an address is shared.
    const bool is_process = !entry.command.empty();
    const Key key{kind, algorithm, is_process ? experiment : ""};
    const std::lock_guard lock(mutex);
    if (stopped) {
      why = service_calls_ended().value();
      return nullptr;
    }
    if (const auto found = services.find(key); found != services.end()) return found->second;
    if (auto ready = control::prepare_grpc(); !ready) {
      why = ready.error();
      return nullptr;
    }
    if (services.size() >= options.processes) {
      why = {ErrorCode::kUnavailable,
             fmt::format("{} services of experiments run already; repeat the request when one of them has ended",
                         services.size())};
      return nullptr;
    }
    auto made = std::make_shared<ExternalService>(kind, algorithm, experiment, entry, options);
    services.emplace(key, made);
    return made;
  }

  // Ends processes that no experiment needs, on another thread: a call of theirs may be the caller.
  void drop(const std::function<bool(const Key&)>& which) {
    std::vector<std::shared_ptr<ExternalService>> dropped;
    {
      const std::lock_guard lock(mutex);
      std::erase_if(services, [&](const auto& one) {
        if (!which(one.first)) return false;
        dropped.push_back(one.second);
        return true;
      });
    }
    if (dropped.empty()) return;
    auto held = std::make_shared<std::vector<std::shared_ptr<ExternalService>>>(std::move(dropped));
    endings.post(
        {.run = [held](const std::stop_token&) { held->clear(); }, .refuse = [held](Error) { held->clear(); }});
  }

  template <class Stub, class Request, class Reply>
  void call(const std::string& kind, const std::string& algorithm, const KatibServiceEntry& entry,
            const std::string& experiment, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
            Request request, bool may_lack_it, Done<Reply> done) {
    Error why;
    const auto to = service(kind, algorithm, entry, experiment, why);
    if (!to) return done(make_error(std::move(why)));
    to->call(method, std::move(request), may_lack_it, std::move(done));
  }

  template <class Reply>
  void compute(std::function<Result<Reply>()> work, Done<Reply> done) {
    own.post({.run = [work = std::move(work), done](const std::stop_token&) { done(work()); },
              .refuse = [done](Error why) { done(make_error(std::move(why))); }});
  }

  Error unknown(const std::string& algorithm) const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : options.suggestions) names.push_back(name);
    return katib::unknown_algorithm(algorithm, names);
  }
  static bool is_own(const std::string& algorithm) {
    const auto& names = katib::own_algorithms();
    return std::find(names.begin(), names.end(), algorithm) != names.end();
  }

  const KatibServicesOptions options;
  std::mutex mutex;
  bool stopped = false;
  std::map<Key, std::shared_ptr<ExternalService>> services;
  CallThread own;
  CallThread endings{100'000};
};

KatibSuggestions::KatibSuggestions(KatibServicesOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  if (const std::string& owner = impl_->options.owner; !owner.empty()) end_left_services(owner);
}
KatibSuggestions::~KatibSuggestions() { stop(); }

void KatibSuggestions::suggest(const std::string& of, const std::string& algorithm,
                               katib_api::GetSuggestionsRequest request, Done<katib_api::GetSuggestionsReply> done) {
  const auto found = impl_->options.suggestions.find(algorithm);
  if (found == impl_->options.suggestions.end()) {
    if (!Impl::is_own(algorithm)) return done(make_error(impl_->unknown(algorithm)));
    return impl_->compute<katib_api::GetSuggestionsReply>(
        [request = std::move(request)] { return katib::OwnSuggestions().suggest(request); }, std::move(done));
  }
  impl_->call("Suggestion", algorithm, found->second, of, &katib_api::Suggestion::Stub::GetSuggestions,
              std::move(request), false, std::move(done));
}

void KatibSuggestions::validate(const std::string& of, const std::string& algorithm, katib_api::Experiment experiment,
                                Done<void> done) {
  const auto found = impl_->options.suggestions.find(algorithm);
  if (found == impl_->options.suggestions.end()) {
    if (!Impl::is_own(algorithm)) return done(make_error(impl_->unknown(algorithm)));
    return impl_->compute<void>(
        [experiment = std::move(experiment)] { return katib::OwnSuggestions().validate(experiment); }, std::move(done));
  }
  katib_api::ValidateAlgorithmSettingsRequest request;
  *request.mutable_experiment() = std::move(experiment);
  impl_->call<katib_api::Suggestion::Stub, katib_api::ValidateAlgorithmSettingsRequest,
              katib_api::ValidateAlgorithmSettingsReply>(
      "Suggestion", algorithm, found->second, of, &katib_api::Suggestion::Stub::ValidateAlgorithmSettings,
      std::move(request), true,
      [this, of, done = std::move(done)](Result<katib_api::ValidateAlgorithmSettingsReply> reply) {
        if (!reply) end(of);
        done(reply ? Result<void>() : make_error(std::move(reply).error()));
      });
}

v1::ListKatibAlgorithmsReply KatibSuggestions::algorithms() const {
  const auto names = [](const KatibServiceEntries& entries) {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries) out.push_back(name);
    return out;
  };
  return katib::algorithm_list(names(impl_->options.suggestions), names(impl_->options.early_stopping));
}

void KatibSuggestions::rules(const std::string& of, katib_api::GetEarlyStoppingRulesRequest request,
                             katib::ObjectiveLogs logs, Done<katib_api::GetEarlyStoppingRulesReply> done) {
  const std::string algorithm = request.experiment().spec().early_stopping().algorithm_name();
  const auto found = impl_->options.early_stopping.find(algorithm);
  if (found == impl_->options.early_stopping.end()) {
    return impl_->compute<katib_api::GetEarlyStoppingRulesReply>(
        [request = std::move(request), logs = std::move(logs)] {
          return katib::median_stop_rules(request.experiment(), request.trials(), logs);
        },
        std::move(done));
  }
  if (request.db_manager_address().empty()) request.set_db_manager_address(impl_->options.db_manager_address);
  impl_->call("EarlyStopping", algorithm, found->second, of, &katib_api::EarlyStopping::Stub::GetEarlyStoppingRules,
              std::move(request), false, std::move(done));
}

void KatibSuggestions::validate_early_stopping(const katib_api::EarlyStoppingSpec& spec, Done<void> done) {
  const auto found = impl_->options.early_stopping.find(spec.algorithm_name());
  if (found == impl_->options.early_stopping.end()) {
    const auto settings = katib::median_stop_settings(spec);
    return done(settings ? Result<void>() : make_error(settings.error()));
  }
  katib_api::ValidateEarlyStoppingSettingsRequest request;
  *request.mutable_early_stopping() = spec;
  // The request names no experiment, so the process is one for checks only.
  impl_->call<katib_api::EarlyStopping::Stub, katib_api::ValidateEarlyStoppingSettingsRequest,
              katib_api::ValidateEarlyStoppingSettingsReply>(
      "EarlyStopping", spec.algorithm_name(), found->second, "",
      &katib_api::EarlyStopping::Stub::ValidateEarlyStoppingSettings, std::move(request), true,
      [this, done = std::move(done)](Result<katib_api::ValidateEarlyStoppingSettingsReply> reply) {
        impl_->drop(
            [](const Impl::Key& key) { return std::get<0>(key) == "EarlyStopping" && std::get<2>(key).empty(); });
        done(reply ? Result<void>() : make_error(std::move(reply).error()));
      });
}

void KatibSuggestions::end(const std::string& of) {
  if (of.empty()) return;
  impl_->drop([&](const Impl::Key& key) { return std::get<2>(key) == of; });
}

void KatibSuggestions::stop() {
  std::map<Impl::Key, std::shared_ptr<ExternalService>> ended;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopped = true;
    ended.swap(impl_->services);
  }
  ended.clear();
  impl_->own.stop();
  impl_->endings.stop();
}

}  // namespace volador
