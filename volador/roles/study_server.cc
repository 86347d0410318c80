#include "volador/roles/study_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/quantities.h"
#include "volador/roles/study_registry.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

constexpr size_t kJobsMax = 256;  // Jobs answered with one write to the store.
constexpr auto kJobsFor = 10ms;   // Time limit of a batch, since a searcher may compute for a while.
constexpr auto kStoreAgainAfter = 1s;

Error stopping() {
  return {ErrorCode::kUnavailable, "the head stops; ask again when it is back, with the same request_id"};
}

}  // namespace

struct StudyServer::Impl {
  Impl(std::unique_ptr<head::Journal> store, const Clock& c, const StudyServerLimits& l)
      : journal(std::move(store)), clock(c), limits(l), shelf(l) {
    started_ms = unix_ms(clock.wall());
    started = clock.now();
  }

  // Unix time that never jumps, used for leases.
  int64_t now_ms() const {
    return started_ms + std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - started).count();
  }

  template <class Reply>
  void post(Done<Reply> done, std::function<Result<Reply>(int64_t now_ms)> request);
  void run();
  void open();
  void settle();
  bool store();

  const std::unique_ptr<head::Journal> journal;
  const Clock& clock;
  const StudyServerLimits limits;
  int64_t started_ms = 0;
  BootTime started;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> queue;
  bool stopped = false;

  // Confined to the thread.
  StudyRegistry shelf;
  std::vector<head::Mutation> batch;                                      // Possibly not stored.
  std::vector<std::function<void(const std::optional<Error>&)>> answers;  // Replies that wait for the store.
  std::optional<Error> refusal;                                           // While set, requests are refused.
  bool readable = true;
  std::thread thread;
};

template <class Reply>
void StudyServer::Impl::post(Done<Reply> done, std::function<Result<Reply>(int64_t)> request) {
  std::unique_lock lock(mutex);
  if (stopped || queue.size() >= limits.requests) {
    const Error error =
        stopped ? stopping()
                : Error{ErrorCode::kUnavailable,
                        fmt::format("{} already; ask again, with the same request_id",
                                    counted(queue.size(), "request for studies waits", "requests for studies wait"))};
    lock.unlock();
    return done(make_error(error));
  }
  queue.push_back([this, done = std::move(done), request = std::move(request)]() mutable {
    auto reply = refusal ? Result<Reply>(make_error(*refusal)) : request(now_ms());
    answers.push_back([done = std::move(done), reply = std::move(reply)](const std::optional<Error>& unstored) {
      if (unstored && reply) return done(make_error(*unstored));
      done(reply);
    });
  });
  lock.unlock();
  wake.notify_one();
}

void StudyServer::Impl::open() {
  const Result<void> loaded = journal->load(
      [this](std::string_view table, std::string_view key, std::string_view value) { shelf.load(table, key, value); });
  if (!loaded) {
    readable = false;
    refusal = loaded.error();
    return log::error("studies", "what is stored cannot be read; there are no studies",
                      {{"why", loaded.error().message}});
  }
  shelf.open(now_ms());
  const v1::ListStudiesReply all = shelf.list();
  for (const v1::Study& study : all.studies())
    log::info("studies", "goes on", {{"study", study.name()}, {"trials", study.trials_total()}});
}

// Returns whether everything is stored.
bool StudyServer::Impl::store() {
  if (batch.empty()) return true;
  const Result<void> stored = journal->commit(batch);
  if (stored) {
    batch.clear();
    if (refusal) log::info("studies", "the store takes changes again", {});
    refusal.reset();
    return true;
  }
  if (!refusal)
    log::warn("studies", "changes are not stored, nothing is given out",
              {{"store", journal->description()}, {"why", stored.error().message}});
  refusal = Error{
      ErrorCode::kUnavailable,
      fmt::format("studies cannot be stored now ({}); ask again, with the same request_id", stored.error().message)};
  return false;
}

// Stores the changes of the jobs, then sends their replies.
void StudyServer::Impl::settle() {
  shelf.end_leases(now_ms());
  for (head::Mutation& one : shelf.take_mutations()) batch.push_back(std::move(one));
  const std::optional<Error> unstored = readable && !store() ? refusal : std::nullopt;
  for (const auto& answer : std::exchange(answers, {})) answer(unstored);
}

void StudyServer::Impl::run() {
  open();
  while (true) {
    std::deque<std::function<void()>> jobs;
    {
      std::unique_lock lock(mutex);
      std::chrono::milliseconds patience = 1h;
      if (!batch.empty()) patience = kStoreAgainAfter;
      if (const auto deadline = readable ? shelf.deadline_ms() : std::nullopt)
        patience = std::min(patience, std::chrono::milliseconds(std::max<int64_t>(*deadline - now_ms(), 0)));
      wake.wait_for(lock, patience, [this] { return stopped || !queue.empty(); });
      if (stopped) return;
      while (!queue.empty() && jobs.size() < kJobsMax) {
        jobs.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    }
    if (!batch.empty()) store();
    // Sends finished replies before long computations.
    do {
      for (const BootTime until = clock.now() + kJobsFor; !jobs.empty() && clock.now() < until; jobs.pop_front())
        jobs.front()();
      settle();
    } while (!jobs.empty());
  }
}

StudyServer::StudyServer(std::unique_ptr<head::Journal> journal, const Clock& clock, const StudyServerLimits& limits)
    : impl_(std::make_unique<Impl>(std::move(journal), clock, limits)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

StudyServer::~StudyServer() { stop(); }

void StudyServer::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopped = true;
    dropped.swap(impl_->queue);
  }
  impl_->wake.notify_one();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void StudyServer::serve_on(operations::Registry& registry) {
  const auto serve = [this, &registry]<class Request, class Reply>(
                         std::string_view name, void (StudyServer::*method)(const Request&, Done<Reply>)) {
    registry.serve<Request, Reply>(
        name, [this, method](const security::Principal&, const Request& request, Done<Reply> done) {
          (this->*method)(request, std::move(done));
        });
  };
  serve("Studies/CreateStudy", &StudyServer::create_study);
  serve("Studies/GetStudy", &StudyServer::get_study);
  serve("Studies/ListStudies", &StudyServer::list_studies);
  serve("Studies/DeleteStudy", &StudyServer::delete_study);
  serve("Studies/ListStudyTrials", &StudyServer::list_study_trials);
  serve("Studies/Ask", &StudyServer::ask);
  serve("Studies/Tell", &StudyServer::tell);
  serve("Studies/Report", &StudyServer::report);
}

void StudyServer::create_study(const v1::CreateStudyRequest& request, Done<v1::Study> done) {
  impl_->post<v1::Study>(std::move(done),
                         [impl = impl_.get(), request](int64_t now_ms) { return impl->shelf.create(request, now_ms); });
}
void StudyServer::get_study(const v1::GetStudyRequest& request, Done<v1::Study> done) {
  impl_->post<v1::Study>(std::move(done), [impl = impl_.get(), request](int64_t) { return impl->shelf.get(request); });
}
void StudyServer::list_studies(const v1::ListStudiesRequest&, Done<v1::ListStudiesReply> done) {
  impl_->post<v1::ListStudiesReply>(std::move(done), [impl = impl_.get()](int64_t) { return impl->shelf.list(); });
}
void StudyServer::delete_study(const v1::DeleteStudyRequest& request, Done<v1::DeleteStudyReply> done) {
  impl_->post<v1::DeleteStudyReply>(
      std::move(done), [impl = impl_.get(), request](int64_t now_ms) { return impl->shelf.remove(request, now_ms); });
}
void StudyServer::list_study_trials(const v1::ListStudyTrialsRequest& request, Done<v1::ListStudyTrialsReply> done) {
  impl_->post<v1::ListStudyTrialsReply>(std::move(done),
                                        [impl = impl_.get(), request](int64_t) { return impl->shelf.trials(request); });
}
void StudyServer::ask(const v1::AskRequest& request, Done<v1::AskReply> done) {
  impl_->post<v1::AskReply>(std::move(done),
                            [impl = impl_.get(), request](int64_t now_ms) { return impl->shelf.ask(request, now_ms); });
}
void StudyServer::tell(const v1::TellRequest& request, Done<v1::StudyTrial> done) {
  impl_->post<v1::StudyTrial>(
      std::move(done), [impl = impl_.get(), request](int64_t now_ms) { return impl->shelf.tell(request, now_ms); });
}
void StudyServer::report(const v1::ReportRequest& request, Done<v1::ReportReply> done) {
  impl_->post<v1::ReportReply>(
      std::move(done), [impl = impl_.get(), request](int64_t now_ms) { return impl->shelf.report(request, now_ms); });
}

}  // namespace volador
