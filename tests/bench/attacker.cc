#include "tests/bench/attacker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/net/unique_fd.h"

namespace volador::bench {
namespace {

using Clock = std::chrono::steady_clock;
using net::UniqueFd;

constexpr size_t kSilentConnections = 1'500;
constexpr int kThreads = 8;
constexpr uint64_t kAddresses = 10'000;
constexpr int kIoPatienceMs = 1'000;
constexpr const char* kNodeServerName = "node.volador";

constexpr std::array kAttacks{
    Attack{"silent", "opens connections and says nothing; opens those again that end", "head dashboard data"},
    Attack{"garbage", "sends 1 kB that is neither TLS nor HTTP and closes", "head dashboard data"},
    Attack{"hellos", "sends a TLS hello and nothing more; opens those again that end", "head data"},
    Attack{"handshakes", "finishes a TLS handshake without a certificate and closes", "head data"},
    Attack{"resets", "opens HTTP/2 streams without a token and resets each at once", "head"},
    Attack{"spread_resets", "the same from many addresses", "head"},
    Attack{"spread_handshakes", "handshakes from many addresses", "head data"},
    Attack{"slow", "sends the head of a request byte by byte; opens those again that end", "dashboard"},
    Attack{"pages", "asks for the page and with wrong tokens, as fast as it is answered", "dashboard"},
};

struct Shared {
  uint16_t port;
  Clock::time_point end;
  uint64_t connections_max;
  bool spread;  // Each connection comes from another address of the loopback network.
  std::atomic<uint64_t> connections{0}, ended{0}, bytes{0};

  bool goes_on() const { return Clock::now() < end && connections < connections_max; }
};

UniqueFd connect_to(Shared& shared) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const timeval patience{kIoPatienceMs / 1000, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (shared.spread) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + static_cast<uint32_t>(shared.connections % kAddresses));
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) return UniqueFd();
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(shared.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return UniqueFd();
  ++shared.connections;
  return fd;
}

// Returns whether the peer has closed the connection.
bool has_ended(int fd) {
  pollfd one{fd, POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 1;
}

// Holds connections: each sends `first` and then `more` from time to time.
void hold(Shared& shared, const std::function<void()>& on_full, std::string_view first, std::string_view more) {
  std::vector<UniqueFd> held(kSilentConnections);
  bool told = false;
  while (shared.goes_on()) {
    for (UniqueFd& one : held) {
      if (!shared.goes_on()) break;
      if (one && !has_ended(one.get())) {
        if (!more.empty()) (void)!::send(one.get(), more.data(), more.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        continue;
      }
      if (one) ++shared.ended;
      one = connect_to(shared);
      if (one && !first.empty()) (void)!::send(one.get(), first.data(), first.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (!std::exchange(told, true)) on_full();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!told) on_full();
  while (Clock::now() < shared.end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void send_garbage(Shared& shared) {
  const std::string garbage(1'000, '\0');
  while (shared.goes_on()) {
    const UniqueFd fd = connect_to(shared);
    if (!fd) continue;
    if (const ssize_t sent = ::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL); sent > 0)
      shared.bytes += static_cast<uint64_t>(sent);
    char byte = 0;
    if (::recv(fd.get(), &byte, 1, 0) <= 0) ++shared.ended;
  }
}

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Session = std::unique_ptr<SSL, FreeSession>;

Context make_context() {
  Context context(SSL_CTX_new(TLS_client_method()));
  constexpr std::array<unsigned char, 3> kHttp2{2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2.data(), kHttp2.size());
  return context;
}

Session shake_hands(SSL_CTX* context, int fd) {
  Session session(SSL_new(context));
  SSL_set_fd(session.get(), fd);
  SSL_set_tlsext_host_name(session.get(), kNodeServerName);  // The data port forwards it to the node's object store.
  if (SSL_connect(session.get()) != 1) session.reset();
  return session;
}

// First message of a TLS client.
std::string client_hello() {
  const Context context = make_context();
  const Session session(SSL_new(context.get()));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(session.get(), in, out);
  SSL_set_tlsext_host_name(session.get(), kNodeServerName);
  SSL_connect(session.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

void ask_for_pages(Shared& shared) {
  const std::string asked =
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
      "vt1.wrong\r\n\r\n";
  std::vector<char> answer(64 << 10);
  while (shared.goes_on()) {
    const UniqueFd fd = connect_to(shared);
    while (fd && shared.goes_on() && ::send(fd.get(), asked.data(), asked.size(), MSG_NOSIGNAL) > 0) {
      shared.bytes += asked.size();
      if (::recv(fd.get(), answer.data(), answer.size(), 0) <= 0) break;
    }
    if (fd) ++shared.ended;
  }
}

void finish_handshakes(Shared& shared) {
  const Context context = make_context();
  while (shared.goes_on()) {
    const UniqueFd fd = connect_to(shared);
    if (fd && !shake_hands(context.get(), fd.get())) ++shared.ended;
  }
}

std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string out;
  for (const int shift : {16, 8, 0}) out += static_cast<char>(size >> shift);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}

std::string literal(std::string_view text) { return static_cast<char>(text.size()) + std::string(text); }

void reset_streams(Shared& shared) {
  constexpr uint8_t kHeaders = 1, kReset = 3, kSettings = 4, kEndHeaders = 4;
  constexpr uint32_t kStreamsAWrite = 200, kResetStreams = 8'000;
  // HPACK without a dynamic table: POST, https, :path, :authority, content-type, te.
  const std::string headers = std::string("\x83\x87\x04") + literal("/volador.v1.Cluster/Status") + "\x01" +
                              literal("head") + std::string("\x0f\x10") + literal("application/grpc") +
                              std::string(1, '\0') + literal("te") + literal("trailers");
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "");
  const Context context = make_context();
  while (shared.goes_on()) {
    const UniqueFd fd = connect_to(shared);
    if (!fd) continue;
    const Session session = shake_hands(context.get(), fd.get());
    bool open = session && SSL_write(session.get(), preface.data(), static_cast<int>(preface.size())) > 0;
    // More data would be buffered in this process while the peer has stopped reading.
    for (uint32_t stream = 1; open && Clock::now() < shared.end && stream < kResetStreams;) {
      std::string out;
      for (uint32_t i = 0; i < kStreamsAWrite; ++i, stream += 2) {
        out +=
            frame(kHeaders, kEndHeaders, stream, headers) + frame(kReset, 0, stream, std::string_view("\0\0\0\x08", 4));
      }
      open = SSL_write(session.get(), out.data(), static_cast<int>(out.size())) > 0;
      if (open) shared.bytes += out.size();
    }
    if (!open) ++shared.ended;
  }
}

}  // namespace

std::span<const Attack> attacks() { return kAttacks; }

AttackCount run_attack(std::string_view name, uint16_t port, std::chrono::milliseconds time, uint64_t connections,
                       const std::function<void()>& on_full) {
  std::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  constexpr std::string_view kSpread = "spread_";
  Shared shared{
      .port = port, .end = Clock::now() + time, .connections_max = connections, .spread = name.starts_with(kSpread)};
  if (shared.spread) name.remove_prefix(kSpread.size());
  if (name == "silent") {
    hold(shared, on_full, "", "");
  } else if (name == "hellos") {
    hold(shared, on_full, client_hello(), "");
  } else if (name == "slow") {
    hold(shared, on_full, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ", "a");
  } else {
    const auto body = name == "garbage"      ? send_garbage
                      : name == "handshakes" ? finish_handshakes
                      : name == "resets"     ? reset_streams
                      : name == "pages"      ? ask_for_pages
                                             : nullptr;
    if (body == nullptr) throw std::runtime_error("no such attack: " + std::string(name));
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { body(shared); });
    on_full();
  }
  return {shared.connections, shared.ended, shared.bytes};
}

}  // namespace volador::bench
