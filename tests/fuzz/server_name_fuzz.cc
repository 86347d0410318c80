// Peek at the TLS client hello: no crash, no endless wait, and names with allowed characters only.
#include "runtime/net/server_name.h"
#include "tests/fuzz/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace volador;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = net::parse_server_name(bytes);
  if (whole && *whole) {
    VOLADOR_CHECK(!(*whole)->empty() && (*whole)->size() <= 255, "a name of a bad length");
    for (const char c : **whole) VOLADOR_CHECK(c > ' ' && c < 0x7f && c != '/', "a name with a bad character");
  }
  if (whole && !*whole) VOLADOR_CHECK(size < net::kClientHelloBytesMax, "asks for more than the limit");
  // A rejection is final: more bytes do not change it. A prefix never gives another name.
  const auto half = net::parse_server_name(bytes.substr(0, size / 2));
  if (!half) VOLADOR_CHECK(!whole, "a refused beginning was accepted");
  if (half && *half) VOLADOR_CHECK(!whole || *whole == *half, "a prefix gives another name");
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  // A hello with one cipher, a supported_versions extension and the server name.
  const auto hello = [](const std::string& name) {
    const auto be16 = [](size_t n) { return std::string{static_cast<char>(n >> 8), static_cast<char>(n)}; };
    const std::string entry = std::string(1, '\0') + be16(name.size()) + name;
    const std::string list = be16(entry.size()) + entry;
    const std::string sni = be16(0) + be16(list.size()) + list;
    const std::string versions = be16(43) + be16(3) + std::string("\x02\x03\x04", 3);
    const std::string extensions = versions + sni;
    const std::string body = std::string("\x03\x03", 2) + std::string(32, 'r') + std::string(1, '\0') + be16(2) +
                             std::string("\x13\x01", 2) + std::string("\x01\x00", 2) + be16(extensions.size()) +
                             extensions;
    const std::string message = std::string("\x01\x00", 2) + be16(body.size()) + body;
    return std::string("\x16\x03\x01", 3) + be16(message.size()) + message;
  };
  return {hello("0123456789abcdef0123456789abcdef"), hello("a"), hello("head")};
}
