// A real host process, driven like by its worker and called through a real session whose head is simulated by the test.
#include "runtime/actor/host_runtime.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <span>
#include <thread>

#include "runtime/actor/cluster_session.h"
#include "runtime/actor/handle.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/self.h"
#include "runtime/lease_page.h"
#include "runtime/net/fd_passing.h"
#include "runtime/net/socket.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/security/authority.h"
#include "runtime/security/tls_context.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

class Counter {
 public:
  explicit Counter(int start) : value_(start) {
    if (start < 0) throw std::invalid_argument("start must not be negative");
  }
  int add(int amount) { return value_ += amount; }
  int fail() { throw std::runtime_error("on purpose"); }
  void crash() { std::abort(); }
  std::string who() { return self().class_name + " on " + self().node_name; }
  void leave_open() { (void)open("/dev/null", O_RDONLY | O_CLOEXEC); }
  void leave_memory() {
    constexpr size_t kBytes = size_t{80} << 20;
    std::memset(new char[kBytes], 1, kBytes);
  }
  int slow(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return ++value_;
  }
  void keep() { (void)put(std::string(1 << 20, 'x')); }
  int until_cancelled(const std::string& marker) {
    std::ofstream(marker) << "runs";
    while (!cancel_requested()) std::this_thread::sleep_for(1ms);
    return ++value_;
  }

 private:
  int value_;
};
VOLADOR_ACTOR(Counter, &Counter::add, &Counter::fail, &Counter::crash, &Counter::who, &Counter::leave_open,
              &Counter::leave_memory, &Counter::slow, &Counter::keep, &Counter::until_cancelled);

class HostTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("volador-host-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    lease_fd_ = net::UniqueFd(memfd_create("lease", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(lease_fd_.get(), sizeof(LeasePage)), 0);
    page_ = static_cast<LeasePage*>(
        mmap(nullptr, sizeof(LeasePage), PROT_READ | PROT_WRITE, MAP_SHARED, lease_fd_.get(), 0));
    page_->magic = LeasePage::kMagic;
    renew(1h);
    actor_ = new_id<ActorId>(random_);
    host_ = new_id<HostId>(random_);
  }

  void TearDown() override {
    handle_ = {};
    if (session_) session_->close();
    Session::set_current(nullptr);
    session_.reset();
    loop_.reset();
    control_.reset();
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    munmap(page_, sizeof(LeasePage));
    std::filesystem::remove_all(directory_);
  }

  void renew(std::chrono::nanoseconds lease) {
    page_->deadline_boot_ns = (clock_.now() + lease).time_since_epoch().count();
  }

  // Forks a host and has it create a Counter; returns its first response.
  protocol::FromHost start_host(int start) {
    auto pair = net::seqpacket_pair();
    EXPECT_TRUE(pair);
    pid_ = fork();  // No thread exists yet.
    if (pid_ == 0) {
      pair->first.reset();
      run_host(std::move(pair->second), std::move(lease_fd_));
    }
    control_ = std::move(pair->first);
    pair->second.reset();
    return start_actor(start);
  }

  protocol::FromHost start_actor(int start) {
    protocol::ToHost message;
    auto& command = *message.mutable_start();
    command.set_node_name("here");
    command.set_machine_id("m");
    command.set_socket_dir(directory_);
    command.set_scratch_dir(directory_);
    command.set_shared_host_id(shared_host_);
    command.set_store_socket(store_socket_);
    if (certificate_) {
      command.set_certificate_pem(certificate_->certificate_pem);
      command.set_key_pem(certificate_->key_pem);
      command.set_authority_pem(certificate_->authority_pem);
    }
    command.mutable_start()->set_host_id(raw(host_));
    command.mutable_start()->set_epoch(1);
    auto& spec = *command.mutable_start()->mutable_spec();
    spec.set_actor_id(raw(actor_));
    spec.set_max_task_retries(retries_);
    for (const auto& call : opening_) *spec.add_opening() = call;
    spec.set_opening_caller(raw(opening_caller_));
    spec.set_class_name(std::string(type_name<Counter>()));
    using Constructor = registration::Constructor<Counter, int>;
    EXPECT_TRUE(Constructor::enlisted);
    spec.set_arguments(to_bytes<uint64_t, int>(Constructor::id(), start));
    EXPECT_TRUE(net::send_message(control_.get(), message.SerializeAsString()));
    return receive();
  }

  protocol::FromHost receive() {
    auto bytes = net::recv_message(control_.get());
    EXPECT_TRUE(bytes);
    protocol::FromHost message;
    EXPECT_TRUE(bytes && message.ParseFromString(bytes->bytes));
    return message;
  }

  // Opens a session whose head is simulated by this test.
  void open_session(const protocol::FromHost& ready) {
    loop_ = std::move(*net::IoLoop::create());
    ClusterSessionOptions options;
    options.loop = loop_.get();
    options.clock = &clock_;
    options.random = &random_;
    options.machine_id = "m";
    options.send = [this](const protocol::ClientMessage& message) {
      if (!head_repeats_ || !message.has_failed_call()) return;
      ++failed_calls_;
      loop_->post([this] { tell(); });  // Like a head that has not learned of its host's end yet.
    };
    options.verdict_patience = 3000ms;
    session_ = std::make_shared<ClusterSession>(options);
    Session::set_current(session_);
    session_->watch(actor_);
    info_.set_actor_id(raw(actor_));
    info_.set_state(protocol::ALIVE);
    info_.set_epoch(1);
    info_.set_version(1);
    info_.set_class_name("Counter");
    info_.set_node_name("here");
    *info_.mutable_address() = ready.ready().address();
    tell();
    handle_ = ActorHandle<Counter>(actor_);
  }

  void tell() {
    protocol::HeadMessage message;
    *message.mutable_actor() = info_;
    session_->on_message(message);
  }

  SystemClock clock_;
  SystemRandom random_;
  std::filesystem::path directory_;
  net::UniqueFd lease_fd_;
  LeasePage* page_ = nullptr;
  ActorId actor_;
  HostId host_;
  pid_t pid_ = -1;
  int retries_ = 0;
  std::vector<protocol::OpeningCall> opening_;  // Calls sent with the actor's start by this caller.
  net::CallerId opening_caller_;
  std::string store_socket_;
  std::optional<security::Credentials> certificate_;
  std::string shared_host_;  // Raw id; empty: one actor, alone in the process.
  net::UniqueFd control_;
  std::unique_ptr<net::IoLoop> loop_;
  std::shared_ptr<ClusterSession> session_;
  protocol::ActorInfo info_;
  bool head_repeats_ = false;          // Set first: info_ then stays unchanged.
  std::atomic<int> failed_calls_ = 0;  // Number of failed connections reported to the head.
  ActorHandle<Counter> handle_;
};

TEST_F(HostTest, CallsAreExecutedInOrderAndAnswered) {
  const auto ready = start_host(10);
  ASSERT_TRUE(ready.has_ready());
  open_session(ready);
  EXPECT_EQ(handle_.call<&Counter::add>(5).get(), 15);
  std::vector<Future<int>> futures;
  for (int i = 0; i < 1000; ++i) futures.push_back(handle_.call<&Counter::add>(1));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(futures[static_cast<size_t>(i)].get(), 16 + i);
  EXPECT_NE(handle_.call<&Counter::who>().get().find("Counter on here"), std::string::npos);
  const auto failed = handle_.call<&Counter::fail>().result();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), (Error{ErrorCode::kApplication, "std::runtime_error: on purpose"}));
}

TEST_F(HostTest, ASharedHostServesSeveralActorsAndEndsThemOneByOne) {
  const HostId process = host_;
  shared_host_ = raw(process);
  const auto ready = start_host(10);
  ASSERT_TRUE(ready.has_ready());
  EXPECT_EQ(ready.host_id(), raw(host_));
  info_.set_isolation(protocol::ISOLATION_SHARED);
  open_session(ready);
  const auto first = handle_;

  actor_ = new_id<ActorId>(random_);
  host_ = new_id<HostId>(random_);
  const auto second_ready = start_actor(20);
  ASSERT_TRUE(second_ready.has_ready());
  EXPECT_EQ(second_ready.host_id(), raw(host_));
  EXPECT_EQ(second_ready.ready().address().host_id(), raw(process));
  session_->watch(actor_);
  info_.set_actor_id(raw(actor_));
  *info_.mutable_address() = second_ready.ready().address();
  tell();
  const ActorHandle<Counter> second(actor_);

  std::vector<Future<int>> sums;
  for (int i = 1; i <= 200; ++i) {
    sums.push_back(first.call<&Counter::add>(1));
    sums.push_back(second.call<&Counter::add>(1));
  }
  for (int i = 1; i <= 200; ++i) {
    EXPECT_EQ(sums[static_cast<size_t>(2 * i - 2)].get(), 10 + i);
    EXPECT_EQ(sums[static_cast<size_t>(2 * i - 1)].get(), 20 + i);
  }
  const auto running = second.call<&Counter::slow>(200);
  EXPECT_EQ(first.call<&Counter::add>(1).get(), 211);
  protocol::ToHost end;
  end.set_host_id(raw(host_));
  end.mutable_end()->set_grace_ms(0);
  EXPECT_TRUE(net::send_message(control_.get(), end.SerializeAsString()));
  const auto ended = receive();
  EXPECT_TRUE(ended.has_ended());
  EXPECT_EQ(ended.host_id(), raw(host_));
  info_.set_state(protocol::DEAD);
  info_.set_version(2);
  tell();
  EXPECT_EQ(running.result(10s).error().code, ErrorCode::kActorDied);
  EXPECT_EQ(first.call<&Counter::add>(1).get(), 212);
}

TEST_F(HostTest, AConstructorThatThrowsIsReported) {
  const auto failed = start_host(-1);
  ASSERT_TRUE(failed.has_failed());
  EXPECT_EQ(failed.failed().cause().kind(), protocol::DeathCause::CONSTRUCTOR_THREW);
  EXPECT_EQ(failed.failed().cause().message(), "std::invalid_argument: start must not be negative");
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 71);
}

TEST_F(HostTest, ACallThatKillsItsHostEndsWithTheCause) {
  open_session(start_host(0));
  EXPECT_EQ(handle_.call<&Counter::add>(1).get(), 1);
  const auto cut_off = handle_.call<&Counter::crash>();
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  info_.set_state(protocol::DEAD);
  info_.set_version(2);
  info_.mutable_cause()->set_kind(protocol::DeathCause::SIGNALED);
  info_.mutable_cause()->set_signal(SIGABRT);
  info_.mutable_cause()->set_stderr_tail("assert failed");
  tell();
  const auto result = cut_off.result(10s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kActorDied);
  EXPECT_NE(result.error().message.find("signal 6 (Aborted)"), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("assert failed"), std::string::npos);
  EXPECT_EQ(handle_.call<&Counter::add>(1).result().error().code, ErrorCode::kActorDied);
}

TEST_F(HostTest, ACutOffCallWithoutAVerdictIsOfUnknownOutcome) {
  open_session(start_host(0));
  EXPECT_EQ(handle_.call<&Counter::add>(1).get(), 1);
  const auto cut_off = handle_.call<&Counter::crash>();
  const auto result = cut_off.result(20s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnknownOutcome) << result.error().message;
}

TEST_F(HostTest, AHostThatIsGoneIsTriedSlowlyThoughTheHeadStillNamesIt) {
  head_repeats_ = true;
  open_session(start_host(0));
  EXPECT_EQ(handle_.call<&Counter::add>(1).get(), 1);
  EXPECT_FALSE(handle_.call<&Counter::crash>().result(20s));
  EXPECT_EQ(handle_.call_for<&Counter::add>(1s, 1).result().error().code, ErrorCode::kTimeout);
  EXPECT_EQ(failed_calls_, 1);
}

TEST_F(HostTest, AParkedHostAnswersOnlyAfterItsLeaseIsRenewed) {
  open_session(start_host(0));
  EXPECT_EQ(handle_.call<&Counter::add>(1).get(), 1);
  const auto running = handle_.call<&Counter::slow>(100);
  renew(-1s);
  EXPECT_FALSE(running.wait_for(500ms));  // Executed, not committed.
  renew(1h);
  EXPECT_EQ(running.get(10s), 2);
}

TEST_F(HostTest, ACallForAnotherEpochIsNotExecuted) {
  const auto ready = start_host(0);
  open_session(ready);
  info_.set_epoch(2);  // A head that placed the actor again, with the address of the old host.
  info_.set_version(2);
  tell();
  EXPECT_EQ(handle_.call_for<&Counter::add>(300ms, 1).result().error().code, ErrorCode::kTimeout);
}

// Opens one connection and calls counter.add(amount) on it.
Result<std::string> call_once(net::IoLoop& loop, const std::string& path, const net::CallerId& caller,
                              net::CallRequest request) {
  net::ConnectionOptions options;
  options.caller = caller;
  auto connection = net::CallConnection::connect(loop, net::UnixEndpoint{path}, options);
  std::promise<Result<std::string>> answer;
  connection->call(std::move(request), [&](Result<std::string> result) { answer.set_value(std::move(result)); });
  auto result = answer.get_future().get();
  connection->close();
  return result;
}

TEST_F(HostTest, ACallThatComesAgainOverAnotherConnectionRunsOnce) {
  retries_ = -1;
  const auto ready = start_host(0);
  loop_ = std::move(*net::IoLoop::create());
  const auto caller = new_id<net::CallerId>(random_);
  const auto add = [&](uint64_t request, int amount, uint64_t acknowledged, bool keep) {
    net::CallRequest call{.request_id = request, .actor = actor_, .epoch = 1, .method = function_id<&Counter::add>()};
    call.keep_answer = keep;
    call.acknowledged = acknowledged;
    call.body = registration::TupleCodec<std::tuple<int>>::encode(amount);
    return from_bytes<int>(call_once(*loop_, ready.ready().address().unix_path(), caller, std::move(call)).value())
        .value();
  };
  EXPECT_EQ(add(1, 5, 1, true), 5);
  EXPECT_EQ(add(1, 5, 1, true), 5) << "answered again";
  EXPECT_EQ(add(2, 1, 2, true), 6);
  EXPECT_EQ(add(1, 5, 2, true), 11) << "it had been acknowledged: whoever repeats it then asks for another call";
  EXPECT_EQ(add(2, 1, 2, false), 12) << "not asked to be kept";
}

TEST_F(HostTest, CallsThatComeWithItsStartRunBeforeAnybodyConnects) {
  const std::filesystem::path marker = directory_ / "runs";
  opening_caller_ = new_id<net::CallerId>(random_);
  const auto open = [&](uint64_t number, uint64_t method, std::string arguments) {
    protocol::OpeningCall call;
    call.set_request_id(number);
    call.set_method(method);
    call.set_arguments(std::move(arguments));
    opening_.push_back(call);
  };
  open(7, function_id<&Counter::add>(), to_bytes(5));
  open(8, function_id<&Counter::until_cancelled>(), to_bytes(marker.string()));
  const auto ready = start_host(1);
  while (!std::filesystem::exists(marker)) std::this_thread::sleep_for(1ms);

  loop_ = std::move(*net::IoLoop::create());
  net::CallRequest again;
  again.request_id = 7;
  again.actor = actor_;
  again.epoch = 1;
  again.method = function_id<&Counter::add>();
  again.body = to_bytes(5);
  again.keep_answer = true;
  const auto answer = call_once(*loop_, ready.ready().address().unix_path(), opening_caller_, again);
  EXPECT_EQ(from_bytes<int>(answer.value()).value(), 6) << "answered while the second one runs, and not run again";
}

TEST_F(HostTest, ACancelOverALaterConnectionReachesTheMethodThatRuns) {
  retries_ = -1;
  const auto ready = start_host(0);
  loop_ = std::move(*net::IoLoop::create());
  const auto caller = new_id<net::CallerId>(random_);
  const std::filesystem::path marker = directory_ / "runs";
  const auto ask = [&] {
    net::ConnectionOptions options;
    options.caller = caller;
    auto connection = net::CallConnection::connect(*loop_, net::UnixEndpoint{ready.ready().address().unix_path()},
                                                   options, [](const Error&) {});
    net::CallRequest call{
        .request_id = 1, .actor = actor_, .epoch = 1, .method = function_id<&Counter::until_cancelled>()};
    call.keep_answer = true;
    call.acknowledged = 1;
    call.body = registration::TupleCodec<std::tuple<std::string>>::encode(marker.string());
    connection->call(std::move(call), [](const Result<std::string>&) {});
    return connection;
  };
  auto first = ask();
  while (!std::filesystem::exists(marker)) std::this_thread::sleep_for(1ms);
  first->close();  // The end of a connection does not cancel calls: its caller may reconnect.
  std::filesystem::remove(marker);
  std::promise<int> added;
  std::thread other([&] {
    net::CallRequest add{.request_id = 1, .actor = actor_, .epoch = 1, .method = function_id<&Counter::add>()};
    add.body = registration::TupleCodec<std::tuple<int>>::encode(1);
    added.set_value(from_bytes<int>(call_once(*loop_, ready.ready().address().unix_path(),
                                              new_id<net::CallerId>(random_), std::move(add))
                                        .value())
                        .value());
  });
  auto answer = added.get_future();
  EXPECT_EQ(answer.wait_for(100ms), std::future_status::timeout) << "the method runs on";
  while (answer.wait_for(20ms) != std::future_status::ready) {  // Cancelled before it was sent, it is never sent.
    auto again = ask();
    answer.wait_for(20ms);
    again->cancel(1);
    answer.wait_for(20ms);
    again->close();
  }
  EXPECT_EQ(answer.get(), 2) << "it returned, once";
  EXPECT_FALSE(std::filesystem::exists(marker)) << "and was not run again";
  other.join();
}

TEST_F(HostTest, EndsWhenItsWorkerIsGone) {
  ASSERT_TRUE(start_host(0).has_ready());
  control_.reset();
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 70);
}

TEST_F(HostTest, ACallWhoseStoreEndsWithItsWorkerIsLostAndNotAnError) {
  store_socket_ = directory_ / "store.sock";
  auto listener = net::listen_unix(store_socket_, SOCK_SEQPACKET).value();
  open_session(start_host(0));
  auto keeps = handle_.call<&Counter::keep>();
  const auto accepted = [&] {
    pollfd wait{listener.get(), POLLIN, 0};
    poll(&wait, 1, 10'000);
    return net::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  };
  net::UniqueFd store = accepted();
  ASSERT_TRUE(net::recv_message(store.get()).has_value()) << "it says hello and waits for a welcome";
  listener.reset();
  store.reset();
  EXPECT_FALSE(keeps.wait_for(200ms)) << "until it is known whether the worker is gone, too";
  control_.reset();
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 70);
  const auto lost = keeps.result(10s);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnknownOutcome) << lost.error().message;
}

TEST_F(HostTest, ItSaysOfAnAdoptedConnectionThatItsPeerHasProvedItself) {
  const auto authority = security::Authority::create(ClusterId({1}), clock_.wall()).value();
  const auto other = security::Authority::create(ClusterId({2}), clock_.wall()).value();
  certificate_ = security::signed_by(authority, security::Role::kHost, to_string(host_));
  ASSERT_TRUE(start_host(0).has_ready());
  net::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  loop_ = std::move(*net::IoLoop::create());
  const auto connect = [&](const security::Authority& of, uint64_t number) {
    auto tls = security::TlsContext::create(security::signed_by(of, security::Role::kDriver, "peer")).value();
    auto connection = net::CallConnection::connect(*loop_, net::TlsEndpoint{.host = "127.0.0.1",
                                                                            .port = ntohs(address.sin_port),
                                                                            .server_name = to_string(host_),
                                                                            .tls = std::move(tls)});
    const net::UniqueFd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    protocol::ToHost message;
    message.mutable_adopt()->set_connection(number);
    const int fd = accepted.get();
    EXPECT_TRUE(net::send_message(control_.get(), message.SerializeAsString(), std::span(&fd, 1)));
    return connection;
  };
  const auto refused = connect(other, 6);
  const auto caller = connect(authority, 7);
  EXPECT_EQ(receive().proved().connection(), 7);
  caller->close();
  refused->close();
}

TEST_F(HostTest, WhereTheWorkerLivesTheStoresEndIsAnErrorOfTheCall) {
  store_socket_ = directory_ / "store.sock";  // Nothing listens there.
  open_session(start_host(0));
  const auto failed = handle_.call<&Counter::keep>().result(10s);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kApplication) << failed.error().message;
}

TEST_F(HostTest, EndsWhenAsked) {
  ASSERT_TRUE(start_host(0).has_ready());
  protocol::ToHost end;
  end.mutable_end()->set_grace_ms(1000);
  ASSERT_TRUE(net::send_message(control_.get(), end.SerializeAsString()));
  EXPECT_TRUE(receive().has_ended()) << "said before the process is gone";
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(HostTest, WithAPortOrMuchMemoryItEndsWithoutSayingSoFirst) {
  for (const bool memory : {false, true}) {
    open_session(start_host(0));
    (memory ? handle_.call<&Counter::leave_memory>() : handle_.call<&Counter::leave_open>()).get(10s);
    protocol::ToHost end;
    end.mutable_end()->set_grace_ms(1000);
    ASSERT_TRUE(net::send_message(control_.get(), end.SerializeAsString()));
    EXPECT_FALSE(net::recv_message(control_.get())) << "only the end of the process";
    waitpid(std::exchange(pid_, -1), nullptr, 0);
    TearDown();
    SetUp();
  }
}

}  // namespace
}  // namespace volador
