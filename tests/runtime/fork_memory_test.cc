#include "runtime/fork_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace volador {
namespace {

// A sanitizer's memory is thousands of times larger than a program's: this takes half a minute, in which the kernel
// creates huge pages by itself.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class ForkMemory : public testing::Test {
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory would be prepared";
  }
};

constexpr size_t kHuge = 2 << 20;
constexpr std::chrono::seconds kLong{60};

// kB in huge pages of the mapping that contains the address.
size_t huge_kb(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      ours = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    } else if (ours && line.starts_with("AnonHugePages:")) {
      return std::stoul(line.substr(line.find(':') + 1));
    }
  }
  return 0;
}

// Three huge pages, partly filled, with adjacent memory that must not be touched.
class Units {
 public:
  explicit Units(size_t filled_pages_of_each) {
    map_ = mmap(nullptr, kMapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto at = (reinterpret_cast<uintptr_t>(map_) + kHuge - 1) / kHuge * kHuge;
    memory_ = reinterpret_cast<char*>(at);
    EXPECT_EQ(mprotect(memory_, 3 * kHuge, PROT_READ | PROT_WRITE), 0);
    madvise(memory_, 3 * kHuge, MADV_NOHUGEPAGE);  // Small pages, regardless of the machine's default.
    for (size_t page = 0; page < 3 * 512; ++page) {
      if (page % 512 < filled_pages_of_each) std::memset(memory_ + page * 4096, static_cast<int>(page % 251), 4096);
    }
    madvise(memory_, 3 * kHuge, MADV_HUGEPAGE);
  }
  ~Units() { munmap(map_, kMapped); }
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  char* memory() const { return memory_; }

 private:
  static constexpr size_t kMapped = 5 * kHuge;
  void* map_ = nullptr;
  char* memory_ = nullptr;
};

bool kernel_collapses() {
  const Units units(512);
  return madvise(units.memory(), kHuge, 25) == 0;
}

// The kernel's own daemon (khugepaged) may merge the pages of a test at any moment, which says nothing about the tested
// code: a test whose memory it merged runs again on new memory.
constexpr int kTries = 20;

TEST_F(ForkMemory, FilledMemoryBecomesHugePages) {
  if (!kernel_collapses()) GTEST_SKIP() << "no MADV_COLLAPSE here";
  for (int i = 0; i < kTries; ++i) {
    const Units units(512);
    if (huge_kb(units.memory()) != 0) continue;
    const PreparedMemory prepared = prepare_memory_for_forks(kLong);
    EXPECT_EQ(huge_kb(units.memory()), 3 * kHuge / 1024);
    for (size_t page = 0; page < 3 * 512; ++page) {
      ASSERT_EQ(units.memory()[page * 4096 + 17], static_cast<char>(page % 251)) << page;
    }
    if (prepared.huge_pages >= 3) return;
  }
  FAIL() << "in " << kTries << " tries, the memory was never merged by prepare_memory_for_forks";
}

TEST_F(ForkMemory, MemoryThatIsHardlyUsedIsLeftAsItIs) {
  for (int i = 0; i < kTries; ++i) {
    const Units units(300);
    prepare_memory_for_forks(kLong);
    if (huge_kb(units.memory()) == 0) return;
  }
  FAIL() << "memory that is hardly used was merged in each of " << kTries << " tries";
}

TEST_F(ForkMemory, NoTimeNoChange) {
  for (int i = 0; i < kTries; ++i) {
    const Units units(512);
    const PreparedMemory prepared = prepare_memory_for_forks(std::chrono::milliseconds(0));
    ASSERT_EQ(prepared.huge_pages, 0U);
    ASSERT_EQ(prepared.held_bytes, 0U);
    if (huge_kb(units.memory()) == 0) return;
  }
  FAIL() << "memory was merged without time for it in each of " << kTries << " tries";
}

TEST_F(ForkMemory, HolesOfTheHeapAreNotFilledAnyMore) {
  if (mallinfo2().arena == 0) GTEST_SKIP() << "another allocator than glibc's";
  // Blocks of many sizes, each between two that stay.
  std::vector<void*> stay;
  std::vector<void*> freed;
  for (size_t i = 0; i < 4000; ++i) {
    freed.push_back(std::malloc(32 + i % 90 * 16));
    stay.push_back(std::malloc(40));
  }
  uintptr_t highest = 0;
  for (void* each : stay) highest = std::max(highest, reinterpret_cast<uintptr_t>(each));
  for (void* each : freed) std::free(each);
  EXPECT_GT(prepare_memory_for_forks(kLong).held_bytes, 4000U * 100);
  size_t among = 0;
  std::vector<void*> fresh;
  for (size_t i = 0; i < 4000; ++i) {
    fresh.push_back(std::malloc(32 + i % 90 * 16));
    if (reinterpret_cast<uintptr_t>(fresh.back()) < highest) ++among;
  }
  EXPECT_LT(among, 100U);  // Freed since then.
  for (void* each : fresh) std::free(each);
  for (void* each : stay) std::free(each);
}

}  // namespace
}  // namespace volador
