#include "worker/hosts/program_check.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/text.h"

namespace volador::worker {
namespace {

constexpr size_t kHeadBytes = 64 << 10;  // All linkers put the program headers at the start.

#if defined(__x86_64__)
constexpr int kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kOwnMachine = EM_AARCH64;
#else
constexpr int kOwnMachine = EM_NONE;
#endif

std::string machine_name(int machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

}  // namespace

std::vector<std::string> missing_libraries(std::string_view loader_output) {
  std::vector<std::string> missing;
  const auto add = [&](std::string text) {
    if (std::find(missing.begin(), missing.end(), text) == missing.end()) missing.push_back(std::move(text));
  };
  std::istringstream lines{std::string(loader_output)};
  for (std::string line; std::getline(lines, line);) {
    if (const size_t arrow = line.find(" => not found"); arrow != std::string::npos) {
      add(std::string(trimmed(std::string_view(line).substr(0, arrow))));
      continue;
    }
    // "prog: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by prog)"
    const size_t version = line.find("version `");
    const size_t end = line.find("' not found");
    if (version != std::string::npos && end != std::string::npos && version < end) {
      const std::string name = line.substr(version + 9, end - version - 9);
      std::string_view file = trimmed(std::string_view(line).substr(0, version));
      if (file.ends_with(':')) file.remove_suffix(1);
      if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
      add(fmt::format("{} in version {}", file, name));
      continue;
    }
    // "prog: error while loading shared libraries: libfoo.so: cannot open shared object file: No such file or
    // directory"
    constexpr std::string_view kLoading = "error while loading shared libraries: ";
    if (const size_t loading = line.find(kLoading); loading != std::string::npos) {
      const std::string_view rest = std::string_view(line).substr(loading + kLoading.size());
      add(std::string(rest.substr(0, rest.find(':'))));
    }
  }
  return missing;
}

ElfHead parse_elf_head(std::string_view bytes) {
  ElfHead head;
  if (bytes.size() < EI_NIDENT || bytes.substr(0, SELFMAG) != ELFMAG) return head;
  head.elf = true;
  head.bits = bytes[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return head;
  std::memcpy(&header, bytes.data(), sizeof header);
  head.machine = header.e_machine;
  if (head.bits != 64 || header.e_phentsize != sizeof(Elf64_Phdr)) return head;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    if (at > bytes.size() || bytes.size() - at < sizeof(Elf64_Phdr)) break;
    Elf64_Phdr part;
    std::memcpy(&part, bytes.data() + at, sizeof part);
    if (part.p_type != PT_INTERP || part.p_offset > bytes.size() || bytes.size() - part.p_offset < part.p_filesz)
      continue;
    const std::string_view text = bytes.substr(part.p_offset, part.p_filesz);
    head.loader = std::string(text.substr(0, text.find('\0')));
  }
  return head;
}

Result<void> check_program(const std::filesystem::path& path, const Environment& env, const std::string& cwd,
                           const std::string& node, std::chrono::milliseconds timeout) {
  const std::string name = path.filename().string();
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("program {} cannot be read on node {}: {}",
                                                               path.string(), node, std::strerror(errno)));
  std::string bytes(kHeadBytes, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  if (::access(path.c_str(), X_OK) != 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("program {} is not executable on node {}; is its folder mounted noexec?", path.string(), node));
  }
  if (bytes.starts_with("#!")) return {};
  const ElfHead head = parse_elf_head(bytes);
  if (!head.elf)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("program {} is no executable file (neither ELF nor a script)", path.string()));
  if (kOwnMachine != EM_NONE && (head.machine != kOwnMachine || head.bits != 64)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("program {} is built for {}, node {} is {}; build it for that machine, or give the "
                                  "actor a label of nodes that fit",
                                  name, machine_name(head.machine), node, machine_name(kOwnMachine)));
  }
  if (head.loader.empty()) return {};
  if (::access(head.loader.c_str(), X_OK) != 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("program {} needs the loader {}, which node {} does not have; build it on the same distribution",
                    name, head.loader, node));
  }
  const auto listed = run_for_output(
      {.path = head.loader, .argv = {head.loader, "--list", path.string()}, .env = env, .cwd = cwd}, timeout);
  if (!listed) return make_error(listed.error());
  if (listed->timed_out) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the loader did not list the libraries of {} on node {} within {} s", name, node,
                                  std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
  }
  const auto missing = missing_libraries(listed->text);
  if (missing.empty()) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("program {} cannot run on node {}: missing {}; install what provides it there, or link it statically",
                  name, node, fmt::join(missing, ", ")));
}

}  // namespace volador::worker
