// A user program without an actor runtime, as used by a worker: held as a template, forked into hosts whose behaviour
// depends on their class. FAKE_TEMPLATE (environment) selects a misbehaviour of the template: "exit", "silent",
// "threads", "dies" (at its second fork).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/lease_page.h"
#include "runtime/net/fd_passing.h"
#include "runtime/protocol/host.pb.h"

namespace {

using namespace volador;

std::string env_or(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void say(int control, const protocol::FromHost& message) {
  if (!net::send_message(control, message.SerializeAsString())) _exit(70);
}

void fail_with(int control, const std::string& text) {
  protocol::FromHost message;
  message.mutable_failed()->mutable_cause()->set_kind(protocol::DeathCause::CONSTRUCTOR_THREW);
  message.mutable_failed()->mutable_cause()->set_message(text);
  say(control, message);
}

// A process that leaves the host's session and group and can only be ended by the worker.
void leave_a_daemon(const std::string& file) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  FILE* out = std::fopen(file.c_str(), "w");
  std::fprintf(out, "%d\n", getpid());
  std::fclose(out);
  while (true) pause();
}

[[noreturn]] void host(net::UniqueFd control, net::UniqueFd lease) {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  void* memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, lease.get(), 0);
  if (memory == MAP_FAILED) _exit(80);
  const auto* page = static_cast<const LeasePage*>(memory);
  if (page->magic != LeasePage::kMagic) _exit(81);
  if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, lease.get(), 0) != MAP_FAILED) _exit(82);

  auto first = net::recv_message(control.get());
  protocol::ToHost hello;
  if (!first || !hello.ParseFromString(first->bytes) || !hello.has_start()) _exit(70);
  const protocol::HostStart& start = hello.start();
  for (const auto& [name, value] : start.env()) setenv(name.c_str(), value.c_str(), 1);
  if (!start.cwd().empty() && chdir(start.cwd().c_str()) != 0) _exit(83);
  const std::string what = start.start().spec().class_name();
  const std::string argument = start.start().spec().arguments();

  if (what == "exit") {
    std::fprintf(stderr, "about to leave\nlast words\n");
    _exit(std::atoi(argument.c_str()));
  }
  if (what == "throw") {
    fail_with(control.get(), "std::runtime_error: no data");
    _exit(71);
  }
  if (what == "hang") {
    while (true) pause();
  }
  if (what == "daemon") leave_a_daemon(argument);
  if (what == "child") {  // In the host's own group.
    if (fork() == 0) {
      FILE* out = std::fopen(argument.c_str(), "w");
      std::fprintf(out, "%d\n", getpid());
      std::fclose(out);
      while (true) pause();
    }
  }
  if (what == "stubborn") signal(SIGTERM, SIG_IGN);
  mkdir(start.scratch_dir().c_str(), 0700);  // Created on demand by a real host.
  std::printf("host %s gpus=[%s] env=[%s] cwd_scratch=%d\n", what.c_str(),
              env_or("CUDA_VISIBLE_DEVICES", "unset").c_str(), env_or("FAKE_VALUE", "unset").c_str(),
              access(start.scratch_dir().c_str(), W_OK));
  std::fflush(stdout);
  protocol::FromHost ready;
  ready.mutable_ready();
  say(control.get(), ready);
  if (what == "flood") {
    while (true) std::printf("all work and no play makes jack a dull boy\n");
  }
  if (what == "abort") {
    std::fprintf(stderr, "check failed\n");
    std::abort();
  }
  while (true) {
    auto message = net::recv_message(control.get());
    if (!message) _exit(70);
    protocol::ToHost order;
    if (!order.ParseFromString(message->bytes)) _exit(72);
    if (order.has_end() && what == "lingers") {  // Its actor has ended, its memory is not freed yet.
      protocol::FromHost ended;
      ended.mutable_ended();
      std::printf("good bye\n");
      std::fflush(stdout);
      say(control.get(), ended);
      while (true) pause();
    }
    if (order.has_end() && what != "stubborn") _exit(0);
    if (order.has_revoked()) {
      protocol::FromHost back;
      back.mutable_relay()->mutable_ping()->set_sequence(
          static_cast<uint64_t>(1000 + order.revoked().token_ids_size()));
      say(control.get(), back);
    }
    if (order.has_relayed()) {  // Responds to an echo, so that tests cover both directions.
      protocol::FromHost back;
      back.mutable_relay()->mutable_ping()->set_sequence(order.relayed().pong().sequence() + 1);
      if (order.relayed().has_pong()) say(control.get(), back);
    }
  }
}

[[noreturn]] void held(net::UniqueFd control) {
  const std::string mood = env_or("FAKE_TEMPLATE", "");
  if (mood == "exit") {
    std::fprintf(stderr, "cannot read my settings\n");
    _exit(9);
  }
  if (mood == "silent") {
    std::fprintf(stderr, "still loading\n");
    while (true) pause();
  }
  protocol::FromTemplate hello;
  hello.mutable_held()->set_threads(mood == "threads" ? 2 : 1);
  hello.mutable_held()->set_makes_spares(true);
  if (!net::send_message(control.get(), hello.SerializeAsString())) _exit(0);
  for (int count = 1;; ++count) {
    auto message = net::recv_message(control.get());
    if (!message) _exit(0);
    protocol::ToTemplate order;
    if (!order.ParseFromString(message->bytes) || !order.has_fork() || message->fds.size() != 4) continue;
    if (mood == "dies" && count == 2) abort();
    int pids[2];
    if (pipe(pids) != 0) _exit(1);
    const pid_t middle = fork();
    if (middle == 0) {
      const pid_t child = fork();
      if (child == 0) {
        control.reset();
        close(pids[0]);
        close(pids[1]);
        for (const auto& [name, value] : order.fork().env()) setenv(name.c_str(), value.c_str(), 1);
        if (!order.fork().cwd().empty() && chdir(order.fork().cwd().c_str()) != 0) _exit(83);
        dup2(message->fds[1].get(), STDOUT_FILENO);
        dup2(message->fds[2].get(), STDERR_FILENO);
        message->fds[1].reset();
        message->fds[2].reset();
        host(std::move(message->fds[0]), std::move(message->fds[3]));
      }
      if (write(pids[1], &child, sizeof child) != sizeof child) _exit(1);
      _exit(0);
    }
    pid_t pid = 0;
    close(pids[1]);
    if (read(pids[0], &pid, sizeof pid) != sizeof pid) pid = 0;
    close(pids[0]);
    waitpid(middle, nullptr, 0);
    protocol::FromTemplate answer;
    answer.mutable_forked()->set_host_id(order.fork().host_id());
    answer.mutable_forked()->set_pid(pid);
    if (!net::send_message(control.get(), answer.SerializeAsString())) _exit(0);
  }
}

}  // namespace

int main() {
  const std::string role = env_or("VOLADOR_ROLE", "");
  net::UniqueFd control(std::atoi(env_or("VOLADOR_CONTROL_FD", "-1").c_str()));
  if (role == "template") held(std::move(control));
  if (role == "host") host(std::move(control), net::UniqueFd(std::atoi(env_or("VOLADOR_LEASE_FD", "-1").c_str())));
  std::fprintf(stderr, "VOLADOR_ROLE is \"%s\"\n", role.c_str());
  return 2;
}
