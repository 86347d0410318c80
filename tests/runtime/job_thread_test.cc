#include "runtime/job_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace volador {
namespace {

TEST(JobThread, RunsJobsInOrderAndDeliversWhatTheyReturn) {
  std::vector<int> delivered;
  {
    JobThread thread("test", [](JobThread::Then then) { then(); });
    for (int i = 0; i < 100; ++i) {
      thread.post([&delivered, i]() -> JobThread::Then {
        if (i % 2 == 1) return {};
        return [&delivered, i] { delivered.push_back(i); };
      });
    }
    EXPECT_TRUE(thread.wait_until_idle(std::chrono::seconds(20)));
    EXPECT_EQ(thread.size(), 0U);
  }
  ASSERT_EQ(delivered.size(), 50U);
  EXPECT_TRUE(std::is_sorted(delivered.begin(), delivered.end()));
}

TEST(JobThread, ItsEndRunsWhatWaits) {
  auto ran = std::make_shared<std::atomic<int>>(0);
  std::promise<void> go;
  auto gone = std::make_shared<std::shared_future<void>>(go.get_future());
  {
    JobThread thread("test");
    thread.post([ran, gone]() -> JobThread::Then {
      gone->wait();
      ++*ran;
      return {};
    });
    thread.post([ran]() -> JobThread::Then {
      ++*ran;
      return {};
    });
    EXPECT_FALSE(thread.wait_until_idle(std::chrono::milliseconds(1)));
    std::thread([&go] { go.set_value(); }).detach();
  }
  EXPECT_EQ(*ran, 2);
}

TEST(JobThread, AJobThatHangsIsLeftAlone) {
  auto ran = std::make_shared<std::atomic<bool>>(false);
  auto go = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  {
    JobThread thread("test");
    thread.post([go, ended]() -> JobThread::Then {
      go->get_future().wait();
      ended->set_value();
      return {};
    });
    thread.post([ran]() -> JobThread::Then {
      *ran = true;
      return {};
    });
  }
  go->set_value();
  ended->get_future().wait();
  EXPECT_FALSE(*ran) << "what waited behind it is dropped";
}

}  // namespace
}  // namespace volador
