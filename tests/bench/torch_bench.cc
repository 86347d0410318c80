// volador_torch_bench: actors of a program that has LibTorch loaded, compared with bare clones of the same program.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <volador/volador.h>

#include <cstdlib>

#include "runtime/fork_memory.h"
#include "tests/bench/figure.h"
#include "tests/bench/spawn_rate.h"

namespace {

using namespace volador;
using namespace volador::bench;

// A process in the state of a template at init(): one thread, everything loaded. Clones itself on request.
class BareTemplate {
 public:
  // prepared: its memory is prepared for forks like that of a template.
  explicit BareTemplate(bool prepared) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("no socket pair");
    pid_ = fork();
    if (pid_ == 0) {
      ::close(pair[0]);
      if (prepared) prepare_memory_for_forks(std::chrono::seconds(1));
      serve(pair[1]);
    }
    ::close(pair[1]);
    fd_ = pair[0];
  }
  ~BareTemplate() {
    ::close(fd_);
    waitpid(pid_, nullptr, 0);
  }
  double clones_a_second(size_t count) const {
    double seconds = 0;
    if (write(fd_, &count, sizeof count) != sizeof count || read(fd_, &seconds, sizeof seconds) != sizeof seconds)
      throw std::runtime_error("the bare template is gone");
    return static_cast<double>(count) / seconds;
  }

 private:
  // Each clone reports that it runs and waits to be killed, like an actor's host; as many in flight as there are
  // actors. Their ends do not count, as in the figure for actors.
  [[noreturn]] static void serve(int fd) {
    size_t count = 0;
    while (read(fd, &count, sizeof count) == sizeof count) {
      int answers[2];
      if (pipe(answers) != 0) _exit(1);
      const auto begin = std::chrono::steady_clock::now();
      std::vector<pid_t> clones;
      for (size_t i = 0; i < count; ++i) {
        char byte = 0;
        if (i >= kSpawnsUnderWay && read(answers[0], &byte, 1) != 1) _exit(1);
        const pid_t clone = fork();
        if (clone == 0) {
          (void)!write(answers[1], "x", 1);
          pause();
          _exit(0);
        }
        clones.push_back(clone);
      }
      char byte = 0;
      for (size_t i = 0; i < std::min(count, kSpawnsUnderWay); ++i) (void)!read(answers[0], &byte, 1);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      for (const pid_t clone : clones) kill(clone, SIGKILL);
      for (const pid_t clone : clones) waitpid(clone, nullptr, 0);
      ::close(answers[0]);
      ::close(answers[1]);
      (void)!write(fd, &seconds, sizeof seconds);
    }
    _exit(0);
  }

  pid_t pid_ = -1;
  int fd_ = -1;
};

}  // namespace

int main(int argc, char** argv) try {
  if (at::get_num_threads() < 1) return 1;  // Uses the library, which would not be loaded otherwise.
  // Before init(), which starts threads; a process started for a role continues there directly.
  std::optional<BareTemplate> bare;
  std::optional<BareTemplate> prepared;
  if (std::getenv("VOLADOR_ROLE") == nullptr) {
    bare.emplace(false);
    prepared.emplace(true);
  }
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 16, .logs_to_driver = false});
  const auto figure = [](const std::string& name, const BareTemplate& beside, const std::string& note) {
    return Figure{name, "actors/s", true, [&beside, note] {
                    Measured measured{.note = note};
                    for (int run = 0; run < 5; ++run) {
                      measured.baselines.push_back(beside.clones_a_second(200));
                      measured.values.push_back(spawns_a_second(200));
                    }
                    return measured;
                  }};
  };
  return run_figures(
      argc, argv,
      {figure("actor_spawn_torch", *bare, "bare clones of the same program"),
       figure("actor_spawn_torch_prepared", *prepared, "the same, of memory prepared for forks as a template's is")});
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
