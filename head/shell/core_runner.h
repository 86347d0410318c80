// Runs the head's core on one event loop and carries out its actions: mutations become durable first, then the messages leave, in
// the order of the steps. While the journal fails the head is read-only: what would change it is refused, leases go on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "head/journal/journal_writer.h"
#include "head/kernel/core.h"
#include "runtime/clock.h"
#include "runtime/duration_histogram.h"
#include "runtime/loop/event_loop.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::head {

class LogRings;

// The sending end of one stream. Thread safe.
template <class Message>
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Queues the message; beyond the queue's limit the stream is cut instead, and its peer connects again.
  virtual void send(Message message) = 0;
  // Ends the stream once what is queued has left.
  virtual void close(const Error& why) = 0;
};
using NodeOutbox = Outbox<protocol::HeadToWorker>;
using ClientOutbox = Outbox<protocol::HeadMessage>;

// Thread safe, except start and stop. Functions given to it run on the loop and must not block.
class CoreRunner {
 public:
  struct Parts {
    HeadCore& core;
    JournalWriter& writer;
    LogRings& logs;
    const Clock& clock;
    LoopSystem& loops;
    std::function<void(ExperimentNews)> keep_experiment = {};  // On the loop; must not block.
  };
  explicit CoreRunner(const Parts& parts);
  ~CoreRunner();
  CoreRunner(const CoreRunner&) = delete;
  CoreRunner& operator=(const CoreRunner&) = delete;

  // The journal has been loaded into the core. Once.
  void start();
  // Closes the streams and refuses everything new. Nothing runs after it returned. Repeated calls do nothing.
  void stop();

  NodeSession open_node(std::shared_ptr<NodeOutbox> outbox);
  // `handled` runs when the core has seen the message: read the next one then.
  void on_node_message(NodeSession session, protocol::WorkerMessage message, std::function<void()> handled);
  void on_node_lost(NodeSession session);

  // `by`: whom the stream's certificate speaks for.
  ClientSession open_client(std::shared_ptr<ClientOutbox> outbox, security::Principal by = {});
  void on_client_message(ClientSession session, protocol::ClientMessage message, std::function<void()> handled);
  void on_experiment_kept(DriverId driver, std::string experiment, uint64_t number);
  void on_client_lost(ClientSession session);

  // Looks at the core.
  void ask(std::function<void(const HeadCore& core, BootTime now)> question);
  // To every driver that is connected, once.
  void say_stopped(protocol::ClusterStopped stopped);
  // Changes the core; `done` runs once the change is durable. kUnavailable: the head is read-only.
  void change(std::function<Result<Actions>(HeadCore& core, BootTime now)> step, std::function<void(Result<void>)> done);
  // Tells the core what concerns no journal: also while the head is read-only.
  void tell(std::function<void(HeadCore& core)> step);
  // Rows of tables that the core does not own; `done` as above.
  void store(std::vector<Mutation> mutations, std::function<void(Result<void>)> done);
  // Asks a node for what only it knows (its logs, its objects): `question` makes the message with the request's number. `done` runs on
  // the loop, once. kUnavailable: the node is not connected or its connection is lost meanwhile; kTimeout: no answer within kNodePatience.
  using NodeAnswered = std::function<void(Result<protocol::WorkerMessage>)>;
  void ask_node(NodeSession session, std::function<protocol::HeadToWorker(uint64_t request)> question, NodeAnswered done);
  static constexpr std::chrono::seconds kNodePatience{10};
  // The same of who can read the files of a run; the question's number is set here.
  using Reader = std::variant<NodeSession, ClientSession>;
  void read_run_files(Reader reader, protocol::ReadRunFiles question, std::function<void(Result<protocol::RunFilesAnswer>)> done);
  // It is not wanted any more.
  void end_run_file(Reader reader, uint64_t transfer);
  // Its logs; the request's number is set here.
  void read_logs(NodeSession session, protocol::ReadLogs request, std::function<void(Result<protocol::LogTails>)> done);
  // One reader of everything that changes, from all there is now on: at most every kWatchEvery, nothing while nothing changes, and in
  // pieces that cost the core little. Runs on the loop and must not block. Once.
  void watch(std::function<void(v1::Changes)> on_changes);
  static constexpr std::chrono::milliseconds kWatchEvery{20};
  // Every line that actors write, to one reader on the loop; null: none.
  void watch_logs(std::function<void(const protocol::LogLines&)> on_lines);
  // From the arrival of a message of a node or a client to what the core decided, with the time that it waited for its turn; not with the
  // journal's commit.
  const DurationHistogram& decision_times() const;
  // Runs on the loop, where `logs` may be used.
  void post(std::function<void()> function);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::head
