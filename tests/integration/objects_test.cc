// volador::put and Ref across real processes of a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <volador/volador.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using volador::Array;
using volador::Ref;

constexpr size_t kLarge = 100'000;  // Numbers: far above the inline limit of a reference.

double sum(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }
double sum_array(const Array<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }
double sum_ref(const Ref<std::vector<double>>& numbers) { return sum(numbers.get()); }
Ref<std::vector<double>> make_numbers(size_t count, double value) {
  return volador::put(std::vector<double>(count, value));
}
std::vector<Ref<std::vector<double>>> make_many(size_t count) {
  std::vector<Ref<std::vector<double>>> all;
  for (size_t i = 0; i < count; ++i) all.push_back(make_numbers(kLarge, static_cast<double>(i)));
  return all;
}
using Numbers = Ref<std::vector<double>>;
Ref<std::vector<Numbers>> put_many(size_t count) { return volador::put(make_many(count)); }
double sum_all(const std::vector<Numbers>& all) {
  double total = 0;
  for (const Numbers& one : all) total += sum(one.get());
  return total;
}
using Boxed = Ref<std::vector<Numbers>>;
size_t open_boxes(const std::vector<Boxed>& boxes) {
  size_t count = 0;
  for (const Boxed& box : boxes) count += box.get().at(0).get().size();
  return count;
}
Ref<std::vector<double>> pass_on(const Ref<std::vector<double>>& ref) { return ref; }
bool is_aligned(const Array<double>& numbers) { return reinterpret_cast<uintptr_t>(numbers.data()) % 64 == 0; }

struct Layer {
  std::string name;
  std::vector<float> weights;
};
VOLADOR_FIELDS(Layer, name, weights);

class Keeper {
 public:
  Keeper() = default;
  explicit Keeper(Ref<std::vector<double>> first) : kept_{std::move(first)} {}
  void keep(const Ref<std::vector<double>>& ref) { kept_.push_back(ref); }
  double total() const {
    double all = 0;
    for (const auto& ref : kept_) all += sum(ref.get());
    return all;
  }
  Ref<std::vector<double>> last() const { return kept_.back(); }
  void drop() { kept_.clear(); }
  double add(const std::vector<double>& numbers, double more) const { return sum(numbers) + more; }
  int pid() const { return getpid(); }

 private:
  std::vector<Ref<std::vector<double>>> kept_;
};
VOLADOR_ACTOR(Keeper, &Keeper::keep, &Keeper::total, &Keeper::last, &Keeper::drop, &Keeper::add, &Keeper::pid);

TEST(Objects, SmallValuesTravelInTheirReferences) {
  const Ref<int> seven = volador::put(7);
  EXPECT_FALSE(seven.any().is_stored());
  EXPECT_EQ(seven.get(), 7);
  const auto text = volador::put(std::string("hello"));
  EXPECT_EQ(text.get(), "hello");
}

TEST(Objects, ATaskTakesTheValueBehindAReference) {
  const auto numbers = volador::put(std::vector<double>(kLarge, 2.0));
  EXPECT_TRUE(numbers.any().is_stored());
  EXPECT_EQ(volador::task<&sum>(numbers).submit().get(60s), 2.0 * kLarge);
  EXPECT_EQ(volador::task<&sum_ref>(numbers).submit().get(60s), 2.0 * kLarge);
  const auto array = volador::put(Array<double>(std::vector<double>(kLarge, 3.0)));
  EXPECT_EQ(volador::task<&sum_array>(array).submit().get(60s), 3.0 * kLarge);
  EXPECT_TRUE(volador::task<&is_aligned>(array).submit().get(60s));
}

TEST(Objects, AnActorTakesBoth) {
  const auto keeper = volador::actor<Keeper>().spawn();
  const auto numbers = volador::put(std::vector<double>(kLarge, 1.0));
  EXPECT_EQ((keeper.call<&Keeper::add>(numbers, 5.0).get(60s)), kLarge + 5.0);
  EXPECT_EQ((keeper.call<&Keeper::add>(std::vector<double>{1, 2}, 5.0).get(60s)), 8.0);
  EXPECT_EQ((keeper.call<&Keeper::add>(volador::put(std::vector<double>{1, 2}), 5.0).get(60s)), 8.0) << "a small one";
}

TEST(Objects, StructsAreStoredAsTheyTravel) {
  const auto ref = volador::put(Layer{"first", std::vector<float>(50'000, 0.5F)});
  const Layer layer = ref.get();
  EXPECT_EQ(layer.name, "first");
  EXPECT_EQ(layer.weights, std::vector<float>(50'000, 0.5F));
}

TEST(Objects, AnArrayIsReadInPlaceAndWrittenInPlace) {
  volador::ArrayDraft<double> draft(kLarge);
  std::iota(draft.span().begin(), draft.span().end(), 0.0);
  const double* written = draft.span().data();
  const auto ref = std::move(draft).put();
  const Array<double> array = ref.get();
  EXPECT_EQ(array.data(), written);
  EXPECT_EQ(array[kLarge - 1], static_cast<double>(kLarge - 1));
  EXPECT_EQ(volador::task<&sum_array>(ref).submit().get(60s), static_cast<double>(kLarge) * (kLarge - 1) / 2);
}

TEST(Objects, WhatATaskPutsLivesOnInTheCallersReference) {
  const auto ref = volador::task<&make_numbers>(kLarge, 4.0).submit().get(60s);
  std::this_thread::sleep_for(700ms);  // Its process has ended: idle ones end after half a second.
  EXPECT_EQ(sum(ref.get()), 4.0 * kLarge);
  const auto many = volador::task<&make_many>(size_t{5}).submit().get(60s);
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(sum(many[i].get()), static_cast<double>(i * kLarge));
}

TEST(Objects, AReferencePassesThroughSeveralHands) {
  auto made = volador::task<&make_numbers>(kLarge, 1.5).submit();
  auto passed = volador::task<&pass_on>(made).submit();
  made = {};
  const auto ref = volador::task<&pass_on>(passed).submit().get(60s);
  EXPECT_EQ(sum(ref.get()), 1.5 * kLarge);
}

TEST(Objects, AnActorKeepsWhatItWasGivenAfterTheCallerDroppedIt) {
  const auto keeper = volador::actor<Keeper>().spawn();
  for (int i = 0; i < 3; ++i) keeper.call<&Keeper::keep>(volador::put(std::vector<double>(kLarge, i))).get(60s);
  EXPECT_EQ(keeper.call<&Keeper::total>().get(60s), 3.0 * kLarge);
  const auto last = keeper.call<&Keeper::last>().get(60s);
  keeper.kill();
  EXPECT_EQ(sum(last.get()), 2.0 * kLarge) << "the object outlives the actor that gave it";
}

TEST(Objects, AConstructorsReferenceIsThereAgainAfterARestart) {
  const auto keeper = volador::actor<Keeper>(volador::put(std::vector<double>(kLarge, 2.5))).max_restarts(1).spawn();
  EXPECT_EQ(keeper.call<&Keeper::total>().get(60s), 2.5 * kLarge);
  ::kill(keeper.call<&Keeper::pid>().get(60s), SIGKILL);
  volador::Result<double> total = volador::make_error(volador::ErrorCode::kInternal, "");
  for (int i = 0; i < 50 && !total; ++i) total = keeper.call<&Keeper::total>().result(60s);
  ASSERT_TRUE(total) << total.error().message;
  EXPECT_EQ(*total, 2.5 * kLarge);
}

TEST(Objects, AnEmptyReferenceSaysSo) {
  const Ref<int> none;
  try {
    (void)none.get();
    FAIL() << "nothing was there to get";
  } catch (const volador::Exception& e) {
    EXPECT_EQ(e.code(), volador::ErrorCode::kInvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("volador::put"));
  }
}

TEST(Objects, MoreThanFitsIsAnErrorAndNothingIsLost) {
  const auto kept = volador::put(std::vector<double>(kLarge, 1.0));
  try {
    volador::ArrayDraft<double> draft(size_t{1} << 40);
    FAIL() << "eight terabytes";
  } catch (const volador::Exception& e) {
    EXPECT_EQ(e.code(), volador::ErrorCode::kStoreFull);
  }
  EXPECT_EQ(sum(kept.get()), kLarge);
}

// Number of this process's descriptors, and of its shared memory mappings.
size_t descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}
size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != std::string::npos ? 1 : 0;
  return count;
}
template <class F>
bool eventually(const F& condition) {
  for (int i = 0; i < 600; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

TEST(Objects, AHundredThousandComeAndGoAndLeaveNoDescriptorAndNoMapping) {
  const std::vector<double> numbers(2'500, 1.0);  // 20 kB: stored.
  EXPECT_TRUE(volador::put(numbers).is_valid());  // Opens the connection to the store.
  EXPECT_TRUE(eventually([] { return mappings() == 0; })) << "of the tests before";
  const size_t open_before = descriptors();
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(volador::put(numbers).is_valid());
  EXPECT_LE(mappings(), 8u) << "room is used again";
  EXPECT_TRUE(eventually([] { return mappings() == 0; })) << "empty arenas go after a while";
  EXPECT_LE(descriptors(), open_before);
}

double sum_layers(const std::vector<Layer>& layers) {
  double total = 0;
  for (const Layer& layer : layers) total += std::accumulate(layer.weights.begin(), layer.weights.end(), 0.0);
  return total;
}
struct Batch {
  Numbers shared;
  std::vector<Layer> layers;
};
VOLADOR_FIELDS(Batch, shared, layers);
class Batches {
 public:
  void keep(Batch batch) { kept_ = std::move(batch); }
  double total() const { return sum(kept_.shared.get()) + sum_layers(kept_.layers); }

 private:
  Batch kept_;
};
VOLADOR_ACTOR(Batches, &Batches::keep, &Batches::total);

TEST(Objects, LargeArgumentsByValueTravelThroughSharedMemory) {
  const auto keeper = volador::actor<Keeper>().spawn();
  ASSERT_TRUE(eventually([] { return mappings() == 0; })) << "of the tests before";
  const std::vector<double> small(10'000, 1.0);  // 80 kB.
  EXPECT_EQ((keeper.call<&Keeper::add>(small, 1.0).get(60s)), 10'001.0);
  EXPECT_EQ(mappings(), 0u) << "a small argument travels in the call";
  std::vector<double> numbers(kLarge);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  EXPECT_EQ((keeper.call<&Keeper::add>(numbers, 5.0).get(60s)), sum(numbers) + 5.0);
  EXPECT_GT(mappings(), 0u) << "the caller wrote it into an arena of the store";
  EXPECT_EQ(volador::task<&sum>(numbers).submit().get(60s), sum(numbers));
  EXPECT_EQ(volador::task<&sum_array>(Array<double>(numbers)).submit().get(60s), sum(numbers));
  const std::vector<Layer> layers(4, Layer{"layer", std::vector<float>(50'000, 0.5F)});
  EXPECT_EQ(volador::task<&sum_layers>(layers).submit().get(60s), 100'000.0);
}

TEST(Objects, ALargeArgumentByValueKeepsTheReferencesInIt) {
  const auto batches = volador::actor<Batches>().spawn();
  {
    const Batch batch{volador::put(std::vector<double>(kLarge, 2.0)),
                      std::vector<Layer>(4, Layer{"layer", std::vector<float>(50'000, 0.5F)})};
    batches.call<&Batches::keep>(batch).get(60s);
  }
  EXPECT_EQ(batches.call<&Batches::total>().get(60s), 2.0 * kLarge + 100'000.0);
}

class Reader {
 public:
  void hold(const Array<double>& numbers) { held_.push_back(numbers); }
  int pid() const { return getpid(); }

 private:
  std::vector<Array<double>> held_;
};
VOLADOR_ACTOR(Reader, &Reader::hold, &Reader::pid);

TEST(Objects, AReaderThatIsKilledWhileItReadsHoldsNothingAndHarmsNobody) {
  const Ref<Array<double>> kept = volador::put(Array<double>(std::vector<double>(kLarge, 2.0)));
  for (int i = 0; i < 20; ++i) {
    const auto reader = volador::actor<Reader>().spawn();
    reader.call<&Reader::hold>(kept).get(60s);
    reader.call<&Reader::hold>(volador::put(Array<double>(std::vector<double>(10 * kLarge, i)))).get(60s);
    ASSERT_EQ(::kill(reader.call<&Reader::pid>().get(60s), SIGKILL), 0);
  }
  EXPECT_EQ(sum_array(kept.get()), 2.0 * kLarge);
  EXPECT_TRUE(eventually([] { return mappings() <= 1; })) << "what only they referred to is gone, and its room with it";
}

TEST(Objects, ManyComeAndGoWithoutFillingTheStore) {
  const auto keeper = volador::actor<Keeper>().spawn();
  for (int i = 0; i < 300; ++i) {  // 2.4 GB in total, through a few MB of memory.
    const auto ref = volador::put(std::vector<double>(1'000'000, i));
    ASSERT_EQ((keeper.call<&Keeper::add>(ref, 0.0).get(60s)), 1e6 * i);
  }
}

TEST(Objects, AReferenceInsideAnObjectLivesAsLongAsThatOne) {
  auto all = volador::task<&put_many>(size_t{3}).submit().get(60s);
  std::this_thread::sleep_for(700ms);  // Its process has ended.
  const auto kept = all.get();
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(sum(kept[i].get()), static_cast<double>(i * kLarge));
  auto outer = volador::put(volador::task<&make_many>(size_t{2}).submit().get(60s));
  EXPECT_EQ(volador::task<&sum_all>(outer).submit().get(60s), 1.0 * kLarge);
  const auto inner = outer.get().at(1);
  outer = {};
  EXPECT_EQ(sum(inner.get()), 1.0 * kLarge);
}

TEST(Objects, AnObjectMayReferToVeryManyOthers) {
  constexpr size_t kMany = 1'200;  // More than fit in one message.
  auto one = volador::put(std::vector<double>(kLarge, 1.0));
  std::vector<Boxed> boxes;
  for (size_t i = 0; i < kMany; ++i) boxes.push_back(volador::put(std::vector<Numbers>{one}));
  one = {};
  EXPECT_TRUE(boxes.front().any().is_stored()) << "small as it is: what is in it is counted";
  auto all = volador::put(boxes);
  boxes.clear();
  EXPECT_EQ(volador::task<&open_boxes>(all).submit().get(60s), kMany * kLarge);
  const Numbers last = all.get().back().get().at(0);
  all = {};
  EXPECT_EQ(sum(last.get()), 1.0 * kLarge);
}

}  // namespace

int main(int argc, char** argv) {
  const auto cluster = volador::init({.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
