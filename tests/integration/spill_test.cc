// More objects than fit in the node's memory: real processes of a private cluster with a small store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <volador/volador.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/cli/cluster/run_volador.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using volador::Array;
using volador::Ref;

constexpr size_t kNumbers = 500'000;  // 4 MB.

double sum(const Array<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }
Ref<Array<double>> make(double value) {
  volador::ArrayDraft<double> draft(kNumbers);
  std::fill(draft.span().begin(), draft.span().end(), value);
  return std::move(draft).put();
}
Ref<Array<double>> make_later(double value, double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return make(value);
}
bool is_lost(const Ref<Array<double>>& ref) {
  const auto value = ref.result(60s);
  return !value && value.error().code == volador::ErrorCode::kObjectLost;
}

TEST(Spill, MoreThanFitsIsPutAndReadBackHereAndByTasks) {
  std::vector<Ref<Array<double>>> refs;
  for (int i = 0; i < 50; ++i) refs.push_back(make(i));  // 200 MB through 64 MiB.
  for (int i = 0; i < 50; ++i) ASSERT_EQ(sum(refs[static_cast<size_t>(i)].get()), 1.0 * i * kNumbers) << i;
  for (int i = 0; i < 50; i += 7)
    ASSERT_EQ(volador::task<&sum>(refs[static_cast<size_t>(i)]).submit().get(60s), 1.0 * i * kNumbers) << i;
}

TEST(Spill, WhatTasksPutIsSpilledAndReadAfterTheirProcessesEnded) {
  std::vector<volador::Future<Ref<Array<double>>>> futures;
  for (int i = 0; i < 40; ++i) futures.push_back(volador::task<&make>(1.0 * i).submit());
  std::vector<Ref<Array<double>>> refs;
  for (auto& future : futures) refs.push_back(future.get(60s));
  for (int i = 0; i < 40; ++i) ASSERT_EQ(sum(refs[static_cast<size_t>(i)].get()), 1.0 * i * kNumbers) << i;
}

TEST(Spill, WhoReadsEverythingAtOnceIsToldThatItIsFull) {
  std::vector<Ref<Array<double>>> refs;
  std::vector<Array<double>> read;
  try {
    for (int i = 0; i < 50; ++i) {
      refs.push_back(make(i));
      read.push_back(refs.back().get());
    }
    FAIL() << "200 MB in 64 MiB";
  } catch (const volador::Exception& e) {
    EXPECT_EQ(e.code(), volador::ErrorCode::kStoreFull);
    EXPECT_THAT(e.what(), HasSubstr("are being read and cannot go"));
    EXPECT_THAT(e.what(), HasSubstr("spill_test.cc:"));
  }
  for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i][kNumbers - 1], static_cast<double>(i));
  read.clear();
  EXPECT_EQ(sum(make(2).get()), 2.0 * kNumbers) << "the readers have ended";
}

TEST(Wait, GivesBackWhatHasComeFirst) {
  std::vector<Ref<Array<double>>> refs{make(1), make(2), make(3)};
  const auto [ready, pending] = volador::wait(std::move(refs), {.count = 2, .timeout = 60s});
  ASSERT_EQ(ready.size(), 2u);
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(ready[0].get()[0], 1.0);
  EXPECT_EQ(pending[0].get()[0], 3.0);
  const auto one = volador::task<&make_later>(5.0, 0.1).submit().get(60s);
  EXPECT_EQ(volador::wait(std::vector{one, Ref<Array<double>>()}).first.size(), 2u)
      << "an empty one is ready: its get() says what it is";
}

TEST(Free, AnObjectGivenUpIsGoneForAllAndItsReaderReadsOn) {
  const auto ref = make(7);
  const Array<double> array = ref.get();
  EXPECT_FALSE(volador::task<&is_lost>(ref).submit().get(60s));
  volador::free(ref);
  const auto lost = [&ref] { return volador::task<&is_lost>(ref).submit().get(60s); };
  bool gone = lost();
  for (const auto end = std::chrono::steady_clock::now() + 20s; !gone && std::chrono::steady_clock::now() < end;)
    gone = lost();  // Through the store.
  EXPECT_TRUE(gone);
  EXPECT_EQ(sum(array), 7.0 * kNumbers);
  try {
    while (true) (void)ref.get();
  } catch (const volador::Exception& e) {
    EXPECT_EQ(e.code(), volador::ErrorCode::kObjectLost);
    EXPECT_THAT(e.what(), HasSubstr("volador::free"));
  }
  volador::free(volador::put(7));
}

// The waiting process ends abruptly; its worker is killed. Its spilled data must be removed too.
TEST(Spill, AKilledWorkerLeavesNothingOnDisk) {
  volador::testing::VoladorUser user;
  const auto folder = user.home() / "fast-disk";
  const auto started =
      user.run({"start", "--head", "--port=0", "--cluster=heron", "--name=one", "--object-store-memory=32MiB",
                "--object-spill-limit=200MiB", "--object-spill-directory=" + folder.string(), "--json"});
  ASSERT_EQ(started.code, 0) << started.error;
  const auto writer = user.start("/proc/self/exe", {"--put", "30"});
  const auto nodes = [&] { return user.run({"memory", "--json"}).json(); };
  for (int i = 0; i < 400; ++i) {
    const auto memory = nodes();
    if (!memory["stores"].empty() && memory["stores"][0].value("spilled", 0) > 50'000'000) break;
    ASSERT_LT(i, 399) << memory.dump();
    std::this_thread::sleep_for(50ms);
  }
  const auto text = user.run({"memory"}).out;
  EXPECT_THAT(text, HasSubstr("spill_test.cc:"));
  EXPECT_THAT(text, HasSubstr("spilled"));
  const auto objects = user.run({"list", "objects", "--json"}).json();
  EXPECT_TRUE(std::any_of(objects["objects"].begin(), objects["objects"].end(),
                          [](const auto& one) { return one["state"] == "spilled"; }));
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the file has no name";
  std::ifstream pid_file(user.home() / "clusters/heron/nodes/one/worker.pid");
  pid_t worker = 0;
  ASSERT_TRUE(pid_file >> worker);
  const auto holds_spilled_file = [&] {
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(worker) + "/fd", gone)) {
      if (std::filesystem::read_symlink(entry.path(), gone).string().find("fast-disk") != std::string::npos)
        return true;
    }
    return false;
  };
  EXPECT_TRUE(holds_spilled_file());
  ::kill(worker, SIGKILL);
  ::kill(writer, SIGKILL);
  for (int i = 0; i < 400 && volador::testing::is_alive(worker); ++i) std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(holds_spilled_file());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Puts this many arrays and keeps them.
int put_and_keep(int count) {
  const auto cluster = volador::init();
  std::vector<Ref<Array<double>>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(make(i));
  while (true) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--put") return put_and_keep(std::atoi(argv[2]));
  const auto cluster = volador::init({.address = "local",
                                      .num_cpus = 4,
                                      .object_store_memory = int64_t{64} << 20,
                                      .object_spill_limit = int64_t{512} << 20});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
