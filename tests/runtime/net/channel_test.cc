#include "runtime/net/channel.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/frame.h"
#include "runtime/net/held_writes.h"
#include "tests/runtime/net/channel_fixture.h"

namespace volador::net {
namespace {

using namespace std::chrono_literals;

// Over the socket, and from a caller in the server's own process.
class EitherWay : public ChannelTest, public ::testing::WithParamInterface<bool> {
 protected:
  std::shared_ptr<CallConnection> connect(ConnectionOptions options = {}, std::function<void(Error)> on_down = {}) {
    if (!GetParam()) return ChannelTest::connect(std::move(options), std::move(on_down));
    return server_->connect_here(std::move(options), std::move(on_down));
  }
};
INSTANTIATE_TEST_SUITE_P(Channel, EitherWay, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Here" : "Socket"; });

TEST_P(EitherWay, ACallIsAnsweredWithTheResultOrErrorOfItsHandler) {
  serve([](CallRequest request, const std::shared_ptr<Responder>& responder) {
    EXPECT_EQ(request.epoch, 7U);
    EXPECT_EQ(request.method, 9U);
    if (request.body == "fail") {
      responder->reply(make_error(ErrorCode::kApplication, "std::runtime_error: no"));
    } else {
      responder->reply(request.body + "!");
    }
  });
  const auto connection = connect();
  const auto ask = [&](uint64_t id, std::string body) {
    std::promise<Result<std::string>> promise;
    connection->call({.request_id = id, .epoch = 7, .method = 9, .body = std::move(body)},
                     [&](Result<std::string> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  };
  EXPECT_EQ(ask(1, "hello"), "hello!");
  EXPECT_EQ(ask(1, ""), "!");  // The id is free again.
  const auto failed = ask(2, "fail");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), (Error{ErrorCode::kApplication, "std::runtime_error: no"}));
}

TEST_P(EitherWay, TheHandlerSeesWhoCalls) {
  serve([](const CallRequest&, const std::shared_ptr<Responder>& responder) {
    responder->reply(to_string(responder->peer().caller) + " " + responder->peer().identity);
  });
  const CallerId caller({1, 2, 3});
  const auto connection = connect({.caller = caller});
  EXPECT_EQ(*start_call(*connection, 1, "").get(),
            to_string(caller) + " uid " + std::to_string(::geteuid()) + " pid " + std::to_string(::getpid()));
}

TEST_P(EitherWay, CallsOfOneCallerArriveInTheOrderTheyWereMade) {
  std::vector<uint64_t> seen;
  serve([&](const CallRequest& request, const std::shared_ptr<Responder>& responder) {
    seen.push_back(request.request_id);
    responder->reply("");
  });
  const auto connection = connect();
  std::vector<PendingResult> results;
  for (uint64_t id = 1; id <= 20'000; ++id) results.push_back(start_call(*connection, id, std::string(id % 300, 'x')));
  for (const auto& result : results) ASSERT_TRUE(result.get().has_value());
  for (uint64_t id = 1; id <= 20'000; ++id) ASSERT_EQ(seen[id - 1], id);
}

TEST_P(EitherWay, SixtyFourCallersShareAConnection) {
  serve_echo();
  const auto connection = connect();
  std::atomic<uint64_t> next_id{1};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 64; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        const uint64_t id = next_id++;
        if (start_call(*connection, id, std::to_string(id)).get() != std::to_string(id)) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(EitherWay, BodiesOfEverySizeUpToTheLimitArriveWhole) {
  constexpr size_t kBodyMax = kFrameBytesMax - kFrameHeaderBytes - kCallHeaderBytes;
  serve_echo();
  const auto connection = connect();
  uint64_t id = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{200}, size_t{16} << 10, (size_t{16} << 10) + 1,
                            size_t{1} << 20, size_t{20} << 20, kBodyMax}) {
    std::string body(size, 'a');
    for (size_t i = 0; i < size; i += 997) body[i] = static_cast<char>('a' + i % 26);
    const auto result = start_call(*connection, ++id, body).get();
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_TRUE(*result == body) << size;
  }
  const auto refused = start_call(*connection, ++id, std::string(kBodyMax + 1, 'a')).get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST_P(EitherWay, AnAnswerGoesWhereThereIsRoomForIt) {
  constexpr size_t kRoom = size_t{1} << 20;
  serve([](const CallRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->reply(request.method == 2
                         ? std::string("small")
                         : std::string(kRoom, static_cast<char>('a' + request.request_id % 26)) + "end");
  });
  const auto connection = connect();
  std::vector<std::shared_ptr<ReplyRoom>> rooms;
  std::vector<std::string> memory(40, std::string(kRoom, '.'));
  std::vector<std::promise<Result<std::string>>> results(memory.size());
  for (size_t i = 0; i < memory.size(); ++i) {
    rooms.push_back(std::make_shared<ReplyRoom>());
    rooms[i]->bytes = memory[i];
    connection->call_into({.request_id = i, .method = i % 5 == 4 ? 2u : 1u}, rooms[i],
                          [&results, i](Result<std::string> result) { results[i].set_value(std::move(result)); });
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    const auto result = results[i].get_future().get();
    ASSERT_TRUE(result) << result.error().message;
    const bool is_small = i % 5 == 4;
    EXPECT_EQ(rooms[i]->filled, !is_small && !GetParam()) << "in this process it is handed over as it is";
    const std::string expected(kRoom, static_cast<char>('a' + i % 26));
    if (is_small) {
      EXPECT_EQ(*result, "small");
    } else if (rooms[i]->filled) {
      EXPECT_TRUE(memory[i] == expected && *result == "end") << i;
    } else {
      EXPECT_TRUE(*result == expected + "end") << i;
    }
  }
}

TEST_P(EitherWay, RepliesMayComeFromAnyThreadAndInAnyOrder) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(responder));
  });
  const auto connection = connect();
  std::vector<PendingResult> results;
  for (uint64_t id = 0; id < 50; ++id) results.push_back(start_call(*connection, id, ""));
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return held.size() == 50;
  }));
  std::thread replier([&] {
    for (size_t i = held.size(); i-- > 0;) {
      i % 2 == 0 ? held[i]->reply(std::to_string(i)) : held[i]->reply_here(std::to_string(i));
    }
  });
  replier.join();
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].get(), std::to_string(i));
  held[0]->reply("again");  // No effect.
}

TEST_F(ChannelTest, AnAnswerGivenHereReachesACallerInThisProcessAtOnce) {
  std::shared_ptr<Responder> held;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) { held = std::move(responder); });
  const auto connection = server_->connect_here({});
  std::thread::id answered_on;
  connection->call({.request_id = 1}, [&](const Result<std::string>& result) {
    EXPECT_EQ(result, "ours");
    answered_on = std::this_thread::get_id();
    connection->call({.request_id = 2}, [](const Result<std::string>&) {});  // A caller may make another call from its
                                                                             // callback.
  });
  const auto responder = std::exchange(held, nullptr);
  responder->reply_here("ours");
  EXPECT_EQ(answered_on, std::this_thread::get_id());
  EXPECT_NE(held, nullptr);
  responder->reply_here("again");  // No effect.
  held->reply_here("");
}

TEST_F(ChannelTest, ButNeverBeforeTheCallIsMade) {
  serve([](const CallRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->reply_here(request.body);
  });
  const auto connection = server_->connect_here({});
  for (uint64_t id = 1; id <= 100; ++id) {
    bool made = false;
    std::promise<bool> was_made;
    std::mutex mutex;
    {
      const std::lock_guard<std::mutex> hold(mutex);  // A caller may hold a mutex that its callback needs.
      connection->call({.request_id = id}, [&](const Result<std::string>&) {
        bool is_made = false;
        {
          const std::lock_guard<std::mutex> answered(mutex);
          is_made = made;
        }
        was_made.set_value(is_made);  // The mutex is no longer needed.
      });
      made = true;
    }
    EXPECT_TRUE(was_made.get_future().get());
  }
}

TEST_P(EitherWay, ADroppedResponderAnswersUnknownOutcome) {
  serve([](const CallRequest&, const std::shared_ptr<Responder>&) {});
  const auto connection = connect();
  EXPECT_EQ(start_call(*connection, 1, "").get().error().code, ErrorCode::kUnknownOutcome);
}

TEST_P(EitherWay, ACancelReachesTheHandlerAndFreesTheCaller) {
  std::shared_ptr<Responder> held;
  Signal arrived;
  Signal cancelled;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    responder->on_cancel([&] { cancelled.set(); });
    held = std::move(responder);
    arrived.set();
  });
  const auto connection = connect();
  const auto result = start_call(*connection, 5, "");
  ASSERT_TRUE(arrived.wait());
  EXPECT_FALSE(held->cancelled());
  connection->cancel(5);
  connection->cancel(5);
  connection->cancel(6);
  EXPECT_EQ(result.get().error().code, ErrorCode::kCancelled);
  ASSERT_TRUE(cancelled.wait());
  EXPECT_TRUE(held->cancelled());
  bool at_once = false;
  held->on_cancel([&] { at_once = true; });
  EXPECT_TRUE(at_once);
  held->reply("late");
}

TEST_F(ChannelTest, WhatCameBeforeItWasWantedBackIsAnsweredSoAndNothingLater) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
  ServerOptions options;
  options.calls_first = 3;
  options.give_back = [&] {
    std::vector<std::shared_ptr<Responder>> back;
    {
      const std::lock_guard<std::mutex> hold(mutex);
      back.swap(held);
    }
    for (const auto& one : back) one->reply(make_error(ErrorCode::kCancelled, "given back"));
  };
  serve(
      [&](const CallRequest& request, std::shared_ptr<Responder> responder) {
        if (request.body == "late") return responder->reply("done");
        const std::lock_guard<std::mutex> hold(mutex);
        held.push_back(std::move(responder));
      },
      std::move(options));
  const auto connection = connect();
  std::vector<PendingResult> results;
  for (uint64_t id = 1; id <= 5; ++id) results.push_back(start_call(*connection, id, ""));  // Three of them are sent.
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard<std::mutex> hold(mutex);
    return held.size() == 3;
  }));
  connection->give_back();
  const auto late = start_call(*connection, 6, "late");
  for (const auto& result : results) EXPECT_EQ(result.get().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(late.get(), "done");
}

TEST_P(EitherWay, APassedTimeoutAnswersTheCallerAndCancelsTheCall) {
  Signal cancelled;
  std::shared_ptr<Responder> held;
  std::chrono::nanoseconds left{};
  serve([&](const CallRequest& request, std::shared_ptr<Responder> responder) {
    left = request.timeout;
    responder->on_cancel([&] { cancelled.set(); });
    held = std::move(responder);
  });
  const auto connection = connect();
  EXPECT_EQ(start_call(*connection, 1, "", 50ms).get().error().code, ErrorCode::kTimeout);
  ASSERT_TRUE(cancelled.wait());
  EXPECT_GT(left, 0ns);
  EXPECT_LE(left, 50ms);
}

TEST_P(EitherWay, ALostConnectionLeavesSentCallsUnknownAndRefusesFurtherOnes) {
  std::shared_ptr<Responder> held;
  Signal arrived;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    held = std::move(responder);
    arrived.set();
  });
  Signal down;
  const auto connection = connect({}, [&](const Error&) { down.set(); });
  const auto sent = start_call(*connection, 1, "");
  ASSERT_TRUE(arrived.wait());
  server_->close();
  EXPECT_EQ(sent.get().error().code, ErrorCode::kUnknownOutcome);
  ASSERT_TRUE(down.wait());
  EXPECT_TRUE(held->cancelled());
  held->reply("too late");
  EXPECT_EQ(start_call(*connection, 2, "").get().error().code, ErrorCode::kUnavailable);
}

TEST_F(ChannelTest, WhereNobodyListensCallsAreUnavailable) {
  Signal down;
  const auto connection = connect({}, [&](const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_NE(error.message.find(path()), std::string::npos) << error.message;
    down.set();
  });
  EXPECT_EQ(start_call(*connection, 1, "").get().error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(down.wait());
}

TEST_F(ChannelTest, ClosingEndsEveryCallAndTheServerForgetsTheCaller) {
  std::shared_ptr<Responder> held;
  Signal cancelled;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    responder->on_cancel([&] { cancelled.set(); });
    held = std::move(responder);
  });
  bool down = false;
  auto connection = connect({}, [&](const Error&) { down = true; });
  const auto result = start_call(*connection, 1, "");
  ASSERT_TRUE(eventually([&] { return server_->connections() == 1; }));
  connection->close();
  connection->close();
  EXPECT_EQ(result.get().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(start_call(*connection, 2, "").get().error().code, ErrorCode::kCancelled);
  connection.reset();
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
  loop_->run([] {});
  EXPECT_FALSE(down);
}

TEST_F(ChannelTest, ACallerInThisProcessThatClosesLeavesItsCallsAndNothingElse) {
  std::shared_ptr<Responder> held;
  Signal cancelled;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    responder->on_cancel([&] { cancelled.set(); });
    held = std::move(responder);
  });
  bool down = false;
  const auto connection = server_->connect_here({}, [&](const Error&) { down = true; });
  const auto result = start_call(*connection, 1, "");
  connection->close();
  connection->close();
  EXPECT_EQ(result.get().error().code, ErrorCode::kCancelled);
  ASSERT_TRUE(cancelled.wait());
  EXPECT_EQ(start_call(*connection, 2, "").get().error().code, ErrorCode::kCancelled);
  loop_->run([] {});
  EXPECT_FALSE(down);
}

// Calls beyond the server's window are queued in order, up to the caller's own limit.
TEST_F(ChannelTest, ACallerInThisProcessKeepsToTheServersWindow) {
  std::mutex mutex;
  std::deque<std::pair<uint64_t, std::shared_ptr<Responder>>> held;
  serve(
      [&](const CallRequest& request, std::shared_ptr<Responder> responder) {
        const std::lock_guard lock(mutex);
        held.emplace_back(request.request_id, std::move(responder));
      },
      {.calls_max = 3});
  const auto connection = server_->connect_here({.waiting_calls_max = 4});
  std::vector<PendingResult> results;
  for (uint64_t id = 0; id < 8; ++id) results.push_back(start_call(*connection, id, ""));
  const auto refused = results[7].get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("4 calls"), std::string::npos) << refused.error().message;
  EXPECT_EQ(start_call(*connection, 5, "").get().error().code, ErrorCode::kInvalidArgument);  // Duplicate id.
  connection->cancel(4);
  EXPECT_EQ(results[4].get().error().code, ErrorCode::kCancelled);
  for (const uint64_t expected : {0, 1, 2, 3, 5, 6}) {
    std::shared_ptr<Responder> next;
    {
      const std::lock_guard lock(mutex);
      ASSERT_FALSE(held.empty());
      EXPECT_LE(held.size(), 3U);
      EXPECT_EQ(held.front().first, expected);
      next = std::move(held.front().second);
      held.pop_front();
    }
    next->reply("done");
    EXPECT_EQ(results[expected].get(), "done");
  }
  const std::lock_guard lock(mutex);
  EXPECT_TRUE(held.empty());
}

// Neither side flushes explicitly.
TEST_F(ChannelTest, WhatIsHeldIsWrittenAfterAWhile) {
  constexpr size_t kCalls = 300;
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> asked;
  serve(
      [&](const CallRequest&, std::shared_ptr<Responder> responder) {
        const std::lock_guard hold(mutex);
        asked.push_back(std::move(responder));
      },
      {.calls_first = kCalls});
  const auto connection = connect();
  std::vector<PendingResult> results;
  Signal made;
  Signal over;
  std::thread caller([&] {
    for (size_t i = 0; i < kCalls; ++i) results.push_back(start_call(*connection, i + 1, "?"));
    made.set();
    over.wait();
  });
  ASSERT_TRUE(made.wait());
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard hold(mutex);
    return asked.size() == kCalls;
  }));
  Signal answered;
  std::thread host([&] {
    const AnswersInARow in_a_row;
    for (size_t i = 0; i + 1 < asked.size(); ++i) asked[i]->reply("!");
    answered.set();
    over.wait();
  });
  ASSERT_TRUE(answered.wait());
  for (size_t i = 0; i + 1 < results.size(); ++i) EXPECT_EQ(results[i].get().value_or("none"), "!");
  EXPECT_FALSE(results.back().ready());
  asked.back()->reply("!");
  EXPECT_EQ(results.back().get().value_or("none"), "!");
  over.set();
  caller.join();
  host.join();
}

TEST_F(ChannelTest, TheSocketIsPrivateAndGoesWithItsServer) {
  serve_echo();
  struct stat info {};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  server_->close();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(ChannelTest, AStaleSocketIsReplacedALiveOneIsNot) {
  {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path().c_str());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  serve_echo();
  const auto second = CallServer::create(*loop_, {.unix_path = path()}, {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  const auto connection = connect();
  EXPECT_EQ(start_call(*connection, 1, "still here").get(), "still here");
}

TEST_F(ChannelTest, BadSocketPathsAreNamed) {
  const auto too_long = CallServer::create(*loop_, {.unix_path = "/tmp/" + std::string(200, 'x')}, {});
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::kInvalidArgument);
  const auto no_socket = CallServer::create(*loop_, {.unix_path = folder_.string()}, {});
  ASSERT_FALSE(no_socket.has_value());
  EXPECT_EQ(no_socket.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(folder_));
}

TEST_F(ChannelTest, LargeRepliesLetTheServerTakeFewerCallsAtOnce) {
  std::atomic<size_t> running{0};
  std::atomic<size_t> most{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
  serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(responder));
    most = std::max(most.load(), ++running);
  });
  const auto connection = connect();
  std::vector<PendingResult> results;
  for (uint64_t id = 0; id < 300; ++id) results.push_back(start_call(*connection, id, ""));
  size_t answered = 0;
  while (answered < 300) {
    std::vector<std::shared_ptr<Responder>> batch;
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      return !held.empty();
    }));
    {
      const std::lock_guard lock(mutex);
      batch.swap(held);
    }
    for (auto& responder : batch) {
      --running;
      ++answered;
      responder->reply(std::string(size_t{2} << 20, 'x'));
    }
  }
  for (const auto& result : results) ASSERT_TRUE(result.get().has_value());
  EXPECT_LE(most.load(), 64U);
}

// Threads call, cancel, respond and close at the same time; each call ends exactly once.
TEST_P(EitherWay, ClosingEitherEndWhileThreadsCallEndsEveryCallOnce) {
  for (int round = 0; round < 20; ++round) {
    std::mutex mutex;
    std::vector<std::shared_ptr<Responder>> held;
    std::atomic<bool> stop{false};
    serve([&](const CallRequest&, std::shared_ptr<Responder> responder) {
      responder->on_cancel([] {});
      const std::lock_guard lock(mutex);
      held.push_back(std::move(responder));
    });
    std::thread worker([&] {
      while (!stop) {
        std::vector<std::shared_ptr<Responder>> batch;
        {
          const std::lock_guard lock(mutex);
          batch.swap(held);
        }
        for (size_t i = 0; i < batch.size(); ++i) {
          if (i % 5 != 0) batch[i]->reply("done");  // The others are dropped.
        }
        std::this_thread::yield();
      }
    });
    constexpr size_t kCalls = 2000;
    std::vector<std::atomic<int>> ends(4 * kCalls);
    {
      const auto connection = connect();
      std::vector<std::thread> callers;
      for (size_t t = 0; t < 4; ++t) {
        callers.emplace_back([&, t] {
          for (size_t i = 0; i < kCalls; ++i) {
            const uint64_t id = t * kCalls + i;
            connection->call({.request_id = id, .timeout = (i % 3) * 1ms, .body = std::string(i % 100, 'x')},
                             [&ends, id](const Result<std::string>&) { ++ends[id]; });
            if (i % 7 == 0) connection->cancel(id);
          }
        });
      }
      std::thread closer([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(round * 200));
        if (round % 2 == 0) {
          connection->close();
        } else {
          server_->close();
        }
      });
      for (auto& caller : callers) caller.join();
      closer.join();
    }
    loop_->run([] {});
    for (size_t id = 0; id < ends.size(); ++id) ASSERT_EQ(ends[id].load(), 1) << "round " << round << " call " << id;
    stop = true;
    worker.join();
    server_.reset();
  }
}

}  // namespace
}  // namespace volador::net
