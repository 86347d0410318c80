#include "tests/bench/machines.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace volador::bench {
namespace {

struct Said {
  int code = 0;
  std::string text;
};

// Runs a shell command; returns both output streams.
Said say(const std::string& command) {
  Said said;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no shell");
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, pipe)) said.text.append(part, got);
  said.code = ::pclose(pipe);
  return said;
}

std::string must(const std::string& command) {
  const Said said = say(command);
  if (said.code != 0) throw std::runtime_error(fmt::format("{}: {}", command, said.text));
  return said.text;
}

}  // namespace

std::string Machines::why_not() {
  if (::geteuid() != 0) return "not run: network namespaces need root";
  const std::string name = fmt::format("vbprobe{}", ::getpid());
  const bool made = say("ip netns add " + name).code == 0;
  if (made) say("ip netns del " + name);
  return made ? "" : "not run: no network namespaces can be made here";
}

Machines::Machines(size_t count) : count_(count), tag_(fmt::format("vb{}", ::getpid() % 100'000)) {
  must(fmt::format("ip link add {0}br type bridge && ip link set {0}br up", tag_));
  for (size_t at = 1; at <= count; ++at) {
    std::filesystem::create_directory(home(at));
    must(fmt::format(
        "ip netns add {0} && ip link add {1}e{2} type veth peer name {1}p{2} && ip link set {1}e{2} netns {0} && ip "
        "link set {1}p{2} master {1}br up "
        "&& ip -n {0} addr add {3}/24 dev {1}e{2} && ip -n {0} link set {1}e{2} up && ip -n {0} link set lo up",
        name(at), tag_, at, address(at)));
  }
  const std::string volador = program_beside("volador").string();
  must(fmt::format("{} {} start --head --bind={} --name=m1 --num-cpus=2", inside(1), volador, address(1)));
  std::istringstream token(must(fmt::format("{} {} token create", inside(1), volador)));
  std::string word;
  token >> word;
  for (size_t at = 2; at <= count; ++at) {
    must(fmt::format("{} {} start --address={}:6380 --token={} --bind={} --name={} --num-cpus=2", inside(at), volador,
                     address(1), word, address(at), node(at)));
  }
}

Machines::~Machines() {
  const std::string volador = program_beside("volador").string();
  for (size_t at = count_; at > 0; --at) say(fmt::format("{} {} stop --all", inside(at), volador));
  for (size_t at = 1; at <= count_; ++at) say(fmt::format("ip netns del {}; ip link del {}p{}", name(at), tag_, at));
  say(fmt::format("ip link del {}br", tag_));
}

std::string Machines::name(size_t machine) const { return fmt::format("{}m{}", tag_, machine); }
std::string Machines::home(size_t machine) const { return (folder_.path() / fmt::format("m{}", machine)).string(); }
std::string Machines::address(size_t machine) const {
  return fmt::format("10.97.{}.{}", ::getpid() % 250 + 1, machine);
}

std::string Machines::inside(size_t machine) const {
  return fmt::format("nsenter --net=/run/netns/{} env -u VOLADOR_ADDRESS -u VOLADOR_TOKEN VOLADOR_HOME={}",
                     name(machine), home(machine));
}

std::vector<double> Machines::run(size_t machine, const std::string& arguments) const {
  std::istringstream said(
      must(fmt::format("{} {} {}", inside(machine), program_beside("bench_remote").string(), arguments)));
  std::vector<double> numbers;
  for (double number = 0; said >> number;) numbers.push_back(number);
  if (numbers.empty()) throw std::runtime_error("bench_remote " + arguments + " printed no numbers");
  return numbers;
}

pid_t Machines::start(size_t machine, const std::string& arguments) const {
  const std::string command =
      fmt::format("exec {} {} {}", inside(machine), program_beside("bench_remote").string(), arguments);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

void Machines::end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace volador::bench
