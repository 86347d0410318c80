#include "runtime/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace volador {
namespace {

Result<uint64_t> inode_of(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot read {}: {}; mount /proc in this container", path, std::strerror(errno)));
  }
  return info.st_ino;
}

}  // namespace

Result<std::string> boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  char text[64];
  const int fd = ::open(kPath, O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text, sizeof text);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (got <= 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot read {}: {}; mount /proc in this container", kPath, std::strerror(error)));
  }
  std::string id(text, static_cast<size_t>(got));
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

Result<std::string> machine_id() {
  const auto boot = boot_id();
  if (!boot) return make_error(boot.error());
  const auto net = inode_of("/proc/self/ns/net");
  if (!net) return make_error(net.error());
  const auto mnt = inode_of("/proc/self/ns/mnt");
  if (!mnt) return make_error(mnt.error());
  const std::string text = fmt::format("{} net {} mnt {}", *boot, *net, *mnt);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  VOLADOR_CHECK(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  std::string out;
  for (size_t i = 0; i < 16; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace volador
