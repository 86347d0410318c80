#include "dashboard/alert_sender.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <charconv>

#include "runtime/log.h"

namespace volador::dashboard {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kStatusLineMax = 4096;

}  // namespace

// One POST, from name resolution to the first line of the response.
class AlertSender::Attempt {
 public:
  explicit Attempt(const AlertOptions& options)
      : to_(options.to),
        timeout_(options.timeout),
        tls_(asio::ssl::context::tls_client),
        resolver_(io_),
        stream_(io_, tls_) {
    tls_.set_default_verify_paths();
    stream_.set_verify_mode(asio::ssl::verify_peer);
    stream_.set_verify_callback(asio::ssl::host_name_verification(to_.host));
    error_code is_name;
    asio::ip::make_address(to_.host, is_name);
    if (is_name) SSL_set_tlsext_host_name(stream_.native_handle(), to_.host.c_str());
  }

  // Returns the status of the response; 0: none, see why().
  int run(const std::string& request) {
    resolver_.async_resolve(
        to_.host, to_.port, [this, &request](error_code error, const tcp::resolver::results_type& found) {
          if (error) return fail(error);
          asio::async_connect(stream_.next_layer(), found, [this, &request](error_code refused, const tcp::endpoint&) {
            if (refused) return fail(refused);
            if (!to_.tls) return talk(stream_.next_layer(), request);
            stream_.async_handshake(asio::ssl::stream_base::client, [this, &request](error_code mistrusted) {
              mistrusted ? fail(mistrusted) : talk(stream_, request);
            });
          });
        });
    io_.run_for(timeout_);
    if (status_ == 0 && why_.empty())
      why_ = fmt::format("no answer within {} s", std::chrono::duration<double>(timeout_).count());
    return status_;
  }
  const std::string& why() const { return why_; }
  // Thread safe.
  void end() { io_.stop(); }

 private:
  template <class Stream>
  void talk(Stream& stream, const std::string& request) {
    asio::async_write(stream, asio::buffer(request), [this, &stream](error_code error, size_t) {
      if (error) return fail(error);
      asio::async_read_until(stream, asio::dynamic_buffer(answer_, kStatusLineMax), "\r\n",
                             [this](error_code lost, size_t) { lost ? fail(lost) : read_status(); });
    });
  }
  void read_status() {
    const size_t at = answer_.find(' ');
    const bool is_http = answer_.starts_with("HTTP/1.") && at != std::string::npos;
    if (is_http) std::from_chars(answer_.data() + at + 1, answer_.data() + answer_.size(), status_);
    if (status_ < 100 || status_ > 599) {
      status_ = 0;
      why_ = "it answers with something else than HTTP";
    } else {
      why_ = fmt::format("status {}", status_);
    }
  }
  void fail(error_code error) { why_ = error.message(); }

  const Webhook& to_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_;
  asio::ssl::context tls_;
  tcp::resolver resolver_;
  asio::ssl::stream<tcp::socket> stream_;
  std::string answer_;
  int status_ = 0;
  std::string why_;
};

AlertSender::AlertSender(AlertOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

AlertSender::~AlertSender() { stop(); }

void AlertSender::take(const v1::Event& event) {
  if (!is_alert(event)) return;
  const std::lock_guard<std::mutex> hold(mutex_);
  if (waiting_.size() >= kWaitingMax) waiting_.pop_front();
  waiting_.push_back(event);
  changed_.notify_all();
}

void AlertSender::stop() {
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopped_ = true;
    if (under_way_ != nullptr) under_way_->end();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void AlertSender::run() {
  for (std::unique_lock<std::mutex> hold(mutex_);;) {
    changed_.wait(hold, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    const v1::Event event = std::move(waiting_.front());
    waiting_.pop_front();
    hold.unlock();
    deliver(event);
    hold.lock();
  }
}

void AlertSender::deliver(const v1::Event& event) {
  const auto body = alert_of(event, options_.context, ++number_);
  const std::string request = webhook_request(options_.to, options_.secret, *body);
  for (int attempts = 1;; ++attempts) {
    Attempt attempt(options_);
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (stopped_) return;
      under_way_ = &attempt;
    }
    const int status = attempt.run(request);
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      under_way_ = nullptr;
    }
    if (has_arrived(status)) return;
    const auto pause = pause_before_next(options_.plan, attempts, status);
    if (!pause)
      return log::warn("alerts", "an alert was not taken",
                       {{"host", options_.to.host},
                        {"event", event.text()},
                        {"attempts", std::to_string(attempts)},
                        {"why", attempt.why()}});
    if (!wait(*pause)) return;
  }
}

// Returns false if stopped.
bool AlertSender::wait(std::chrono::milliseconds pause) {
  std::unique_lock<std::mutex> hold(mutex_);
  return !changed_.wait_for(hold, pause, [this] { return stopped_; });
}

}  // namespace volador::dashboard
