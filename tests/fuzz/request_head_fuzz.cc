// Peek at the head of an HTTP request: never waits without end, and decisions do not change with more bytes.
#include "dashboard/request_guard.h"
#include "tests/fuzz/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace volador;
  constexpr size_t kMost = 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = dashboard::is_request_head(bytes, kMost);
  if (whole && !*whole) VOLADOR_CHECK(size < kMost, "asks for more than the limit");
  if (whole && *whole && size < kMost)
    VOLADOR_CHECK(bytes.find("\r\n\r\n") != std::string_view::npos, "a head without an end");
  const auto half = dashboard::is_request_head(bytes.substr(0, size / 2), kMost);
  if (!half)
    VOLADOR_CHECK(!whole || bytes.find("\r\n\r\n") != std::string_view::npos, "a refused beginning was accepted");
  if (half && *half) VOLADOR_CHECK(whole && *whole, "more bytes take a head away");
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  return {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /api/v1/session HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
          "M-SEARCH * HTTP/1.1\r\n\r\n"};
}
