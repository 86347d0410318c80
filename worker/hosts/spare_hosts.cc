#include "worker/hosts/spare_hosts.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"

namespace volador::worker {
namespace {

// Host id of a fork request; templates only return it.
HostId numbered_host(uint64_t number) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return id_from_raw<HostId>(bytes);
}

}  // namespace

SpareHosts::SpareHosts(net::IoLoop& loop, Children& children, TemplatePool& templates, HostGroups* groups,
                       const SpareOptions& options)
    : loop_(loop), children_(children), templates_(templates), groups_(groups), plan_(options) {}

SpareHosts::~SpareHosts() {
  *alive_ = false;
  if (timer_ != 0) loop_.cancel_timer(timer_);
  for (const auto& [number, stock] : stocks_) {
    for (const SpareHost& spare : stock.spares) children_.signal(spare.pid, SIGKILL);
  }
}

void SpareHosts::on_launch(const ProgramStart& program, HostId host) {
  const auto [found, fresh] = numbers_.try_emplace(program, last_number_ + 1);
  if (fresh) stocks_[++last_number_].program = program;
  plan_.on_launch(loop_.now(), found->second, host);
  step();
}

void SpareHosts::on_process(HostId host) {
  plan_.on_process(loop_.now(), host);
  step();
}

void SpareHosts::on_settled(HostId host) {
  plan_.on_settled(loop_.now(), host);
  step();
}

std::optional<SpareHost> SpareHosts::take(const ProgramStart& program) {
  const auto number = numbers_.find(program);
  if (number == numbers_.end()) return std::nullopt;
  auto& spares = stocks_.at(number->second).spares;
  // The newest spare: its memory is likely in cache. Ended spares are handled by their exit.
  const auto found = std::find_if(spares.rbegin(), spares.rend(),
                                  [this](const SpareHost& spare) { return !children_.has_ended(spare.pid); });
  if (found == spares.rend() || !plan_.take(number->second)) return std::nullopt;
  SpareHost taken = std::move(*found);
  spares.erase(std::next(found).base());
  return taken;
}

size_t SpareHosts::hold_off(std::chrono::milliseconds time) {
  const size_t stood = plan_.standing();
  plan_.hold_off(loop_.now() + time);
  step();
  return stood;
}

void SpareHosts::step() {
  const BootTime now = loop_.now();
  while (const auto order = plan_.next(now)) {
    if (order->make)
      make(order->program);
    else
      end_one(order->program);
  }
  std::erase_if(stocks_, [this](const auto& each) {
    const bool forgotten = !plan_.knows(each.first);
    if (forgotten) numbers_.erase(each.second.program);
    return forgotten;
  });
  if (timer_ != 0) loop_.cancel_timer(std::exchange(timer_, 0));
  const auto due = plan_.due(now);
  if (!due) return;
  timer_ = loop_.add_timer(std::max(*due, now + std::chrono::milliseconds(1)), [this] {
    timer_ = 0;
    step();
  });
}

void SpareHosts::make(SparePlan::Program number) {
  const ProgramStart& program = stocks_.at(number).program;
  auto pipes = LogCapture::make_pipes();
  auto pair = net::seqpacket_pair();
  if (!pipes || !pair || !templates_.can_make_spare(program)) return plan_.on_not_made(loop_.now(), number);
  HostFork fork{.host = numbered_host(++last_spare_),
                .env = {},
                .cwd = {},
                .control = std::move(pair->second),
                .out = std::move(pipes->write.out),
                .err = std::move(pipes->write.err),
                .spare = true};
  auto spare = std::make_shared<SpareHost>(SpareHost{0, std::move(pair->first), std::move(pipes->read)});
  templates_.fork(
      program, std::move(fork), [this, number, spare, alive = alive_](tl::expected<pid_t, TemplatePool::Failure> pid) {
        if (!*alive) return;
        const auto watched = pid ? children_.watch(*pid,
                                                   [this, number, alive, spare, own = *pid](ExitStatus status) {
                                                     if (!*alive) return;
                                                     if (spare->group) groups_->end(spare->group, {});
                                                     on_exit(number, own, status);
                                                   })
                                 : Result<void>(make_error(pid.error().error));
        if (watched) {
          spare->pid = *pid;
          place(*spare);
          SpareHost& kept = stocks_.at(number).spares.emplace_back(std::move(*spare));
          spare->group = kept.group;  // For its exit, unless a host takes it.
          plan_.on_made(loop_.now(), number);
        } else {
          log::debug("worker", "no host was forked ahead", {{"reason", watched.error().message}});
          plan_.on_not_made(loop_.now(), number);
        }
        step();
      });
}

// A host that takes it changes the limits.
void SpareHosts::place(SpareHost& spare) {
  if (groups_ == nullptr) return;
  children_.hold(spare.pid);
  spare.group = groups_->place(spare.pid, groups_->limits_for(0, 0), [this, pid = spare.pid, alive = alive_] {
    if (*alive) children_.release(pid);
  });
}

void SpareHosts::end_one(SparePlan::Program program) {
  auto& spares = stocks_.at(program).spares;
  children_.signal(spares.front().pid, SIGKILL);
  spares.pop_front();
}

void SpareHosts::on_exit(SparePlan::Program program, pid_t pid, const ExitStatus& status) {
  const auto stock = stocks_.find(program);
  if (stock == stocks_.end()) return;
  auto& spares = stock->second.spares;
  const auto found = std::find_if(spares.begin(), spares.end(), [pid](const SpareHost& one) { return one.pid == pid; });
  if (found == spares.end()) return;  // It was ended on request.
  spares.erase(found);
  log::warn("worker", "a host that was forked ahead ended",
            {{"pid", pid}, {"exit_code", status.exit_code}, {"signal", status.signal}});
  plan_.on_lost(loop_.now(), program);
  step();
}

}  // namespace volador::worker
