// What every storage must hold, for the one that VOLADOR_TEST_STORAGE names: an empty place. Run by
// tests/integration/storage_test.py, which starts the servers; for a folder by ctest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "runtime/files/durable_file.h"
#include "runtime/storage/storage.h"
#include "tests/temporary_directory.h"

namespace volador::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string bytes_of(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StorageContract : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("VOLADOR_TEST_STORAGE");
    const std::string text = named != nullptr ? named : (scratch_.path() / "storage").string();
    auto url = parse_storage_url(text);
    ASSERT_TRUE(url) << url.error().message;
    auto opened = Storage::open({*url});
    ASSERT_TRUE(opened) << opened.error().message;
    storage_.emplace(std::move(*opened));
    key_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  fs::path made() {
    const fs::path folder = scratch_.path() / "made";
    write(folder / "weights.bin", bytes_of(3'000'000, 1));
    write(folder / "inner" / "a name+with=odd #characters & 名字.txt", "text\n");
    write(folder / "inner" / "deeper" / "empty", "");
    fs::create_directories(folder / "no files");
    ::chmod((folder / "weights.bin").c_str(), 0640);
    return folder;
  }
  void expect_same(const fs::path& back) {
    const fs::path folder = scratch_.path() / "made";
    std::vector<std::string> here, there;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      here.push_back(entry.path().lexically_relative(folder));
    for (const auto& entry : fs::recursive_directory_iterator(back))
      there.push_back(entry.path().lexically_relative(back));
    EXPECT_THAT(there, ::testing::UnorderedElementsAreArray(here));
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      EXPECT_EQ(contents(back / entry.path().lexically_relative(folder)), contents(entry.path())) << entry.path();
    }
  }

  TemporaryDirectory scratch_;
  std::optional<Storage> storage_;
  std::string key_;
};

TEST_F(StorageContract, a_folder_comes_back_as_it_was) {
  const auto sent = storage_->upload(made(), key_);
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->manifest.files.size(), 3u);
  EXPECT_EQ(sent->manifest.bytes(), 3'000'005);
  const auto got = storage_->download(key_, scratch_.path() / "back");
  ASSERT_TRUE(got) << got.error().message;
  expect_same(scratch_.path() / "back");
  struct stat info {};
  ::stat((scratch_.path() / "back" / "weights.bin").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  const auto described = storage_->describe(key_);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(*described, sent->manifest);
}

TEST_F(StorageContract, the_same_folder_is_not_sent_again_and_another_one_replaces_it) {
  const fs::path folder = made();
  ASSERT_TRUE(storage_->upload(folder, key_));
  const auto again = storage_->upload(folder, key_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->sent_files, 0);
  // The same size and other bytes, one file less, one more.
  write(folder / "weights.bin", bytes_of(3'000'000, 2));
  fs::remove_all(folder / "inner");
  write(folder / "new", "n");
  const auto replaced = storage_->upload(folder, key_);
  ASSERT_TRUE(replaced) << replaced.error().message;
  ASSERT_TRUE(storage_->download(key_, scratch_.path() / "back"));
  expect_same(scratch_.path() / "back");
}

TEST_F(StorageContract, what_has_no_manifest_is_incomplete) {
  ASSERT_TRUE(storage_->objects().put(made(), {"weights.bin"}, key_, {}));
  EXPECT_FALSE(*storage_->exists(key_));
  const auto described = storage_->describe(key_);
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(described.error().message, HasSubstr("its upload has not completed"));
  EXPECT_FALSE(storage_->download(key_, scratch_.path() / "back"));
  // A repeated upload completes it.
  ASSERT_TRUE(storage_->upload(scratch_.path() / "made", key_));
  EXPECT_TRUE(*storage_->exists(key_));
}

TEST_F(StorageContract, keys_are_listed_and_deleted_more_than_once) {
  const fs::path folder = made();
  ASSERT_TRUE(storage_->upload(folder, key_ + "/one"));
  ASSERT_TRUE(storage_->upload(folder, key_ + "/two"));
  const auto keys = storage_->keys(key_);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_THAT(*keys, ElementsAre("one", "two"));
  for (int round = 0; round < 2; ++round) {
    const auto removed = storage_->remove(key_ + "/one");
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_FALSE(*storage_->exists(key_ + "/one"));
  }
  EXPECT_THAT(*storage_->keys(key_), ElementsAre("two"));
  EXPECT_THAT(*storage_->objects().list(key_ + "/one", {}), IsEmpty());
  const auto gone = storage_->download(key_ + "/one", scratch_.path() / "gone");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(gone.error().message, HasSubstr("nothing is stored there"));
}

TEST_F(StorageContract, a_selector_chooses_files) {
  ASSERT_TRUE(storage_->upload(made(), key_));
  const auto got = storage_->download(key_, scratch_.path() / "back", {"inner/deeper"});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(fs::exists(scratch_.path() / "back" / "inner" / "deeper" / "empty"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "back" / "weights.bin"));
  EXPECT_FALSE(storage_->download(key_, scratch_.path() / "none", {"nothing"}));
}

TEST_F(StorageContract, an_interrupted_download_goes_on_with_what_is_missing) {
  ASSERT_TRUE(storage_->upload(made(), key_));
  const fs::path back = scratch_.path() / "back", partial = scratch_.path() / "back.partial";
  write(partial / "weights.bin", bytes_of(3'000'000, 9));  // The right size, but torn.
  write(partial / "inner" / "a name+with=odd #characters & 名字.txt", "text\n");
  ASSERT_TRUE(storage_->download(key_, back));
  expect_same(back);
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(StorageContract, contents_that_changed_in_the_storage_are_refused) {
  ASSERT_TRUE(storage_->upload(made(), key_));
  ASSERT_TRUE(storage_->objects().write(key_ + "/weights.bin", bytes_of(3'000'000, 5), {}));
  const auto got = storage_->download(key_, scratch_.path() / "back");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(got.error().message, HasSubstr("other contents than its manifest names"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "back"));
}

TEST_F(StorageContract, archives_are_read_in_pieces) {
  ASSERT_TRUE(storage_->upload(made(), key_));
  for (const auto& [form, name, unpack] :
       {std::tuple{ArchiveForm::kTar, "a.tar", "tar xf a.tar -C unpacked"},
        std::tuple{ArchiveForm::kZip, "a.zip", "python3 -m zipfile -e a.zip unpacked"}}) {
    auto reader = storage_->archive(key_, form);
    ASSERT_TRUE(reader) << reader.error().message;
    std::ofstream file(scratch_.path() / name, std::ios::binary);
    for (;;) {
      const auto piece = (*reader)->next();
      ASSERT_TRUE(piece) << piece.error().message;
      if (piece->empty()) break;
      file << *piece;
    }
    file.close();
    fs::remove_all(scratch_.path() / "unpacked");
    fs::create_directories(scratch_.path() / "unpacked");
    ASSERT_EQ(std::system(("cd " + scratch_.path().string() + " && " + unpack).c_str()), 0);
    expect_same(scratch_.path() / "unpacked");
  }
}

TEST_F(StorageContract, an_empty_folder_can_be_stored) {
  fs::create_directories(scratch_.path() / "made");
  ASSERT_TRUE(storage_->upload(scratch_.path() / "made", key_));
  ASSERT_TRUE(storage_->download(key_, scratch_.path() / "back"));
  EXPECT_TRUE(fs::is_empty(scratch_.path() / "back"));
}

TEST_F(StorageContract, single_objects_are_written_and_read) {
  ObjectStore& objects = storage_->objects();
  ASSERT_TRUE(objects.write(key_ + "/object", "first", {}));
  ASSERT_TRUE(objects.write(key_ + "/object", "second", {}));
  EXPECT_EQ(*objects.read(key_ + "/object", 100, {}), "second");
  EXPECT_EQ(objects.read(key_ + "/object", 3, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(objects.read(key_ + "/other", 100, {}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(*objects.list(key_, {}), ElementsAre(StoredObject{"object", 6}));
}

TEST_F(StorageContract, names_that_leave_the_place_are_refused) {
  for (const std::string bad : {"../x", "/x", "a//b", "a/../b", "", "line\nfeed"}) {
    EXPECT_EQ(storage_->upload(made(), bad).error().code, ErrorCode::kInvalidArgument) << bad;
    EXPECT_EQ(storage_->remove(bad).error().code, ErrorCode::kInvalidArgument) << bad;
    EXPECT_EQ(storage_->objects().get(key_, {bad}, scratch_.path(), {}).error().code, ErrorCode::kInvalidArgument)
        << bad;
  }
  fs::create_symlink("/etc/passwd", made() / "link");
  EXPECT_EQ(storage_->upload(scratch_.path() / "made", key_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(StorageContract, a_cancelled_upload_ends_and_is_not_seen) {
  std::stop_source stop;
  stop.request_stop();
  const auto sent = storage_->upload(made(), key_, {.stop = stop.get_token()});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(*storage_->exists(key_));
}

TEST_F(StorageContract, the_check_of_a_storage_passes_and_leaves_nothing) {
  const StorageCheck check = check_storage(*storage_, scratch_.path() / "check", key_);
  EXPECT_FALSE(check.failed) << check.failed->message;
  EXPECT_EQ(check.passed.size(), 5u);
  EXPECT_THAT(*storage_->keys(".volador-check-" + key_), IsEmpty());
}

// 300 MB through the storage with less than 64 MB more of our own memory; only where it was asked for.
TEST_F(StorageContract, memory_does_not_depend_on_sizes) {
  if (std::getenv("VOLADOR_TEST_LARGE") == nullptr) GTEST_SKIP() << "VOLADOR_TEST_LARGE is not set";
  const fs::path folder = scratch_.path() / "made";
  write(folder / "large", bytes_of(300 << 20, 3));
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  ASSERT_TRUE(storage_->upload(folder, key_));
  auto reader = storage_->archive(key_, ArchiveForm::kTar);
  ASSERT_TRUE(reader);
  size_t total = 0;
  for (;;) {
    const auto piece = (*reader)->next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    total += piece->size();
  }
  EXPECT_GE(total, size_t{300} << 20);
  ASSERT_TRUE(storage_->download(key_, scratch_.path() / "back"));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10);
  EXPECT_TRUE(storage_->remove(key_));
}

}  // namespace
}  // namespace volador::storage
