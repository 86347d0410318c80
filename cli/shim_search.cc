#include "cli/shim_search.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/warm_trial.h"
#include "jobs/group_spawn.h"
#include "runtime/security/digest.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kKeptFor{1};  // A package that is installed meanwhile is found after it.
constexpr size_t kKeptKeyDigits = 16;

// Variables that decide where Python finds packages, by their beginnings.
constexpr std::array<std::string_view, 5> kDecide = {"PYTHON", "HOME=", "PATH=", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"};

bool is_elf(const fs::path& program) {
  std::array<char, 4> head{};
  std::ifstream(program, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == "\177ELF";
}

// The name of the kept answer; empty: more than these things decides, such as a script that chooses the Python.
std::string key_of_this_process() {
  std::vector<std::string> variables;
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair = variables.emplace_back(*entry);
    for (const std::string_view beginning : kDecide)
      if (pair.starts_with(beginning)) text.append(pair).push_back('\0');
    // An entry that is not absolute means another folder in each working directory.
    if (!pair.starts_with("PYTHONPATH=")) continue;
    for (std::string_view rest = pair.substr(pair.find('=')); !rest.empty();) {
      rest.remove_prefix(1);
      if (!rest.starts_with('/')) return {};
      rest.remove_prefix(std::min(rest.find(':'), rest.size()));
    }
  }
  const std::string program = jobs::find_program("python3", variables);
  struct stat info {};
  // The working directory comes first in Python's path here.
  if (program.empty() || ::stat(program.c_str(), &info) != 0 || !is_elf(program)) return {};
  std::error_code failed;
  if (fs::exists("volador", failed)) return {};
  text += fmt::format("{} {} {} {}.{}", program, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  return security::hex(security::sha256(text)).substr(0, kKeptKeyDigits);
}

std::string kept_answer(const fs::path& file) {
  std::error_code failed;
  const auto written = fs::last_write_time(file, failed);
  if (failed) return {};
  const auto age = fs::file_time_type::clock::now() - written;
  if (age < age.zero() || age > kKeptFor) return {};
  std::ifstream in(file, std::ios::binary);
  const std::string folder{std::istreambuf_iterator<char>(in), {}};
  return fs::is_directory(folder, failed) ? folder : std::string();
}

// As a whole: other runs may read it at the same time.
void keep_answer(const fs::path& file, const std::string& folder) {
  const fs::path made = fmt::format("{}.{}", file.string(), ::getpid());
  std::error_code failed;
  if (std::ofstream out(made, std::ios::binary); !(out << folder).flush()) {
    fs::remove(made, failed);
    return;
  }
  fs::rename(made, file, failed);
}

}  // namespace

ShimSearch::ShimSearch() {
  const fs::path folder = warm_folder();
  if (const std::string key = folder.empty() ? std::string() : key_of_this_process(); !key.empty()) {
    kept_ = folder / (key + ".shims");
    known_ = kept_answer(kept_);
  }
  if (known_.empty()) start();
}

void ShimSearch::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  out_ = net::UniqueFd(ends[0]);
  const net::UniqueFd in(ends[1]);
  // Without the set-up of site packages Python starts in a quarter of the time; it is made up for where that does not
  // find the package, such as one whose folder a .pth file names.
  const char* const code =
      "import os, site, sys\n"
      "def shims(folder):\n"
      "    folder = os.path.join(folder, 'compat', 'shims')\n"
      "    if os.path.isdir(folder):\n"
      "        print(os.path.abspath(folder), end='')\n"
      "        sys.exit()\n"
      "home = os.path.dirname(os.path.dirname(sys.executable))\n"
      "own = 'lib/python%d.%d/site-packages' % sys.version_info[:2]\n"
      "venv = os.path.exists(os.path.join(home, 'pyvenv.cfg'))\n"
      "for path in sys.path + ([os.path.join(home, own)] if venv else [site.getusersitepackages(), "
      "*site.getsitepackages()]):\n"
      "    shims(os.path.join(path, 'volador'))\n"
      "site.main()\n"
      "import importlib.util\n"
      "spec = importlib.util.find_spec('volador')\n"
      "for path in (spec.submodule_search_locations or []) if spec else []:\n"
      "    shims(path)\n";
  char* const words[] = {const_cast<char*>("python3"), const_cast<char*>("-S"), const_cast<char*>("-c"),
                         const_cast<char*>(code), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (::posix_spawnp(&pid_, "python3", &actions, nullptr, words, environ) != 0) pid_ = 0;
  ::posix_spawn_file_actions_destroy(&actions);
}

ShimSearch::~ShimSearch() {
  if (pid_ != 0) (void)result();
}

std::string ShimSearch::result() {
  if (pid_ == 0) return known_;
  std::string text;
  char piece[512];
  for (;;) {
    const ssize_t got = ::read(out_.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  if (status == 0) known_ = text;
  if (!known_.empty() && !kept_.empty()) keep_answer(kept_, known_);
  return known_;
}

}  // namespace volador::cli
