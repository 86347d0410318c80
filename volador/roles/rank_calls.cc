#include "volador/roles/rank_calls.h"

#include "runtime/actor/cluster_session.h"
#include "runtime/net/io_loop.h"
#include "runtime/random.h"
#include "runtime/security/tls_context.h"

namespace volador {

struct RankCalls::Impl {
  SystemRandom random;
  std::unique_ptr<net::IoLoop> loop;
  std::shared_ptr<ClusterSession> session;
};

RankCalls::RankCalls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<RankCalls>> RankCalls::create(Parts parts) {
  auto tls = security::TlsContext::create(parts.credentials);
  if (!tls) return make_error(tls.error());
  auto loop = net::IoLoop::create("volador-ranks");
  if (!loop) return make_error(loop.error());
  auto impl = std::make_unique<Impl>();
  impl->loop = std::move(*loop);
  ClusterSessionOptions options;
  options.loop = impl->loop.get();
  options.clock = &parts.clock;
  options.random = &impl->random;
  options.send = std::move(parts.send);
  options.driver = parts.driver;
  options.machine_id = std::move(parts.machine_id);
  options.tls = std::move(*tls);
  impl->session = std::make_shared<ClusterSession>(std::move(options));
  return std::unique_ptr<RankCalls>(new RankCalls(std::move(impl)));
}

RankCalls::~RankCalls() { impl_->session->close(); }

void RankCalls::on_connected() { impl_->session->on_connected(); }

void RankCalls::on_message(const protocol::HeadMessage& message) {
  if (message.has_actor()) impl_->session->on_message(message);
}

void RankCalls::start(const ActorId& rank, uint64_t method, std::string arguments, std::chrono::milliseconds timeout,
                      std::function<void(const Result<std::string>&)> done) {
  impl_->session->call(
      rank, method, std::move(arguments), timeout,
      [done = std::move(done)](Result<std::string>&& reply) { done(reply); }, Session::Repeat::kNever);
}

}  // namespace volador
