#include "worker/hosts/program_check.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <future>

#include "tests/built_program.h"
#include "tests/temporary_directory.h"
#include "worker/hosts/program_store.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ProgramCheck, TheLoadersListNamesWhatIsMissing) {
  const auto missing = missing_libraries(
      "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibtorch_cpu.so => not found\n\tlibc.so.6 => /lib/libc.so.6 "
      "(0x00007f)\n\tlibtorch_cpu.so => not found\n"
      "./prog: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by ./prog)\n"
      "./prog: error while loading shared libraries: libz.so.1: cannot open shared object file: No such file or "
      "directory\n");
  EXPECT_EQ(missing,
            std::vector<std::string>({"libtorch_cpu.so", "libstdc++.so.6 in version GLIBCXX_3.4.32", "libz.so.1"}));
  EXPECT_TRUE(missing_libraries("").empty());
}

TEST(ProgramCheck, AnElfHeadTellsMachineAndLoader) {
  const ElfHead head = parse_elf_head(contents(volador::testing::built_program("small_program")));
  EXPECT_TRUE(head.elf);
  EXPECT_EQ(head.bits, 64);
  EXPECT_FALSE(head.loader.empty());
}

TEST(ProgramCheck, CutAndDamagedHeadsAreNoTrouble) {
  const std::string whole = contents(volador::testing::built_program("small_program")).substr(0, 4096);
  for (size_t size = 0; size < 1024; size += 3) (void)parse_elf_head(whole.substr(0, size));
  for (size_t at = 0; at < 512; ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0xFF);
    (void)parse_elf_head(bad);
  }
}

TEST(ProgramCheck, ThisProgramCanRunHere) {
  EXPECT_TRUE(check_program(fs::read_symlink("/proc/self/exe"), own_environment(), "/", "heron"));
}

TEST(ProgramCheck, AFileThatIsNoProgramIsNamed) {
  const volador::TemporaryDirectory folder;
  const fs::path file = folder.path() / "notes.txt";
  std::ofstream(file) << "hello";
  EXPECT_NE(check_program(file, {}, "", "heron").error().message.find("is not executable on node heron"),
            std::string::npos);
  fs::permissions(file, fs::perms::owner_all);
  EXPECT_NE(check_program(file, {}, "", "heron").error().message.find("no executable file"), std::string::npos);
}

TEST(ProgramCheck, AProgramOfAnotherMachineIsNamed) {
  const volador::TemporaryDirectory folder;
  const fs::path file = folder.path() / "prog";
  std::string bytes = contents(volador::testing::built_program("small_program"));
  bytes[18] = static_cast<char>(243);  // e_machine: RISC-V.
  std::ofstream(file, std::ios::binary) << bytes;
  fs::permissions(file, fs::perms::owner_all);
  EXPECT_NE(check_program(file, {}, "", "heron").error().message.find("is built for riscv, node heron is"),
            std::string::npos);
}

TEST(ProgramCheck, AMissingLibraryIsNamed) {
  // Replaces the name of a required library by one that does not exist.
  const volador::TemporaryDirectory folder;
  const fs::path file = folder.path() / "prog";
  std::string bytes = contents(volador::testing::built_program("small_program"));
  const size_t at = bytes.find(std::string("libstdc++.so.6") + '\0');
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 14, "libnowhere.so1");
  std::ofstream(file, std::ios::binary) << bytes;
  fs::permissions(file, fs::perms::owner_all);
  const auto checked = check_program(file, own_environment(), "/", "heron");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(checked.error().message.find("program prog cannot run on node heron: missing libnowhere.so1"),
            std::string::npos)
      << checked.error().message;
}

class ProgramStoreTest : public ::testing::Test {
 protected:
  ProgramStoreTest() {
    source_ = contents(volador::testing::built_program("small_program"));
    program_.set_sha256(security::raw(security::sha256(source_)));
    program_.set_path("/nowhere/prog");
    program_.set_machine_id("driver's");
    program_.set_size_bytes(static_cast<int64_t>(source_.size()));
    options_.cache = folder_.path() / "cache";
    options_.machine_id = "ours";
    options_.node_name = "heron";
    options_.fetch = [this](const security::Digest&, const fs::path& destination, int64_t) -> Result<void> {
      ++fetched_;
      std::ofstream(destination, std::ios::binary) << source_;
      return {};
    };
  }
  Result<std::string> prepare(ProgramStore& store, const protocol::Program& program) {
    std::promise<Result<PreparedProgram>> promise;
    store.prepare(program, own_environment(),
                  [&](Result<PreparedProgram> prepared) { promise.set_value(std::move(prepared)); });
    const auto prepared = promise.get_future().get();
    if (!prepared) return make_error(prepared.error());
    EXPECT_EQ(prepared->cwd, "/");
    return prepared->path;
  }

  volador::TemporaryDirectory folder_;
  std::string source_;
  protocol::Program program_;
  ProgramStoreOptions options_;
  std::atomic<int> fetched_{0};
};

TEST_F(ProgramStoreTest, AProgramIsFetchedOnceAndKept) {
  {
    ProgramStore store(options_);
    const auto path = prepare(store, program_);
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_TRUE(path->starts_with(options_.cache.string()));
    EXPECT_EQ(*prepare(store, program_), *path);
  }
  ProgramStore later(options_);
  EXPECT_TRUE(prepare(later, program_));
  EXPECT_EQ(fetched_, 1);
}

TEST_F(ProgramStoreTest, ADamagedCopyIsFetchedAgain) {
  ProgramStore store(options_);
  const auto path = prepare(store, program_);
  std::ofstream(*path, std::ios::binary | std::ios::app) << "x";
  EXPECT_TRUE(prepare(store, program_));
  EXPECT_EQ(fetched_, 2);
}

TEST_F(ProgramStoreTest, AnotherContentThanAnnouncedIsNotRun) {
  source_ += "x";
  ProgramStore store(options_);
  const auto path = prepare(store, program_);
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("another content than announced"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(options_.cache));
}

TEST_F(ProgramStoreTest, OnTheDriversMachineItsOwnFileIsUsedWhileItIsTheSame) {
  const fs::path own = folder_.path() / "prog";
  std::ofstream(own, std::ios::binary) << source_;
  fs::permissions(own, fs::perms::owner_all);
  program_.set_path(own.string());
  program_.set_machine_id("ours");
  ProgramStore store(options_);
  EXPECT_EQ(*prepare(store, program_), own.string());
  EXPECT_EQ(fetched_, 0);
  fs::remove(own);  // Rebuilt.
  std::ofstream(own, std::ios::binary) << "something else";
  EXPECT_NE(*prepare(store, program_), own.string());
  EXPECT_EQ(fetched_, 1);
}

TEST_F(ProgramStoreTest, ProgramsBeyondTheLimitAreRefusedBeforeTheyTravel) {
  program_.set_size_bytes(int64_t{3} << 30);
  ProgramStore store(options_);
  const auto path = prepare(store, program_);
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("at most 2 GiB"), std::string::npos) << path.error().message;
  EXPECT_EQ(fetched_, 0);
}

TEST_F(ProgramStoreTest, TheLeastRecentlyUsedLeaveAFullCache) {
  fs::create_directories(options_.cache);
  for (const char* name : {"old", "new"}) std::ofstream(options_.cache / name) << std::string(1000, 'p');
  const timespec long_ago[2] = {{1, 0}, {1, 0}};
  ::utimensat(AT_FDCWD, (options_.cache / "old").c_str(), long_ago, 0);
  options_.cache_bytes_max = static_cast<int64_t>(source_.size()) + 1500;
  ProgramStore store(options_);
  EXPECT_TRUE(prepare(store, program_));
  EXPECT_FALSE(fs::exists(options_.cache / "old"));
  EXPECT_TRUE(fs::exists(options_.cache / "new"));
}

}  // namespace
}  // namespace volador::worker
