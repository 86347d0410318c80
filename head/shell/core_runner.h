// Runs the head's core on one event loop and applies its actions in step order: mutations become durable first, then
// the messages are sent. While the journal fails the head is read-only: requests that would change it are refused, but
// leases continue.
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

// Sending side of one stream. Thread safe.
template <class Message>
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Queues the message; beyond the queue's limit the stream is cut, and the peer reconnects.
  virtual void send(Message message) = 0;
  // Closes the stream after the queued messages are sent.
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

  // Call once, after the journal has been loaded into the core.
  void start();
  // Closes the streams and refuses new work. After it returns nothing runs any more. Idempotent.
  void stop();

  NodeSession open_node(std::shared_ptr<NodeOutbox> outbox);
  // `handled` runs when the core has processed the message; read the next message then.
  void on_node_message(NodeSession session, protocol::WorkerMessage message, std::function<void()> handled);
  void on_node_lost(NodeSession session);

  // `by`: the principal of the stream's certificate.
  ClientSession open_client(std::shared_ptr<ClientOutbox> outbox, security::Principal by = {});
  void on_client_message(ClientSession session, protocol::ClientMessage message, std::function<void()> handled);
  void on_experiment_kept(DriverId driver, std::string experiment, uint64_t number);
  void on_client_lost(ClientSession session);

  // Runs a read-only query on the core.
  void ask(std::function<void(const HeadCore& core, BootTime now)> question);
  // Sends the message once to every connected driver.
  void say_stopped(protocol::ClusterStopped stopped);
  // Changes the core; `done` runs once the change is durable. kUnavailable: the head is read-only.
  void change(std::function<Result<Actions>(HeadCore& core, BootTime now)> step,
              std::function<void(Result<void>)> done);
  // Changes non-journaled state of the core; also works while the head is read-only.
  void tell(std::function<void(HeadCore& core)> step);
  // Stores rows of tables that the core does not own; `done` as above.
  void store(std::vector<Mutation> mutations, std::function<void(Result<void>)> done);
  // Sends a request to a node for data that only the node has (logs, objects): `question` builds the message with the
  // request's number. `done` runs once, on the loop. kUnavailable: the node is not connected, or its connection was
  // lost meanwhile; kTimeout: no reply within kNodePatience.
  using NodeAnswered = std::function<void(Result<protocol::WorkerMessage>)>;
  void ask_node(NodeSession session, std::function<protocol::HeadToWorker(uint64_t request)> question,
                NodeAnswered done);
  static constexpr std::chrono::seconds kNodePatience{10};
  // Same for a reader of a run's files; sets the request number.
  using Reader = std::variant<NodeSession, ClientSession>;
  void read_run_files(Reader reader, protocol::ReadRunFiles question,
                      std::function<void(Result<protocol::RunFilesAnswer>)> done);
  // Cancels the transfer.
  void end_run_file(Reader reader, uint64_t transfer);
  // Reads logs of the node; sets the request number.
  void read_logs(NodeSession session, protocol::ReadLogs request, std::function<void(Result<protocol::LogTails>)> done);
  // Registers the single reader of all changes, starting with the whole current state: calls it at most every
  // kWatchEvery, not at all without changes, and in pieces that cost the core little time. Runs on the loop and must
  // not block. Call once.
  void watch(std::function<void(v1::Changes)> on_changes);
  static constexpr std::chrono::milliseconds kWatchEvery{20};
  // Sends every line written by actors to one reader on the loop; null: none.
  void watch_logs(std::function<void(const protocol::LogLines&)> on_lines);
  // Time from the arrival of a node or client message to the core's decision, including the wait in the queue but not
  // the journal's commit.
  const DurationHistogram& decision_times() const;
  // Runs the function on the loop, where `logs` may be used.
  void post(std::function<void()> function);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::head
