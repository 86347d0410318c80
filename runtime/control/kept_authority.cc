#include "runtime/control/kept_authority.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/control/node_folder.h"
#include "runtime/files/durable_file.h"
#include "runtime/security/authority.h"

namespace volador::control {
namespace {

// Empty: there is none.
std::filesystem::path kept_file() {
  const std::filesystem::path folder = own_node_folder();
  return folder.empty() ? folder : folder / "authority.pem";
}

}  // namespace

std::string kept_authority(const security::Fingerprint& expected) {
  const std::filesystem::path file = kept_file();
  if (file.empty()) return {};
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) return {};
  const auto found = security::fingerprint_of(text);
  return found && *found == expected ? text : std::string();
}

void keep_authority(const std::string& certificate_pem) {
  const std::filesystem::path file = kept_file();
  if (!file.empty()) (void)write_file_atomically(file, certificate_pem, Durability::kProcess);
}

}  // namespace volador::control
