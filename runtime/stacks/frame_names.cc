#include "runtime/stacks/frame_names.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/stacks/elf_symbols.h"
#include "runtime/utf8.h"

namespace volador::stacks {
namespace {

constexpr size_t kNameBytes = 400;  // Maximum per frame, since template types can be very long.

// A memory-mapped file.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat about {};
    if (::fstat(file, &about) == 0 && about.st_size > 0) {
      void* mapped = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) bytes_ = {static_cast<const char*>(mapped), static_cast<size_t>(about.st_size)};
    }
    ::close(file);
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const char> bytes() const { return bytes_; }

 private:
  std::span<const char> bytes_;
};

struct Loaded {
  uintptr_t address = 0;  // The address to look up.
  std::optional<uintptr_t> moved_by;
  std::string path;
};

int look_at_module(dl_phdr_info* info, size_t, void* data) {
  auto& wanted = *static_cast<Loaded*>(data);
  for (int at = 0; at < info->dlpi_phnum; ++at) {
    const auto& part = info->dlpi_phdr[at];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (wanted.address < begin || wanted.address - begin >= part.p_memsz) continue;
    wanted.moved_by = info->dlpi_addr;
    wanted.path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    return 1;
  }
  return 0;
}

std::string demangled(std::string_view name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), std::free);
  return plain_text(status == 0 && text ? std::string_view(text.get()) : name, kNameBytes);
}

}  // namespace

struct FrameNames::Module {
  explicit Module(const Loaded& loaded)
      : moved_by(*loaded.moved_by),
        file(loaded.path.empty() ? std::string("/proc/self/exe") : loaded.path),
        symbols(file.bytes()),
        name(plain_text(loaded.path.empty() ? std::filesystem::path(program_path()).filename().string()
                                            : std::filesystem::path(loaded.path).filename().string(),
                        100)) {}

  static std::string program_path() {
    std::error_code gone;
    return std::filesystem::read_symlink("/proc/self/exe", gone);
  }

  uintptr_t moved_by;
  MappedFile file;
  ElfSymbols symbols;
  std::string name;
};

FrameNames::FrameNames() = default;
FrameNames::~FrameNames() = default;

const FrameNames::Module* FrameNames::module_at(uintptr_t address) {
  Loaded loaded{.address = address, .moved_by = {}, .path = {}};
  ::dl_iterate_phdr(&look_at_module, &loaded);
  if (!loaded.moved_by) return nullptr;
  auto& module = modules_[*loaded.moved_by];
  if (!module) module = std::make_unique<Module>(loaded);
  return module.get();
}

std::string FrameNames::name_of(uintptr_t address, bool is_return) {
  const uintptr_t within = is_return && address > 0 ? address - 1 : address;
  const Module* module = module_at(within);
  if (module == nullptr) return fmt::format("{:#x}", address);
  if (const auto found = module->symbols.find(within - module->moved_by)) {
    return fmt::format("{}+{:#x} in {}", demangled(found->name), found->offset + (address - within), module->name);
  }
  Dl_info exported{};
  if (::dladdr(reinterpret_cast<void*>(within), &exported) != 0 && exported.dli_sname != nullptr) {
    return fmt::format("{}+{:#x} in {}", demangled(exported.dli_sname),
                       address - reinterpret_cast<uintptr_t>(exported.dli_saddr), module->name);
  }
  return fmt::format("{:#x} in {}", address - module->moved_by, module->name);
}

}  // namespace volador::stacks
